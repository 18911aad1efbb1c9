"""JSON lines -> a PBIO file, for `pbio convert` and `pbio space publish`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from ecode.json_text import parse_json
from ecode.suggest import did_you_mean
from pbio_spark.cli.common_type import NOT_ARROW, first_misfit
from pbio_spark.cli.console import opened, progress_bar
from pbio_spark.columns import NullValue, columns_to_batch
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.python_rows import text_to_time

LINES = frozenset({".jsonl", ".ndjson", ".json"})
Line: TypeAlias = tuple[int, dict[str, Any]]
"""The number of a line of JSON, from 1, and its object."""
ROWS = 10_000
"""The number of rows that are encoded at once."""
_ROW = re.compile(r"row (\d+)")


def is_lines(path: str) -> bool:
    """Whether the name of a file says that it has JSON lines."""
    return Path(path).suffix.lower() in LINES


def rows_of(path: str) -> Iterator[Line]:
    """The objects of a file of JSON lines, with their lines from 1; blank lines are left out.

    Raises PBIO_BAD_VALUE with the line that is not an object, or has an object with a key twice.
    """
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = parse_json(line)
            except (ValueError, RecursionError) as error:
                raise _bad(path, number, str(error)) from None
            if not isinstance(row, dict):
                raise _bad(path, number, "expected one JSON object on each line")
            yield number, row


def _bad(path: str, number: int, reason: str) -> PbioError:
    return PbioError(
        "PBIO_BAD_VALUE",
        f"line {number} is not the JSON of a record: {reason}",
        file=path,
        hint='give one object in each line, such as {"x": 1}',
    )


def infer(paths: Sequence[str]) -> pa.Schema:
    """The columns of all rows; whole numbers are 64 bits wide.

    Raises PBIO_CANNOT_MERGE if a field has different types in different rows, PBIO_BAD_VALUE for a value that no
    column holds, both with the line, and PBIO_UNSUPPORTED_TYPE if no row has a value of a field.
    """
    try:
        rows = [row for path in paths for _, row in rows_of(path)]
        names = dict.fromkeys(name for row in rows for name in row)
        schema = pa.schema([(name, pa.array([row.get(name) for row in rows]).type) for name in names])
    except NOT_ARROW as error:
        raise first_misfit([(path, *line) for path in paths for line in rows_of(path)], error) from None
    for field in schema:
        if (empty := _without_type(field)) is not None:
            reason, hint = "no row has a value of this field, so its type is unknown", "give the types with --type"
            raise PbioError("PBIO_UNSUPPORTED_TYPE", reason, field=f"$.{empty}", hint=hint)
    return schema


def _without_type(field: pa.Field, above: str = "") -> str | None:
    """The path of a field, nested ones included, that has only nulls or empty lists; None if there is none."""
    path = f"{above}{field.name}"
    if pa.types.is_null(field.type):
        return path
    if pa.types.is_list(field.type):
        return path if _without_type(field.type.value_field) is not None else None
    inner = field.type if pa.types.is_struct(field.type) else ()
    return next((found for one in inner if (found := _without_type(one, f"{path}.")) is not None), None)


def write_pbio(paths: Sequence[str], target: str, form: Format, schema: pa.Schema, null_value: NullValue | None) -> int:
    """Write all rows as records of a format. Returns their number."""
    from pbio_spark.columns import format_to_encoder
    from pbio_spark.wire import MAGIC
    from pbio_spark.wire.writer import format_to_item

    encoder = format_to_encoder(form, schema, null_value=null_value, wrap=True).checked()
    count = 0
    with progress_bar() as bar, open(target, "wb") as file:
        task = bar.add_task("rows", total=None)
        file.write(MAGIC + format_to_item(form))
        for path in paths:
            all_lines = rows_of(path)
            while lines := list(islice(all_lines, ROWS)):
                batch = json_to_batch(lines, schema, path)
                try:
                    file.write(memoryview(encoder.encode(batch).buffer))
                except PbioError as error:
                    raise at_line(error, [number for number, _ in lines]).at(file=path) from None
                count += batch.num_rows
                bar.update(task, completed=count)
    return count


def at_line(error: PbioError, lines: Sequence[int]) -> PbioError:
    """The error of encoding some rows, with the line in place of the row's number."""
    if (row := _ROW.match(error.reason)) is not None and int(row[1]) < len(lines):
        error.reason = f"line {lines[int(row[1])]}{error.reason[row.end() :]}"
    return error


