"""Reading BP5 folders as a stream while they are being written: the class that Spark calls."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pbio_spark.bp5.rows.wanted import DatasetPart, Wanted
from pbio_spark.source.bp5.follow.follower import FolderFollower
from pbio_spark.source.bp5.follow.progress import FolderProgress, json_to_progress, progress_to_json
from pbio_spark.source.bp5.options import Bp5Options
from pbio_spark.source.bp5.plan import looked_at, plan_parts, scan_to_wanted
from pbio_spark.source.bp5.reader import read_parts
from pbio_spark.source.bp5.scan import DatasetScan
from pbio_spark.source.limits import TriggerLimits
from pbio_spark.source.reason_first import says_reason_first

PAUSE = 0.1
"""How long an idle stream waits between checks, since Spark asks all the time."""


class Bp5StreamPartition(InputPartition):
    """What one task of a micro-batch reads, with everything that it needs."""

    def __init__(self, wanted: Wanted, parts: tuple[DatasetPart, ...]) -> None:
        super().__init__(None)
        self.wanted = wanted
        self.parts = parts


@says_reason_first
class Bp5StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """New steps become rows exactly once. A partition carries everything that its task needs."""

    def __init__(self, paths: Sequence[str], options: Bp5Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._follower = FolderFollower(paths, options)
        self._first: dict[str, FolderProgress] | None = None
        self._pause = 0.0
        self._limits = TriggerLimits(options.max_steps_per_trigger, options.max_bytes_per_trigger, ReadMaxRows)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if self._first is None:  # Spark asks twice, and the latest step changes
            self._first = self._follower.start()
        return progress_to_json(self._first)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self._limits.default()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._follower.stop_growing()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        time.sleep(self._pause)
        before = json_to_progress(start)
        latest = self._follower.latest(before, *self._limits.under(limit))
        self._pause = PAUSE if latest == before else 0.0
        return start if latest == before else progress_to_json(latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        found = self._follower.scanned(json_to_progress(start), json_to_progress(end))
        if not found:
            return []
        scan = looked_at(DatasetScan(self._options, tuple(found)), is_stream=True)
        wanted = scan_to_wanted(scan, self._schema, is_stream=True)
        return [Bp5StreamPartition(wanted, parts) for parts in plan_parts(scan, wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Bp5StreamPartition):
            yield from read_parts(partition.wanted, partition.parts)
