"""Folders with wrong bytes: errors of this package, or rows; and damage affects only its own step."""

from __future__ import annotations

import os
import random
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pbio_spark.bp5.dataset import open_dataset
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.index import Step
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from tests.bp5.made import Maker
from tests.bp5.test_golden import GOLDEN
from tests.bp5.values import read
from tests.corpus import CORPUS

MUTATIONS = int(os.environ.get("PBIO_MUTATIONS", 100_000 if os.environ.get("PBIO_LONG") == "1" else 300))
CORPUS_SETS = ("multiwriter.bp", "flush.bp", "joined.bp", "local.bp", "flatten.bp", "blocks.bp", "op_blosc_zstd.bp5")
GOLDEN_SETS = (
    *(
        "writers.bp",
        "flushed.bp",
        "local.bp",
        "flattened.bp",
        "blocks.bp",
        "column_major.bp",
        "attributes.bp",
        "many.bp",
    ),
    *("appended.bp", "null.bp", "bzip2.bp", "blosc2.bp", "old_blosc2.bp", "zfp.bp", "zfp_rate.bp"),
)
FILES = ("md.idx", "mmd.0", "md.0", "data.0")
WORDS = [0, 1, 7, 255, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 2]
MEMORY = 6 << 30
"""The address space that reading a folder of a few kilobytes may take: far less than a wrong byte can claim."""


def write_run(path: Path) -> Path:
    """Scalars, strings, arrays in blocks, an operator, and attributes; five steps in two writing runs."""
    for part in range(2):
        maker = Maker(path, append=part > 0, operator="null" if part else None)
        for step in range(3 - part):
            x = ((6, 2), [((0, 0), np.ones((3, 2))), ((3, 0), np.full((3, 2), 2.0))])
            values: dict[str, Any] = {"t": 0.5 * step, "name": f"s{step}", "x": x, "y": np.arange(5, dtype="u2")}
            maker.step(values, {f"a{part}": "text", "y/units": "m"} if step == 0 else None)
        maker.close()
    return path


def runs(folder: Path) -> list[Path]:
    corpus = [CORPUS / "bp5" / name for name in CORPUS_SETS]
    return [
        write_run(folder / "made.bp"),
        *(GOLDEN / name for name in GOLDEN_SETS),
        *(path for path in corpus if path.exists()),
    ]


@dataclass(frozen=True)
class Known:
    """A sound folder, and its rows.

    Attributes:
        folder: a copy, one file of which is wrong at a time.
        files: the content of each, by name.
    """

    name: str
    folder: Path
    files: dict[str, bytes]
    schema: pa.Schema
    rows: list[dict[str, Any]]
    steps: list[Step]
    flatten: bool

    @contextmanager
    def wrong(self, name: str, content: bytes) -> Iterator[None]:
        try:
            (self.folder / name).write_bytes(content)
            yield
        finally:
            (self.folder / name).write_bytes(self.files[name])


def known(run: Path, copy: Path) -> Known:
    shutil.copytree(run, copy)
    files = {path.name: path.read_bytes() for path in sorted(copy.iterdir()) if path.name != "profiling.json"}
    with DatasetFolder(str(copy)) as folder:
        dataset = open_dataset(folder)
    table = read(copy, mode="PERMISSIVE")
    steps = list(dataset.steps)
    return Known(run.name, copy, files, table.schema, table.to_pylist(), steps, dataset.index.header.flatten)


def mutate(chance: random.Random, files: dict[str, bytes]) -> tuple[str, bytes, int, int]:
    """A file and wrong content for it, and the bytes of it that may be wrong."""
    name = chance.choice([name for name, content in files.items() if content])
    data = bytearray(files[name])
    at = chance.randrange(len(data))
    how = chance.randrange(6)
    if how == 0:
        data = data[:at]
        end = len(data) + (1 << 40)
    elif how == 1:
        end = min(at + 8, len(data))
        word = chance.choice(WORDS)
        data[at:end] = word.to_bytes(8, "little")[: end - at]
    elif how == 2:
        end = min(at + chance.randrange(1, 40), len(data))
        data[at:end] = chance.randbytes(end - at)
    else:
        end = at + 1
        data[at] = chance.choice([0, 1, 255, data[at] ^ 1 << chance.randrange(8), chance.randrange(256)])
    return name, bytes(data), at, end


def reach(steps: list[Step], number: int, name: str) -> tuple[int, int]:
    """The bytes of a file that a step's values depend on."""
    if name == "md.0":
        return steps[number].position, steps[number].position + steps[number].length
    subfile = int(name.partition(".")[2])
    begins = [step.pieces[step.subfiles == subfile, ::2].reshape(-1).tolist() for step in steps[number:]]
    if not begins[0]:
        return 0, 0
    return min(begins[0]), min([one for later in begins[1:] for one in later], default=1 << 50)


def is_touched(steps: list[Step], number: int, name: str, begin: int, end: int) -> bool:
    low, high = reach(steps, number, name)
    return begin < high and low < end


def test_wrong_bytes_are_errors_or_rows_and_stay_in_their_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Format, "from_body", lru_cache(1000)(Format.from_body))  # most descriptions stay as they are
    chance = random.Random(int(os.environ.get("PBIO_SEED", 5)))
    all_known = [known(run, tmp_path / f"{number}.bp") for number, run in enumerate(runs(tmp_path))]
    was = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, was[1]))
    try:
        for number in range(MUTATIONS):
            check_one(chance, number, chance.choice(all_known))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, was)


def check_one(chance: random.Random, number: int, one: Known) -> None:
    name, content, begin, end = mutate(chance, one.files)
    said = f"mutation {number} of {one.name}: {name} {begin}..{end}"
    try:
        with one.wrong(name, content):
            if chance.randrange(3) == 0:  # columns, elements or blocks as they then seem to be
                shape = chance.choice(["steps", "blocks", "variables", "attributes", "elements"])
                more = {"variables": "x", "onUnfilled": "ignore"} if shape == "elements" else {}
                read(one.folder, rows=shape, mode=chance.choice(["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]), **more)
                return
            found = read(one.folder, schema=one.schema, mode="PERMISSIVE", onUnfilled="ignore").to_pylist()
    except PbioError:
        return
    except BaseException as error:
        error.add_note(said)
        raise
    if name == "md.idx" or one.flatten:
        return
    assert len(found) == len(one.rows), said
    for i, (row, right) in enumerate(zip(found, one.rows, strict=True)):
        if name == "mmd.0":
            assert repr(row) == repr(right) or row["_corrupt_record"] is not None, f"{said}, step {i}"
            wrong = {n for n, v in row.items() if v is not None and repr(v) != repr(right[n])} - {"_corrupt_record"}
            assert not wrong, f"{said}, step {i}"
        else:
            assert is_touched(one.steps, i, name, begin, end) or repr(row) == repr(right), f"{said}, step {i}"


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_empty_file_is_an_error_or_damage(tmp_path: Path, name: str) -> None:
    run = write_run(tmp_path / "run.bp")
    (run / name).write_bytes(b"")
    with pytest.raises(PbioError):
        read(run)
    (run / name).unlink()
    with pytest.raises(PbioError):
        read(run)
