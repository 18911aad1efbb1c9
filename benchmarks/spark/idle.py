"""A stream that does nothing: what Spark itself takes for a source, and for a sink, in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)


class Idle(DataSource):
    """A source with a new event whenever it is asked, and a sink that throws them away."""

    @classmethod
    def name(cls) -> str:
        return "idle"

    def schema(self) -> str:
        return "sent bigint"

    def streamReader(self, schema: Any) -> IdleReader:  # noqa: N802
        return IdleReader()

    def streamWriter(self, schema: Any, overwrite: bool) -> IdleWriter:  # noqa: N802
        return IdleWriter()


class IdleReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"events": 0}

    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:  # noqa: N802
        return {"events": start["events"] + 1}

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        return [InputPartition(end["events"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"sent": pa.array([partition.value], pa.int64())})


class IdleWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pass
