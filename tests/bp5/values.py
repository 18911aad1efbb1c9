"""Values of rows, spelled as in the corpus' JSON files."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pbio_spark.source.bp5.options import parse_bp5_options
from pbio_spark.source.bp5.plan import scan_to_schema
from pbio_spark.source.bp5.reader import Bp5Reader
from pbio_spark.source.bp5.scan import scan_datasets
from pbio_spark.source.options.scopes import Scope


def spelled(value: Any) -> Any:
    """A value as the JSON files spell it."""
    if isinstance(value, list):
        return [spelled(one) for one in value]
    if isinstance(value, dict) and list(value) == ["re", "im"]:
        return [spelled(value["re"]), spelled(value["im"])]
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def read(*paths: object, schema: pa.Schema | None = None, **options: object) -> pa.Table:
    """What `spark.read.format("bp5")` reads, without Spark: all batches that its tasks would make, in order."""
    parsed = parse_bp5_options({name: str(value) for name, value in options.items()}, Scope.READ)
    scan = scan_datasets([str(path) for path in paths], parsed)
    if schema is None:
        scan = scan.surveyed()
        schema = scan_to_schema(scan)
    reader = Bp5Reader(scan, schema)
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert all(batch.schema.equals(schema) for batch in batches)
    return pa.Table.from_batches(batches, schema)
