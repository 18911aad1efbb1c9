"""Index blocks and the writer of indexed files: cases that the corpus lacks, and damage."""

from __future__ import annotations

import io
import struct

import pytest

from pbio_spark.errors import PbioError
from pbio_spark.wire import (
    Attribute,
    FileWriter,
    IndexBlock,
    ItemKind,
    Scanner,
    attribute,
    attributes_to_bytes,
    items_to_json,
    read_block,
    read_index,
)
from tests.wire.samples import POINT, READING, sample

VALUES = {"x": 1, "y": 2.0}


def blocks_of(data: bytes) -> list[IndexBlock]:
    scanner = Scanner(data)
    return [read_block(scanner, item) for item in scanner.items() if item.kind is ItemKind.INDEX]


@pytest.mark.parametrize("attributes", [None, [], [attribute("step", 1)], [attribute("name", "x" * 100)]])
@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 7, 23])
def test_blocks_lead_to_what_follows_them(count: int, attributes: list[Attribute] | None) -> None:
    file = io.BytesIO()
    with FileWriter(file, indexed=True) as writer:
        for i in range(count):
            writer.comment("between")
            writer.data(POINT if i % 5 else READING, VALUES if i % 5 else {"n": 0, "v": None, "unit": None}, attributes)
    data = file.getvalue()
    scanner = Scanner(data)
    items = {item.offset: item for item in scanner.items() if item.kind in (ItemKind.FORMAT, ItemKind.DATA)}
    blocks = read_index(Scanner(data))
    assert (blocks is None) == (count == 0)
    entries = [entry for block in blocks or () for entry in block.entries]
    assert [(e.offset, e.format_id, e.is_data) for e in entries] == [
        (i.offset, i.format_id, i.kind is ItemKind.DATA) for i in items.values()
    ]
    assert sum(len(block.ordinals) for block in blocks or ()) == count
    lists = {e.attributes for e in entries if e.is_data}
    assert lists <= {
        b"" if attributes is None else attributes_to_bytes(attributes, order) for order in ("little", "big")
    }


def test_a_block_without_records_counts_none() -> None:
    file = io.BytesIO()
    with FileWriter(file, indexed=True) as writer:
        writer.data(POINT, VALUES, [attribute("fills", "x" * 175)])
    first, second = blocks_of(file.getvalue())
    assert [e.is_data for e in first.entries] == [False]
    assert (first.first, first.last, len(first.ordinals)) == (0, 0xFFFFFFFF, 0)
    assert (second.first, second.last, list(second.ordinals)) == (0, 0, [0])


def test_an_entry_that_would_end_at_byte_248_goes_into_the_next_block() -> None:
    file = io.BytesIO()
    with FileWriter(file, indexed=True) as writer:
        writer.data(POINT, VALUES, [attribute("step", 1)])
        for _ in range(6):
            writer.data(POINT, VALUES)
    first, second = blocks_of(file.getvalue())
    assert 16 + 24 + 40 + 6 * 28 == 248
    assert (first.cursor, len(first.entries), len(second.entries)) == (220, 7, 1)


def test_attributes_need_room_and_an_index() -> None:
    plain, indexed = io.BytesIO(), io.BytesIO()
    with FileWriter(plain) as writer, pytest.raises(PbioError, match="PBIO_BAD_ATTRIBUTES"):
        writer.data(POINT, VALUES, [attribute("step", 1)])
    with FileWriter(indexed, indexed=True) as writer, pytest.raises(PbioError, match="PBIO_BAD_ATTRIBUTES"):
        writer.data(POINT, VALUES, [attribute("name", "x" * 200)])
    assert plain.getvalue() == indexed.getvalue() == bytes.fromhex("4356ffa9")


class Far(io.BytesIO):
    """A file whose end is near the last byte that an index can name."""

    def tell(self) -> int:
        return super().tell() + 2**32 - 1600


def test_an_indexed_file_has_an_end() -> None:
    file = Far()
    writer = FileWriter(file, indexed=True)
    writer.comment("x" * 600)
    writer.data(POINT, VALUES)
    before = file.getvalue()
    for refused in (lambda: writer.data(POINT, VALUES), lambda: writer.comment("x" * 600)):
        with pytest.raises(PbioError, match="PBIO_BAD_INDEX"):
            refused()
    assert file.getvalue() == before
    writer.close()


