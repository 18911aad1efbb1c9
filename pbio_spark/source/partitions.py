"""The values of `k=v` folders -> columns, typed as Spark types them.

A column whose values are all whole numbers is an int or a long, all numbers a double, all dates a date; anything else
is text. With `.schema()` the type is what the user says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date

import pyarrow as pa

from pbio_spark.errors import PbioError
from pbio_spark.source.listing import DataFile

_INTEGER = re.compile(r"[+-]?\d{1,19}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def partition_schema(files: Sequence[DataFile]) -> pa.Schema:
    """The columns of the folders that the files lie in, in the order of the folders."""
    if not files:
        return pa.schema([])
    return pa.schema(
        [
            (name, _type_of(value for file in files for key, value in file.partition if key == name))
            for name, _ in files[0].partition
        ]
    )


def partition_value(text: str | None, field: pa.Field, path: str) -> pa.Scalar:
    """The value of one folder as the column's type. Raises PBIO_BAD_PARTITIONS if it is none."""
    try:
        return pa.scalar(text, pa.string()).cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise PbioError(
            "PBIO_BAD_PARTITIONS",
            f"the folder {field.name}={text} has no value of type {field.type}",
            file=path,
            hint=f"say with .schema() which type the column {field.name} has",
        ) from None


def _type_of(values: Iterable[str | None]) -> pa.DataType:
    types = {_narrowest(value) for value in values if value is not None}
    if len(types) == 1:
        return types.pop()
    if types == {pa.int32(), pa.int64()}:
        return pa.int64()
    if types and types <= {pa.int32(), pa.int64(), pa.float64()}:
        return pa.float64()
    return pa.string()


def _narrowest(value: str) -> pa.DataType:
    if _INTEGER.fullmatch(value):
        bits = int(value).bit_length() if int(value) >= 0 else (-int(value) - 1).bit_length()
        return pa.int32() if bits < 32 else pa.int64() if bits < 64 else pa.float64()
    if _NUMBER.fullmatch(value):
        return pa.float64()
    if _DATE.fullmatch(value) and _is_date(value):
        return pa.date32()
    return pa.string()


def _is_date(value: str) -> bool:
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True
