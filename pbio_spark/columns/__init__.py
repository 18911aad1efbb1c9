"""Columns: record bytes <-> Arrow record batches, by kernels generated per format and schema.

numbers   which number may become which Arrow type
lossless  lossless conversion of values
defaults  the values of columns that no field fills
decode    record bytes -> Arrow arrays
encode    Arrow batches -> record bytes
encoders  one encoder for all formats of equal shape
programs  E-code between records and rows: transforms and filters
files     files -> batches of one schema, bad records by mode
rows      Python rows -> Arrow batches
row_encoder  few rows -> records, without Arrow
values    records as binary values, both ways
checksums  the CRC-32 of each of many records

Other packages use only the names that this module exports, each imported at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ecode.suggest import no_attribute

if TYPE_CHECKING:
    from pbio_spark.columns.checksums import checksum_kernel, record_checksums
    from pbio_spark.columns.decode.converter import Converter, Decoded
    from pbio_spark.columns.decode.symbols import schema_to_symbols
    from pbio_spark.columns.encode.encoder import Encoded, Encoder, RecordBuffer, format_to_encoder
    from pbio_spark.columns.encode.null_value import BLANK, NullValue, null_replacement
    from pbio_spark.columns.encoders import Encoders
    from pbio_spark.columns.files.batches import MODE_HINT, BatchMaker
    from pbio_spark.columns.files.chunks import UNKNOWN_FORMAT, Chunk, Chunker, Resumption
    from pbio_spark.columns.files.compile import plan_read, plan_to_excluding, route_of, with_converters
    from pbio_spark.columns.files.decoders import AnyDecoder
    from pbio_spark.columns.files.names import renamed
    from pbio_spark.columns.files.plan import (
        CORRUPT_TYPE,
        METADATA_TYPE,
        BatchLimits,
        ErrorPolicy,
        FilePart,
        ReadPlan,
        Selection,
    )
    from pbio_spark.columns.files.ranges import RangeFinder, RangeMaker, limited, ranges_kernel
    from pbio_spark.columns.files.read import read_batches
    from pbio_spark.columns.files.walk import ITEM_HEAD, Stop, Walked, Walker
    from pbio_spark.columns.lossless import exactly, text_to_number
    from pbio_spark.columns.numbers import Conversion, field_to_conversion
    from pbio_spark.columns.programs.converter import (
        AnyConverter,
        FilterConverter,
        FilterDecoder,
        ProgramConverter,
        samples_of,
        statics_of,
        with_parameters,
        with_samples,
        with_state,
    )
    from pbio_spark.columns.programs.excluded import Excluding
    from pbio_spark.columns.programs.gathered import GatherableFilter
    from pbio_spark.columns.programs.routes import (
        PARAMETERS,
        STATE,
        RecordRoute,
        Request,
        check_filter,
        check_says_something,
        find_route,
        records_to_targets,
        rejection_to_error,
    )
    from pbio_spark.columns.programs.together import decode_apart, gather, runs_apart, select_apart, select_together
    from pbio_spark.columns.programs.unfilled import (
        NAMES_SHOWN,
        converter_to_unfilled,
        is_below,
        listed,
        schema_to_paths,
        struct_at,
        suggestion,
    )
    from pbio_spark.columns.row_encoder import RowEncoder, format_to_row_encoder
    from pbio_spark.columns.rows import Rows, check_rows, columns_to_batch, rows_to_batch, with_row
    from pbio_spark.columns.values import ValueReader, structs_to_values

__all__ = [
    "BatchLimits",
    "CORRUPT_TYPE",
    "ErrorPolicy",
    "METADATA_TYPE",
    "FilePart",
    "ReadPlan",
    "Selection",
    "plan_read",
    "plan_to_excluding",
    "route_of",
    "with_converters",
    "read_batches",
    "RangeFinder",
    "RangeMaker",
    "limited",
    "ranges_kernel",
    "Chunk",
    "Chunker",
    "Resumption",
    "UNKNOWN_FORMAT",
    "ITEM_HEAD",
    "Stop",
    "Walked",
    "Walker",
    "MODE_HINT",
    "AnyDecoder",
    "BatchMaker",
    "renamed",
    "PARAMETERS",
    "STATE",
    "RecordRoute",
    "Request",
    "check_filter",
    "check_says_something",
    "find_route",
    "records_to_targets",
    "rejection_to_error",
    "Excluding",
    "AnyConverter",
    "FilterConverter",
    "FilterDecoder",
    "GatherableFilter",
    "gather",
    "ProgramConverter",
    "decode_apart",
    "runs_apart",
    "select_apart",
    "select_together",
    "Converter",
    "Decoded",
    "samples_of",
    "statics_of",
    "with_parameters",
    "with_samples",
    "with_state",
    "NAMES_SHOWN",
    "converter_to_unfilled",
    "is_below",
    "listed",
    "schema_to_paths",
    "struct_at",
    "suggestion",
    "Encoded",
    "Encoder",
    "Encoders",
    "RecordBuffer",
    "format_to_encoder",
    "BLANK",
    "NullValue",
    "null_replacement",
    "schema_to_symbols",
    "RowEncoder",
    "format_to_row_encoder",
    "Rows",
    "check_rows",
    "columns_to_batch",
    "rows_to_batch",
    "with_row",
    "ValueReader",
    "structs_to_values",
    "exactly",
    "text_to_number",
    "Conversion",
    "field_to_conversion",
    "checksum_kernel",
    "record_checksums",
]

_HOMES = {
    "checksums": ("checksum_kernel", "record_checksums"),
    "decode.symbols": ("schema_to_symbols",),
    "encode.encoder": ("Encoded", "Encoder", "RecordBuffer", "format_to_encoder"),
    "encode.null_value": ("BLANK", "NullValue", "null_replacement"),
    "encoders": ("Encoders",),
    "files.batches": ("MODE_HINT", "BatchMaker"),
    "files.decoders": ("AnyDecoder",),
    "files.chunks": ("Chunk", "Chunker", "Resumption", "UNKNOWN_FORMAT"),
    "files.compile": ("plan_read", "plan_to_excluding", "route_of", "with_converters"),
    "files.names": ("renamed",),
    "files.plan": ("BatchLimits", "CORRUPT_TYPE", "ErrorPolicy", "METADATA_TYPE", "FilePart", "ReadPlan", "Selection"),
    "files.ranges": ("RangeFinder", "RangeMaker", "limited", "ranges_kernel"),
    "files.read": ("read_batches",),
    "files.walk": ("ITEM_HEAD", "Stop", "Walked", "Walker"),
    "lossless": ("exactly", "text_to_number"),
    "numbers": ("Conversion", "field_to_conversion"),
    "decode.converter": ("Converter", "Decoded"),
    "programs.excluded": ("Excluding",),
    "programs.converter": (
        "AnyConverter",
        "FilterConverter",
        "FilterDecoder",
        "ProgramConverter",
        "samples_of",
        "statics_of",
        "with_parameters",
        "with_samples",
        "with_state",
    ),
    "programs.gathered": ("GatherableFilter",),
    "programs.together": ("decode_apart", "gather", "runs_apart", "select_apart", "select_together"),
    "programs.routes": (
        "PARAMETERS",
        "STATE",
        "RecordRoute",
        "Request",
        "check_filter",
        "check_says_something",
        "find_route",
        "records_to_targets",
        "rejection_to_error",
    ),
    "programs.unfilled": (
        "NAMES_SHOWN",
        "converter_to_unfilled",
        "is_below",
        "listed",
        "schema_to_paths",
        "struct_at",
        "suggestion",
    ),
    "row_encoder": ("RowEncoder", "format_to_row_encoder"),
    "rows": ("Rows", "check_rows", "columns_to_batch", "rows_to_batch", "with_row"),
    "values": ("ValueReader", "structs_to_values"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"pbio_spark.columns.{home}"), name)
    raise no_attribute(__name__, name, __all__)
