"""Parameters described in JSON: for the command line and for test cases.

    {"structs": [{"name": "Point", "fields": [{"name": "x", "type": "float64"}]}],
     "params": [{"name": "input", "kind": "in", "fields": [{"name": "n", "type": "int32"},
                                                           {"name": "p", "type": "Point", "dims": ["n"]}]},
                {"name": "scale", "kind": "in", "type": "float64"}],
     "return_type": "int32"}

Types are `int8` .. `int64`, `uint8` .. `uint64`, `float32`, `float64`, `char`, `enum`, `string`, or a structure's name.
`dims` holds numbers and names of size fields, `pointer: true` makes a pointer; `kind` is `in`, `param`, `out` or
`state`; `return_type` may be `void`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ecode.environment import Mode, Param
from ecode.errors import ParameterError
from ecode.types import (
    CHAR,
    ENUMERATION,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Array,
    Basic,
    Field,
    Pointer,
    Record,
    Ref,
    Struct,
    Type,
    references,
)

BASIC: dict[str, Basic] = {
    "int8": INT8, "int16": INT16, "int32": INT32, "int64": INT64,
    "uint8": UINT8, "uint16": UINT16, "uint32": UINT32, "uint64": UINT64,
    "float32": FLOAT32, "float64": FLOAT64, "char": CHAR, "enum": ENUMERATION, "string": STRING,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Description:
    """The environment in which a program is compiled."""

    params: tuple[Param, ...]
    returns: Basic | None
    records: tuple[Record, ...]


def described(json: Mapping[str, Any]) -> Description:
    """Reads a description.

    Raises:
        ParameterError: the JSON is not a description.

    >>> described({"params": [{"name": "x", "kind": "in", "type": "int32"}]}).params[0].type is INT32
    True
    """
    if not isinstance(json, Mapping) or "params" not in json:
        raise ParameterError("the description has no 'params'", 'example: {"params": []}')
    try:
        structs = {s["name"]: Struct(s["name"], _fields(s["fields"])) for s in json.get("structs") or []}
        params = tuple(_param(given, structs) for given in json["params"])
        word = json.get("return_type", "int32")
        returns = None if word == "void" else BASIC[word]
        records = tuple(_record(struct, structs) for struct in structs.values())
    except KeyError as error:
        raise ParameterError(
            f"the description lacks {error.args[0]!r}, or names it without defining it", "see ecode.cli.description"
        ) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise ParameterError(
            f"the description has a value of the wrong kind: {error}", hint="see ecode.cli.description"
        ) from None
    return Description(params, returns, records)


def _fields(given: list[Mapping[str, Any]]) -> tuple[Field, ...]:
    return tuple(Field(field["name"], _type(field)) for field in given)


def _type(field: Mapping[str, Any]) -> Type:
    type_: Type = BASIC.get(field["type"]) or Ref(field["type"])
    if field.get("pointer"):
        type_ = Pointer(type_)
    return Array(type_, tuple(field["dims"])) if field.get("dims") else type_


def _param(given: Mapping[str, Any], structs: Mapping[str, Struct]) -> Param:
    mode = Mode(given.get("kind", "in"))
    if "type" in given:
        return Param(given["name"], BASIC[given["type"]], mode)
    return Param(given["name"], _record(Struct(given["name"], _fields(given["fields"])), structs), mode)


def _record(top: Struct, structs: Mapping[str, Struct]) -> Record:
    """A record type with the structures that it refers to."""
    reached = {top.name: top}
    waiting = [name for field in top.fields for name in references(field.type)]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached[name] = structs[name]
            waiting += [inner for field in structs[name].fields for inner in references(field.type)]
    return Record(tuple(reached.values()))
