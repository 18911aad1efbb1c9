"""`pbio hexdump`: the bytes at one place of a file, and their meaning if it is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from ecode.types import Array, Basic, Kind, Pointer
from pbio_spark.cli.console import OneFile, items, printable, report, scanner_of
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.wire import Item, ItemKind, Scanner
from pbio_spark.wire.images import FieldImage, images_of

ROW = 16


@dataclass(frozen=True, slots=True)
class ByteRun:
    """A run of bytes with one meaning; both ends are offsets in the file."""

    start: int
    end: int
    meaning: str = ""


def hexdump(
    file: OneFile,
    at: Annotated[str, typer.Option("--at", metavar="OFFSET", help="An offset in the file, decimal or 0x...")] = "0",
    length: Annotated[int, typer.Option("--length", "-n", min=1, help="Bytes to show.")] = 256,
) -> None:
    """Show the bytes at an offset, such as that of an error, and their meaning.

    \b
    Example:
      pbio hexdump --at 4 readings.ffs
    """
    offset = _offset(at)
    with scanner_of(file) as scanner:
        size = scanner.window.size()
        if not 0 <= offset < size:
            raise typer.BadParameter(f"offset {offset} is beyond the file, which has {size} bytes")
        item, damage = None, None
        try:
            item = next((item for item in items(scanner) if item.offset <= offset < item.end), None)
        except PbioError as error:
            damage = error
        parts = [ByteRun(0, size)] if item is None else list(_parts(scanner, item))
        if item is not None:
            print(_title(scanner, item))
        for line in _lines(scanner, parts, offset, length):
            print(line)
        if damage is not None:
            report(damage)
            raise typer.Exit(1)


def _offset(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not an offset") from None


def _lines(scanner: Scanner, parts: list[ByteRun], at: int, length: int) -> Iterator[str]:
    """Rows of up to 16 bytes, beginning with the row that holds `at`, which is marked."""
    stop = at + length
    for part in parts:
        for start in range(part.start, min(part.end, stop), ROW):
            end = min(start + ROW, part.end)
            if end <= at:
                continue
            data = scanner.window.read(start, end - start)
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
            mark = ">" if start <= at < end else " "
            meaning = part.meaning if start == part.start or start <= at < end else ""
            yield f"{mark}{start:08x}  {data.hex(' '):47}  {text:16}  {printable(meaning)}".rstrip()


def _title(scanner: Scanner, item: Item) -> str:
    where = f"at offset {item.offset}, {item.end - item.offset} bytes"
    match item.kind:
        case ItemKind.DATA:
            format_ = scanner.formats.get(item.format_id)
            name = "an unknown format" if format_ is None else f"{printable(format_.name)} ({format_.machine})"
            return f"record {item.ordinal} {where}, of {name}"
        case ItemKind.FORMAT:
            return f"format {printable(scanner.formats[item.format_id].name)} {where}"
        case ItemKind.COMMENT:
            return f"comment {where}"
        case ItemKind.INDEX:
            return f"index block {where}"


def _parts(scanner: Scanner, item: Item) -> Iterator[ByteRun]:
    match item.kind:
        case ItemKind.DATA:
            yield ByteRun(item.offset, item.payload, f"item head: record of {item.length} bytes")
            format_ = scanner.formats.get(item.format_id)
            if format_ is None:
                yield ByteRun(item.payload, item.end, "a record of an unknown format")
            else:
                yield from _record_parts(scanner, item, format_)
        case ItemKind.FORMAT:
            head = item.payload - len(item.format_id)
            yield ByteRun(item.offset, head, f"item head: format body of {item.length} bytes")
            yield ByteRun(head, item.payload, "format ID")
            yield ByteRun(item.payload, item.end, "format body")
        case ItemKind.COMMENT | ItemKind.INDEX:
            yield ByteRun(item.offset, item.payload, f"item head: {item.length} bytes")
            yield ByteRun(item.payload, item.end, "text" if item.kind is ItemKind.COMMENT else "block")


def _record_parts(scanner: Scanner, item: Item, format_: Format) -> Iterator[ByteRun]:
    base = min(item.payload + format_.header_size, item.end)
    id_end = item.payload + len(format_.id)
    yield ByteRun(item.payload, id_end, "format ID")
    if id_end < base:
        yield ByteRun(id_end, base, "record length" if format_.is_variant else "padding")
    images, data, here = images_of(format_), scanner.read(item)[format_.header_size :], base
    for field in sorted(images.top.fields, key=lambda f: f.offset):
        start, end = base + field.offset, base + field.offset + images.size(field.type)
        if end > item.end:
            break
        if here < start:
            yield ByteRun(here, start, "padding")
        yield ByteRun(start, end, f"{field.name}: {field.type}{_value(format_, field, data, base)}")
        here = end
    if here < item.end:
        yield ByteRun(here, item.end, "targets of the record's pointers" if format_.is_variant else "padding")


def _value(format_: Format, field: FieldImage, data: bytes, base: int) -> str:
    """The value of a number, or the target of a pointer in the file."""
    images = images_of(format_)
    match field.type:
        case Basic(Kind.STRING) | Pointer():
            pass
        case Array() as array if array.is_dynamic:
            pass
        case Basic() as basic:
            return f" = {images.read_numbers(basic, data, field.offset, 1)[0]!r}"
        case _:
            return ""
    target = images.pointer(data, field.offset)
    return f" -> 0x{base + target:x}" if target else " -> null"
