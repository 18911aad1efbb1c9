"""Attribute blocks -> the attributes at a step."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbio_spark.bp5.meta.formats import HEAD, Formats
from pbio_spark.bp5.meta.variables import NAMES, NUMBERS, STRING, field_to_variable
from pbio_spark.bp5.trouble import bad
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.wire import decode

_ARRAY = 18
"""The offset of the type code of an array attribute."""


@dataclass(frozen=True, slots=True)
class DatasetAttribute:
    """An attribute.

    Attributes:
        type: a code of `NAMES`.
        value: a number, a complex number, the bytes of a long double, or a string; for an array, a list of them.
        is_array: an array of one element is not a single value.
    """

    name: str
    type: int
    value: Any
    is_array: bool

    @property
    def type_name(self) -> str:
        return NAMES[self.type]


def parse_attributes(block: bytes, formats: Formats, order: str, file: str) -> list[DatasetAttribute]:
    """The attributes of a block. Raises PBIO_BAD_BP5, and what `Formats.get` and `decode` raise."""
    form = formats.get(block[:12])
    (length,) = struct.unpack_from(f"{order}Q", block, 12)
    if length > len(block) - HEAD:
        raise bad(f"an attribute block says that {length} bytes follow, but {len(block) - HEAD} do", file=file)
    values: Any = decode(form, block[: HEAD + length], text=None, file=file)
    if form.name == "GenericAttributes":
        _check(form, file)
        singles = values.get("PrimAttrs") or [], values.get("StrAttrs") or []
        return [_number(one, order, file) for one in singles[0]] + [_string(one, file) for one in singles[1]]
    if form.name == "Attributes":
        try:
            return _old(values, {field.name: (field.type, field.size) for field in form.structs[0].fields}, file)
        except (TypeError, ValueError) as error:
            raise bad(f"attributes of the format {form.id.hex()} make no sense: {error}", file=file) from None
    raise bad(f"the format {form.name!r} is not one of attributes", file=file)


_GENERIC = {
    "GenericAttributes": {"PrimAttrs": "PrimAttr[PrimAttrCount]", "StrAttrs": "StrAttr[StrAttrCount]"},
    "PrimAttr": {"name": "string", "Values": "char[TotalElementSize]"},
    "StrAttr": {"name": "string", "Values": "string[ElementCount]"},
}
"""The fields that are read of attributes, with their types."""


def _check(form: Format, file: str) -> None:
    """Refuse a format that has the name of a format of attributes, but not its fields."""
    structs = {struct.name: {field.name: field.type for field in struct.fields} for struct in form.structs}
    for name, fields in _GENERIC.items():
        if not fields.items() <= structs.get(name, {}).items():
            raise bad(f"the format {form.id.hex()} is not one of attributes", file=file)


def _number(one: Any, order: str, file: str) -> DatasetAttribute:
    name, code, is_array = _name(one["name"], file)
    if code not in NUMBERS:
        raise bad(f"the attribute has the type {code}", file=file, variable=name)
    kind = np.dtype(order + NUMBERS[code] if code != 11 else NUMBERS[code])
    raw = bytes(one["Values"] or [])
    if len(raw) % kind.itemsize or not (is_array or len(raw) == kind.itemsize):
        raise bad(f"the attribute has {len(raw)} bytes", file=file, variable=name)
    values = np.frombuffer(raw, kind).tolist()
    return DatasetAttribute(name, code, values if is_array else values[0], is_array)


def _string(one: Any, file: str) -> DatasetAttribute:
    name, code, is_array = _name(one["name"], file)
    values = [_text(value or b"") for value in one["Values"] or []]
    if code != STRING or not (is_array or len(values) == 1):
        raise bad("the attribute is not a string", file=file, variable=name)
    return DatasetAttribute(name, code, values if is_array else values[0], is_array)


def _name(stored: bytes | None, file: str) -> tuple[str, int, bool]:
    """Name, type and whether it is an array: the first character gives the latter two."""
    if not stored:
        raise bad("an attribute has no name", file=file)
    code = stored[0] - 48
    is_array = code > _ARRAY
    code -= _ARRAY * is_array
    if code not in NAMES:
        raise bad(f"an attribute has the unknown type mark {stored[:1]!r}", file=file)
    return _text(stored[1:]), code, is_array


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _old(values: Mapping[str, Any], fields: Mapping[str, tuple[str, int]], file: str) -> list[DatasetAttribute]:
    """The scheme of staging, and of writers without one-time attributes."""
    found = []
    for name, (type_, size) in fields.items():
        value = values.get(name)
        if name.endswith("ElemCount") or not name.startswith(("BPg_", "BPG_")):
            continue
        try:
            parts = name.split("_", 3)
            if len(parts) == 4 and parts[1].isdecimal() and parts[2].isdecimal():
                own, code = parts[3], int(parts[2])
            else:
                own, code = name[4:], field_to_variable(f"BPg_{name[4:]}", type_.partition("[")[0], size).type
        except PbioError as error:
            raise error.at(file=file) from None
        if code not in NAMES:
            raise bad(f"the attribute has the type {code}", file=file, variable=own)
        is_array = name.startswith("BPG_")
        shown = [_plain(item) for item in value or []] if is_array else _plain(value)
        found.append(DatasetAttribute(own, code, shown, is_array))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return complex(*value.values())
    return _text(value or b"") if isinstance(value, bytes) or value is None else value
