"""A record's values as a row of its columns: the plain-Python twin of the kernels."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from ecode.types import Array, Pointer, Record
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import How, Presentation, SchemaColumn, record_to_columns
from pbio_spark.wire.decode import nest

EXACT = Context(prec=40)


class NotPresentableError(Exception):
    """A value that its column cannot hold: the record is bad (a symbol without a name, an unsigned long too long)."""


_columns = lru_cache(maxsize=16)(record_to_columns)


def record_to_row(form: Format, values: dict[str, Any], presentation: Presentation) -> dict[str, Any]:
    """The row of a record that `decode(..., text=None)` gave."""
    columns = _columns(form.record, presentation)
    return {c.name: _value(c, c.type, values[c.field.name], values, form.record, presentation) for c in columns}


def _value(
    column: SchemaColumn, type_: Any, value: Any, owner: dict[str, Any], record: Record, presentation: Presentation
) -> Any:
    def inner(column: SchemaColumn, type_: Any, value: Any, owner: dict[str, Any] = owner) -> Any:
        return _value(column, type_, value, owner, record, presentation)

    while isinstance(type_, Pointer):
        if value is None:
            return None
        type_ = type_.target
    extents = [dim if isinstance(dim, int) else owner[dim] for dim in type_.dims] if isinstance(type_, Array) else []
    is_said = type_ is column.field.type and column.field.notes.null_bit is not None
    if isinstance(type_, Array) and type_.is_dynamic and value is None and 0 in extents and not is_said:
        # An empty array and an absent one are told apart by the counts.
        value = nest([], extents)
    if value is None:
        return None
    match column.how:
        case How.TEXT:
            data = value if isinstance(value, bytes) else bytes(value).partition(b"\0")[0]
            if pa.types.is_binary(column.arrow):
                return data
            return data.decode("latin-1" if presentation.encoding == "ISO-8859-1" else "utf-8")
        case How.BYTES:
            return value.to_bytes(8, "big") if isinstance(value, int) else bytes(value)
        case How.NUMBER if pa.types.is_int64(column.arrow) and value >= 2**63:
            raise NotPresentableError(value)
        case How.NUMBER:
            return value
        case How.BOOLEAN:
            return value
        case How.DECIMAL:
            number = value if isinstance(value, int) else int.from_bytes(bytes(value), "little", signed=True)
            if abs(number) >= 10**column.arrow.precision:
                raise NotPresentableError(number)
            return Decimal(number).scaleb(-column.arrow.scale, EXACT)
        case How.SYMBOL:
            names = {number: symbol for symbol, number in reversed(column.field.notes.symbols)}
            if value not in names:
                raise NotPresentableError(value)
            return names[value]
        case How.STRUCT:
            return {c.name: inner(c, c.type, value[c.field.name], value) for c in column.children}
        case How.ITEM:
            (child,) = column.children
            return inner(child, child.type, value[child.field.name], value)
        case How.MAP:
            key, item = column.children
            return [tuple(inner(c, c.type, v[c.field.name], v) for c in (key, item)) for v in value]
        case How.LIST:
            (element,) = column.children
            assert isinstance(type_, Array)
            levels = len(type_.dims) - (element.type != type_.element)

            def nested(part: Any, depth: int) -> Any:
                return [nested(p, depth - 1) for p in part] if depth else inner(element, element.type, part)

            return nested(value, levels)
    raise TypeError(column)
