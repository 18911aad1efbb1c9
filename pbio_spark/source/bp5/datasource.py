"""`Bp5DataSource`: what Spark calls. Light to import; the methods import what they need."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from pbio_spark.errors import PbioError
from pbio_spark.source.options.parse import paths_of
from pbio_spark.source.options.scopes import Scope
from pbio_spark.source.reason_first import RefusedStream, says_reason_first
from pbio_spark.source.settled import in_worker

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pbio_spark.source.bp5.reader import Bp5Reader
    from pbio_spark.source.bp5.scan import DatasetScan


@says_reason_first
class Bp5DataSource(DataSource):
    """ADIOS2's BP5 folders as a Spark data source: `spark.read.format("bp5")`, `spark.readStream`.

    Spark pickles it after `schema()` and calls the other methods on the copy.
    """

    _scan: DatasetScan | None = None
    """What `schema()` found; None if the user gave a schema."""

    @classmethod
    def name(cls) -> str:
        return "bp5"

    def schema(self) -> StructType:
        """The columns, if the user gave none. Raises what `scan_datasets` and `scan_to_schema` raise."""
        from pyspark.sql.types import StructType

        from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_spark_json
        from pbio_spark.source.bp5.options import parse_bp5_options
        from pbio_spark.source.bp5.plan import scan_to_schema
        from pbio_spark.source.bp5.scan import scan_datasets

        options = parse_bp5_options(self.options, Scope.READ, Scope.STREAM)
        self._scan = scan_datasets(paths_of(self.options), options).surveyed()
        return StructType.fromJson(json.loads(arrow_to_spark_json(scan_to_schema(self._scan))))

    def reader(self, schema: StructType) -> Bp5Reader:
        from pbio_spark.source.arrow import spark_to_arrow
        from pbio_spark.source.bp5.options import parse_bp5_options
        from pbio_spark.source.bp5.reader import Bp5Reader
        from pbio_spark.source.bp5.scan import scan_datasets

        options = parse_bp5_options(self.options, Scope.READ)
        scan = self._scan or scan_datasets(paths_of(self.options), options)
        return Bp5Reader(scan, spark_to_arrow(schema))

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        raise _only_read()

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802 - Spark's name
        raise _only_read()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from pbio_spark.source.arrow import spark_to_arrow
        from pbio_spark.source.bp5.follow.stream import Bp5StreamReader
        from pbio_spark.source.bp5.options import parse_bp5_options
        from pbio_spark.source.options.derived import refuse_inference

        try:
            options = parse_bp5_options(self.options, Scope.STREAM)
            if self._scan is not None:
                refuse_inference(options.schema_inference)
            return Bp5StreamReader(paths_of(self.options), options, spark_to_arrow(schema))
        except PbioError as error:
            if not in_worker():
                raise
            return RefusedStream(error)


def _only_read() -> PbioError:
    hint = 'write the rows with df.write.format("pbio"), or the dataset with ADIOS2'
    return PbioError("PBIO_BAD_OPTION", "BP5 folders can only be read", hint=hint)
