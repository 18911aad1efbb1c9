"""The values of `k=v` folders -> columns, typed as Spark types them.

A column whose values are all integers is an int, a long or a decimal; all numbers make a double, all dates a date.
Anything else is text, as are numbers that a double cannot distinguish. With `.schema()` the user decides the type, and
a value that does not fit it is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date

import numpy as np
import pyarrow as pa

from pbio_spark.columns import exactly, text_to_number
from pbio_spark.errors import PbioError
from pbio_spark.source.files.listing import ListedFile

_INTEGER = re.compile(r"[+-]?\d{1,38}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def partition_schema(files: Sequence[ListedFile]) -> pa.Schema:
    """The columns of the folders that contain the files, in the order of the folders."""
    if not files:
        return pa.schema([])
    return pa.schema(
        [
            (name, _type_of(value for file in files for key, value in file.partition if key == name))
            for name, _ in files[0].partition
        ]
    )


def partition_value(text: str | None, field: pa.Field, path: str) -> pa.Scalar:
    """The value of one folder as the column's type. Raises PBIO_BAD_PARTITIONS if it does not fit."""
    try:
        if text is not None and _is_number(field.type):
            return _number(text, field.type)
        return pa.scalar(text, pa.string()).cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise PbioError(
            "PBIO_BAD_PARTITIONS",
            f"the folder {field.name}={text} does not have a value of type {field.type}",
            file=path,
            hint=f"give the column {field.name} its type with .schema()",
        ) from None


def _type_of(names: Iterable[str | None]) -> pa.DataType:
    values = {name for name in names if name is not None}
    types = {_narrowest(value) for value in values}
    if len(types) == 1:
        return types.pop()
    if types == {pa.int32(), pa.int64()}:
        return pa.int64()
    if pa.float64() in types:
        return pa.float64() if all(_NUMBER.fullmatch(value) and _is_double(value) for value in values) else pa.string()
    digits = [_DIGITS.get(type_) or (type_.precision if pa.types.is_decimal(type_) else 0) for type_ in types]
    return pa.decimal128(max(digits), 0) if digits and all(digits) else pa.string()


def _narrowest(value: str) -> pa.DataType:
    if _INTEGER.fullmatch(value):
        bits = int(value).bit_length() if int(value) >= 0 else (-int(value) - 1).bit_length()
        return pa.int32() if bits < 32 else pa.int64() if bits < 64 else pa.decimal128(len(str(abs(int(value)))), 0)
    if _NUMBER.fullmatch(value):
        return pa.float64() if _is_double(value) else pa.string()
    if _DATE.fullmatch(value) and _is_date(value):
        return pa.date32()
    return pa.string()


_DIGITS = {pa.int32(): 10, pa.int64(): 19}


def _is_number(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_signed_integer(type_) or types.is_floating(type_) or types.is_decimal128(type_))


def _number(text: str, type_: pa.DataType) -> pa.Scalar:
    """The number in a string, as a type; ValueError if the type cannot represent it.

    A fraction becomes the float that prints the same digits, since 0.1 has no exact one.
    """
    if pa.types.is_floating(type_):
        value = float(text)
        with np.errstate(over="ignore"):
            narrow = value if type_.bit_width == 64 else float(str(np.float32(value)))
        if math.isfinite(value) and not (math.isfinite(narrow) and _says(text, narrow)):
            raise ValueError(text)
        return pa.scalar(value, type_)
    number = exactly(*text_to_number(text), type_)
    if number is None:
        raise ValueError(text)
    if pa.types.is_decimal128(type_):
        unscaled = int(number).to_bytes(16, "little", signed=True)
        return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(unscaled)])[0]
    return pa.scalar(number, type_)


def _is_double(text: str) -> bool:
    """Whether a double represents the number in a string, digit by digit."""
    return math.isfinite(float(text)) and _says(text, float(text))


def _says(text: str, value: float) -> bool:
    number, scale = text_to_number(text)
    other, others = text_to_number(repr(value))
    return bool(number * 10**others == other * 10**scale)


def _is_date(value: str) -> bool:
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True
