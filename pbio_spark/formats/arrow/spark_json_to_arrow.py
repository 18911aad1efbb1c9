"""The JSON of a Spark schema -> an Arrow schema, made without Spark."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.arrow_to_ddl import SPARK_NAMES

_TYPES = {name: arrow for arrow, (_, name) in SPARK_NAMES.items()}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def spark_json_to_arrow(said: Any) -> pa.Schema:
    """The schema that `StructType.jsonValue` describes. Raises PBIO_UNSUPPORTED_TYPE.

    >>> spark_json_to_arrow({"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": False}]})
    n: int64 not null
    """
    return pa.schema([_field(field) for field in said["fields"]])


def _field(said: Any) -> pa.Field:
    try:
        return pa.field(said["name"], _type(said["type"]), said["nullable"])
    except PbioError as error:
        raise error.at(field=f"$.{said['name']}") from None


def _type(said: Any) -> pa.DataType:
    if isinstance(said, str):
        decimal = _DECIMAL.fullmatch(said)
        if decimal is not None:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if said in _TYPES:
            return _TYPES[said]
    elif said["type"] == "array":
        return pa.list_(pa.field("element", _type(said["elementType"]), said["containsNull"]))
    elif said["type"] == "map":
        value = pa.field("value", _type(said["valueType"]), said["valueContainsNull"])
        return pa.map_(_type(said["keyType"]), value)
    elif said["type"] == "struct":
        return pa.struct([_field(field) for field in said["fields"]])
    name = said if isinstance(said, str) else said["type"]
    raise PbioError("PBIO_UNSUPPORTED_TYPE", f"Spark's type {name} cannot be a field", hint="cast the column")
