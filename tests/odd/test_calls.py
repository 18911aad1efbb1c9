"""Calls with odd paths, names and options: each ends in a PbioError, with a code, or in a right result."""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ecode import EcodeError
from morph import MorphError
from pbio_spark import cli
from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.formats.store import FolderStore
from tests.source.by_hand import save
from tests.source.local import load, source
from tests.source.samples import NEW, OLD, OTHER, write_readings

CALLS = 1_000 if os.environ.get("PBIO_LONG") else 150
OURS = (PbioError, MorphError, EcodeError)

PATHS = (
    *("", " ", ".", "..", "/", "~", "file:", "file:///", "s3://bucket", "memory://", "hdfs://host/x", "xyzzy://a/b"),
    *(
        "good",
        "good/",
        "./good//",
        "good/a.ffs",
        "good/nothing",
        "good/a.ffs/x",
        "nothing",
        "nothing*",
        "zip://a::good",
    ),
    *(
        "a::b",
        "file::good",
        "memory::x",
        "a%20b",
        "a?b#c",
        "[x]",
        "[x",
        "{a",
        "{a,{good,b}}",
        "g*d",
        "*",
        "a\\",
        "é\n:",
    ),
    *("pipe", "loop", "dangling", "socketless", "x" * 300, "x/" * 200 + "x", "file://host/x", "\ud800", "a\0b", "text"),
    *("other", "mixed", "parts", "parts/k=1", "parts/*", "space", "space/data", "sp*", "bad.ffs", "empty.ffs", "back"),
    *("_hidden", "good/.a.ffs.outline", "good/a.ffs/..", "file:good", "FILE:good", "local://good", "~nobody/x"),
)
READS = (
    *("formatName", "formatId", "formatStore", "mode", "columnNameOfCorruptRecord", "metadataColumn", "mergeSchema"),
    *("pathGlobFilter", "recursiveFileLookup", "modifiedBefore", "modifiedAfter", "ignoreMissingFiles", "scanLimit"),
    *("ignoreCorruptFiles", "truncatedTail", "maxPartitionBytes", "recordsPerBatch", "maxBatchBytes", "encoding"),
    *("recursiveFieldMaxDepth", "charArraysAs", "unsignedLongAs", "fieldAliases", "defaults", "readerFormat"),
    *("diffThreshold", "mismatchThreshold", "filter", "transforms", "channel", "channels", "channelPattern"),
    *("startingOffsets", "startingTimestamp", "nosuch", "FORMATNAME", "path"),
)
WRITES = (
    *("formatName", "machine", "byteOrder", "pointerSize", "maxRecordsPerFile", "partitionColumns", "index"),
    *("partitionOverwriteMode", "nullValue", "transforms", "channel", "channelColumn", "txnVersion", "nosuch", "mode"),
)
VALUES = (
    *("", " ", "0", "-1", "1", "9" * 40, "1.5", "nan", "inf", "true", "TRUE", "null", "reading", "event", "n", "unit"),
    *("[]", "{}", "[1]", '["a"]', '{"n": 1}', '{"n": "x"}', '{"a": {"b": "int32"}}', "[", "{" * 3000, "x" * 5000, "*"),
    *("[^a]*", "[a", "k", "k,n", "n,n", "good", "space", "permissive", "DROPMALFORMED", "2026-01-31", "2026-13-01"),
    *("64m", "-5k", "le32", "sparc", "big", "é", "a\0b", "\ud800", "\n", "ffs", "sidecar", "dynamic", "input.n > 1"),
    *("return 1;", "return input.nosuch;", "((", "pipe", "12.0.7", "earliest", "(", "ffffffff", "00"),
)
VERBS = (
    *(["formats"], ["formats", "--json"], ["schema"], ["cat"], ["count"], ["verify"], ["index"], ["hexdump"]),
    *(
        ["lineage"],
        ["convert", "-o", "made.parquet"],
        ["convert", "-o", "pipe"],
        ["diff", "good/a.ffs"],
        ["match", "good"],
    ),
    *(["space", "ls"], ["space", "verify"], ["space", "init"], ["space", "describe"], ["space", "compact"]),
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    (tmp_path / "home").mkdir()
    write_readings(work / "good" / "a.ffs", OLD, range(3))
    write_readings(work / "good" / "b.ffs", NEW, range(3), "be32")
    write_readings(work / "other" / "a", OTHER, range(2))
    write_readings(work / "mixed" / "a.ffs", OLD, range(2))
    write_readings(work / "mixed" / "b.ffs", OTHER, range(2))
    write_readings(work / "parts" / "k=1" / "a.ffs", OLD, range(2))
    write_readings(work / "parts" / "k=é%2F" / "a.ffs", OLD, range(2))
    write_readings(work / "_hidden" / "a.ffs", OLD, range(2))
    (work / "text").mkdir()
    (work / "text" / "x.txt").write_text("no records")
    (work / "bad.ffs").write_bytes((work / "good" / "a.ffs").read_bytes()[:-3] + b"\xff" * 30)
    (work / "empty.ffs").touch()
    ChannelSpace.create(str(work / "space"))
    os.mkfifo(work / "pipe")
    (work / "loop").symlink_to("loop")
    (work / "dangling").symlink_to("nowhere")
    (work / "back").symlink_to(work)
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return work


def options(choice: random.Random, names: tuple[str, ...]) -> dict[str, str]:
    return {choice.choice(names): choice.choice(VALUES) for _ in range(choice.choice((0, 0, 1, 1, 2)))}


def command(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pbio", *arguments])
    try:
        cli.main()
    except SystemExit as ended:
        assert ended.code in (None, 0, 1, 2), arguments  # noqa: PT017 - the code of success is right, too


@pytest.mark.parametrize("seed", range(CALLS))
def test_an_odd_call(here: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = random.Random(seed)
    path = choice.choice(PATHS)
    batch = pa.record_batch({"n": pa.array([1, 2], pa.int64()), "k": ["a", choice.choice(VALUES[:40])]})
    others = [path for path in here.rglob("*") if path.is_file() and "text" in str(path)]

    def read() -> Any:
        return load(path, **options(choice, READS))

    def stream() -> Any:
        made = source(path, **options(choice, (*READS, "maxFilesPerTrigger", "maxFileAge", "onNewFormat")))
        return made.streamReader(made.schema())

    def write() -> Any:
        return save(path, batch, overwrite=choice.random() < 0.5, **options(choice, WRITES))

    calls = (read, read, stream, write, write, lambda: ChannelSpace.open(path), lambda: list(FolderStore(path)))
    if choice.random() < 0.25:
        arguments = [*choice.choice(VERBS), path]
        if "\0" not in path and "\ud800" not in path:  # what a shell cannot hand over
            command(arguments, monkeypatch)
    else:
        call = choice.choice(calls)
        said = "[]"
        try:
            call()
        except OURS as error:
            said = str(error)
        assert re.match(r"\[\]|\[[A-Z_]+\] \S", said), said
        assert said.count("\n  hint: ") <= 1, said
        said.encode()
    assert all(path.exists() for path in others)
