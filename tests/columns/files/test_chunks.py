"""Where the compiled walk stops: formats, unknown records, records that are too large, and the end of the file."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pytest

from ecode.native.table import address_of
from pbio_spark.columns.decode.runner import BATCH_ROOM
from pbio_spark.columns.files.chunks import DAMAGE, FIRST_WINDOW, MOST_BYTES, UNKNOWN_FORMAT, Chunker
from pbio_spark.columns.files.plan import CORRUPT_TYPE, METADATA_TYPE, BatchLimits, FilePart
from pbio_spark.columns.files.read import read_batches
from pbio_spark.errors import PbioError
from pbio_spark.formats import FieldLayout, Format, StructLayout
from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow
from pbio_spark.formats.store import FormatStore, MemoryStore
from pbio_spark.wire import MAGIC, FileWriter, ItemKind, Scanner, TruncatedError, decode, encode
from pbio_spark.wire.writer import format_to_item
from tests.plans import plan_of

Found = list[tuple[int, int, bytes]]


def number_format(length: int = 4) -> Format:
    return Format.from_structs([StructLayout("r", (FieldLayout("x", "integer", 4, 0),), length)])


def item_of(record: bytes) -> bytes:
    return (3 << 24 | len(record) >> 32).to_bytes(4) + (len(record) & 0xFFFFFFFF).to_bytes(4) + record


def chunked(source: BinaryIO, end: int, store: FormatStore | None = None, most: int = 7) -> Found:
    """Offset, length and format ID of each record; the ID is empty if it is unknown."""
    chunker = Chunker(source, "f", (), store, BatchLimits(most, 1 << 20))
    found: Found = []
    for chunk in chunker.chunks(0, end, 0):
        assert chunk.ordinal == len(found)
        ends = chunk.ends - address_of(chunk.data)
        found += [
            (chunk.offset + at, stop - at, b"" if form == UNKNOWN_FORMAT else chunker.formats[form].id)
            for at, stop, form in zip(chunk.positions.tolist(), ends.tolist(), chunk.formats.tolist(), strict=True)
        ]
        assert (chunk.rights == (chunk.formats != UNKNOWN_FORMAT)).all()
    return found


def test_formats_and_unknown_records_in_any_mixture() -> None:
    """Against the plain scanner: 600 formats, described late, never, twice or only by a store."""
    chance = np.random.default_rng(5)
    formats = [number_format(4 + i) for i in range(600)]
    stored = {form.id: form for form in formats[:50]}
    described: set[bytes] = set()
    pieces, expected = [MAGIC], []
    position = len(MAGIC)
    for _ in range(4_000):
        form = formats[int(chance.integers(len(formats)))]
        if chance.random() < 0.3 and form.id not in stored:
            pieces.append(format_to_item(form))
            described.add(form.id)
        else:
            raw = encode(form, {"x": 1})
            if chance.random() < 0.1:
                raw = bytes(chance.integers(0, 256, int(chance.integers(0, 30)), np.uint8))
            pieces.append(item_of(raw))
            known = raw[: len(form.id)] == form.id and (form.id in described or form.id in stored)
            expected.append((position, len(pieces[-1]), form.id if known else b""))
        position += len(pieces[-1])
    content = b"".join(pieces)
    records = [item for item in Scanner(content).items() if item.kind is ItemKind.DATA]
    assert [(at, length) for at, length, _ in expected] == [(item.offset, item.end - item.offset) for item in records]
    store = MemoryStore(stored.values())
    for most in (1, 7, 10_000):
        assert chunked(io.BytesIO(content), len(content), store, most) == expected
    assert {form_id for *_, form_id in chunked(io.BytesIO(content), len(content))}.isdisjoint(stored)


def test_a_store_is_asked_once_for_each_format() -> None:
    form, other = number_format(), number_format(5)
    asked: list[bytes] = []

    class Asked(MemoryStore):
        def get(self, format_id: bytes) -> Format | None:
            asked.append(format_id)
            return super().get(format_id)

    content = MAGIC + b"".join(item_of(encode(f, {"x": 0})) for _ in range(100) for f in (form, other))
    assert [form_id for *_, form_id in chunked(io.BytesIO(content), len(content), Asked([form]))] == [
        form.id,
        b"",
    ] * 100
    assert sorted(asked) == sorted([form.id, other.id])


def test_a_cut_names_its_offset_in_the_file() -> None:
    form = number_format(FIRST_WINDOW // 3)
    whole = MAGIC + format_to_item(form) + item_of(encode(form, {"x": 1})) * 9
    last = len(whole) - len(item_of(encode(form, {"x": 1})))
    with pytest.raises(TruncatedError, match=f"truncated at offset {last}:") as caught:
        for _ in read_batches(plan_of(pa.schema([("x", pa.int32())])), FilePart("f"), io.BytesIO(whole[:-1])):
            pass
    assert caught.value.offset == last
    assert "truncatedTail=ignore" in str(caught.value.hint)


def test_an_item_that_reaches_beyond_its_part_ends_it() -> None:
    form = number_format()
    whole = MAGIC + format_to_item(form) + item_of(encode(form, {"x": 1})) * 9
    chunker = Chunker(io.BytesIO(whole), "f", limits=BatchLimits(100, 1 << 20))
    *_, last = chunker.chunks(0, len(whole) - 30, 0)
    assert last.formats.tolist() == [DAMAGE]
    assert isinstance(last.error, TruncatedError)
    assert f"reaches beyond offset {len(whole) - 30}" in last.error.reason


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of more than 2^31 bytes between two small ones; its file is mostly a hole."""
    fields = (FieldLayout("k", "integer", 4, 0), FieldLayout("n", "integer", 4, 4), FieldLayout("v", "char[n]", 1, 8))
    form = Format.from_structs([StructLayout("r", fields, 16)])
    path = tmp_path_factory.mktemp("huge") / "a"
    with FileWriter(path) as writer:
        writer.data(form, {"k": 1, "n": 0, "v": None})
    small = item_of(encode(form, {"k": 3, "n": 0, "v": None}))
    length = 16 + MOST_BYTES
    with path.open("r+b") as file:
        file.seek(0, 2)
        total = form.header_size + length
        file.write((3 << 24 | total >> 32).to_bytes(4) + (total & 0xFFFFFFFF).to_bytes(4))
        file.write((form.id + struct.pack("<q", length)).ljust(form.header_size, b"\0"))
        file.write(struct.pack("<IIq", 2, MOST_BYTES, 16))
        file.seek(MOST_BYTES, 1)
        file.write(small)
    return path


