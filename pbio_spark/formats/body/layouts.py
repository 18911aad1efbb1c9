"""Format bodies: the bytes that describe a top-level structure and all it uses (ffs-wire-format 5.1 to 5.4).

`body_to_layouts` follows the offsets of a body, and trusts none; `layouts_to_body` writes the canonical arrangement,
from which format IDs are computed. `layouts_to_record` checks whether the structures make sense.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Never

from pbio_spark.errors import PbioError
from pbio_spark.formats.body.struct_layout import FieldLayout, OptInfo, StructLayout
from pbio_spark.formats.machine import ByteOrder

MAX_BODY: Final = 16 * 1024 * 1024
"""The longest accepted body, in bytes; real ones have at most about 100 KB."""

_MARKS: Final[tuple[ByteOrder, ByteOrder]] = ("little", "big")
_HEADER: Final = struct.Struct(">HBBBBH")
_OPT_INFO: Final = 12


@dataclass(frozen=True, slots=True)
class Layouts:
    """The content of a body: its structures, the top one first, and what they have in common."""

    structs: tuple[StructLayout, ...]
    byte_order: ByteOrder
    pointer_size: int
    float_format: int
    column_major: bool
    version: int


@dataclass(frozen=True, slots=True)
class _Head:
    """The fixed part of a sub-body of any version."""

    length: int
    version: int
    byte_order: ByteOrder
    name: int
    fields: int
    record_length: int
    pointer_size: int
    float_format: int
    opt_info: int
    column_major: int
    alignment: int

    @property
    def common(self) -> tuple[object, ...]:
        """The properties that all structures of a body must share."""
        return self.byte_order, self.pointer_size, self.float_format, bool(self.column_major)


def body_length(start: bytes) -> int | None:
    """How many bytes a body has that starts with these, by its own words; None if no body starts so.

    >>> body_length(bytes.fromhex("006c000200000000006402003c000000"))
    108
    """
    if len(start) < _HEADER.size + 4:
        return None
    low, mark, version, _, _, high = _HEADER.unpack_from(start)
    if mark > 1 or version > 2 or start[10] != version or start[11] & 1 != mark:
        return None
    length = int(low if version == 0 else low | high << 16)
    first = int.from_bytes(start[_HEADER.size : _HEADER.size + 2])
    return length if _HEADER.size < length <= MAX_BODY and first <= length - _HEADER.size else None


def body_to_layouts(body: bytes) -> Layouts:
    """The structures of a body, in time and memory proportional to its length. Raises PBIO_BAD_BODY."""
    if len(body) > MAX_BODY:
        _bad(f"the body has {len(body)} bytes, more than the {MAX_BODY} allowed", 0)
    if len(body) < _HEADER.size:
        _bad(f"the body has {len(body)} bytes, but its header alone needs {_HEADER.size}", 0)
    low, mark, version, subformats, _, high = _HEADER.unpack_from(body)
    if version > 2:
        _bad(f"the body version is {version}; versions 0, 1 and 2 are known", 3)
    if mark > 1:
        _bad(f"the byte-order mark is {mark}, not 0 or 1", 2)
    length = low if version == 0 else low | high << 16
    if length != len(body):
        _bad(f"the body says that it has {length} bytes, but it has {len(body)}", 0)
    position = _HEADER.size
    heads: list[_Head] = []
    structs: list[StructLayout] = []
    for _ in range(subformats + 1):
        head = _read_head(body, position)
        if head.byte_order != _MARKS[mark] or head.common != (heads or [head])[0].common:
            _bad("structures disagree on byte order, pointer size, float format or array order", position)
        structs.append(_SubBody(body[position : position + head.length], position, head).layout())
        heads.append(head)
        position += head.length
    if position != len(body):
        _bad(f"{len(body) - position} bytes follow the last structure", position)
    top = heads[0]
    return Layouts(
        tuple(structs), top.byte_order, top.pointer_size, top.float_format, bool(top.column_major), top.version
    )


def _read_head(body: bytes, start: int) -> _Head:
    room = len(body) - start
    if room < 20:
        _bad("a structure is missing", start)
    version, mark = body[start + 2], body[start + 3] & 1
    order = "<>"[mark]
    if version == 0:
        (length,) = struct.unpack_from(">H", body, start)
        pointer, size, name, fields, floats, record_length, opt_info, column_major, alignment = struct.unpack_from(
            f"{order}BBHHHiHBB", body, start + 4
        )
    elif version <= 2:
        if room < 28:
            _bad("the head of a structure is truncated", start)
        low, high = struct.unpack_from(">H22xH", body, start)
        length = low | high << 16
        name, fields, record_length, pointer, size, floats, opt_low, column_major, alignment, opt_high = (
            struct.unpack_from(f"{order}IIiBBHHBB2xH", body, start + 4)
        )
        opt_info = opt_low | opt_high << 16
    else:
        _bad(f"the version of a structure is {version}; versions 0, 1 and 2 are known", start + 2)
    fixed, entry = _sizes(version)
    if length % 4 or not fixed <= length <= room:
        _bad(f"a structure has {length} bytes, but {room} are left", start)
    if size < fixed:
        _bad(f"a head has {size} bytes, but its version needs {fixed}", start)
    if fixed + fields * entry > length:
        _bad(f"{fields} fields do not fit into a structure of {length} bytes", start)
    if pointer not in (4, 8):
        _bad(f"the pointer size is {pointer} bytes", start)
    if floats > 3:
        _bad(f"the float format is {floats}; formats 0 to 3 are known", start)
    if record_length < 0:
        _bad(f"the record length is {record_length}", start)
    return _Head(
        length, version, _MARKS[mark], name, fields, record_length, pointer, floats, opt_info, column_major, alignment
    )


def _sizes(version: int) -> tuple[int, int]:
    """Bytes of the head and of a field entry."""
    return (20, 12) if version == 0 else (28, 16)


@dataclass(slots=True)
class _SubBody:
    """One structure's bytes, whose offsets count from its own start.

    Strings and blocks may be shared, but together they may not be longer than the structure's bytes: a small body whose
    entries all point into one long string must not become gigabytes. They are bytes, not a memoryview: if an
    error's traceback keeps an iterator over a memoryview, Python's garbage collection crashes.
    """

    data: bytes
    start: int
    head: _Head

    def layout(self) -> StructLayout:
        version, order = self.head.version, "<>"[self.head.byte_order == "big"]
        fixed, size = _sizes(version)
        entry = struct.Struct(order + ("HHii" if version == 0 else "IIii"))
        entries = entry.iter_unpack(self.data[fixed : fixed + self.head.fields * size])
        strings = _Strings(self.data, self.start)
        fields = []
        for name, type_, field_size, offset in entries:
            if field_size < 0 or offset < 0:
                _bad(f"a field has size {field_size} at offset {offset}", self.start)
            fields.append(FieldLayout(strings.at(name), strings.at(type_), field_size, offset))
        name = strings.at(self.head.name)
        return StructLayout(name, tuple(fields), self.head.record_length, self.head.alignment, self._opt_info(order))

    def _opt_info(self, order: str) -> tuple[OptInfo, ...]:
        entry = struct.Struct(f"{order}III")
        position = self.head.opt_info
        blocks: list[OptInfo] = []
        room = len(self.data)
        while position:
            if position + entry.size > len(self.data):
                _bad("the opt-info table is not terminated", self.start + min(position, len(self.data)))
            type_, length, offset = entry.unpack_from(self.data, position)
            if type_ == 0:
                break
            room -= length
            if offset + length > len(self.data) or room < 0:
                _bad("an opt-info block is outside its structure", self.start + position)
            blocks.append(OptInfo(type_, self.data[offset : offset + length]))
            position += entry.size
        return tuple(blocks)


class _Strings:
    """The NUL-terminated strings of a sub-body, each offset read once."""

    __slots__ = ("_data", "_room", "_seen", "_start")

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._start = start
        self._room = len(data)
        self._seen: dict[int, str] = {}

    def at(self, offset: int) -> str:
        known = self._seen.get(offset)
        if known is not None:
            return known
        end = self._data.find(b"\0", offset) if offset < len(self._data) else -1
        if end < 0:
            _bad(f"offset {offset} of a structure holds no NUL-terminated string", self._start)
        self._room -= end + 1 - offset
        if self._room < 0:
            _bad("the strings of a structure overlap", self._start)
        text = self._data[offset:end].decode("utf-8", "surrogateescape")
        self._seen[offset] = text
        return text


def layouts_to_body(layouts: Layouts) -> bytes:
    """The canonical body of structures that are already in canonical order (see `registration`).

    Raises PBIO_BAD_LAYOUT for structures that a body of this version cannot hold.
    """
    subs = [_write_sub_body(s, layouts) for s in layouts.structs]
    length = _HEADER.size + sum(map(len, subs))
    limit = 0xFFFF if layouts.version == 0 else MAX_BODY
    if length > limit:
        raise PbioError(
            "PBIO_BAD_LAYOUT",
            f"the body has {length} bytes; version {layouts.version} allows {limit}",
            hint=_larger(layouts.version),
        )
    if len(subs) > 100:
        raise PbioError(
            "PBIO_BAD_LAYOUT",
            f"the format has {len(subs)} structures; 100 are allowed",
            hint="declare fewer structures: repeat one in place of several that are alike",
        )
    mark = _MARKS.index(layouts.byte_order)
    header = _HEADER.pack(length & 0xFFFF, mark, layouts.version, len(subs) - 1, 0, length >> 16)
    return header + b"".join(subs)


def _write_sub_body(layout: StructLayout, layouts: Layouts) -> bytes:
    version, mark = layouts.version, _MARKS.index(layouts.byte_order)
    order = "<>"[mark]
    fixed, entry_size = _sizes(version)
    strings = bytearray()
    strings_at = fixed + len(layout.fields) * entry_size

    def add(text: str) -> int:
        raw = _encode(text)
        offset = strings_at + len(strings)
        strings.extend(raw + b"\0")
        return offset

    name = add(layout.name)
    rows = [(add(f.name), add(f.type), f.size, f.offset) for f in layout.fields]
    strings.extend(bytes(-(strings_at + len(strings)) % 4))
    table_at = strings_at + len(strings)
    block_at = table_at + _OPT_INFO * (len(layout.opt_info) + 1)
    table, blocks = bytearray(), bytearray()
    for info in layout.opt_info:
        table += struct.pack(f"{order}III", info.type, len(info.data), block_at + len(blocks))
        blocks += info.data + bytes(-len(info.data) % 4)
    table += bytes(_OPT_INFO)
    length = block_at + len(blocks)
    try:
        entries = b"".join(struct.pack(order + ("HHii" if version == 0 else "IIii"), *row) for row in rows)
        head = _pack_head(layout, layouts, name, length, table_at)
    except struct.error as error:
        raise PbioError(
            "PBIO_BAD_LAYOUT",
            f"a body of version {version} cannot hold the structure: {error}",
            format=layout.name,
            hint=_larger(version),
        ) from None
    return head + entries + bytes(strings) + bytes(table) + bytes(blocks)


def _pack_head(layout: StructLayout, layouts: Layouts, name: int, length: int, opt_info: int) -> bytes:
    mark, version, pointer = _MARKS.index(layouts.byte_order), layouts.version, layouts.pointer_size
    order, fields, floats = "<>"[mark], len(layout.fields), layouts.float_format
    if version == 0:
        return struct.pack(">HBB", length, version, mark) + struct.pack(
            f"{order}BBHHHiHBB",
            *(pointer, 20, name, fields, floats, layout.record_length, opt_info),
            *(layouts.column_major, layout.alignment),
        )
    return (
        struct.pack(">HBB", length & 0xFFFF, version, mark)
        + struct.pack(
            f"{order}IIiBBHHBB",
            *(name, fields, layout.record_length, pointer, 28, floats),
            *(opt_info & 0xFFFF, layouts.column_major, layout.alignment),
        )
        + struct.pack(">H", length >> 16)
        + struct.pack(f"{order}H", opt_info >> 16)
    )


def _encode(text: str) -> bytes:
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise PbioError(
            "PBIO_BAD_LAYOUT", f"the name {text[:60]!r} is not valid text", hint="use characters of UTF-8"
        ) from None
    if b"\0" in raw:
        raise PbioError("PBIO_BAD_LAYOUT", f"the name {text[:60]!r} contains a NUL", hint="leave the character out")
    return raw


def _larger(version: int) -> str:
    return "split the record type" if version == 2 else "use body_version=2, or split the record type"


def _bad(reason: str, offset: int) -> Never:
    raise PbioError(
        "PBIO_BAD_BODY",
        f"{reason} (byte {offset} of the format body)",
        hint="get the format again from its sender or its format server: a body is bytes, as `Format.body` has them",
    )
