"""`PbioDataSource`, the class that Spark calls.

Light to import, since Spark imports it in processes that may never use it; the methods import what they need.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from pbio_spark.errors import PbioError
from pbio_spark.source.options.parse import parse_options, paths_of, space_of
from pbio_spark.source.options.scopes import Scope
from pbio_spark.source.reason_first import RefusedStream, says_reason_first
from pbio_spark.source.settled import in_worker

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pbio_spark.source.channels.reader import ChannelReader
    from pbio_spark.source.channels.stream import ChannelStreamReader
    from pbio_spark.source.channels.writer import ChannelStreamWriter, ChannelWriter
    from pbio_spark.source.files.planning import FileScan
    from pbio_spark.source.files.reader import PbioReader
    from pbio_spark.source.follow.stream import PbioStreamReader
    from pbio_spark.source.write.writer import PbioWriter


@says_reason_first
class PbioDataSource(DataSource):
    """PBIO/FFS files as a Spark data source: `spark.read.format("pbio")`, `spark.readStream`, `df.write`.

    Spark pickles it after `schema()` and calls the other methods on the copy.
    """

    _scan: FileScan | None = None
    """The files that `schema()` found; None if the user gave a schema, or channels are read."""

    _is_inferred = False
    """Whether `schema()` was called: the user gave none."""

    @classmethod
    def name(cls) -> str:
        return "pbio"

    def schema(self) -> StructType:
        """The columns of the files, if the user gave none. Raises what `scan_files` and `scan_to_schema` raise."""
        from pyspark.sql.types import StructType

        from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_spark_json
        from pbio_spark.source.files.planning import scan_files, scan_to_schema

        options = parse_options(self.options, Scope.READ, Scope.STREAM)
        self._is_inferred = True
        if options.reads_channels:
            from pbio_spark.source.channels.plan import channels_to_schema

            columns = channels_to_schema(space_of(self.options), options)
        else:
            self._scan = scan_files(paths_of(self.options), options, all_formats=True)
            columns = scan_to_schema(self._scan)
        return StructType.fromJson(json.loads(arrow_to_spark_json(columns)))

    def reader(self, schema: StructType) -> PbioReader | ChannelReader:
        from pbio_spark.source.arrow import spark_to_arrow
        from pbio_spark.source.files.planning import scan_files
        from pbio_spark.source.files.reader import PbioReader
        from pbio_spark.source.query.request import is_request

        options = parse_options(self.options, Scope.READ)
        if options.reads_channels:
            from pbio_spark.source.channels.reader import ChannelReader

            return ChannelReader(
                space_of(self.options), options, spark_to_arrow(schema), is_projection=not self._is_inferred
            )
        scan = self._scan or scan_files(paths_of(self.options), options, all_formats=is_request(options))
        return PbioReader(scan, spark_to_arrow(schema), is_projection=self._scan is None)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        try:
            return self._stream_reader(schema)
        except PbioError as error:
            if not in_worker():
                raise
            return RefusedStream(error)

    def _stream_reader(self, schema: StructType) -> PbioStreamReader | ChannelStreamReader:
        from pbio_spark.source.arrow import spark_to_arrow
        from pbio_spark.source.follow.stream import PbioStreamReader
        from pbio_spark.source.options.derived import refuse_inference

        options = parse_options(self.options, Scope.STREAM)
        if options.reads_channels:
            from pbio_spark.source.channels.stream import ChannelStreamReader

            return ChannelStreamReader(
                space_of(self.options), options, spark_to_arrow(schema), is_projection=not self._is_inferred
            )
        if self._scan is not None:
            refuse_inference(options.schema_inference)
        return PbioStreamReader(paths_of(self.options), options, spark_to_arrow(schema))

    def writer(self, schema: StructType, overwrite: bool) -> PbioWriter | ChannelWriter:
        from pbio_spark.source.arrow import spark_to_arrow
        from pbio_spark.source.write.writer import PbioWriter

        (path,) = paths_of(self.options)
        options = parse_options(self.options, Scope.WRITE)
        if options.writes_channels:
            from pbio_spark.source.channels.writer import ChannelWriter

            return ChannelWriter(path, options, spark_to_arrow(schema), overwrite)
        return PbioWriter(path, options, spark_to_arrow(schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> ChannelStreamWriter:  # noqa: N802 - Spark's name
        from pbio_spark.source.arrow import spark_to_arrow

        (path,) = paths_of(self.options)
        options = parse_options(self.options, Scope.WRITE_STREAM)
        if not options.writes_channels:
            from pbio_spark.source.write.writer import refuse_space

            refuse_space(path)
            raise PbioError(
                "PBIO_USE_A_CHANNEL",
                "cannot write a stream to a plain folder, where a retried batch would appear twice",
                file=path,
                hint="write to a channel space with the option channel or channelColumn: its log keeps each batch "
                "once; `pbio space init` makes one",
            )
        from pbio_spark.source.channels.writer import ChannelStreamWriter

        return ChannelStreamWriter(path, options, spark_to_arrow(schema), overwrite)
