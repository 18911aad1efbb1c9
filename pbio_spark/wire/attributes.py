"""Attribute lists (ffs-wire-format 3.3): named values that indexed files attach to records."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from pbio_spark.errors import PbioError
from pbio_spark.formats.body.lookup3 import atom

AttributeType: TypeAlias = Literal["int4", "int8", "string", "opaque", "atom", "float8"]
CODES: Mapping[AttributeType, int] = {"int4": 1, "int8": 2, "string": 3, "opaque": 4, "atom": 5, "float8": 8}
TYPES = {code: type_ for type_, code in CODES.items()}
FIXED: Mapping[AttributeType, str] = {"int4": "i", "int8": "q", "atom": "i", "float8": "d"}


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: the hash of its name (signed, 32 bits), its type on the wire, and its value.

    The value of a string is its bytes without the NUL; an opaque value is bytes; other values are numbers.
    """

    atom: int
    type: AttributeType
    value: int | float | bytes


def attribute(name: str, value: int | float | str | bytes) -> Attribute:
    """An attribute of the type that fits the value: int4 or int8, float8, string or opaque.

    >>> attribute("who", "me")
    Attribute(atom=117257728, type='string', value=b'me')
    """
    match value:
        case str():
            return Attribute(atom(name), "string", value.encode())
        case bytes():
            return Attribute(atom(name), "opaque", value)
        case float():
            return Attribute(atom(name), "float8", value)
        case _:
            return Attribute(atom(name), "int4" if -(1 << 31) <= value < 1 << 31 else "int8", value)


def attributes_to_bytes(attributes: Iterable[Attribute], byte_order: Literal["little", "big"]) -> bytes:
    """The list as stored in an index entry; integers first, each group by ascending atom.

    Raises:
        PbioError: PBIO_BAD_ATTRIBUTES if a value does not fit its type, a name appears twice, or there are too many.
    """
    order = ">" if byte_order == "big" else "<"
    ordered = sorted(attributes, key=lambda a: (a.type != "int4", a.atom))
    if len({a.atom for a in ordered}) < len(ordered):
        _fail("two attributes have the same name")
    ints = sum(a.type == "int4" for a in ordered)
    if max(ints, len(ordered) - ints) > 255:
        _fail("more than 255 attributes of one kind")
    out = bytearray((byte_order == "big", ints, len(ordered) - ints, 0))
    for a in ordered:
        try:
            out += struct.pack(order + "i", a.atom)
            if a.type != "int4":
                out += struct.pack(order + "i", CODES[a.type])
            if a.type in FIXED:
                out += struct.pack(order + FIXED[a.type], a.value)
            elif isinstance(a.value, bytes):
                data = a.value + b"\0" if a.type == "string" else a.value
                out += struct.pack(order + "h", len(data)) + data + bytes(-(len(data) + 2) % 4)
            else:
                _fail(f"{a.value!r} is not of type {a.type}")
        except struct.error as error:
            _fail(f"{a.value!r} is not of type {a.type}: {error}")
    return bytes(out)


def attributes_from_bytes(data: bytes) -> tuple[Attribute, ...]:
    """The attributes of a list in stored order; PBIO_BAD_ATTRIBUTES if the bytes are not exactly one list."""
    if len(data) < 4 or data[0] > 1:
        _fail(f"an attribute list cannot start with {data[:4].hex(' ')}")
    order = ">" if data[0] else "<"
    found: list[Attribute] = []
    at = 4
    try:
        for _ in range(data[1]):
            name, value = struct.unpack_from(order + "ii", data, at)
            found.append(Attribute(name, "int4", value))
            at += 8
        for _ in range(data[2]):
            name, code = struct.unpack_from(order + "ii", data, at)
            type_ = TYPES.get(code)
            at += 8
            if type_ is None or type_ == "int4":
                _fail(f"an attribute of type code {code} cannot be here")
            elif type_ in FIXED:
                (value,) = struct.unpack_from(order + FIXED[type_], data, at)
                at += struct.calcsize(FIXED[type_])
            else:
                (length,) = struct.unpack_from(order + "h", data, at)
                value = data[at + 2 : at + 2 + length]
                if length < 0 or len(value) < length:
                    _fail(f"an attribute of {length} bytes does not fit into the list")
                if type_ == "string":
                    if not value.endswith(b"\0"):
                        _fail("a string attribute does not end with NUL")
                    value = value[:-1]
                at += (2 + length + 3) & ~3
            found.append(Attribute(name, type_, value))
    except struct.error:
        _fail(f"the list ends inside an attribute, at byte {at} of {len(data)}")
    if at != len(data):
        _fail(f"the list takes {at} bytes, but {len(data)} are given")
    return tuple(found)


def _fail(reason: str) -> NoReturn:
    raise PbioError("PBIO_BAD_ATTRIBUTES", reason)
