"""Whole files through the kernels: the same rows as the plain-Python codec, in file order; damage ends in a bad row."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ecode.types import FLOAT64, INT32, INT64, STRING, Array, Field, record
from pbio_spark.columns.files.plan import CORRUPT_TYPE, METADATA_TYPE, FilePart, ReadPlan
from pbio_spark.columns.files.read import read_batches
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.merge import merge
from pbio_spark.formats.store import MemoryStore
from pbio_spark.wire import MAGIC, FileWriter, ItemKind, Scanner, decode
from tests.columns.expected import record_to_row
from tests.columns.records import same
from tests.corpus import ffs_files
from tests.ffs.test_library import stream_to_file
from tests.plans import changed, plan_of

FILES = (
    "generated/*.ffs",
    "foreign/*.ffs",
    "golden/file_output.*.bin",
    "golden/index_output.*.bin",
    "golden/context_test_output.*.bin",
)
DEPTH = Presentation(recursive_depth=4)


def content_of(path: Path) -> bytes:
    data = path.read_bytes()
    return stream_to_file(data) if path.name.startswith("context_test_output") else data


def rows(plan: ReadPlan, content: bytes, **part: Any) -> list[dict[str, Any]]:
    batches = list(read_batches(plan, FilePart("a.ffs", **part), io.BytesIO(content)))
    for batch in batches:
        assert batch.schema == plan.schema
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("path", ffs_files(*FILES))
def test_reads_every_file_of_the_corpus(path: Path) -> None:
    content = content_of(path)
    scanner = Scanner(content)
    records = [(scanner.format_of(item), scanner.read(item)) for item in scanner.items() if item.kind is ItemKind.DATA]
    for form in scanner.formats.values():
        if any(f.size == 16 and "float" in f.type for layout in form.structs for f in layout.fields):
            continue  # a long double has no column
        plan = plan_of(record_to_arrow(form.record, DEPTH), DEPTH, ids=(form.id,))
        expected = [record_to_row(form, decode(form, r, text=None), DEPTH) for f, r in records if f == form]
        found = rows(plan, content)
        assert same(found, expected)


OLD = record("reading", [Field("n", INT32), Field("name", STRING)])
NEW = record(
    "reading", [Field("name", STRING), Field("k", INT32), Field("v", Array(FLOAT64, ("k",))), Field("n", INT64)]
)
UNION = merge([OLD, NEW])


def mixed(count: int = 40) -> tuple[bytes, list[dict[str, Any]], list[Format]]:
    """A file of two versions by three machines, its rows as the union, and the formats."""
    formats = [record_to_format(OLD, "be32"), record_to_format(NEW, "le64"), record_to_format(NEW, "be64")]
    file, expected = io.BytesIO(), []
    with FileWriter(file) as writer:
        for i in range(count):
            form = formats[i % 7 % 3]
            values: dict[str, Any] = {"n": i, "name": f"record {i}"}
            if form.record == NEW:
                values |= {"k": i % 4, "v": [0.5 * i] * (i % 4) or None}
            writer.data(form, values)
            absent = {"k": None, "v": None} if form.record == OLD else {"v": [0.5 * i] * (i % 4)}
            expected.append(values | absent)
            if i % 5 == 0:
                writer.comment("between")
    names = [f.name for f in UNION.fields]
    return file.getvalue(), [{name: row[name] for name in names} for row in expected], formats


@pytest.mark.parametrize("records", [1, 3, 32768])
@pytest.mark.parametrize("size", [64, 1000, 1 << 20])
def test_rows_are_in_file_order_whatever_the_batches(records: int, size: int) -> None:
    content, expected, _ = mixed()
    plan = plan_of(record_to_arrow(UNION), most_records=records, most_bytes=size)
    assert rows(plan, content) == expected


def test_parts_begin_and_end_at_item_boundaries() -> None:
    content, expected, formats = mixed()
    items = [item for item in Scanner(content).items() if item.kind is ItemKind.DATA]
    plan = plan_of(record_to_arrow(UNION), formats=tuple(formats))
    middle = items[17]
    assert rows(plan, content, end=middle.offset) == expected[:17]
    assert rows(plan, content, start=middle.offset, ordinal=17) == expected[17:]


def test_metadata_says_where_each_row_comes_from() -> None:
    content, expected, formats = mixed()
    plan = plan_of(pa.schema([("n", pa.int64()), ("_pbio", METADATA_TYPE)]), metadata_column="_pbio", most_records=7)
    items = [item for item in Scanner(content).items() if item.kind is ItemKind.DATA]
    for row, item, wrote in zip(rows(plan, content), items, expected, strict=True):
        form = next(f for f in formats if f.id == item.format_id)
        assert row == {
            "n": wrote["n"],
            "_pbio": {
                "file_path": "a.ffs",
                "offset": item.offset,
                "length": item.end - item.offset,
                "ordinal": item.ordinal,
                "format_id": item.format_id.hex(),
                "format_name": "reading",
                "machine": form.machine,
                "way": "direct",
                "target": None,
            },
        }


def damaged() -> tuple[bytes, list[dict[str, Any]], int]:
    """A file whose 17th record has a string that begins far beyond the record."""
    content, expected, _ = mixed()
    item = [item for item in Scanner(content).items() if item.kind is ItemKind.DATA][17]
    scanner = Scanner(content)
    list(scanner.items())
    header = scanner.formats[item.format_id].header_size
    layout = scanner.formats[item.format_id].structs[0]
    slot = next(f for f in layout.fields if f.name == "name")
    at = item.payload + header + slot.offset
    return content[:at] + b"\x7f" * 4 + content[at + 4 :], expected, item.offset


def test_failfast_says_where_and_why() -> None:
    content, _, offset = damaged()
    with pytest.raises(PbioError) as caught:
        rows(plan_of(record_to_arrow(UNION)), content)
    assert caught.value.code == "PBIO_BAD_POINTER"
    assert (caught.value.file, caught.value.field) == ("a.ffs", "$.name")
    assert caught.value.hint == "the option mode decides what becomes of bad records"
    assert caught.value.offset is not None
    assert caught.value.offset > offset


def test_a_bad_record_is_one_row_of_nulls_with_its_bytes_or_none() -> None:
    content, expected, offset = damaged()
    schema = pa.schema([*record_to_arrow(UNION), ("_corrupt_record", CORRUPT_TYPE)])
    plan = plan_of(schema, mode="PERMISSIVE", corrupt_column="_corrupt_record", most_records=5)
    found = rows(plan, content)
    corrupt = [row.pop("_corrupt_record") for row in found]
    assert found[:17] + found[18:] == expected[:17] + expected[18:]
    assert set(found[17].values()) == {None}
    assert [i for i, value in enumerate(corrupt) if value is not None] == [17]
    assert corrupt[17]["offset"] == offset
    assert corrupt[17]["reason"].startswith("[PBIO_BAD_POINTER]")
    dropping = changed(plan, schema=record_to_arrow(UNION), mode="DROPMALFORMED", corrupt_column=None)
    assert rows(dropping, content) == expected[:17] + expected[18:]
    schema = pa.schema([*record_to_arrow(UNION), ("_corrupt_record", pa.binary())])
    (only,) = [row["_corrupt_record"] for row in rows(changed(plan, schema=schema), content) if row["_corrupt_record"]]
    assert only == corrupt[17]["bytes"]


def test_damage_between_records_is_one_row_for_the_rest() -> None:
    content, expected, _ = mixed()
    item = [item for item in Scanner(content).items() if item.kind is ItemKind.DATA][30]
    content = content[: item.offset] + b"\x99" + content[item.offset + 1 :]
    schema = pa.schema([*record_to_arrow(UNION), ("bad", CORRUPT_TYPE)])
    plan = plan_of(schema, mode="PERMISSIVE", corrupt_column="bad")
    found = rows(plan, content)
    bad = [row.pop("bad") for row in found]
    assert found[:-1] == expected[:30]
    assert (bad[-1]["offset"], bad[-1]["bytes"]) == (item.offset, content[item.offset :])
    assert bad[-1]["reason"].startswith("[PBIO_BAD_ITEM]")
    assert bad[:-1] == [None] * 30
    assert rows(plan_of(record_to_arrow(UNION), ignore_corrupt_files=True), content) == expected[:30]
    with pytest.raises(PbioError, match="PBIO_BAD_ITEM"):
        rows(plan_of(record_to_arrow(UNION)), content)


def test_every_cut_is_an_error_or_the_end() -> None:
    content, expected, _ = mixed(4)
    ends = [item.end for item in Scanner(content).items()]
    counts = [sum(i.kind is ItemKind.DATA for i in Scanner(content[:end]).items()) for end in ends]
    plan = plan_of(record_to_arrow(UNION))
    for cut in range(len(content)):
        whole = max((count for count, end in zip(counts, ends, strict=True) if end <= cut), default=0)
        assert rows(changed(plan, tail="ignore"), content[:cut]) == expected[:whole]
        if cut in (0, len(MAGIC), *ends):
            assert rows(plan, content[:cut]) == expected[:whole]
        else:
            with pytest.raises(PbioError, match="PBIO_TRUNCATED"):
                rows(plan, content[:cut])


def test_formats_that_files_lack_come_from_a_store() -> None:
    content, expected, formats = mixed(6)
    scanner = Scanner(content)
    pieces = [content[i.offset : i.end] for i in scanner.items() if i.kind is not ItemKind.FORMAT]
    bare = MAGIC + b"".join(pieces)

    assert rows(plan_of(record_to_arrow(UNION), store=MemoryStore(formats)), bare) == expected
    with pytest.raises(PbioError, match="PBIO_UNKNOWN_FORMAT"):
        rows(plan_of(record_to_arrow(UNION)), bare)
    dropping = plan_of(record_to_arrow(UNION), mode="DROPMALFORMED")
    assert rows(dropping, bare) == []


def test_other_names_are_left_out_or_refused() -> None:
    other = record_to_format(record("other", [Field("n", INT32)]))
    mine = record_to_format(OLD)
    file = io.BytesIO()
    with FileWriter(file) as writer:
        writer.data(mine, {"n": 1, "name": "a"})
        writer.data(other, {"n": 2})
        writer.data(mine, {"n": 3, "name": None})
    schema = record_to_arrow(OLD)
    expected = [{"n": 1, "name": "a"}, {"n": 3, "name": None}]
    assert rows(plan_of(schema, names=("reading",)), file.getvalue()) == expected
    assert rows(plan_of(schema, ids=(mine.id,)), file.getvalue()) == expected
    with pytest.raises(PbioError, match="PBIO_SEVERAL_FORMATS"):
        rows(plan_of(schema, only_name=mine.name), file.getvalue())