def read_huge(path: Path, **options: Any) -> list[dict[str, Any]]:
    schema = pa.schema([("k", pa.int32()), ("m", METADATA_TYPE), ("bad", CORRUPT_TYPE)])
    plan = plan_of(schema, metadata_column="m", corrupt_column="bad", **options)
    with path.open("rb") as source:
        return [row for batch in read_batches(plan, FilePart("f"), source) for row in batch.to_pylist()]


def test_a_record_that_is_too_large_is_bad_and_those_after_it_are_read(huge: Path) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_RECORD_TOO_LARGE\] a record of 2147483\d+ bytes"):
        read_huge(huge)
    assert [row["k"] for row in read_huge(huge, mode="DROPMALFORMED")] == [1, 3]
    one, bad, three = read_huge(huge, mode="PERMISSIVE")
    assert (one["k"], bad["k"], three["k"]) == (1, None, 3)
    assert [row["m"]["ordinal"] for row in (one, bad, three)] == [0, 1, 2]
    assert bad["m"]["offset"] == bad["bad"]["offset"] == one["m"]["offset"] + one["m"]["length"]
    assert bad["m"]["length"] == bad["bad"]["length"] + 8 == three["m"]["offset"] - bad["m"]["offset"]
    assert "PBIO_RECORD_TOO_LARGE" in bad["bad"]["reason"]
    assert bad["m"]["format_name"] == "r"


