"""Record types as JSON, short enough to be typed into an option.

The first structure is the record, the others are those that it mentions; types are written as they are printed.

    >>> load = json_to_record('{"Load": {"n": "int32", "hosts": "host[n]"}, "host": {"id": "string", "up": "*uint8"}}')
    >>> print(load)
    Load {
      n: int32
      hosts: host[n]
    }
    host {
      id: string
      up: *uint8
    }
    >>> json_to_record(record_to_json(load)) == load
    True
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ecode.suggest import did_you_mean
from ecode.types import STRING, Array, Basic, Field, Kind, Notes, Pointer, Record, Ref, Struct, Type
from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.type_string import SIZES

BASICS: dict[str, Basic] = {
    str(basic): basic for kind, sizes in SIZES.items() for basic in (Basic(kind, size) for size in sizes)
} | {"string": STRING, "boolean": Basic(Kind.BOOLEAN, 1), "enumeration": Basic(Kind.ENUMERATION, 4)}

_DIMS = re.compile(r"(.*?)((?:\[[^\[\]]+\])+)", re.DOTALL)
_DEEPEST = 20


def record_to_json(record: Record) -> str:
    """The JSON of a record type; of notes, only defaults are kept, as `[type, default]`."""
    return json.dumps(
        {
            struct.name: {
                f.name: str(f.type) if f.notes.default is None else [str(f.type), f.notes.default]
                for f in struct.fields
            }
            for struct in record.structs
        }
    )


def json_to_record(text: str | Mapping[str, Any]) -> Record:
    """The record type of a JSON text, or of what `json.loads` made of it. Raises PBIO_BAD_TYPE."""
    try:
        parsed = json.loads(text) if isinstance(text, str) else text
    except ValueError as error:
        _bad(f"it is no JSON: {error}", "$")
    if not isinstance(parsed, dict) or not parsed:
        _bad("it is no object of structures", "$")
    structs = [_struct(name, fields, parsed) for name, fields in parsed.items()]
    record = Record(tuple(structs))
    record_to_format(record)  # which refuses what no format could be: unknown counts, structures without end
    return record.subrecord(record.name)


def _struct(name: str, fields: Any, structs: Mapping[str, Any]) -> Struct:
    if not isinstance(fields, dict):
        _bad("a structure is an object of fields", f"$.{name}")
    made = []
    for field, what in fields.items():
        path = f"$.{name}.{field}"
        type_, default = what if isinstance(what, list) and len(what) == 2 else (what, None)
        if not isinstance(type_, str) or not isinstance(default, bool | int | float | str | None):
            _bad('a field is a type, or ["type", default]', path)
        notes = Notes() if default is None else Notes(default=default)
        made.append(Field(field, _type(type_.strip(), structs, path, 0), notes))
    return Struct(name, tuple(made))


def _type(text: str, structs: Mapping[str, Any], path: str, depth: int) -> Type:
    if depth > _DEEPEST:
        _bad("the type is nested too deeply", path)
    if text.startswith("*"):
        return Pointer(_type(text[1:].strip(), structs, path, depth + 1))
    match = _DIMS.fullmatch(text)
    if match is not None:
        dims = tuple(int(dim) if dim.isdecimal() else dim for dim in match[2][1:-1].split("]["))
        return Array(_type(match[1].strip(), structs, path, depth + 1), dims)
    if text.startswith("(") and text.endswith(")"):
        return _type(text[1:-1].strip(), structs, path, depth + 1)
    if text in structs:
        return Ref(text)
    if text in BASICS:
        return BASICS[text]
    return _bad(f"there is no type {text!r}", path, did_you_mean(text, [*BASICS, *structs]))


def _bad(reason: str, path: str, hint: str = "") -> NoReturn:
    raise PbioError(
        "PBIO_BAD_TYPE", reason, field=path, hint=hint or 'such as {"Load": {"n": "int32", "values": "float64[n]"}}'
    )
