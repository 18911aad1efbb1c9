"""The walk over the items of a file: sound items are found, and truncation is distinguished from damage."""

from __future__ import annotations

import gzip
import io
import mmap
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pbio_spark.errors import PbioError
from pbio_spark.wire import MAGIC, FileWriter, Item, ItemKind, Scanner, TruncatedError, open_file
from pbio_spark.wire.window import CHUNK, Window
from tests.wire.samples import POINT, READING, sample

POINT_ITEM = bytes.fromhex("0200000c") + len(POINT.body).to_bytes(4) + POINT.id + POINT.body


def scan(data: Any, **start: Any) -> tuple[list[Item], PbioError | None]:
    """The items that are found, and the error that ends the walk."""
    scanner, found = Scanner(data, "f.ffs", **start), []
    try:
        for item in scanner.items():
            found.append(item)
    except PbioError as error:
        assert scanner.offset == (found[-1].end if found else start.get("offset", min(scanner.offset, len(MAGIC))))
        return found, error
    return found, None


def test_empty_files_are_normal() -> None:
    assert scan(b"") == scan(MAGIC) == ([], None)


def test_finds_every_item() -> None:
    items, error = scan(sample())
    kinds = "".join(item.kind.name[0] for item in items)
    assert (kinds, error) == ("CFDFD" + "D" * 10 + "C", None)
    assert [item.ordinal for item in items if item.kind is ItemKind.DATA] == list(range(12))
    assert items[0].offset == 4
    assert [item.offset for item in items[1:]] == [item.end for item in items[:-1]]


@pytest.mark.parametrize("indexed", [False, True])
def test_every_cut_is_a_truncation_and_can_be_continued(indexed: bool) -> None:
    data = sample(indexed)
    whole, _ = scan(data)
    for cut in range(1, len(data)):
        found, error = scan(data[:cut])
        boundary = found[-1].end if found else len(MAGIC) if cut >= len(MAGIC) else 0
        if error is None:
            assert cut == boundary
        else:
            assert isinstance(error, TruncatedError)
            assert (error.code, error.file, error.offset) == ("PBIO_TRUNCATED", "f.ffs", boundary)
        records = sum(item.kind is ItemKind.DATA for item in found)
        rest, error = scan(data, offset=boundary, ordinal=records, formats={POINT.id: POINT, READING.id: READING})
        assert ([*found, *rest], error) == (whole, None)


def test_a_growing_file_is_continued_by_the_same_scanner(tmp_path: Path) -> None:
    data, path = sample(), tmp_path / "growing.ffs"
    found: list[Item] = []
    with path.open("wb") as writing, path.open("rb") as reading:
        scanner = Scanner(reading)
        for start in range(0, len(data), 37):
            writing.write(data[start : start + 37])
            writing.flush()
            with suppress(TruncatedError):
                for item in scanner.items():
                    found.append(item)
    assert found == scan(data)[0]


def test_a_reserved_index_block_is_still_being_written() -> None:
    data = bytearray(sample(indexed=True))
    block = next(item for item in scan(data)[0] if item.kind is ItemKind.INDEX)
    data[block.offset : block.end] = bytes(block.end - block.offset)
    for cut in (len(data), block.end, block.offset + 5):
        _, error = scan(bytes(data[:cut]))
        assert isinstance(error, TruncatedError)
        assert error.offset == block.offset
        assert "still being written" in error.reason


def test_buffers_and_files_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "f.ffs"
    path.write_bytes(data := sample())
    with (
        path.open("rb") as buffered,
        path.open("rb", buffering=0) as raw,
        mmap.mmap(buffered.fileno(), 0, access=mmap.ACCESS_READ) as memory,
    ):
        for source in (data, bytearray(data), memoryview(data), io.BytesIO(data), buffered, raw, memory):
            assert scan(source) == scan(data)


class Meter(io.BytesIO):
    """A file that counts the bytes read of it, and hands out at most 1000 at a time."""

    count = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(-1 if size is None or size < 0 else min(size, 1000))
        self.count += len(data)
        return data


def test_reads_heads_only() -> None:
    large = POINT.id + bytes(20 * CHUNK)
    head = bytes.fromhex("03000000") + len(large).to_bytes(4)
    file = Meter(MAGIC + POINT_ITEM + (head + large) * 3)
    items, error = scan(file)
    assert ([item.length for item in items[1:]], error) == ([len(large)] * 3, None)
    assert file.count <= 4 * CHUNK


def test_reads_across_chunks() -> None:
    data = bytes(i * 7 % 251 for i in range(3 * CHUNK))
    window = Window(Meter(data))
    for offset, length in [(0, 10), (CHUNK - 5, 10), (5, 0), (3, 2 * CHUNK), (3 * CHUNK - 1, 9), (4 * CHUNK, 1)]:
        assert window.read(offset, length) == data[offset : offset + length]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("05000000", "unknown kind of item 0x05"),
        ("00000001", "unknown kind of item 0x00"),
        ("01000000", "without even a NUL"),
        ("0200000900000004" + "00" * 13, "format ID has 9 bytes"),
        ("0200000800000004" + "02000001aaaaaaaa" + "00" * 4, "not one of 8 bytes"),
        ("0300000c" + "01000000", None),
        ("03800000" + "00000010" + "00" * 16, "reserved bits"),
        ("03010000" + "00000010" + "00" * 16, "reserved bits"),
        ("04000013" + "00" * 15, "index block has 19 bytes"),
    ],
)
def test_damage(item: str, reason: str | None) -> None:
    comment = bytes.fromhex("01000003") + b"hi\0"
    found, error = scan(MAGIC + comment + bytes.fromhex(item) + b"rest" * 100)
    assert [i.kind for i in found] == [ItemKind.COMMENT]
    assert error is not None
    assert (error.file, error.offset) == ("f.ffs", 11)
    if reason is None:  # a length beyond the end of the file: it may still come
        assert error.code == "PBIO_TRUNCATED"
    else:
        assert error.code == "PBIO_BAD_ITEM"
        assert reason in error.reason