def test_a_record_that_is_too_large_and_cut_off_is_cut_off(huge: Path, tmp_path: Path) -> None:
    path = tmp_path / "a"
    with huge.open("rb") as file:
        path.write_bytes(file.read(1000))
    with pytest.raises(TruncatedError):
        read_huge(path)
    assert [row["k"] for row in read_huge(path, tail="ignore")] == [1]


def hub(count: int, label: int) -> tuple[Format, bytes]:
    """A record whose nodes all point to one, which has a long label."""
    node = (
        FieldLayout("k", "integer", 4, 0),
        FieldLayout("label", "string", 8, 8),
        FieldLayout("next", "*node", 24, 16),
    )
    fields = (FieldLayout("n", "integer", 4, 0), FieldLayout("v", "node[n]", 24, 8))
    form = Format.from_structs([StructLayout("g", fields, 16), StructLayout("node", node, 24)])
    shared = {"k": 0, "label": "x" * label, "next": None}
    return form, encode(form, {"n": count, "v": [{"k": i, "label": None, "next": shared} for i in range(count)]})


@pytest.mark.parametrize(("label", "is_sound"), [(2_000, True), (20_000, True), (200_000, False)])
def test_honest_sharing_is_read_and_endless_sharing_is_refused(label: int, is_sound: bool) -> None:
    form, raw = hub(500, label)
    content = MAGIC + format_to_item(form) + item_of(raw)
    presentation = Presentation(recursive_depth=2)
    plan = plan_of(record_to_arrow(form.record, presentation), presentation)
    if not is_sound:
        with pytest.raises(PbioError, match=r"\[PBIO_RECORD_EXPANDS\].*become more than") as caught:
            list(read_batches(plan, FilePart("f"), io.BytesIO(content)))
        assert caught.value.field is not None
        return
    (batch,) = read_batches(plan, FilePart("f"), io.BytesIO(content))
    (row,) = batch.to_pylist()
    assert [node["next"]["label"] for node in row["v"]] == ["x" * label] * 500


def test_records_that_grow_come_in_batches_of_bounded_size() -> None:
    """60 records of 12 kB that are 10 MB of columns each: 600 MB in all."""
    form, raw = hub(500, 20_000)
    content = MAGIC + format_to_item(form) + item_of(raw) * 60
    presentation = Presentation(recursive_depth=2)
    plan = plan_of(record_to_arrow(form.record, presentation), presentation, metadata_column=None)
    sizes, rows = [], 0
    for batch in read_batches(plan, FilePart("f"), io.BytesIO(content)):
        sizes.append(batch.nbytes)
        rows += batch.num_rows
    assert rows == 60
    assert max(sizes) < BATCH_ROOM


def test_structures_within_structures_cost_more_than_their_bytes() -> None:
    """22 kB that the codec would make gigabytes of: pointers to one array whose elements nest sixty deep."""
    count, elements, levels = 1_000, 10_000, 60
    structs = [
        StructLayout("r", (FieldLayout("n", "integer", 4, 0), FieldLayout("p", f"(*s0[{elements}])[n]", 1, 8)), 16)
    ]
    structs += [StructLayout(f"s{i}", (FieldLayout("x", f"s{i + 1}[1]", 1, 0),), 1) for i in range(levels)]
    form = Format.from_structs([*structs, StructLayout(f"s{levels}", (FieldLayout("c", "integer", 1, 0),), 1)])
    data = struct.pack("<iiq", count, 0, 16) + struct.pack("<q", 16 + 8 * count) * count + bytes(elements)
    raw = (form.id + struct.pack("<q", len(data))).ljust(form.header_size, b"\0") + data
    with pytest.raises(PbioError, match="PBIO_RECORD_EXPANDS"):
        decode(form, raw)
    schema = pa.schema([("n", pa.int32())])
    (batch,) = read_batches(plan_of(schema), FilePart("f"), io.BytesIO(MAGIC + format_to_item(form) + item_of(raw)))
    assert batch.to_pylist() == [{"n": count}]  # what is not asked for is not decoded
