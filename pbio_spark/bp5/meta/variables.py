"""Field names of metadata formats -> the variables that they carry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from pbio_spark.bp5.trouble import VERIFY
from pbio_spark.errors import PbioError

INTEGERS = {1: "i1", 2: "i2", 3: "i4", 4: "i8", 5: "u1", 6: "u2", 7: "u4", 8: "u8"}
NUMBERS = {**INTEGERS, 9: "f4", 10: "f8", 11: "V16", 12: "c8", 13: "c16", 15: "i1"}
"""Type codes -> numpy's names, without the byte order. A long double is 16 bytes that depend on the machine."""

STRING, STRUCTURE = 14, 16

NAMES = {
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "uint8",
    6: "uint16",
    7: "uint32",
    8: "uint64",
    9: "float",
    10: "double",
    11: "long double",
    12: "float complex",
    13: "double complex",
    14: "string",
    15: "char",
    16: "struct",
}
"""Type codes -> names for people."""


class Shape(StrEnum):
    """How the values of a variable belong together."""

    VALUE = "global value"
    LOCAL_VALUE = "local value"
    ARRAY = "global array"
    LOCAL_ARRAY = "local array"
    JOINED_ARRAY = "joined array"


_ARRAYS = {"G": Shape.ARRAY, "L": Shape.LOCAL_ARRAY, "J": Shape.JOINED_ARRAY}
_PLAIN = re.compile(r"BP([GLJ])_(\d{1,10})_(\d{1,3})_(.*)", re.DOTALL)
_STRUCTURE = re.compile(r"([0-9a-fA-F]{24})_(.*)", re.DOTALL)
_DERIVED = re.compile(r"BP([GLJ])-(\d{1,6})-", re.DOTALL)
_REST = re.compile(r"-(\d{1,10})_(\d{1,3})_(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, as one format has it.

    Attributes:
        name: as the writer gave it.
        type: a code of `NAMES`.
        size: of an element, in bytes; 0 for strings.
        structure: of an array of structures the ID of their format.
    """

    name: str
    shape: Shape
    type: int
    size: int
    structure: bytes = b""

    @property
    def is_array(self) -> bool:
        return self.shape not in (Shape.VALUE, Shape.LOCAL_VALUE)

    @property
    def type_name(self) -> str:
        return NAMES[self.type]


def field_to_variable(name: str, ffs_type: str, size: int) -> Variable:
    """The variable of a field of the main structure.

    Args:
        name, ffs_type, size: of the field.

    Raises PBIO_BAD_BP5, and PBIO_UNSUPPORTED_BP5 for fields of early BP5.

    >>> field_to_variable("BPg_a b", "integer", 4)
    Variable(name='a b', shape=<Shape.VALUE: 'global value'>, type=3, size=4, structure=b'')
    >>> field_to_variable("BPG_8_10_x", "MetaArrayMM8", 64).type_name
    'double'
    """
    if name.startswith(("BPg_", "BPl_")):
        shape = Shape.VALUE if name[2] == "g" else Shape.LOCAL_VALUE
        return Variable(name[4:], shape, *scalar_type(ffs_type, size, name))
    match = _PLAIN.fullmatch(name)
    if match is None and (derived := _DERIVED.match(name)) is not None:
        rest = _REST.fullmatch(name, derived.end() + int(derived[2]))
        match = None if rest is None else _PLAIN.fullmatch(f"BP{derived[1]}_{rest[1]}_{rest[2]}_{rest[3]}")
    if match is None:
        raise PbioError("PBIO_BAD_BP5", "the field's name does not carry a variable", field=name, hint=VERIFY)
    if not ffs_type.startswith("MetaArray"):
        raise PbioError(
            "PBIO_UNSUPPORTED_BP5",
            f"an array of type {ffs_type!r} is of the BP5 of 2022, before ADIOS2 2.9",
            field=name,
            hint="write it again with ADIOS2 2.9 or later",
        )
    shape, size, code, rest_of = _ARRAYS[match[1]], int(match[2]), int(match[3]), match[4]
    if code == STRUCTURE and (inner := _STRUCTURE.fullmatch(rest_of)) is not None:
        return Variable(inner[2], shape, code, size, bytes.fromhex(inner[1]))
    if code not in NUMBERS or int(NUMBERS[code][1:]) != size:
        raise PbioError(
            "PBIO_BAD_BP5", f"an array has elements of type {code} with {size} bytes", field=name, hint=VERIFY
        )
    return Variable(rest_of, shape, code, size)


_KINDS = {"integer": 0, "unsigned integer": 4}
_CODES = {1: 1, 2: 2, 4: 3, 8: 4}


def scalar_type(ffs_type: str, size: int, name: str) -> tuple[int, int]:
    """The type code and size of a field that holds the value itself."""
    if ffs_type in _KINDS and size in _CODES:
        return _KINDS[ffs_type] + _CODES[size], size
    if ffs_type in ("float", "double") and size in (4, 8, 16):
        return {4: 9, 8: 10, 16: 11}[size], size
    if ffs_type == "string":
        return STRING, 0
    if ffs_type in ("complex4", "complex8"):
        return (12, 8) if ffs_type == "complex4" else (13, 16)
    raise PbioError("PBIO_BAD_BP5", f"a scalar has the type {ffs_type!r} with {size} bytes", field=name, hint=VERIFY)
