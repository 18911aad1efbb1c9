"""What Spark does with a writer to channels, without a JVM: all that goes to tasks and back goes through pickle."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema

from pbio_spark.channels import ChannelSpace
from pbio_spark.source.channels.writer import ChannelStreamWriter, ChannelWriter, TaskEvents
from pbio_spark.source.write.writer import PbioWriter
from tests.source.local import source

Writer: TypeAlias = "ChannelWriter | ChannelStreamWriter | PbioWriter"
Where: TypeAlias = "ChannelSpace | Path | str"
QUERY = "0d3f64ab-5d8b-4ab2-8a0c-8d6f4a3f1a55"


@dataclass
class Context:
    """The part of a task's context that a writer looks at."""

    partition: int
    query: str | None
    conf: Mapping[str, str] = field(default_factory=dict)

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return self.partition

    def taskAttemptId(self) -> int:  # noqa: N802 - Spark's name
        return 0

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return self.query if name == "sql.streaming.queryId" else self.conf.get(name)


def writer(where: Where, schema: pa.Schema, overwrite: bool = False, **options: Any) -> ChannelWriter:
    made = source(_root(where), **options).writer(from_arrow_schema(schema), overwrite)
    assert isinstance(made, ChannelWriter)
    return made


def stream_writer(where: Where, schema: pa.Schema, overwrite: bool = False, **options: Any) -> ChannelStreamWriter:
    return source(_root(where), **options).streamWriter(from_arrow_schema(schema), overwrite)


def run_task(made: Writer, partition: int, *batches: pa.RecordBatch) -> TaskEvents:
    """Write the rows of one partition."""
    return task(made, partition, batches, {})  # type: ignore[no-any-return]


def task(made: Writer, partition: int, batches: Iterable[pa.RecordBatch], conf: Mapping[str, str]) -> Any:
    query = QUERY if isinstance(made, ChannelStreamWriter) else None
    TaskContext._taskContext = Context(partition, query, conf)  # type: ignore[assignment]
    try:
        message = pickle.loads(pickle.dumps(made)).write(iter(batches))
    finally:
        TaskContext._taskContext = None
    return pickle.loads(pickle.dumps(message))


def write(where: Where, *partitions: pa.RecordBatch | Sequence[pa.RecordBatch], **options: Any) -> None:
    """Write rows to channels, as one batch."""
    tasks = [[rows] if isinstance(rows, pa.RecordBatch) else rows for rows in partitions]
    made = writer(where, tasks[0][0].schema, **options)
    messages = [run_task(made, number, *rows) for number, rows in enumerate(tasks)]
    pickle.loads(pickle.dumps(made)).commit(messages)


def write_stream(where: Where, batch_id: int, *partitions: pa.RecordBatch, **options: Any) -> None:
    """Write rows to channels, as one micro-batch."""
    schema = partitions[0].schema
    made = stream_writer(where, schema, **options)
    messages = [run_task(made, number, rows) for number, rows in enumerate(partitions)]
    stream_writer(where, schema, **options).commit(messages, batch_id)


def save(
    folder: Path | str,
    *partitions: pa.RecordBatch,
    overwrite: bool = False,
    conf: Mapping[str, str] | None = None,
    **options: Any,
) -> None:
    """Write rows to a folder of files.

    Args:
        conf: of the session.
    """
    made = source(folder, **options).writer(from_arrow_schema(partitions[0].schema), overwrite)
    try:
        messages = [task(made, number, [rows], conf or {}) for number, rows in enumerate(partitions)]
        pickle.loads(pickle.dumps(made)).commit(messages)
    except BaseException:
        pickle.loads(pickle.dumps(made)).abort([])
        raise


def _root(where: Where) -> str:
    return where.root if isinstance(where, ChannelSpace) else str(where)
