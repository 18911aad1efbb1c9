"""`pbio cat` and `pbio verify` on damaged files: what is wrong, where, and the records after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbio_spark.wire import ItemKind, Scanner
from tests.cli.test_cli import Pbio
from tests.corpus import CORPUS, ffs_json


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
