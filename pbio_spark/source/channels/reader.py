"""Reading channels as a batch, and the work of a task."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pbio_spark.channels import OF_BATCHES, DataFiles, Position
from pbio_spark.columns import ReadPlan
from pbio_spark.errors import PbioError
from pbio_spark.source.channels.log import ChannelLog
from pbio_spark.source.channels.plan import ChannelPlanner, TaskReading
from pbio_spark.source.files.splits import gather
from pbio_spark.source.options.options import Options
from pbio_spark.source.reason_first import says_reason_first

log = logging.getLogger("pbio_spark.source")


class ChannelPartition(InputPartition):
    """What one task reads."""

    def __init__(self, reading: TaskReading) -> None:
        super().__init__(None)
        self.reading = reading


@says_reason_first
class ChannelReader(DataSourceReader):
    """Reads events of channels. The constructor plans everything, because Spark pickles the reader before it calls
    it."""

    def __init__(self, root: str, options: Options, schema: pa.Schema, *, is_projection: bool) -> None:
        """Plan.

        Args:
            is_projection: the user named the columns.

        Raises what `ChannelLog` and `ChannelPlanner` raise.
        """
        channels = ChannelLog(root, options, OF_BATCHES)
        try:
            self._plan(channels, root, options, schema, is_projection)
        except BaseException:
            if channels.eager is not None and channels.eager.is_new:
                channels.eager.leave()
            raise
        if channels.eager is not None and channels.eager.is_new:
            log.warning("%s: sources run this code for %r from now on, so it has no events yet", root, options.channel)

    def _plan(self, channels: ChannelLog, root: str, options: Options, schema: pa.Schema, is_projection: bool) -> None:
        said = options.ending_offsets
        end = channels.end if isinstance(said, str) else Position(*said)
        planner = ChannelPlanner(channels, options, schema, is_projection=is_projection)
        self._root = root
        self._fail = options.fail_on_data_loss
        first = channels.first("earliest")
        if isinstance(options.starting_offsets, tuple) and not isinstance(said, str) and end < first.position:
            reason = f"endingOffsets {end} comes before startingOffsets {first.position}"
            raise PbioError("PBIO_BAD_OPTION", reason, hint="exchange the two")
        self._partitions = planner.partitions(channels.pieces(first, end))
        self._plans = dict(enumerate(planner.plans))

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_partitions": []}  # each task gets its own

    def partitions(self) -> list[InputPartition]:
        return [ChannelPartition(reading) for reading in self._partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, ChannelPartition):
            yield from read_stretches(self._root, self._plans, partition.reading, fail_on_loss=self._fail)


def read_stretches(
    root: str, plans: Mapping[int, ReadPlan], reading: TaskReading, *, fail_on_loss: bool
) -> Iterator[pa.RecordBatch]:
    """The events of stretches, in order, as batches of the plans' schema and of a size that suits Spark.

    Raises what `read_stretch` raises; PBIO_EVENTS_GONE; PBIO_UNEXPECTED_NULL.
    """
    began, rows = time.monotonic(), 0
    files = DataFiles(root, fail_on_loss=fail_on_loss)
    found = (batch for number, stretch in reading.stretches for batch in files.read(plans[number], stretch))
    for batch in gather(found, next(iter(plans.values())).limits):
        rows += batch.num_rows
        yield batch
    log.info("read %d events, %d stretches in %d ms", rows, len(reading.stretches), 1000 * (time.monotonic() - began))
