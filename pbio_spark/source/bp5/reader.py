"""Reading as a batch: planning on the driver, reading in tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pbio_spark.bp5.rows.read import read_part
from pbio_spark.bp5.rows.wanted import DatasetPart, Wanted
from pbio_spark.source.bp5.plan import looked_at, plan_parts, scan_to_wanted
from pbio_spark.source.bp5.scan import DatasetScan
from pbio_spark.source.files.being_read import note_files
from pbio_spark.source.reason_first import says_reason_first


class Bp5Partition(InputPartition):
    """What one task reads."""

    def __init__(self, parts: tuple[DatasetPart, ...]) -> None:
        super().__init__(None)
        self.parts = parts


@says_reason_first
class Bp5Reader(DataSourceReader):
    """Reads BP5 folders in batches. The constructor plans everything, because Spark pickles the reader before it calls
    it."""

    def __init__(self, scan: DatasetScan, schema: pa.Schema) -> None:
        """Plan. Raises what `scan_to_wanted` and `plan_parts` raise."""
        scan = looked_at(scan)
        self._wanted = scan_to_wanted(scan, schema)
        self._partitions = plan_parts(scan, self._wanted)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_partitions": []}  # each task gets its own

    def partitions(self) -> list[InputPartition]:
        return [Bp5Partition(parts) for parts in self._partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        parts = partition.parts if isinstance(partition, Bp5Partition) else ()
        note_files(part.dataset.path for part in parts)
        return read_parts(self._wanted, parts)


def read_parts(wanted: Wanted, parts: tuple[DatasetPart, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of parts, in order."""
    for part in parts:
        yield from read_part(part, wanted)
