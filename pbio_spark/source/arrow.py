"""Spark's schemas -> Arrow's, as Spark sends and expects them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pbio_spark.errors import PbioError


def spark_to_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema. Raises PBIO_UNSUPPORTED_TYPE, with the column, for what Spark cannot send."""
    fields: list[pa.Field] = []
    for field in schema:
        try:
            fields += to_arrow_schema(StructType([field]), timezone="UTC")
        except PySparkException:
            raise PbioError(
                "PBIO_UNSUPPORTED_TYPE",
                f"Spark cannot send columns of type {field.dataType.simpleString()}",
                field=f"$.{field.name}",
                hint="cast the column, or leave it out",
            ) from None
    return pa.schema(fields)


def with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the planned schema: Spark sends timestamps in the session's time zone."""
    if batch.schema.equals(schema):
        return batch
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
