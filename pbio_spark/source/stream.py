"""Reading a growing folder as a stream. What follows the folder is `follow`, what reads the files is `reader`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from pbio_spark.columns.read import Wanted
from pbio_spark.source.follow import Follower
from pbio_spark.source.listing import DataFile
from pbio_spark.source.options import Options
from pbio_spark.source.planning import Split, pack
from pbio_spark.source.progress import Progress, progress_from_json, progress_to_json
from pbio_spark.source.reader import read_splits
from pbio_spark.source.schema import is_wanted
from pbio_spark.source.wanted import options_to_wanted, with_converters, with_request


class PbioStreamPartition(InputPartition):
    """What one task of a micro-batch reads, and all that it needs for it."""

    def __init__(self, wanted: Wanted, splits: tuple[Split, ...]) -> None:
        super().__init__(None)
        self.wanted = wanted
        self.splits = splits


class PbioStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark makes two: one plans all batches in a process of its own, the other is copied to the tasks and reads.

    So whatever a task needs travels in its partition.
    """

    def __init__(self, paths: Sequence[str], options: Options, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._follower = Follower(paths, options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return progress_to_json(Progress())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        if self._options.max_files_per_trigger is not None:
            return ReadMaxFiles(self._options.max_files_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._follower.stop_growing()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        # Spark passes one limit; if both options are set, the other one holds as well.
        limits = (
            (None, None)
            if isinstance(limit, ReadAllAvailable)
            else (self._options.max_files_per_trigger, self._options.max_bytes_per_trigger)
        )
        return progress_to_json(self._follower.latest(progress_from_json(start), *limits))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        progress = progress_from_json(end)
        splits = []
        for path, file in progress.files.items():
            if file.start is None:
                continue
            formats = tuple(self._follower.formats_of(path, file.to.offset).values())
            stop = file.to.offset if file.damaged is None else file.damaged
            partition = self._follower.folders_of(path)
            splits.append(
                Split(
                    DataFile(path, stop, file.modified, partition), file.start.offset, stop, file.start.ordinal, formats
                )
            )
        return [PbioStreamPartition(self._wanted_for(group, progress), group) for group in pack(splits, self._options)]

    def _wanted_for(self, splits: Sequence[Split], progress: Progress) -> Wanted:
        """What the tasks need for these splits. A file is never divided, so that its records stay in their order."""
        folders = [name for name, _ in splits[0].file.partition]
        wanted = options_to_wanted(self._options, self._schema, folders)
        known = dict.fromkeys(f for split in splits for f in split.formats)
        formats = [f for f in known if is_wanted(f, self._options)]
        wanted = replace(wanted, formats=tuple(known))
        wanted = with_request(wanted, self._options, formats, is_projection=True, is_stream=True)
        size = sum(split.end - split.start for split in splits)
        wanted = with_converters(wanted, tuple(formats), size)
        is_one = progress.names and wanted.request is None
        return replace(wanted, only_name=progress.names[0]) if is_one else wanted

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, PbioStreamPartition):
            yield from read_splits(partition.wanted, partition.splits, self._options)
