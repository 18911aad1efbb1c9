"""Record types as JSON, short enough for an option.

The first structure is the record, the others are the structures that it uses. Write types as they print, or with the
names of Spark and SQL.

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
    >>> print(json_to_record('{"Order": {"id": "bigint", "at": "timestamp", "price": "decimal(10,2)"}}'))
    Order {
      id: int64
      at: int64
      price: int64
    }

The length of an array is in a field of the structure, `n` and `float64[n]`, or in a hidden one, `float64[]`:

    >>> print(json_to_record('{"Load": {"values": "float64[]"}}'))
    Load {
      values_count: int32
      values: float64[values_count]
    }
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from ecode.json_text import DuplicateKeyError, parse_json
from ecode.suggest import did_you_mean
from ecode.types import CHAR, INT32, STRING, Array, Basic, Field, Kind, Notes, Pointer, Record, Ref, Struct, Type
from pbio_spark.errors import PbioError
from pbio_spark.formats.body.type_string import SIZES
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.spark_names import BINARY, SPARK_NAMES, spark_type

BASICS: dict[str, Basic] = {
    str(basic): basic for kind, sizes in SIZES.items() for basic in (Basic(kind, size) for size in sizes)
} | {"string": STRING, "boolean": Basic(Kind.BOOLEAN, 1), "enumeration": Basic(Kind.ENUMERATION, 4)}

ANY_LENGTH = "[]"
"""An array whose length is in a hidden field of its own, as Spark's arrays are written."""

_EMPTY = re.compile(r"\[\s*\]")
_DIMS = re.compile(r"(.*?)((?:\[[^\[\]]+\])+)", re.DOTALL)
_DEEPEST = 20


def record_to_json(record: Record) -> str:
    """The JSON of a record type. It keeps defaults, as `[type, default]`, and the logical types that Spark knows.

    How a format marks its nulls is left out. Raises PBIO_BAD_TYPE for anything but a record type.

    >>> print(record_to_json(json_to_record('{"Order": {"at": "timestamp", "prices": "decimal(20,2)[3]"}}')))
    {"Order": {"at": "timestamp", "prices": "decimal(20,2)[3]"}}
    """
    if not isinstance(record, Record):
        hint = "a format's is format.record" if hasattr(record, "record") else "parse_record makes one of JSON"
        raise PbioError("PBIO_BAD_TYPE", f"expected a record type, not {type(record).__name__}", hint=hint)
    described: dict[str, dict[str, str | list[Any]]] = {}
    for struct in record.structs:
        marks = struct.null_marks
        shown = [field for field in struct.fields if field.name not in marks]
        fields = {field.name: _type_to_text(field, struct) for field in shown}
        counts = {_count_of(name) for name, text in fields.items() if text == BINARY or ANY_LENGTH in text}
        described[struct.name] = {
            f.name: fields[f.name] if f.notes.default is None else [fields[f.name], f.notes.default]
            for f in shown
            if f.name not in counts
        }
    return json.dumps(described)


def json_to_record(text: str | Mapping[str, Any]) -> Record:
    """The record type in a JSON text, or in a value from `json.loads`. Raises PBIO_BAD_TYPE."""
    try:
        parsed = parse_json(text) if isinstance(text, str) else text
    except DuplicateKeyError as error:
        kind = "structure" if error.place == "$" else "field"
        _bad(f"duplicate {kind} {error.key!r}", error.place, "rename one, or leave it out")
    except ValueError as error:
        hint = (
            "JSON takes double quotes; in Python give the dict itself" if isinstance(text, str) and "'" in text else ""
        )
        _bad(f"the text is not JSON: {error}", "$", hint)
    if not isinstance(parsed, dict) or not parsed:
        _bad("expected a JSON object of structures", "$")
    _check_fields(parsed)
    structs = [_struct(name, fields, parsed) for name, fields in parsed.items()]
    record = Record(tuple(structs))
    record_to_format(record)  # refuses record types that no format can have: unknown counts, structures without end
    return record.subrecord(record.name)


def _type_to_text(field: Field, struct: Struct) -> str:
    """The type of a field, under Spark's name if the field's notes give its values a meaning that Spark has."""
    logical, count = field.notes.logical, _count_of(field.name)
    named = _with_spark_name(field.type, logical) if logical is not None else None
    text = str(named or field.type)
    if text.count(f"[{count}]") != 1 or not _is_counted(field, struct):
        return text
    return (
        BINARY if (logical, field.type) == (BINARY, Array(CHAR, (count,))) else text.replace(f"[{count}]", ANY_LENGTH)
    )


def _is_counted(field: Field, struct: Struct) -> bool:
    """Whether the field before it is the hidden one that `binary` or `[]` makes for its length."""
    place = struct.fields.index(field)
    return place > 0 and struct.fields[place - 1] == _hidden_count(field.name)


def _count_of(field: str) -> str:
    return f"{field}_count"


def _hidden_count(field: str) -> Field:
    return Field(_count_of(field), INT32, Notes(hidden=True))


def _with_spark_name(type_: Type, logical: str) -> Type | None:
    """The type with Spark's name for its innermost values; None if Spark has no name for them."""
    if spark_type(logical) == (type_, logical):
        return Ref(logical)
    match type_:
        case Pointer(target) if (named := _with_spark_name(target, logical)) is not None:
            return Pointer(named)
        case Array(_, (*dims, 16)) if dims and spark_type(logical) == (Array(CHAR, (16,)), logical):
            return Array(Ref(logical), tuple(dims))
        case Array(element, dims) if (named := _with_spark_name(element, logical)) is not None:
            return Array(named, dims)
    return None