@pytest.mark.parametrize(("was", "now"), [(True, False), (False, True)])
def test_appending_keeps_the_kind_of_file(was: bool, now: bool) -> None:
    file = io.BytesIO(sample(indexed=was))
    with pytest.raises(PbioError, match="PBIO_CANNOT_APPEND"):
        FileWriter(file, indexed=now, append=True)
    assert file.getvalue() == sample(indexed=was)


def test_appending_needs_a_whole_file() -> None:
    with pytest.raises(PbioError, match="PBIO_TRUNCATED"):
        FileWriter(io.BytesIO(sample()[:-1]), append=True)
    plain_tail = sample(indexed=True) + bytes.fromhex("01000001") + b"\0"
    with pytest.raises(PbioError, match="PBIO_BAD_INDEX"):
        FileWriter(io.BytesIO(plain_tail), indexed=True, append=True)


def test_appending_to_an_empty_file_starts_it() -> None:
    file = io.BytesIO()
    with FileWriter(file, append=True) as writer:
        writer.data(POINT, VALUES)
    assert len(list(Scanner(file.getvalue()).items())) == 2


def test_the_writer_refuses_before_it_writes() -> None:
    file = io.BytesIO()
    with FileWriter(file) as writer:
        for record in ({"x": 1}, {"x": "1", "y": 0.0}, READING.id + bytes(40), POINT.id, b""):
            with pytest.raises(PbioError, match=r"PBIO_BAD_(VALUE|RECORD)"):
                writer.data(POINT, record)
        for text in ("a\0b", "x" * (2**24 - 1)):
            with pytest.raises(PbioError, match="PBIO_BAD_VALUE"):
                writer.comment(text)
    assert file.getvalue() == bytes.fromhex("4356ffa9")


def damaged(change: str) -> bytes:
    """An indexed file whose first block is damaged in one way."""
    data = bytearray(sample(indexed=True))
    at = next(item.offset for item in Scanner(bytes(data)).items() if item.kind is ItemKind.INDEX)
    first = at + 16  # the entry of the first format, then that of the first record
    match change:
        case "next loops":
            struct.pack_into(">I", data, at + 4, at)
        case "next leads nowhere":
            struct.pack_into(">I", data, at + 4, len(data) - 3)
        case "records left out":
            struct.pack_into(">II", data, at + 8, 1, struct.unpack_from(">I", data, at + 12)[0] + 1)
        case "too many counted":
            struct.pack_into(">I", data, at + 12, 99)
        case "entry too long":
            struct.pack_into(">I", data, first, 0xFFFF00)
        case "unknown entry":
            data[first + 3] = 2
        case "no end":
            struct.pack_into(">I", data, first, (256 - 16 - 12) << 8)
        case "item before the block":
            struct.pack_into(">Q", data, first + 4, 4)
        case "bad ID":
            data[first + 12] = 9
        case "ID length":
            struct.pack_into(">I", data, first + 24 + 12, 77)
    return bytes(data)


@pytest.mark.parametrize(
    "change",
    [
        "next loops",
        "next leads nowhere",
        "records left out",
        "too many counted",
        "entry too long",
        "unknown entry",
        "no end",
        "item before the block",
        "bad ID",
        "ID length",
    ],
)
def test_damage_is_found_and_a_scan_still_reads(change: str) -> None:
    data = damaged(change)
    with pytest.raises(PbioError, match="PBIO_BAD_INDEX") as caught:
        read_index(Scanner(data, "f.ffs"))
    assert caught.value.file == "f.ffs"
    assert caught.value.offset is not None
    assert sum(item.kind is ItemKind.DATA for item in Scanner(data).items()) == 12


def test_plain_files_have_no_index() -> None:
    assert read_index(Scanner(sample())) is None


def test_empty_attribute_lists_show() -> None:
    file = io.BytesIO()
    with FileWriter(file, indexed=True) as writer:
        writer.data(POINT, VALUES, [])
        writer.data(POINT, VALUES)
    records = [line for line in items_to_json(Scanner(file.getvalue())) if '"kind":"data"' in line]
    assert ['"attrs":[]' in line for line in records] == [True, False]
