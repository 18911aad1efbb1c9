"""Reading channels as a stream."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pbio_spark.channels import LogOffset, Position, StreamSubscriber, json_to_offset, offset_to_json
from pbio_spark.columns import ReadPlan
from pbio_spark.source.channels.log import ChannelLog
from pbio_spark.source.channels.plan import ChannelPlanner, Reading
from pbio_spark.source.channels.reader import read_stretches
from pbio_spark.source.options.options import Options
from pbio_spark.source.reason_first import says_reason_first

LONGEST_PAUSE = 0.5
"""The longest wait, in seconds, between two looks for the next commit where each takes a request to a server."""


class ChannelStreamPartition(InputPartition):
    """What one task of a micro-batch reads, and all that it needs for it."""

    def __init__(self, root: str, plans: Mapping[int, ReadPlan], reading: Reading, fail_on_loss: bool) -> None:
        super().__init__(None)
        self.root = root
        self.plans = plans
        self.reading = reading
        self.fail_on_loss = fail_on_loss


@says_reason_first
class ChannelStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark makes two: one plans all batches in a process of its own, the other is copied to the tasks and reads.

    So whatever a task needs travels in its partition, and the log is opened by the one that plans.
    """

    def __init__(self, root: str, options: Options, schema: pa.Schema, *, is_projection: bool) -> None:
        """
        Args:
            is_projection: the user named the columns.
        """
        self._root = root
        self._options = options
        self._schema = schema
        self._is_projection = is_projection
        self._opened: tuple[ChannelLog, ChannelPlanner, StreamSubscriber | None] | None = None
        self._first: LogOffset | None = None
        self._end: Position | None = None
        self._pause = 0.0
        self._made: dict[str, Any] | None = None

    def _open(self) -> tuple[ChannelLog, ChannelPlanner, StreamSubscriber | None]:
        if self._opened is None:
            log, name = ChannelLog(self._root, self._options), self._options.subscriber
            planner = ChannelPlanner(log, self._options, self._schema, is_projection=self._is_projection)
            planner.check_types()
            self._opened = log, planner, None if name is None else StreamSubscriber(name, log.space.folder, log)
        return self._opened

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        log, _, subscriber = self._open()
        if self._first is None:  # Spark asks twice, and what is latest changes
            first = log.first("latest")
            self._first = first if subscriber is None else subscriber.start(first)
        return offset_to_json(self._first, log.space.id)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_records_per_trigger is not None:
            return ReadMaxRows(self._options.max_records_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        log, *_ = self._open()
        self._end = log.now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        log, _, subscriber = self._open()
        said = json_to_offset(start, log.space.id)
        log.checked(max((said.position, *said.starts.values())))
        place = log.resumed(said)
        if subscriber is not None:
            subscriber.finish(place)  # what a batch starts from is what the query has durably finished
        # Spark passes one limit; if both options are set, the other one holds as well.
        limits = (
            (None, None)
            if isinstance(limit, ReadAllAvailable)
            else (self._options.max_records_per_trigger, self._options.max_bytes_per_trigger)
        )
        time.sleep(self._pause)
        latest = log.latest(place, self._end, *limits)
        is_idle = latest == place and not log.space.folder.is_local
        self._pause = min(max(2 * self._pause, 0.01), LONGEST_PAUSE) if is_idle else 0.0
        self._made = offset_to_json(said if latest == place else latest, log.space.id)
        return self._made

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        log, planner, _ = self._open()
        first, last = (json_to_offset(said, log.space.id) for said in (start, end))
        pieces = log.pieces(log.resumed(first), last.position)
        # A batch that failed is planned again without announcing its formats: the user has seen why it failed.
        known = first.formats if end == self._made else None
        return [
            ChannelStreamPartition(
                self._root,
                {number: planner.plans[number] for number in reading.numbers},
                reading,
                self._options.fail_on_data_loss,
            )
            for reading in planner.partitions(pieces, is_stream=True, known=known)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, ChannelStreamPartition):
            yield from read_stretches(
                partition.root, partition.plans, partition.reading, fail_on_loss=partition.fail_on_loss
            )
