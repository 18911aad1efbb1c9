"""Columns as DDL, as Spark reads it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ecode.types import (
    Field,
    Notes,
    record,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_ddl, arrow_to_spark_json
from pbio_spark.formats.arrow.schema import (
    TABLE,
    record_to_arrow,
)
from tests.formats.arrow.test_schema import COMPOSITES, P


@pytest.mark.spark
def test_spark_reads_the_ddl(spark: SparkSession) -> None:
    type_ = record(
        "r",
        [
            *(Field(f"{i} `x`", row.type, Notes(logical=row.logical)) for i, row in enumerate(TABLE)),
            *(Field(f"c{i}", type_, Notes(logical=logical)) for i, (type_, logical, _, _) in enumerate(COMPOSITES)),
        ],
        [P],
    )
    schema = record_to_arrow(type_)
    read = to_arrow_schema(StructType.fromDDL(arrow_to_ddl(schema)), timezone="UTC")
    assert arrow_to_ddl(read) == arrow_to_ddl(schema)
    assert read.types[: len(TABLE)] == schema.types[: len(TABLE)]


def test_ddl() -> None:
    schema = pa.schema(
        [
            pa.field("n", pa.int32(), nullable=False),
            pa.field("a`b c", pa.list_(pa.decimal128(20, 0))),
            pa.field("m", pa.map_(pa.string(), pa.struct([pa.field("x", pa.timestamp("us"), nullable=False)]))),
        ]
    )
    assert arrow_to_ddl(schema) == (
        "n INT NOT NULL, `a``b c` ARRAY<DECIMAL(20,0)>, m MAP<STRING, STRUCT<x: TIMESTAMP_NTZ NOT NULL>>"
    )
    with pytest.raises(PbioError, match="PBIO_UNSUPPORTED_TYPE"):
        arrow_to_ddl(pa.schema([pa.field("a", pa.uint8())]))
    with pytest.raises(PbioError, match="PBIO_UNSUPPORTED_TYPE"):
        arrow_to_spark_json(pa.schema([pa.field("a", pa.uint8())]))
