"""Reading channels as a stream."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pbio_spark.channels import ANONYMOUS, LogOffset, Position, StreamSubscriber, json_to_offset, offset_to_json
from pbio_spark.columns import ReadPlan
from pbio_spark.errors import PbioError
from pbio_spark.source.channels.log import ChannelLog
from pbio_spark.source.channels.plan import ChannelPlanner, TaskReading
from pbio_spark.source.channels.reader import read_stretches
from pbio_spark.source.limits import TriggerLimits
from pbio_spark.source.options.options import Options
from pbio_spark.source.reason_first import says_reason_first
from pbio_spark.source.settled import in_worker

LONGEST_PAUSE = 0.5
"""The longest wait, in seconds, between checks for the next commit, where each takes a request to a server."""


READER = "reader"
"""The key, in an offset, of the name under which sources know a query with code."""


class ChannelStreamPartition(InputPartition):
    """What one task of a micro-batch reads, with everything that it needs."""

    def __init__(self, root: str, plans: Mapping[int, ReadPlan], reading: TaskReading, fail_on_loss: bool) -> None:
        super().__init__(None)
        self.root = root
        self.plans = plans
        self.reading = reading
        self.fail_on_loss = fail_on_loss


def _leave_in_order() -> None:
    """Have `stop` called when Spark ends this process, which it does with a signal."""
    is_main = threading.current_thread() is threading.main_thread()
    if in_worker() and is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, _: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # it comes twice, and the second would interrupt `stop`
    _ended.set()
    sys.exit(0)


_ended = threading.Event()
"""Whether Spark has ended this process; if not, but `stop` is called, the driver has died."""


@says_reason_first
class ChannelStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark makes two: one plans all batches in a process of its own, the other is copied to the tasks and reads.

    So a partition carries everything that its task needs, and the planning reader opens the log.
    """

    def __init__(self, root: str, options: Options, schema: pa.Schema, *, is_projection: bool) -> None:
        """
        Args:
            is_projection: the user named the columns.
        """
        self._root = root
        self._options = options
        self._limits = TriggerLimits(options.max_records_per_trigger, options.max_bytes_per_trigger, ReadMaxRows)
        self._schema = schema
        self._is_projection = is_projection
        self._opened: tuple[ChannelLog, ChannelPlanner, StreamSubscriber | None] | None = None
        self._first: LogOffset | None = None
        self._is_bounded = False
        self._end: Position | None = None
        self._pause = 0.0
        self._made: dict[str, Any] | None = None

    def _open(
        self, said: Mapping[str, Any] | None = None
    ) -> tuple[ChannelLog, ChannelPlanner, StreamSubscriber | None]:
        """The follower; `said` is the offset at which the first batch of a run begins, if the query ran before."""
        if self._opened is None:
            reader = said.get(READER) if isinstance(said, Mapping) else None  # it may be of another source
            if reader is not None and not str(reader).startswith(ANONYMOUS):
                raise PbioError(
                    "PBIO_BAD_OFFSET",
                    f"the checkpoint's offset names the reader {str(reader)[:80]!r}",
                    hint="the checkpoint belongs to another query; start with a new one",
                )
            log, name = ChannelLog(self._root, self._options, reader), self._options.subscriber
            try:
                planner = ChannelPlanner(log, self._options, self._schema, is_projection=self._is_projection)
                planner.check_types()
            except BaseException:
                if log.eager is not None and log.eager.is_new:
                    log.eager.leave()
                raise
            self._opened = log, planner, None if name is None else StreamSubscriber(name, log.space.folder, log)
            if self._is_bounded:
                self._end = log.now()
            if log.eager is not None:
                _leave_in_order()
        return self._opened

    def _to_json(self, offset: LogOffset) -> dict[str, Any]:
        """An offset, with the name under which sources know the query, so that it is recognised by its checkpoint."""
        log, *_ = self._open()
        made = offset_to_json(offset, log.space.id)
        if log.eager is not None and log.eager.is_anonymous:
            made[READER] = log.eager.name
        return made

    def _resumed(self, said: Mapping[str, Any]) -> LogOffset:
        """A stored offset, for the channels that are read now."""
        log, *_ = self._open(said)
        offset = json_to_offset(said, log.space.id)
        return log.resumed(offset if log.eager is None else log.eager.resumed(offset))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        log, _, subscriber = self._open()
        if self._first is None:  # Spark asks twice, and the latest position changes
            first = log.first("latest")
            is_new = subscriber is None or (log.eager is not None and log.eager.is_new)
            self._first = first if is_new or subscriber is None else subscriber.start(first)
        return self._to_json(self._first)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self._limits.default()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._is_bounded = True
        if self._options.modulator is None:
            self._open()
        if self._opened is not None:
            self._end = self._opened[0].now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        log, _, subscriber = self._open(start)
        said = json_to_offset(start, log.space.id)
        log.checked(max((said.position, *said.starts.values())))
        place = self._resumed(start)
        if log.eager is not None:
            log.eager.stay()
        if subscriber is not None:
            subscriber.finish(place)  # the query has durably finished everything before a batch's start
        time.sleep(self._pause)
        latest = log.latest(place, self._end, *self._limits.under(limit))
        if log.eager is not None:
            log.eager.tell()
        is_idle = latest == place and not log.space.folder.is_local
        self._pause = min(max(2 * self._pause, 0.01), LONGEST_PAUSE) if is_idle else 0.0
        self._made = self._to_json(said if latest == place else latest)
        return self._made

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        log, planner, _ = self._open(start)
        first, last = (json_to_offset(said, log.space.id) for said in (start, end))
        pieces = log.pieces(self._resumed(start), last.position)
        # A failed batch is planned again without announcing its formats: the user has seen why it failed.
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

    def stop(self) -> None:
        """Spark has ended the query: sources stop running its code, unless it has a name.

        A query whose driver has died may be restarted, and then finds its code.
        """
        if self._opened is not None and self._opened[0].eager is not None and (_ended.is_set() or not in_worker()):
            self._opened[0].eager.leave()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, ChannelStreamPartition):
            yield from read_stretches(
                partition.root, partition.plans, partition.reading, fail_on_loss=partition.fail_on_loss
            )
