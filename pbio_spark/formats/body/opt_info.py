"""Opt-info blocks: notes on fields, and FFS's transforms (ffs-wire-format 9).

The block of notes is one JSON object per structure, which FFS's own tools keep and ignore. It says what type strings
cannot:

    {"fields": {"colour": {"symbols": [["red", 0], ["green", 1]]}, "t": {"logical": "timestamp", "units": "us"}}}

The keys are those of `ecode.types.Notes`; numbers that JSON lacks are the strings NaN, Infinity and -Infinity.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Never, TypeAlias

from ecode.types import (
    CHAR,
    NO_NOTES,
    NULL_BITS,
    STRING,
    UINT8,
    Array,
    Basic,
    Default,
    Field,
    Kind,
    Notes,
    Pointer,
    Record,
    Type,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats.body.lookup3 import id_length
from pbio_spark.formats.body.struct_layout import OptInfo

NOTES = int.from_bytes(b"NOTE", "big")
EVOL = int.from_bytes(b"EVOL", "big")

Nulls: TypeAlias = Literal["pointer", "mask", "none"]
"""How a record type marks a null that its type cannot express: by a pointer, by a bit, or not at all."""

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_KEYS = tuple(f.name for f in fields(Notes))


@dataclass(frozen=True, slots=True)
class FormatTransform:
    """E-code that fills a record of an older format (`old`) from one of the format that carries it (`new`).

    `prior` is the ID of the older format; its body must come from elsewhere.
    """

    prior: bytes
    ecode: str


def transform_to_opt_info(transform: FormatTransform) -> OptInfo:
    """The `EVOL` block of a transform."""
    return OptInfo(EVOL, transform.prior + transform.ecode.encode("utf-8", "surrogateescape") + b"\0")


def opt_info_to_transforms(blocks: Iterable[OptInfo]) -> tuple[FormatTransform, ...]:
    """The transforms among the blocks of a structure, in order. Raises PBIO_BAD_OPT_INFO, PBIO_BAD_ID."""
    transforms = []
    for data in (block.data for block in blocks if block.type == EVOL):
        split = id_length(data)
        ecode = _text(data[split:], "transform")
        transforms.append(FormatTransform(data[:split], ecode))
    return tuple(transforms)


def _text(data: bytes, what: str) -> str:
    text, nul, _ = data.partition(b"\0")
    if not nul:
        raise PbioError("PBIO_BAD_OPT_INFO", f"the text of a {what} is not NUL-terminated")
    return text.decode("utf-8", "surrogateescape")


def notes_to_opt_info(noted: Iterable[Field]) -> tuple[OptInfo, ...]:
    """The block of notes on the fields of one structure; empty without notes."""
    said = {field.name: _to_json(field.notes) for field in noted if field.notes != NO_NOTES}
    if not said:
        return ()
    text = json.dumps({"fields": said}, separators=(",", ":"), allow_nan=False)
    return (OptInfo(NOTES, text.encode("ascii")),)


def _to_json(notes: Notes) -> dict[str, Any]:
    values = {key: getattr(notes, key) for key in _KEYS}
    default = notes.default
    if isinstance(default, float) and not math.isfinite(default):
        values["default"] = next(text for text, value in _NOT_FINITE.items() if str(value) == str(default))
    return {key: value for key, value in values.items() if value != getattr(NO_NOTES, key) or value is False}


def opt_info_to_notes(blocks: Iterable[OptInfo], types: Mapping[str, Type]) -> dict[str, Notes]:
    """The notes among the blocks of a structure whose fields have these types; empty without such a block.

    Unknown keys are ignored: a later version may say more. Raises PBIO_BAD_OPT_INFO.
    """
    ours = [block.data for block in blocks if block.type == NOTES]
    if not ours:
        return {}
    if len(ours) > 1:
        _bad("a structure has more than one block of notes")
    try:
        said = json.loads(ours[0].decode("utf-8"), parse_constant=_no_constant)["fields"]
        items = list(said.items())
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        _bad("the notes on fields must be a JSON object of fields")
    notes = {}
    for name, values in items:
        if name not in types:
            _bad("the notes name a field that the structure lacks", name)
        if not isinstance(values, dict):
            _bad("the notes on a field must be an object", name)
        notes[name] = _from_json(name, types[name], values)
    _check_nulls(types, notes)
    return notes


def _check_nulls(types: Mapping[str, Type], notes: Mapping[str, Notes]) -> None:
    """Checks that every bit and mark for nulls exists and serves one field."""
    masks = [name for name, said in notes.items() if said.logical == NULL_BITS]
    if not masks and not any(said.null_bit is not None or said.null_items is not None for said in notes.values()):
        return
    if len(masks) > 1:
        _bad("a structure has more than one field of bits for nulls", masks[1])
    bits = 0
    for name in masks:
        match types[name]:
            case Array(Basic(Kind.UNSIGNED, 1), (int(extent),)) if notes[name].null_bit is None:
                bits = 8 * extent
            case _:
                _bad("the field of bits for nulls must be an array of bytes in place", name)
    taken: set[int] = set()
    for name, said in notes.items():
        if said.null_bit is not None:
            if not said.null_bit < bits or said.null_bit in taken:
                _bad("`null_bit` must be a bit of the structure that no other field uses", name)
            taken.add(said.null_bit)
        if said.null_items is not None and not _are_marks(types.get(said.null_items), types[name], said.logical):
            _bad("`null_items` must name a field of bytes with the extents of the array", name)


def _are_marks(marks: Type | None, type_: Type, logical: str | None) -> bool:
    """Whether a field holds a byte for each number of an array; 16 chars may be one number."""
    if not isinstance(type_, Array) or not isinstance(type_.element, Basic) or type_.element == STRING:
        return False
    if type_.element != CHAR:
        return marks == Array(UINT8, type_.dims)
    is_decimal = (logical or "").startswith("decimal(") and type_.dims[-1] == 16
    return is_decimal and marks == Array(UINT8, type_.dims[:-1])


def nulls_in(record: Record) -> Nulls:
    """How a record type marks that a number is null."""
    fields = [field for struct in record.structs for field in struct.fields]
    if any(field.notes.null_bit is not None or field.notes.null_items is not None for field in fields):
        return "mask"
    return "pointer" if any(_points_to_number(field.type) for field in fields) else "none"


def _points_to_number(type_: Type) -> bool:
    is_behind = False
    while isinstance(type_, Array | Pointer):
        is_behind = is_behind or isinstance(type_, Pointer)
        type_ = type_.element if isinstance(type_, Array) else type_.target
    return is_behind and isinstance(type_, Basic)


def _no_constant(text: str) -> Never:
    raise ValueError(text)


def _from_json(name: str, type_: Type, values: dict[str, Any]) -> Notes:
    for key in ("logical", "units", "accuracy"):
        if not isinstance(values.get(key), str | None):
            _bad(f"`{key}` must be a string", name)
    weight, hidden = values.get("weight"), values.get("hidden", False)
    if weight is not None and not (_is_number(weight) and 0 <= weight <= 1e9):
        _bad("`weight` must be a number from 0 to 1e9", name)
    if not isinstance(hidden, bool):
        _bad("`hidden` must be true or false", name)
    bit, items = values.get("null_bit"), values.get("null_items")
    if bit is not None and not (isinstance(bit, int) and not isinstance(bit, bool) and bit >= 0):
        _bad("`null_bit` must be a number of at least 0", name)
    if not isinstance(items, str | None):
        _bad("`null_items` must be a string", name)
    symbols = _symbols(name, type_, values.get("symbols", []))
    return Notes(
        logical=values.get("logical"),
        symbols=symbols,
        units=values.get("units"),
        accuracy=values.get("accuracy"),
        default=_default(name, type_, symbols, values.get("default")),
        weight=None if weight is None else float(weight),
        hidden=hidden,
        null_bit=bit,
        null_items=items,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _symbols(name: str, type_: Type, pairs: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(pairs, list):
        _bad("`symbols` must be a list", name)
    symbols = []
    element = type_.element if isinstance(type_, Array) else type_
    for pair in pairs:
        if not (isinstance(element, Basic) and element.kind is Kind.ENUMERATION):
            _bad("`symbols` needs a field that is an enumeration", name)
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and _fits(pair[1], element)):
            _bad("`symbols` must be pairs of a string and a number that the field can hold", name)
        symbols.append((pair[0], pair[1]))
    if len({s for s, _ in symbols}) != len(symbols) or len({n for _, n in symbols}) != len(symbols):
        _bad("`symbols` names a value twice", name)
    return tuple(symbols)


def _default(name: str, type_: Type, symbols: tuple[tuple[str, int], ...], value: Any) -> Default:
    if isinstance(value, str) and isinstance(type_, Basic) and type_.kind is Kind.FLOAT:
        value = _NOT_FINITE.get(value, value)
    match type_:
        case _ if value is None:
            fits = True
        case Basic(Kind.FLOAT):
            fits = _is_number(value)
        case Basic(Kind.BOOLEAN):
            fits = isinstance(value, bool)
        case Basic(Kind.STRING) | Array(Basic(Kind.CHAR), _):
            fits = isinstance(value, str)
        case Basic():
            fits = _fits(value, type_) or (isinstance(value, str) and value in dict(symbols))
        case _:
            fits = False
    if not fits:
        _bad("`default` must be a value that the field can hold", name)
    checked: Default = value
    return checked


def _fits(value: object, type_: Basic) -> bool:
    """Whether a whole number is a value of that integer type."""
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    bits = 8 * type_.size - (type_.kind is Kind.INTEGER)
    return (-(1 << bits) if type_.kind is Kind.INTEGER else 0) <= value < 1 << bits


def _bad(reason: str, field: str | None = None) -> Never:
    raise PbioError("PBIO_BAD_OPT_INFO", reason, field=None if field is None else f"$.{field}")
