"""What Spark does with a stream of channels, without a JVM: all that goes to tasks goes through pickle."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from pbio_spark.channels import ChannelSpace
from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_spark_json
from pbio_spark.source.channels.stream import ChannelStreamReader
from tests.source.local import source


def columns(*fields: tuple[str, pa.DataType]) -> StructType:
    """A schema as a user gives it."""
    return StructType.fromJson(json.loads(arrow_to_spark_json(pa.schema(fields))))


class Query:
    """A stream from its checkpoint on; `offset` is the checkpoint, None that of a new query."""

    def __init__(
        self,
        space: ChannelSpace,
        offset: dict[str, Any] | None = None,
        schema: StructType | None = None,
        **options: Any,
    ) -> None:
        given = source(space.root, **options)
        reader = given.streamReader(schema or given.schema())
        assert isinstance(reader, ChannelStreamReader)
        self.planner: ChannelStreamReader = pickle.loads(pickle.dumps(reader))
        self.offset = json.loads(json.dumps(self.planner.initialOffset())) if offset is None else offset

    def end(self) -> dict[str, Any]:
        """The offset after the next batch; the one before it if nothing has come."""
        latest = self.planner.latestOffset(self.offset, self.planner.getDefaultReadLimit())
        return json.loads(json.dumps(latest))  # type: ignore[no-any-return]

    def batch(self) -> list[dict[str, Any]] | None:
        """The rows of the next batch; None if nothing has come."""
        end = self.end()
        if end == self.offset:
            return None
        rows = [row for task in self.tasks(end) for row in task]
        self.offset = end
        return rows

    def tasks(self, end: dict[str, Any]) -> list[list[dict[str, Any]]]:
        """The rows of each task of the batch that ends there."""
        made = []
        for partition in self.planner.partitions(self.offset, end):
            place = pickle.loads(pickle.dumps(partition))
            batches = list(ChannelStreamReader.read(self.planner, place))
            for batch in batches:
                batch.validate(full=True)
            made.append([row for batch in batches for row in batch.to_pylist()])
        return made

    def batches(self) -> list[list[dict[str, Any]]]:
        """All batches until nothing is left."""
        made = []
        while (rows := self.batch()) is not None:
            made.append(rows)
        return made

    def numbers(self) -> list[list[int]]:
        """The numbers in all batches until nothing is left."""
        return [[row["n"] for row in rows] for rows in self.batches()]
