"""Damage between the records of a file: the records read after it, and those that the log reports missing."""

from __future__ import annotations

import io
import logging
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecode.types import INT64, STRING, Field, record
from pbio_spark.columns.files.plan import CORRUPT_TYPE, FilePart
from pbio_spark.columns.files.read import read_batches
from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter, ItemKind, Scanner, TruncatedError
from pbio_spark.wire.hints.sidecar import Point
from tests.plans import plan_of

FORM = record_to_format(record("reading", [Field("n", INT64), Field("note", STRING)]))
OTHER = record_to_format(record("reading", [Field("n", INT64), Field("note", STRING)]), "sparc")
COUNT = 200
SCHEMA = pa.schema([("n", pa.int64()), ("note", pa.string()), ("bad", CORRUPT_TYPE)])


def written() -> bytes:
    """A file of records of two machines, of which the second is described in the middle."""
    file = io.BytesIO()
    writer = FileWriter(file)
    for n in range(COUNT):
        writer.data(FORM if n < COUNT // 2 or n % 2 else OTHER, {"n": n, "note": "x" * (n % 7)})
    return file.getvalue()


FILE = written()
ITEMS = [item for item in Scanner(FILE).items() if item.kind is ItemKind.DATA]


def damaged(*records: int) -> bytearray:
    """The file with items of an unknown kind in the place of these records."""
    data = bytearray(FILE)
    for n in records:
        data[ITEMS[n].offset] ^= 0xFF
    return data


class Counting(io.BytesIO):
    """A file that counts the bytes that are read of it."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        size = super().readinto(buffer)
        self.count += size
        return size


def rows(data: bytes | bytearray, *, anchors: tuple[Point, ...] = (), **plan: Any) -> list[dict[str, Any]]:
    options = {"mode": "DROPMALFORMED", **plan}
    part = FilePart("a.ffs", anchors=anchors)
    batches = read_batches(plan_of(SCHEMA, corrupt_column="bad", **options), part, io.BytesIO(data))
    return [row for batch in batches for row in batch.to_pylist()]


def numbers(data: bytes | bytearray, **options: Any) -> list[int]:
    return [row["n"] for row in rows(data, **options)]


def anchor(n: int) -> Point:
    return Point(ITEMS[n].offset, n)


def test_only_the_damaged_records_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    lost = {30, 31, 120}
    assert numbers(damaged(*lost), resync=True) == [n for n in range(COUNT) if n not in lost]
    size = sum(ITEMS[n].end - ITEMS[n].offset for n in lost)
    assert f"damage in 2 places leaves out {size} bytes, with an unknown number of records" in caplog.text


def test_a_format_that_is_described_later_is_found() -> None:
    """The first record of the other format is damaged, and what comes before it is the format item."""
    first = COUNT // 2
    assert numbers(damaged(first - 1), resync=True) == [n for n in range(COUNT) if n != first - 1]


def test_what_an_outline_names_is_read_without_being_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    end = Point(len(FILE), COUNT)
    assert numbers(damaged(10), anchors=(anchor(5), anchor(60), end)) == [*range(10), *range(60, COUNT)]
    assert f"leaves out {ITEMS[60].offset - ITEMS[10].offset} bytes, with 50 records" in caplog.text
    caplog.clear()
    assert numbers(damaged(10), anchors=(end,)) == [*range(10)]
    assert f"leaves out {len(FILE) - ITEMS[10].offset} bytes, with 190 records" in caplog.text
    assert numbers(damaged(10), anchors=(anchor(60),), resync=True) == [n for n in range(COUNT) if n != 10]


def test_a_false_outline_is_not_believed() -> None:
    lie = Point(ITEMS[40].offset + 3, 40)
    assert numbers(damaged(10), anchors=(lie,)) == [*range(10)]
    assert numbers(damaged(10), anchors=(lie, anchor(50))) == [*range(10), *range(50, COUNT)]


def test_the_row_of_damage_says_where_reading_resumes() -> None:
    found = rows(damaged(10), mode="PERMISSIVE", resync=True)
    assert [row["n"] for row in found] == [*range(10), None, *range(11, COUNT)]
    bad = found[10]["bad"]
    assert (bad["offset"], bad["length"]) == (ITEMS[10].offset, ITEMS[11].offset - ITEMS[10].offset)
    assert f"reading can resume at offset {ITEMS[11].offset}" in bad["reason"]
    assert bad["bytes"] == damaged(10)[ITEMS[10].offset : ITEMS[11].offset]


def test_failfast_fails_and_corrupt_files_may_be_ignored() -> None:
    with pytest.raises(PbioError, match=r"PBIO_BAD_ITEM.*reading can resume at"):
        rows(damaged(10), mode="FAILFAST", resync=True)
    found = rows(damaged(10), mode="FAILFAST", resync=True, ignore_corrupt_files=True)
    assert [row["n"] for row in found] == [n for n in range(COUNT) if n != 10]


def test_a_tail_that_is_cut_off_stays_one(caplog: pytest.LogCaptureFixture) -> None:
    cut = FILE[:-3]
    assert numbers(cut, resync=True, tail="ignore") == [*range(COUNT - 1)]
    lost = len(cut) - ITEMS[-1].offset
    assert [r.getMessage() for r in caplog.records] == [
        f"a.ffs ends inside an item: truncatedTail leaves out its last {lost} bytes"
    ]
    with pytest.raises(PbioError, match="PBIO_TRUNCATED"):
        rows(cut, mode="FAILFAST", resync=True)
    length = bytearray(FILE)
    length[ITEMS[10].offset + 4] = 0x7F
    assert numbers(length, resync=True) == [n for n in range(COUNT) if n != 10]


@pytest.mark.parametrize("tail", ["error", "ignore"])
@pytest.mark.parametrize("length", [4_000_000, 1 << 36, 30])
def test_a_false_length_in_the_middle_is_damage_and_no_tail(length: int, tail: Literal["error", "ignore"]) -> None:
    """It reaches beyond the end of the file, or ends inside the record; a tail is an item that the file's end cuts."""
    data = bytearray(FILE)
    data[ITEMS[10].offset : ITEMS[10].offset + 8] = (ItemKind.DATA << 56 | length).to_bytes(8)
    with pytest.raises(PbioError, match=r"PBIO_BAD_ITEM(.|\n)*resync=true"):
        rows(data, mode="FAILFAST", tail=tail)
    assert numbers(data, tail=tail, resync=True) == [n for n in range(COUNT) if n != 10]
    assert numbers(data, mode="FAILFAST", tail=tail, ignore_corrupt_files=True) == [*range(10)]


def test_a_cut_record_that_holds_records_is_still_a_tail() -> None:
    """A string may hold the bytes of a file; a record whose header agrees with its length is not searched."""
    file = io.BytesIO()
    writer = FileWriter(file)
    writer.data(FORM, {"n": 1, "note": ""})
    records = FILE[ITEMS[0].offset : ITEMS[20].offset]
    writer.data(FORM, {"n": 2, "note": "x" * len(records)})
    data = file.getvalue().replace(b"x" * len(records), records)
    with pytest.raises(TruncatedError):
        list(Scanner(data[:-10]).items())


@given(st.integers(0, COUNT - 1), st.integers(0, 7), st.integers(1, 255))
@settings(max_examples=60, deadline=None)
def test_any_damage_to_a_head_invents_nothing(n: int, byte: int, change: int) -> None:
    data = bytearray(FILE)
    data[ITEMS[n].offset + byte] ^= change
    without = numbers(data)
    found = numbers(data, resync=True)
    assert without == found[: len(without)]
    assert found == sorted(set(found))
    assert set(range(n)) <= set(found) <= set(range(COUNT))


def test_a_file_that_is_damaged_everywhere_is_not_read_over_and_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    sound = FILE[ITEMS[0].offset : ITEMS[3].offset]
    source = Counting(FILE[: ITEMS[0].offset] + (sound + b"\xff" * 8) * 2000)
    plan = plan_of(SCHEMA, mode="DROPMALFORMED", resync=True, corrupt_column="bad")
    assert sum(batch.num_rows for batch in read_batches(plan, FilePart("a.ffs"), source)) == 6000
    assert source.count < 200 * len(source.getvalue())


def places(
    data: bytes | bytearray, *, ordinal: int | None = 0, start: int = 0, **options: Any
) -> list[tuple[Any, ...]]:
    """Of each bad row the line that says where it is, and of the others their numbers and ordinals."""
    anchors = options.pop("anchors", ())
    schema = SCHEMA.append(pa.field("m", pa.struct([("ordinal", pa.int64())])))
    plan = plan_of(
        schema, corrupt_column="bad", metadata_column="m", mode="PERMISSIVE", formats=(FORM, OTHER), **options
    )
    part = FilePart("a.ffs", start, ordinal=ordinal, anchors=anchors)
    found = [row for batch in read_batches(plan, part, io.BytesIO(data)) for row in batch.to_pylist()]
    lines = [row["bad"] and row["bad"]["reason"].splitlines()[1] for row in found]
    return [(line or row["n"], row["m"]["ordinal"]) for line, row in zip(lines, found, strict=True)]


def test_a_bad_record_has_its_number_while_it_is_known() -> None:
    data, expected = bytearray(FILE), [(n, n) for n in range(COUNT)]  # type: tuple[bytearray, list[tuple[Any, ...]]]
    for n in (3, 150):
        slot = ITEMS[n].payload + FORM.header_size + 8
        data[slot] = 0xFF  # the pointer to the note leads out of the record
        expected[n] = (f"  at: a.ffs, record {n}, offset {slot}, format reading, field $.note", n)
    assert places(data) == expected
    data[ITEMS[100].offset] ^= 0xFF
    expected[100] = (f"  at: a.ffs, after record 99, offset {ITEMS[100].offset}", 100)
    assert places(data, anchors=(anchor(101),)) == expected
    rest = [(n, None) for n in range(101, COUNT)]
    rest[150 - 101] = (expected[150][0].replace("record 150", "record number unknown"), None)
    assert places(data, resync=True) == [*expected[:101], *rest]
    assert places(data, start=ITEMS[101].offset, ordinal=None) == rest
