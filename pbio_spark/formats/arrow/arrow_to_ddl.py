"""Spark's own notations for an Arrow schema, made without Spark: DDL for people and JSON for programs.

    >>> schema = pa.schema([pa.field("n", pa.int32()), pa.field("v", pa.list_(pa.float64()))])
    >>> arrow_to_ddl(schema)
    'n INT, v ARRAY<DOUBLE>'

DDL cannot say that the elements of an array are never null; the JSON can.
"""

from __future__ import annotations

import json
import re
from typing import Any, Never

import pyarrow as pa

from pbio_spark.errors import PbioError

SPARK_NAMES: dict[pa.DataType, tuple[str, str]] = {
    pa.bool_(): ("BOOLEAN", "boolean"),
    pa.int8(): ("TINYINT", "byte"),
    pa.int16(): ("SMALLINT", "short"),
    pa.int32(): ("INT", "integer"),
    pa.int64(): ("BIGINT", "long"),
    pa.float32(): ("FLOAT", "float"),
    pa.float64(): ("DOUBLE", "double"),
    pa.string(): ("STRING", "string"),
    pa.binary(): ("BINARY", "binary"),
    pa.date32(): ("DATE", "date"),
    pa.timestamp("us", tz="UTC"): ("TIMESTAMP", "timestamp"),
    pa.timestamp("us"): ("TIMESTAMP_NTZ", "timestamp_ntz"),
}
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def arrow_to_ddl(schema: pa.Schema) -> str:
    """The schema as `StructType.fromDDL` and `.schema(...)` take it. Raises PBIO_UNSUPPORTED_TYPE."""
    return ", ".join(_ddl_field(field, " ") for field in schema)


def _ddl_field(field: pa.Field, between: str) -> str:
    name = field.name if _BARE.fullmatch(field.name) else f"`{field.name.replace('`', '``')}`"
    return f"{name}{between}{_ddl(field.type)}{'' if field.nullable else ' NOT NULL'}"


def _ddl(arrow: pa.DataType) -> str:
    if pa.types.is_list(arrow):
        return f"ARRAY<{_ddl(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"MAP<{_ddl(arrow.key_type)}, {_ddl(arrow.item_type)}>"
    if pa.types.is_struct(arrow):
        return f"STRUCT<{', '.join(_ddl_field(field, ': ') for field in arrow)}>"
    if pa.types.is_decimal128(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if arrow not in SPARK_NAMES:
        _unsupported(arrow)
    return SPARK_NAMES[arrow][0]


def arrow_to_spark_json(schema: pa.Schema) -> str:
    """The schema as `StructType.fromJson` takes it once parsed. Raises PBIO_UNSUPPORTED_TYPE."""
    return json.dumps(_json_struct(schema), separators=(",", ":"))


def _json_struct(fields: Any) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {"name": f.name, "type": _json(f.type), "nullable": f.nullable, "metadata": _json_metadata(f)}
            for f in fields
        ],
    }


def _json_metadata(field: pa.Field) -> dict[str, Any]:
    """The notes of a column, whose values are JSON in Arrow's metadata."""
    return {key.decode(): json.loads(value) for key, value in (field.metadata or {}).items()}


def _json(arrow: pa.DataType) -> Any:
    if pa.types.is_list(arrow):
        element = arrow.value_field
        return {"type": "array", "elementType": _json(element.type), "containsNull": element.nullable}
    if pa.types.is_map(arrow):
        key, value = arrow.key_field, arrow.item_field
        return {
            "type": "map",
            "keyType": _json(key.type),
            "valueType": _json(value.type),
            "valueContainsNull": value.nullable,
        }
    if pa.types.is_struct(arrow):
        return _json_struct(arrow)
    if pa.types.is_decimal128(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if arrow not in SPARK_NAMES:
        _unsupported(arrow)
    return SPARK_NAMES[arrow][1]


def _unsupported(arrow: pa.DataType) -> Never:
    raise PbioError(
        "PBIO_UNSUPPORTED_TYPE", f"Spark has no type for Arrow's {arrow}", hint="cast the column, or leave it out"
    )