def json_to_batch(lines: Sequence[Line], schema: pa.Schema, path: str) -> pa.RecordBatch:
    """Rows of JSON as columns: times in ISO 8601, decimals and `NaN` as strings, bytes in hexadecimal, as `convert`
    writes them. Raises PBIO_UNKNOWN_COLUMN and PBIO_BAD_VALUE, with the line."""
    for number, row in lines:
        unknown = next((name for name in row if name not in schema.names), None)
        if unknown is not None:
            hint = did_you_mean(unknown, schema.names) or f"the fields are {', '.join(schema.names)}"
            raise PbioError("PBIO_UNKNOWN_COLUMN", f"line {number} has a field {unknown!r}", file=path, hint=hint)
    columns = []
    for field in schema:
        try:
            values = [_value(row.get(field.name), field.type) for _, row in lines]
            columns.append(pa.array(values, field.type))
        except NOT_ARROW as error:
            raise _first_bad(lines, field, path, error) from None
    return columns_to_batch(columns, schema, len(lines))


def _first_bad(lines: Sequence[Line], field: pa.Field, path: str, error: Exception) -> PbioError:
    """The error of the first line in which a field has a value of another type."""
    place = ""
    for number, row in lines:
        try:
            pa.array([_value(row.get(field.name), field.type)], field.type)
        except NOT_ARROW as refused:
            place, error = f"line {number}: ", refused
            break
    why = "a number is beyond it" if isinstance(error, OverflowError) else str(error)[:200]
    reason = f"{place}a value of {field.name} is not of type {field.type}: {why}"
    return PbioError(
        "PBIO_BAD_VALUE", reason, file=path, hint="correct the line, or name a wider type for the field in --type"
    )


def _value(value: Any, type_: pa.DataType) -> Any:
    """A value of JSON as pyarrow takes it for a type. Raises ValueError for a value that would change."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        if not isinstance(value, dict):
            raise ValueError(f"{_short(value)} is not an object")
        if unknown := value.keys() - {field.name for field in type_}:
            raise ValueError(f"unknown field {min(unknown)!r}")
        return {field.name: _value(value.get(field.name), field.type) for field in type_}
    if pa.types.is_map(type_) and isinstance(value, dict):
        pairs = ((_key(key, type_.key_type), one) for key, one in value.items())
        return [(_value(key, type_.key_type), _value(one, type_.item_type)) for key, one in pairs]
    if pa.types.is_list(type_):
        if not isinstance(value, list):
            raise ValueError(f"{_short(value)} is not a list")
        return [_value(one, type_.value_type) for one in value]
    if pa.types.is_integer(type_) and isinstance(value, bool | float):
        raise ValueError(f"{value!r} is not a whole number")
    if pa.types.is_temporal(type_) and not isinstance(value, str):
        raise ValueError(f"{value!r} is not a time; write ISO 8601, such as 2026-01-31T12:00:00Z")
    if pa.types.is_floating(type_) and isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number")
    if isinstance(value, str):
        if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
            return text_to_time(value, type_)
        if pa.types.is_floating(type_):
            return float(value)
        if pa.types.is_binary(type_):
            return bytes.fromhex(value)
    return Decimal(str(value)) if pa.types.is_decimal(type_) else value


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _key(key: str, type_: pa.DataType) -> Any:
    return key if pa.types.is_string(type_) or pa.types.is_temporal(type_) else json.loads(key)