def _check_fields(parsed: Mapping[str, Any]) -> None:
    """Raise PBIO_BAD_TYPE for Avro's schemas and Spark's JSON schemas, which list their fields."""
    listed = parsed.get("fields")
    if not isinstance(listed, list):
        return
    given = {str(one.get("name")): one.get("type") for one in listed if isinstance(one, dict)}
    example = {name: type_ if isinstance(type_, str) else "..." for name, type_ in given.items()}
    hint = f"name the structure, and its fields: {json.dumps({str(parsed.get('name', 'Row')): example})[:300]}"
    _bad("this lists its fields, as Avro's and Spark's schemas do", "$.fields", hint)


def _struct(name: str, fields: Any, structs: Mapping[str, Any]) -> Struct:
    if not isinstance(fields, dict):
        _bad("a structure must be an object of fields", f"$.{name}")
    made = []
    for field, what in fields.items():
        path = f"$.{name}.{field}"
        type_, default = what if isinstance(what, list) and len(what) == 2 else (what, None)
        if not isinstance(type_, str) or not isinstance(default, bool | int | float | str | None):
            _bad('a field must be a type, or ["type", default]', path, _hint_beside(name, field, what))
        text = _EMPTY.sub(ANY_LENGTH, type_.strip())
        is_binary = text.lower() == BINARY and text not in structs
        if (is_binary or ANY_LENGTH in text) and _count_of(field) not in fields:
            made.append(_hidden_count(field))
        if is_binary:
            made.append(Field(field, Array(CHAR, (_count_of(field),)), Notes(logical=BINARY, default=default)))
        else:
            made_of, logical = _type(_with_count(text, field, path), structs, path, 0)
            made.append(Field(field, made_of, Notes(logical=logical, default=default)))
    return Struct(name, tuple(made))


def _hint_beside(name: str, field: str, what: Any) -> str:
    """The description of a structure that is written inside its field."""
    if isinstance(what, type):
        return f'name the type, "{_PYTHON.get(what.__name__, "float64")}"'
    inner = what[0] if isinstance(what, list) and len(what) == 1 else what
    if isinstance(inner, str):
        return f'an array of any length is "{inner}[]"'
    if not isinstance(inner, dict):
        return ""
    own = field if field != name else f"{field}_part"
    made = {name: {field: f"{own}[]" if inner is not what else own}, own: inner}
    return f"describe the structure beside the one that holds it: {json.dumps(made)[:300]}"


def _with_count(text: str, field: str, path: str) -> str:
    """The type with the name of the hidden count field in place of an empty dimension."""
    if text.count(ANY_LENGTH) > 1:
        hint = 'put the inner array into a structure: {"grid": {"rows": "row[]"}, "row": {"values": "float64[]"}}'
        _bad(f"a field has one array of any length, and {text!r} is several", path, hint)
    return text.replace(ANY_LENGTH, f"[{_count_of(field)}]")


def _type(text: str, structs: Mapping[str, Any], path: str, depth: int) -> tuple[Type, str | None]:
    """The type that a text names, and the logical type of its values."""
    if depth > _DEEPEST:
        _bad("the type is nested too deeply", path)
    if text.startswith("*"):
        target, logical = _type(text[1:].strip(), structs, path, depth + 1)
        return Pointer(target), logical
    match = _DIMS.fullmatch(text)
    if match is not None:
        dims = tuple(int(dim) if dim.isdecimal() else dim for dim in match[2][1:-1].split("]["))
        element, logical = _type(match[1].strip(), structs, path, depth + 1)
        if logical is not None and isinstance(element, Array):  # the 16 chars of a decimal
            return Array(element.element, (*dims, *element.dims)), logical
        return Array(element, dims), logical
    if text.startswith("(") and text.endswith(")"):
        return _type(text[1:-1].strip(), structs, path, depth + 1)
    if text in structs:
        return Ref(text), None
    if text in BASICS:
        return BASICS[text], None
    return spark_type(text) or _bad(f"unknown type {text!r}", path, _hint(text, structs))


_PYTHON = {
    "str": "string",
    "text": "string",
    "int": "int64",
    "float": "float64",
    "bool": "boolean",
    "bytes": "binary",
    "datetime": "timestamp",
    "object": "string",
    "unsigned long": "uint64",
    "unsigned int": "uint32",
    "unsigned": "uint32",
    "unsigned short": "uint16",
    "unsigned char": "uint8",
    "float16": "float32",
}
"""Names of types in Python, numpy, pandas and C, and what they are called here."""


def _hint(text: str, structs: Iterable[str]) -> str:
    """What to write in place of an unknown type."""
    outer = text.lower().partition("<")[0].strip()
    if text.endswith("?") or outer in ("optional", "nullable"):
        return "a field that can be null is a pointer: *int32"
    if (other := _PYTHON.get(" ".join(text.lower().split()))) is not None:
        return f"did you mean {other!r}?"
    if "<" in text and outer in ("array", "list"):
        return (
            "write an array as int32[], or as int32[n] where an integer field n of the same structure holds its length"
        )
    if "<" in text and outer in ("struct", "map"):
        return 'describe the structure beside the first one, {"Load": {"at": "point"}, "point": {"x": "double"}}'
    if text.lower() == BINARY:
        return "write char[n]: binary cannot be a part of another type"
    return did_you_mean(text, [*BASICS, *SPARK_NAMES, *structs]) or f"types are {', '.join(BASICS)}, or Spark's"


def _bad(reason: str, path: str, hint: str = "") -> NoReturn:
    raise PbioError(
        "PBIO_BAD_TYPE", reason, field=path, hint=hint or 'write {"Load": {"host": "string", "values": "float64[]"}}'
    )