def test_a_false_body_is_found_in_its_place() -> None:
    broken = POINT_ITEM[:-4] + b"\xff" * 4
    bad = bytearray(broken)
    bad[8 + 12 + 3] = 7
    _, error = scan(MAGIC + bytes(bad))
    assert error is not None
    assert (error.code, error.file, error.offset) == ("PBIO_BAD_BODY", "f.ffs", 4)


def test_a_comment_without_nul() -> None:
    scanner = Scanner(MAGIC + bytes.fromhex("01000002") + b"hi")
    (item,) = scanner.items()
    with pytest.raises(PbioError, match=r"PBIO_BAD_ITEM.*NUL"):
        scanner.comment(item)


def test_a_format_may_come_again_but_not_change() -> None:
    items, error = scan(MAGIC + POINT_ITEM * 2)
    assert ([item.kind for item in items], error) == ([ItemKind.FORMAT] * 2, None)
    other = bytes.fromhex("0200000c") + len(READING.body).to_bytes(4) + POINT.id + READING.body
    items, error = scan(MAGIC + POINT_ITEM + other)
    assert len(items) == 1
    assert error is not None
    assert (error.code, error.offset) == ("PBIO_FORMAT_CONFLICT", items[0].end)


@pytest.mark.parametrize("record", [POINT.id + bytes(20), bytes.fromhex("ff") * 30, b"\2", b""])
def test_a_record_of_unknown_format_does_not_stop_the_walk(record: bytes) -> None:
    data = MAGIC + bytes.fromhex("03000000") + len(record).to_bytes(4) + record + POINT_ITEM
    scanner = Scanner(data, "f.ffs")
    item, following = scanner.items()
    assert following.kind is ItemKind.FORMAT
    with pytest.raises(PbioError) as caught:
        Scanner(data, "f.ffs").format_of(item)
    assert (caught.value.code, caught.value.offset) == ("PBIO_UNKNOWN_FORMAT", 4)


def test_walks_a_part() -> None:
    items, _ = scan(sample())
    scanner = Scanner(sample())
    assert list(scanner.items(stop=items[7].offset)) == items[:7]
    assert list(scanner.items(stop=items[9].offset + 1)) == items[7:10]
    assert list(scanner.items()) == items[10:]


def test_a_bp_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "run.bp"
    folder.mkdir()
    (folder / "md.idx").write_bytes(bytes(64))
    with pytest.raises(PbioError, match=r"PBIO_NOT_FFS.*ADIOS2 BP folder"):
        open_file(folder)


def test_errors_survive_pickling() -> None:
    _, error = scan(sample()[:-1])
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, TruncatedError)
    assert str(again) == str(error)


@pytest.mark.parametrize("indexed", [False, True])
def test_writes_into_a_path(tmp_path: Path, indexed: bool) -> None:
    path = tmp_path / "f.ffs"
    with FileWriter(path, indexed=indexed) as writer:
        writer.data(POINT, {"x": 1, "y": 2.0})
    with FileWriter(path, indexed=indexed, append=True) as writer:
        writer.data(POINT, {"x": 2, "y": 3.0})
    kinds = [item.kind for item in scan(path.read_bytes())[0] if item.kind is not ItemKind.INDEX]
    assert kinds == [ItemKind.FORMAT, ItemKind.DATA, ItemKind.DATA]


@pytest.mark.parametrize(
    ("start", "reason", "hint"),
    [
        (gzip.compress(MAGIC), "this is a gzip file", "decompress it first"),
        (b"ADIOS-BP v2.10", "this is a file of an ADIOS2 BP folder", "bp5"),
        (b"PAR1", "this is a Parquet file", "format parquet reads it"),
        (b"\x89HDF\r\n\x1a\n", "this is an HDF5 file", "43 56 ff a9"),
        (b"{}\n", "this looks like JSON", "pbio convert"),
        (b'\xef\xbb\xbf{"a":1}\r\n', "this looks like JSON", "format json"),
        (b'\n[\n {"a": 1}]', "this looks like a JSON array", "multiLine"),
        (b"<?xml version='1.0'?>", "this looks like XML", "format xml"),
        ("cut h\u00e9re h\u00e9".encode()[:12], "this is text, which starts with 'cut h\u00e9re h'", "43 56 ff"),
        (b"ab\0\1", "the file starts with 61 62 00 01", "43 56 ff a9"),
        (b"\n\n\n\n\n", "the file starts with 0a 0a 0a 0a", "43 56 ff a9"),
    ],
    ids=["gzip", "adios2", "parquet", "hdf5", "json", "bom", "array", "xml", "text", "bytes", "lines"],
)
def test_what_else_a_file_is_is_named(start: bytes, reason: str, hint: str) -> None:
    _, error = scan(start)
    assert error is not None
    assert (error.code, error.reason) == ("PBIO_NOT_FFS", reason)
    assert hint in (error.hint or "")


@pytest.mark.parametrize("name", ["rows.csv", "ROWS.TSV"])
def test_columns_in_text_are_named_by_the_name_of_their_file(name: str) -> None:
    with pytest.raises(PbioError, match="this looks like CSV") as caught:
        list(Scanner(b"a,b\n1,2\n", name).items())
    assert "read_csv" in (caught.value.hint or "")
