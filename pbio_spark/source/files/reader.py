"""Reading: planning on the driver, reading in tasks.

Every task gets the pickled reader: the plan, with compiled converters. A partition adds places.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pbio_spark.source.files.being_read import note_files
from pbio_spark.source.files.planning import FileScan, Split, plan_partitions
from pbio_spark.source.files.splits import read_splits, scan_to_plan
from pbio_spark.source.reason_first import says_reason_first


class PbioPartition(InputPartition):
    """What one task reads, and the files to note although the query need not read them."""

    def __init__(self, splits: tuple[Split, ...], spared: tuple[str, ...] = ()) -> None:
        super().__init__(None)
        self.splits = splits
        self.spared = spared


@says_reason_first
class PbioReader(DataSourceReader):
    """Reads files in batches. The constructor plans everything, because Spark pickles the reader before it calls it."""

    def __init__(self, scan: FileScan, schema: pa.Schema, *, is_projection: bool) -> None:
        """Plan.

        Args:
            is_projection: the user named the columns.

        Raises what `scan_to_plan` raises.
        """
        self._options = scan.options
        self._plan = scan_to_plan(scan, schema, is_projection=is_projection)
        found = plan_partitions(scan.files, scan.outlines, scan.options, self._plan)
        read = {split.file.path for splits in found for split in splits}
        spared = tuple(file.path for file in scan.files if file.size and file.path not in read)
        first = found[0] if found else ()
        self._partitions = [PbioPartition(first, spared), *map(PbioPartition, found[1:])] if found or spared else []

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_partitions": []}  # each task gets its own

    def partitions(self) -> list[InputPartition]:
        return list(self._partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        splits, spared = (partition.splits, partition.spared) if isinstance(partition, PbioPartition) else ((), ())
        note_files([*spared, *(split.file.path for split in splits)])
        return read_splits(self._plan, splits, self._options)
