"""Reading: what the driver prepares, and what a task does with it.

The pickled reader is what every task gets: the plan, with its converters compiled. A partition adds places.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pbio_spark.source.files.being_read import note_files
from pbio_spark.source.files.planning import Scan, Split, plan_partitions
from pbio_spark.source.files.splits import read_splits, scan_to_plan
from pbio_spark.source.reason_first import says_reason_first


class PbioPartition(InputPartition):
    """What one task reads."""

    def __init__(self, splits: tuple[Split, ...]) -> None:
        super().__init__(None)
        self.splits = splits


@says_reason_first
class PbioReader(DataSourceReader):
    """Reads files in batches. Everything is planned when it is made, because Spark pickles it before it asks."""

    def __init__(self, scan: Scan, schema: pa.Schema, *, is_projection: bool) -> None:
        """Plan.

        Args:
            is_projection: the user named the columns.

        Raises what `scan_to_plan` raises.
        """
        self._options = scan.options
        self._plan = scan_to_plan(scan, schema, is_projection=is_projection)
        self._partitions = plan_partitions(scan.files, scan.outlines, scan.options, self._plan)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_partitions": []}  # each task gets its own

    def partitions(self) -> list[InputPartition]:
        return [PbioPartition(splits) for splits in self._partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        splits = partition.splits if isinstance(partition, PbioPartition) else ()
        note_files(split.file.path for split in splits)
        return read_splits(self._plan, splits, self._options)
