"""Items -> JSON lines: one object per comment, format, record and index block, in file order.

    {"kind": "comment", "text": ...}
    {"kind": "format", "name", "id", "body_len", "body_version", "struct": {...}, "subformats": [...]}
    {"kind": "data", "format", "id", "value", "attrs"}
    {"kind": "index", "next", "start", "last", "elements": [{"type", "fpos", "attrs"}]}
    {"kind": "index", "error": ...}        a damaged block; the records after it are not affected

Keys are in stored order. NaN and the infinities are strings; bytes that are not UTF-8 are {"$bytes": hex}. The value of
a recursive format is {"$nodes": [...]}, with the record as node 0; a pointer from a field of a recursive structure to a
structure is {"$node": k}. Nodes are numbered in order of appearance, depth first in field order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import isfinite, isnan
from typing import TypeAlias

from ecode.types import Array, Basic, Kind, Pointer, Ref, Type
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format, StructLayout
from pbio_spark.wire.attributes import Attribute, attributes_from_bytes
from pbio_spark.wire.container import Item, ItemKind, Scanner
from pbio_spark.wire.decode import VALUE_COST, decode, room_of
from pbio_spark.wire.hints.index import IndexBlock, read_block
from pbio_spark.wire.images import Value

_UNICODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_ASCII = json.JSONEncoder(separators=(",", ":"), allow_nan=False)

Json: TypeAlias = "bool | int | float | str | Mapping[str, Json] | Sequence[Json] | None"


def items_to_json(
    scanner: Scanner,
    on_bad: Callable[[Item, PbioError], None] | None = None,
    items: Iterable[Item] | None = None,
    *,
    empty: bool = False,
) -> Iterator[str]:
    """The JSON lines of the items from the position of a scanner on; errors are those of the scanner and of `decode`.

    Args:
        on_bad: receives each record that cannot be decoded, and the error; without it the error is raised.
        items: some of the scanner; otherwise all that follow.
        empty: as of `record_to_json`.
    """
    attributes: dict[tuple[int, bytes], bytes] = {}
    for item in scanner.items() if items is None else items:
        match item.kind:
            case ItemKind.COMMENT:
                yield to_text({"kind": "comment", "text": bytes_to_json(scanner.comment(item))})
            case ItemKind.FORMAT:
                yield to_text(format_to_json(scanner.formats[item.format_id]))
            case ItemKind.DATA:
                try:
                    format_ = scanner.format_of(item)
                    name, at = scanner.window.name, item.payload
                    value = record_to_json(format_, scanner.read(item), empty=empty, file=name, offset=at)
                except PbioError as error:
                    if on_bad is None:
                        raise
                    on_bad(item, error)
                    continue
                listed = attributes.get((item.offset, item.format_id), b"")
                head = to_text({"kind": "data", "format": format_.name, "id": item.format_id.hex()})
                tail = f',"attrs":{to_text(attributes_to_json(listed))}' if listed else ""
                yield f'{head[:-1]},"value":{value}{tail}}}'
            case ItemKind.INDEX:
                attributes = {}
                try:
                    block = read_block(scanner, item)
                except PbioError as error:
                    yield to_text({"kind": "index", "error": str(error)})
                    continue
                attributes = {(e.offset, e.format_id): e.attributes for e in block.entries if e.attributes}
                yield to_text(block_to_json(block))


def format_to_json(format: Format) -> Json:  # noqa: A002 - the project's word for the thing
    top, *others = (_struct_to_json(format, layout) for layout in format.structs)
    return {
        "kind": "format",
        "name": format.name,
        "id": format.id.hex(),
        "body_len": len(format.body),
        "body_version": format.body_version,
        "struct": top,
        "subformats": others,
    }


def _struct_to_json(format: Format, layout: StructLayout) -> Json:  # noqa: A002
    return {
        "name": layout.name,
        "record_length": layout.record_length,
        "byte_order": format.byte_order,
        "pointer_size": format.pointer_size,
        "float_format": format.float_format,
        "alignment": layout.alignment,
        "column_major": int(format.column_major),
        "variant": format.is_variant_struct(layout.name),
        "fields": [[field.name, field.type, field.size, field.offset] for field in layout.fields],
        "opt_info": [
            {"type": f"{block.type:#010x}", "len": len(block.data), "hex": block.data.hex()}
            for block in layout.opt_info
        ],
    }


def block_to_json(block: IndexBlock) -> Json:
    elements: list[Json] = []
    for entry in block.entries:
        element: dict[str, Json] = {"type": "data" if entry.is_data else "format", "fpos": entry.offset}
        if entry.attributes:
            element["attrs"] = attributes_to_json(entry.attributes)
        elements.append(element)
    return {"kind": "index", "next": block.next, "start": block.first, "last": block.last, "elements": elements}


def attributes_to_json(listed: bytes) -> Json:
    """The attributes as JSON; the bytes of a malformed list, as in a damaged index."""
    try:
        return [{"atom": a.atom, "type": a.type, "value": _attribute_value(a)} for a in attributes_from_bytes(listed)]
    except PbioError:
        return {"$bytes": listed.hex()}


def _attribute_value(attribute: Attribute) -> Json:
    match attribute.type, attribute.value:
        case "string", bytes(text):
            return bytes_to_json(text)
        case _, bytes(data):
            return {"$bytes": data.hex()}
        case _, float(number):
            return float_to_json(number)
        case _, number:
            return number


def record_to_json(
    format: Format,  # noqa: A002
    record: bytes,
    *,
    empty: bool = False,
    file: str | None = None,
    offset: int = 0,
) -> str:
    """The JSON text of one encoded record's value.

    Args:
        empty: whether an array without elements is `[]`, as in tables, and not `null`, as in C.

    Raises:
        PbioError: those of `decode`, and PBIO_RECORD_EXPANDS if shared arrays, or arrays that contain themselves,
            would repeat too often.
    """
    values = decode(format, record, text=None, empty=empty, file=file, offset=offset)
    try:
        return _ValueText(format, room_of(len(record)) // VALUE_COST).text(values)
    except PbioError as error:
        raise error.at(file=file, offset=offset, format=format.name) from None


class _ValueText:
    """Writes the text of one value, with an explicit stack, because values may be nested deeply."""

    def __init__(self, format: Format, room: int) -> None:  # noqa: A002
        self.format = format
        self.room = room
        self.lists: set[int] = set()
        self.nodes: dict[int, int] = {}
        self.pieces: list[list[str]] = []
        # The next at the end: its text, and either a piece of it or a value with its type and whether it belongs to a
        # field whose pointers are nodes.
        self.todo: list[tuple[list[str], str] | tuple[list[str], Type, Value, bool]] = []
        self.keys = _keys(format)

    def text(self, values: dict[str, Value]) -> str:
        self.node(values, Ref(self.format.name))
        while self.todo:
            match self.todo.pop():
                case text, str(piece):
                    text.append(piece)
                case text, type_, value, shares:
                    self.value(text, type_, value, shares)
        pieces = ["".join(text) for text in self.pieces]
        return f'{{"$nodes":[{",".join(pieces)}]}}' if self.format.is_recursive(self.format.name) else pieces[0]

    def node(self, value: dict[str, Value], type_: Type) -> int:
        """The number of a node; a new node is written next, before what follows it."""
        number = self.nodes.setdefault(id(value), len(self.nodes))
        if number == len(self.pieces):
            self.pieces.append([])
            self.todo.append((self.pieces[number], type_, value, False))
        return number

    def value(self, text: list[str], type_: Type, value: Value, shares: bool) -> None:
        while isinstance(type_, Pointer):
            type_ = type_.target
            if shares and isinstance(type_, Ref) and isinstance(value, dict):
                text.append(f'{{"$node":{self.node(value, type_)}}}')
                return
        match type_, value:
            case Array(element, dims), list():
                self.spend(value)
                inner = Array(element, dims[1:]) if dims[1:] else element
                self.todo.append((text, "]"))
                for part in reversed(value[1:]):
                    self.todo += ((text, inner, part, shares), (text, ","))
                self.todo += [(text, inner, value[0], shares)] if value else []
                self.todo.append((text, "["))
            case Ref(name), dict():
                shares = self.format.is_recursive(name)
                self.todo.append((text, "}" if self.keys[name] else "{}"))
                for (key, inner), part in zip(reversed(self.keys[name]), reversed(value.values()), strict=True):
                    self.todo += ((text, inner, part, shares), (text, key))
            case Basic(Kind.STRING), bytes(characters):
                text.append(to_text(bytes_to_json(characters)))
            case _, bytes(image):
                text.append(to_text({"$bytes": image.hex()}))
            case _, float(number) if isfinite(number):
                text.append(repr(number))
            case _, float(number):
                text.append(to_text(float_to_json(number)))
            case _, None | bool() | int() as scalar:
                text.append(to_text(scalar))

    def spend(self, value: list[Value]) -> None:
        """Lets a list repeat only while there is room: it may be part of itself."""
        if id(value) in self.lists:
            self.room -= 1 + len(value)
            if self.room < 0:
                raise PbioError(
                    "PBIO_RECORD_EXPANDS",
                    "arrays that repeat or contain themselves cannot be shown as text",
                    hint="read them as columns",
                )
        self.lists.add(id(value))


@lru_cache(maxsize=128)
def _keys(format: Format) -> dict[str, tuple[tuple[str, Type], ...]]:  # noqa: A002
    """For each structure, the text before the value of each field, and the type of the field."""
    return {
        struct.name: tuple(
            (f"{',' if position else '{'}{to_text(field.name)}:", field.type)
            for position, field in enumerate(f for f in struct.fields if f.name not in unseen)
        )
        for struct in format.record.structs
        for unseen in (struct.null_marks,)
    }


def float_to_json(number: float) -> float | str:
    """
    >>> float_to_json(float("-inf")), float_to_json(2.0)
    ('-Infinity', 2.0)
    """
    if isfinite(number):
        return number
    return "NaN" if isnan(number) else "Infinity" if number > 0 else "-Infinity"


def bytes_to_json(characters: bytes) -> Json:
    r"""
    >>> bytes_to_json(b"text"), bytes_to_json(b"\xff")
    ('text', {'$bytes': 'ff'})
    """
    try:
        return characters.decode()
    except UnicodeDecodeError:
        return {"$bytes": characters.hex()}


def to_text(value: Json) -> str:
    """Compact JSON. Text stays as it is, except names with bytes that are not UTF-8."""
    text = _UNICODE.encode(value)
    return text if text.isascii() or _is_unicode(text) else _ASCII.encode(value)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
