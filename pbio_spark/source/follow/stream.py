"""Reading a growing folder as a stream: the class that Spark calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from pbio_spark.columns import ReadPlan
from pbio_spark.source.files.listing import ListedFile, list_files
from pbio_spark.source.files.planning import Split, pack
from pbio_spark.source.files.splits import read_splits
from pbio_spark.source.follow.follower import FileFollower
from pbio_spark.source.follow.loss import refuse_loss
from pbio_spark.source.follow.matching import Comparer, match
from pbio_spark.source.follow.progress import FileProgress, Progress, progress_from_json, progress_to_json
from pbio_spark.source.follow.sight import Sight, look, look_at, open_sight
from pbio_spark.source.limits import TriggerLimits
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.plan import Coming, QueryPlanner
from pbio_spark.source.query.schema import is_wanted
from pbio_spark.source.reason_first import says_reason_first

ATTEMPTS = 5
"""How often to search for a file that is repeatedly renamed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedSplit(Split):
    """A part of a file that may have another name by the time it is read.

    `file` has the name at planning, which rows show however often they are read.

    Attributes:
        progress: what identifies the file.
        sight: the file as it was when the task was planned.
    """

    progress: FileProgress
    sight: Sight


class PbioStreamPartition(InputPartition):
    """What one task of a micro-batch reads, with everything that it needs."""

    def __init__(self, plan: ReadPlan, splits: tuple[Split, ...]) -> None:
        super().__init__(None)
        self.plan = plan
        self.splits = splits


@says_reason_first
class PbioStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark makes two: one plans all batches in a process of its own, the other is copied to the tasks and reads.

    So a partition carries everything that its task needs.
    """

    def __init__(self, paths: Sequence[str], options: Options, schema: pa.Schema) -> None:
        self._options = options
        self._paths = paths
        self._follower = FileFollower(paths, options)
        self._limits = TriggerLimits(options.max_files_per_trigger, options.max_bytes_per_trigger, ReadMaxFiles)
        self._planner = QueryPlanner(options, schema, is_projection=True, is_stream=True, is_open=True)
        self._latest: dict[str, Any] | None = None
        """The most recent offset that this reader planned."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return progress_to_json(Progress())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self._limits.default()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._follower.stop_growing()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        before = progress_from_json(start)
        latest = self._follower.latest(before, *self._limits.under(limit))
        if latest is before:
            return start
        self._latest = progress_to_json(latest)
        return self._latest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if start == end:
            return []
        progress = progress_from_json(end)
        is_latest = end == self._latest
        if is_latest:
            self._follower.refuse_new_formats()
        splits = [self._split(*place) for place in self._follower.places(progress, is_latest=is_latest)]
        return [PbioStreamPartition(self._plan_for(group, progress), group) for group in pack(splits, self._options)]

    def _split(self, file: FileProgress, sight: Sight) -> FollowedSplit:
        assert file.start is not None
        formats = tuple(self._follower.formats_of(file.to, sight).values())
        is_damaged = file.damaged is not None and self._follower.has_damage(sight, file)
        stop = file.damaged if is_damaged and file.damaged is not None else file.to.offset
        return FollowedSplit(
            ListedFile(file.path, stop, file.modified, file.folders),
            file.start.offset,
            stop,
            file.start.ordinal,
            formats,
            file.to.ordinal - file.start.ordinal,
            progress=file,
            sight=sight,
        )

    def _plan_for(self, splits: Sequence[Split], progress: Progress) -> ReadPlan:
        """The plan for these splits. A file is never divided, so that its records stay in order."""
        folders = [name for name, _ in splits[0].file.partition]
        known = dict.fromkeys(f for split in splits for f in split.formats)
        formats = [f for f in known if is_wanted(f, self._options)]
        plan = self._planner.plan(Coming(formats, known, sum(split.end - split.start for split in splits)), folders)
        if progress.names and plan.selection.request is None:
            return replace(plan, selection=replace(plan.selection, only_name=progress.names[0]))
        return plan

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, PbioStreamPartition):
            yield from read_splits(partition.plan, partition.splits, self._options, self._open, is_stream=True)

    @contextmanager
    def _open(self, split: Split) -> Iterator[BinaryIO]:
        """The file of a split, wherever it is now. Raises PBIO_ROWS_GONE, or FileNotFoundError if tolerated."""
        assert isinstance(split, FollowedSplit)
        with ExitStack() as stack:
            yield self._found(split, stack)

    def _found(self, split: FollowedSplit, stack: ExitStack) -> BinaryIO:
        for _ in range(ATTEMPTS):
            sight = self._find(split)
            if sight is None:
                break
            with suppress(FileNotFoundError):  # renamed again
                return stack.enter_context(open_sight(sight))
        refuse_loss(split.progress, self._options)
        raise FileNotFoundError(split.file.path)

    def _find(self, split: FollowedSplit) -> Sight | None:
        file, before = split.progress, split.sight
        sight = look(before.file)
        if sight is not None and sight.stamp == before.stamp:
            return sight
        comparer = Comparer(lambda mark: split.formats)
        if sight is not None and comparer.is_same(sight, file, file.to, whole=False):
            return sight
        sights = look_at(list_files(self._paths, self._options, lambda path: True))
        origins = match([file], sights, comparer, lambda file: False).origins
        return next((s for s in sights if s.path in origins and origins[s.path].start is not None), None)
