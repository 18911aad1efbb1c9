"""What Spark does with the data source, without a JVM: all that goes to tasks goes through pickle."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from pbio_spark.source.datasource import PbioDataSource
from pbio_spark.source.files.reader import PbioReader


def source(*paths: Path | str, **options: Any) -> PbioDataSource:
    given = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    where = (
        {"path": str(paths[0])} if len(paths) == 1 else {"paths": str([str(path) for path in paths]).replace("'", '"')}
    )
    return PbioDataSource(CaseInsensitiveDict({**given, **where}))


def plan(*paths: Path | str, schema: StructType | None = None, **options: Any) -> PbioReader:
    """The reader as the driver makes it."""
    data_source = source(*paths, **options)
    inferred = schema or data_source.schema()
    return pickle.loads(pickle.dumps(data_source)).reader(inferred)


def load(*paths: Path | str, schema: StructType | None = None, **options: Any) -> list[dict[str, Any]]:
    """All rows."""
    return [row for batch in batches(plan(*paths, schema=schema, **options)) for row in batch.to_pylist()]


def batches(reader: PbioReader) -> list[pa.RecordBatch]:
    found = []
    for partition in reader.partitions():
        task, place = pickle.loads(pickle.dumps((reader, partition)))
        found += list(task.read(place))
    for batch in found:
        batch.validate(full=True)
    return found
