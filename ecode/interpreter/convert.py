"""Plain Python values (`ecode.semantics.values`) to the interpreter's memory and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ecode.errors import ParameterError, TrapKind
from ecode.interpreter.memory import PointerValue, RecordValue, StringValue, Trapped, fresh
from ecode.semantics.arithmetic import limits, plain, round_single
from ecode.suggest import did_you_mean
from ecode.typed import Structs, ValueType
from ecode.types import FLOAT32, Array, Basic, Field, Kind, Pointer, Ref, Struct

_DEEPEST = 100
_MOST_ABSENT = 1 << 20


def to_memory(value: Any, type_: ValueType, structs: Structs, path: str) -> Any:
    """A plain value in the interpreter's form.

    Raises:
        ParameterError: the value does not fit the type; the message begins with the path of the field.
    """
    match type_:
        case Basic(Kind.STRING):
            return _text(value, path)
        case Basic():
            return _number(value, type_, path)
        case Ref():
            return _record(value, type_, structs, path)
        case Array():
            return _static_array(value, type_, structs, path)
        case Pointer():
            if value is None:
                return None
            return PointerValue([to_memory(value, type_.target, structs, path)], 0, 0, 1)
    raise ParameterError(f"{path}: a value of type {type_} cannot be passed")


def _text(value: Any, path: str) -> StringValue | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    if not isinstance(value, bytes):
        raise ParameterError(
            f"{path}: {value!r} is not a string", hint="give a str, bytes, or None for an absent string"
        )
    if b"\0" in value:
        raise ParameterError(
            f"{path}: the string holds a NUL", hint="E-code's strings end at a NUL: cut the value there"
        )
    return StringValue(value)


def _number(value: Any, type_: Basic, path: str) -> int | float:
    number = plain(type_)
    if number is None:
        return 0
    if number.kind is Kind.FLOAT:
        if not isinstance(value, int | float):
            raise ParameterError(f"{path}: {value!r} is not a number", hint="give an int or a float")
        try:
            exact = float(value)
        except OverflowError:
            raise ParameterError(f"{path}: the number does not fit {type_}") from None
        return round_single(exact) if number == FLOAT32 else exact
    if not isinstance(value, int):
        raise ParameterError(f"{path}: {value!r} is not an integer", hint="give an int")
    low, high = limits(number)
    if type_.kind is Kind.CHAR and high < value <= 255:
        return int(value) - 256
    if not low <= value <= high:
        raise ParameterError(f"{path}: {value} does not fit {type_}", hint=f"give a number from {low} to {high}")
    return int(value)


def _record(value: Any, type_: Ref, structs: Structs, path: str) -> RecordValue:
    if not isinstance(value, Mapping):
        raise ParameterError(f"{path}: {value!r} is not a record", hint="give a mapping of field names to values")
    fields = structs[type_.name].fields
    known = {field.name for field in fields}
    unknown = value.keys() - known
    if unknown:
        name = min(unknown, key=str)
        hint = did_you_mean(str(name), known) or f"the fields are {', '.join(sorted(known))}"
        raise ParameterError(f"{path}: unknown field {name!r}", hint)
    value = _counted(value, fields)
    absent = {i for i, field in enumerate(fields) if value.get(field.name) is None}
    given = [
        _default(field, structs) if i in absent else _field(value[field.name], field, structs, f"{path}.{field.name}")
        for i, field in enumerate(fields)
    ]
    record = RecordValue(given, frozenset(absent))
    for i, field in enumerate(fields):
        if isinstance(field.type, Array) and field.type.is_dynamic:
            names = [f.name for f in fields]
            extents = [int(d) if isinstance(d, int) else int(record[names.index(d)]) for d in field.type.dims]
            where = f"{path}.{field.name}"
            flat = _flat(value.get(field.name), extents, where)
            if math.prod(extents) != len(flat) or min(extents) < 0:
                wanted = " x ".join(map(str, extents))
                raise ParameterError(
                    f"{where}: {len(flat)} elements for an extent of {wanted}",
                    hint="give as many elements as the size field says, or leave the size field out",
                )
            record[i] = [_item(item, field.type.element, structs, f"{where}[]") for item in flat]
    return record


def _counted(value: Mapping[str, Any], fields: Sequence[Field]) -> Mapping[str, Any]:
    """The record with missing size fields filled in from the lengths of their arrays."""
    sizes: dict[str, int] = {}
    for field in fields:
        part = value.get(field.name)
        if isinstance(field.type, Array) and field.type.is_dynamic:
            for dim in field.type.dims:
                if not isinstance(part, Sequence) or isinstance(part, str | bytes):
                    break
                if isinstance(dim, str) and value.get(dim) is None:
                    sizes.setdefault(dim, len(part))
                part = part[0] if len(part) else ()
    return {**value, **sizes} if sizes else value


def _item(value: Any, type_: ValueType, structs: Structs, path: str) -> Any:
    """An element of an array; null becomes zero."""
    return fresh(type_, structs) if value is None else to_memory(value, type_, structs, path)


def _field(value: Any, field: Field, structs: Structs, path: str) -> Any:
    if isinstance(field.type, Array) and field.type.is_dynamic:
        return []
    return to_memory(value, field.type, structs, path)


def _default(field: Field, structs: Structs) -> Any:
    if field.notes.default is not None and isinstance(field.type, Basic):
        return to_memory(field.notes.default, field.type, structs, field.name)
    if isinstance(field.type, Ref):
        # Every field of an absent structure is null.
        fields = structs[field.type.name].fields
        return RecordValue([fresh(f.type, structs) for f in fields], frozenset(range(len(fields))))
    return fresh(field.type, structs)


def _static_array(value: Any, type_: Array, structs: Structs, path: str) -> list[Any]:
    def take(value: Any, dims: tuple[int | str, ...]) -> list[Any]:
        if not dims:
            return [_item(value, type_.element, structs, f"{path}[]")]
        if value is None:
            return [fresh(type_.element, structs) for _ in range(math.prod(map(int, dims)))]
        if not isinstance(value, Sequence) or isinstance(value, str | bytes) or len(value) != dims[0]:
            raise ParameterError(f"{path}: not an array of {dims[0]} elements", hint="give a list of that length")
        return [item for part in value for item in take(part, dims[1:])]

    return take(value, type_.dims)


def _flat(value: Any, extents: Sequence[int], path: str) -> list[Any]:
    """The elements of nested lists; a null list yields nulls."""
    if value is None:
        count = math.prod(extents)
        if count > _MOST_ABSENT:
            raise ParameterError(
                f"{path}: the null array has {count} elements, more than {_MOST_ABSENT}", "give a list"
            )
        return [None] * count
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ParameterError(f"{path}: {value!r} is not an array", hint="give a list")
    if len(extents) == 1:
        return list(value)
    return [item for part in value for item in _flat(part, extents[1:], path)]


def completed(value: Any, type_: ValueType, structs: Structs, path: str) -> Any:
    """Checks a plain value and fills in its missing fields.

    Raises:
        ParameterError: the value does not fit the type.
    """
    return to_plain(to_memory(value, type_, structs, path), type_, structs, 0)


def to_plain(value: Any, type_: ValueType, structs: Structs, at: int, depth: int = 0) -> Any:
    """A value of the interpreter as a plain value.

    Raises:
        Trapped: a pointer field points outside its object, or pointers form a cycle.
    """
    match type_:
        case Basic(Kind.STRING):
            return None if value is None else bytes(value)
        case Basic():
            return value
        case Array():
            elements = [to_plain(item, type_.element, structs, at, depth) for item in value]
            return nest(elements, [int(dim) for dim in type_.dims])
        case Ref():
            fields = structs[type_.name].fields
            names = [field.name for field in fields]
            plain_record = {}
            for item, field in zip(value, fields, strict=True):
                if isinstance(field.type, Array) and field.type.is_dynamic:
                    dims = [d if isinstance(d, int) else value[names.index(d)] for d in field.type.dims]
                    elements = [to_plain(e, field.type.element, structs, at, depth) for e in item[: math.prod(dims)]]
                    plain_record[field.name] = nest(elements, dims)
                else:
                    plain_record[field.name] = to_plain(item, field.type, structs, at, depth)
            return _with_nulls(plain_record, structs[type_.name])
        case Pointer():
            if value is None:
                return None
            if depth > _DEEPEST:
                raise Trapped(TrapKind.SIZE_LIMIT, at)
            value.check(at)
            return to_plain(value.cells[value.position], type_.target, structs, at, depth + 1)
    return None


def _with_nulls(plain_record: dict[str, Any], struct: Struct) -> dict[str, Any]:
    """The record with nulls where its hidden fields mark them, and without these fields."""
    marks = {name: plain_record.pop(name) for name in struct.null_marks}
    if not marks:
        return plain_record
    bits = () if struct.null_bits is None else marks[struct.null_bits.name]
    for field in struct.fields:
        number, items = field.notes.null_bit, field.notes.null_items
        if number is not None and bits[number // 8] >> number % 8 & 1:
            plain_record[field.name] = None
        elif items is not None:
            values = plain_record[field.name]
            plain_record[field.name] = [None if mark else v for v, mark in zip(values, marks[items], strict=True)]
    return plain_record


def nest(flat: list[Any], dims: list[int]) -> list[Any]:
    """A flat row-major list as nested lists.

    >>> nest([1, 2, 3, 4, 5, 6], [2, 3])
    [[1, 2, 3], [4, 5, 6]]
    """
    if len(dims) == 1:
        return flat
    width = math.prod(dims[1:])
    return [nest(flat[i * width : (i + 1) * width], dims[1:]) for i in range(dims[0])]
