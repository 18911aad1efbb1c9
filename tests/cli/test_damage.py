"""`pbio cat` and `pbio verify` on damaged files: the error, its place, and the records after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from ecode.types import INT64, STRING, Field, record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter, ItemKind, Scanner
from pbio_spark.wire.hints.sidecar import Outline, Point, write_sidecar
from tests.cli.test_cli import Pbio
from tests.corpus import CORPUS, ffs_json


@pytest.mark.parametrize("known", ["nothing", "index", "outline"])
def test_verify_lists_all_damage(pbio: Pbio, tmp_path: Path, known: str) -> None:
    """Numbers of records are right where an index or an outline tells them, and else are not told."""
    form = record_to_format(record("reading", [Field("n", INT64), Field("s", STRING)]))
    path = tmp_path / "a.ffs"
    with FileWriter(path, indexed=known == "index") as writer:
        for n in range(200):
            writer.data(form, {"n": n, "s": "x" * (n % 7)})
    places = [item for item in Scanner(path.read_bytes()).items() if item.kind is ItemKind.DATA]
    data = bytearray(path.read_bytes())
    for n in (3, 50, 51, 120):
        data[places[n].offset] ^= 0xFF
    for n in (110, 150):
        data[places[n].payload + form.header_size + 8] = 0xFF  # a pointer
    data = data if known == "outline" else data[: places[198].offset + 9]
    path.write_bytes(data)
    if known == "outline":
        stat, points = path.stat(), (Point(places[100].offset, 100),)
        outline = Outline(stat.st_size, stat.st_mtime, (form,), (200,), points, True)
        write_sidecar(LocalFileSystem(), str(path), outline)
    ran = pbio("verify", path)
    assert ran.code == 1
    lost = [(places[end].offset - places[start].offset, end - start) for start, end in ((3, 4), (50, 52), (120, 121))]
    lost += [(9, 0)] if known != "outline" else []
    for size, count in lost[:3]:
        records = f"{count} record{'s' if count > 1 else ''}" if known == "index" else "an unknown number of records"
        assert f"  hint: damage in 1 place leaves out {size} bytes, with {records}; sound items follow" in ran.err
    assert f"damage in {len(lost)} places leaves out {sum(size for size, _ in lost)} bytes, with " in ran.err
    assert ran.err.count("[PBIO_BAD_ITEM] after record 2: ") == 1
    for n, is_told in ((110, known != "nothing"), (150, known == "index")):
        which = f"record {n}" if is_told else "the record"
        assert f"[PBIO_BAD_POINTER] {which} at offset {places[n].offset}: " in ran.err
    assert ("[PBIO_BAD_ITEM] after record 119: " in ran.err) == (known != "nothing")
    assert ("[PBIO_TRUNCATED] after record 197: " in ran.err) == (known == "index")


def test_verify_says_that_a_file_is_sound(pbio: Pbio, readings: Path) -> None:
    ran = pbio("verify", readings)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"{readings}: sound (formats: 2, records: 4, checksums: none to compare)\n"
    assert pbio("verify", "-q", readings).out == ""


def test_verify_finds_everything_in_the_corpus_sound(pbio: Pbio) -> None:
    ffs_json("formats.json")
    files = [*(CORPUS / "ffs").rglob("*.ffs"), *(CORPUS / "ffs" / "golden").glob("[fi]*.bin")]
    ran = pbio("verify", *files)
    assert (ran.code, ran.err, len(ran.out.splitlines())) == (0, "", len(files))


def test_verify_reports_every_bad_record_and_continues(pbio: Pbio, readings: Path) -> None:
    head, first, rest = readings.read_bytes().partition(b"\0\0\0\2\0\0\0\x10")  # n and v of the first record
    middle, last, tail = rest.rpartition(b"\2\0\0\0\0\0\0\0\x20")  # and of the last
    readings.write_bytes(head + b"\x7f" + first[1:] + middle + last[:3] + b"\x7f" + last[4:] + tail)
    ran = pbio("verify", readings)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.count("[PBIO_BAD_POINTER]") == 2
    assert ran.err.count("field $.v") == 2


def test_verify_compares_the_index_with_the_items(pbio: Pbio, readings: Path) -> None:
    data = bytearray(readings.read_bytes())
    block = data.index(bytes.fromhex("04000100"))
    data[block + 16 + 11] ^= 1  # the offset of the first item that the block announces
    readings.write_bytes(data)
    ran = pbio("verify", readings)
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_BAD_INDEX] the block does not announce the item at offset ")


@pytest.fixture
def damaged(readings: Path) -> Path:
    """The readings with a pointer of the first record and one of the last that lead nowhere."""
    head, first, rest = readings.read_bytes().partition(b"\0\0\0\2\0\0\0\x10")
    middle, last, tail = rest.rpartition(b"\2\0\0\0\0\0\0\0\x20")
    readings.write_bytes(head + b"\x7f" + first[1:] + middle + last[:3] + b"\x7f" + last[4:] + tail)
    return readings


def test_a_bad_record_is_told_with_its_number_offset_format_and_field(pbio: Pbio, damaged: Path) -> None:
    offsets = [item.offset for item in Scanner(damaged.read_bytes()).items() if item.kind is ItemKind.DATA]
    verified = pbio("verify", damaged)
    for number in (0, 3):
        assert f"[PBIO_BAD_POINTER] record {number} at offset {offsets[number]}: " in verified.err
    assert verified.err.count("format reading (") == verified.err.count("field $.v") == 2
    shown = pbio("cat", damaged)
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.startswith(f"[PBIO_BAD_POINTER] record 0 at offset {offsets[0]}: ")
    assert pbio("cat", "--json", damaged).err == shown.err


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_cat_continues_after_a_bad_record(pbio: Pbio, damaged: Path, options: list[str]) -> None:
    ran = pbio("cat", "--skip-bad", *options, damaged)
    assert (ran.code, len(ran.out.splitlines())) == (0, 2)
    assert ran.err.count("[PBIO_BAD_POINTER] record") == 2
    assert ran.err.endswith("pbio: bad records skipped: 2\n")
    assert pbio("cat", "--skip-bad", "-n", 1, *options, damaged).out.splitlines() == ran.out.splitlines()[:1]


@pytest.mark.parametrize("at", [0, 4])
def test_damage_is_reported_with_the_record_before_it_and_cat_continues_after_it(
    pbio: Pbio, readings: Path, at: int
) -> None:
    """Of an item's head, the kind or the length is wrong: both are damage, the latter is not a tail."""
    data = bytearray(readings.read_bytes())
    damage = [item.offset for item in Scanner(bytes(data)).items() if item.kind is ItemKind.DATA][1]
    data[damage + at] = 0x7F
    readings.write_bytes(data)
    for verb in ("verify", "cat", "count"):
        ran = pbio(verb, readings)
        assert ran.code == 1
        assert "[PBIO_BAD_ITEM] after record 0: " in ran.err
        assert "--skip-bad" in ran.err
    ran = pbio("cat", "--skip-bad", readings)
    assert (ran.code, len(ran.out.splitlines())) == (0, 3)
    assert ran.err.endswith("pbio: damaged places skipped: 1\n")


def test_a_tail_is_told_with_the_record_before_it(pbio: Pbio, readings: Path) -> None:
    readings.write_bytes(readings.read_bytes()[:-1])
    assert "[PBIO_TRUNCATED] after record 2: " in pbio("verify", readings).err
