"""PBIO/FFS record streams in Spark: records of any machine and any version of the sender, as one DataFrame.

    >>> import pbio_spark as pbio
    >>> load = pbio.parse_record({"Load": {"host": "string", "load": "float64"}})
    >>> sparc = pbio.Format.of(load, machine="sparc")
    >>> pbio.decode(sparc, pbio.encode(sparc, {"host": "a", "load": 0.5}))
    {'host': 'a', 'load': 0.5}

This module exports all that a program needs (docs/reference/api.md); deeper modules may move. Each name is loaded at
its first use, which keeps the import light. The packages below import only those before them:


    errors     `PbioError`, with a stable code and the facts that help to locate the problem
    extras     optional libraries, and what to install if one is missing
    keywords   misspelled keyword arguments
    buckets    object stores: paths that name no file, and what to do about their failures
    disk       files that appear whole, and file system failures as PbioErrors
    globs      globs as in Hadoop
    paths      from a path to a file system
    spaces     whether a path is inside a channel space
    formats    the layout of a sender's records, byte for byte, and their record type
    wire       files and records in plain Python: the oracle for everything compiled
    columns    record bytes <-> Arrow record batches, by kernels generated per format and schema
    bp5        ADIOS2's BP5 folders: their metadata, arrays and rows
    channels   durable, typed streams of events in a folder, for any number of writers and readers
    kafka      formats in topics, serialisers, relays between topics and channels
    source     the Spark data sources "pbio" and "bp5"
    tables     files as rows and tables, without Spark
    functions  records in binary columns of a DataFrame
    explore    pictures of the evolution of formats and of the flow through channels
    testing    hypothesis strategies of formats and records
    cli        the `pbio` command

Only `source` and `functions` know Spark.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ecode.types import (
        BOOLEAN,
        CHAR,
        ENUMERATION,
        FLOAT32,
        FLOAT64,
        INT8,
        INT16,
        INT32,
        INT64,
        STRING,
        UINT8,
        UINT16,
        UINT32,
        UINT64,
        Array,
        Field,
        Notes,
        Pointer,
        Record,
        Ref,
        Struct,
        record,
    )
    from pbio_spark import explore, testing
    from pbio_spark.channels import (
        Channel,
        ChannelSpace,
        Columns,
        DerivationReport,
        DerivationVersion,
        EagerSubscription,
        Event,
        Modulator,
        NotDeliveredError,
        Position,
        Source,
        Submission,
        Subscription,
        derivations_to_arrow,
    )
    from pbio_spark.errors import PbioError
    from pbio_spark.formats.evolve import evolve
    from pbio_spark.formats.format import Format
    from pbio_spark.formats.formats_to_graph import formats_to_graph
    from pbio_spark.formats.machine import MACHINES, Machine
    from pbio_spark.formats.record_json import json_to_record as parse_record
    from pbio_spark.formats.record_json import record_to_json
    from pbio_spark.formats.store import FolderStore, MemoryStore
    from pbio_spark.functions import format_id_of, from_pbio, schema_of_pbio, to_pbio
    from pbio_spark.gateways.evpath import ThinGateway, ThinSender, ThinSettings
    from pbio_spark.gateways.grid import GridConsumer, GridEvent, GridProducer
    from pbio_spark.kafka.serializers import PbioDeserializer, PbioSerializer
    from pbio_spark.kafka.store import KafkaStore
    from pbio_spark.source.dispatch import dispatch
    from pbio_spark.source.session import spark_session
    from pbio_spark.tables import (
        RecordWriter,
        open_writer,
        read,
        read_arrow,
        read_batches,
        read_formats,
    )
    from pbio_spark.wire.decode import decode
    from pbio_spark.wire.encode import encode
    from pbio_spark.wire.writer import FileWriter

__all__ = [
    # record types
    "record",
    "parse_record",
    "record_to_json",
    "Record",
    "Struct",
    "Field",
    "Array",
    "Pointer",
    "Ref",
    "Notes",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "FLOAT32",
    "FLOAT64",
    "CHAR",
    "BOOLEAN",
    "ENUMERATION",
    "STRING",
    # formats
    "Format",
    "evolve",
    "Machine",
    "MACHINES",
    "FolderStore",
    "MemoryStore",
    "formats_to_graph",
    # records and files without Spark
    "encode",
    "decode",
    "read",
    "read_arrow",
    "read_batches",
    "read_formats",
    "open_writer",
    "RecordWriter",
    "FileWriter",
    # Spark
    "spark_session",
    "from_pbio",
    "to_pbio",
    "schema_of_pbio",
    "format_id_of",
    "dispatch",
    # Kafka
    "KafkaStore",
    "PbioSerializer",
    "PbioDeserializer",
    # event channels
    "ChannelSpace",
    "Channel",
    "Submission",
    "Columns",
    "Subscription",
    "Event",
    "Position",
    "Modulator",
    "DerivationReport",
    "DerivationVersion",
    "derivations_to_arrow",
    "EagerSubscription",
    "Source",
    "NotDeliveredError",
    # gateways
    "GridProducer",
    "GridConsumer",
    "GridEvent",
    "ThinGateway",
    "ThinSender",
    "ThinSettings",
    # errors, pictures, tests
    "PbioError",
    "explore",
    "testing",
]

_HOMES = {
    "ecode.types": (
        *("record", "Record", "Struct", "Field", "Array", "Pointer", "Ref", "Notes"),
        *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
        *("FLOAT32", "FLOAT64", "CHAR", "BOOLEAN", "ENUMERATION", "STRING"),
    ),
    "pbio_spark.formats.record_json": ("record_to_json",),
    "pbio_spark.formats.format": ("Format",),
    "pbio_spark.formats.evolve": ("evolve",),
    "pbio_spark.formats.machine": ("Machine", "MACHINES"),
    "pbio_spark.formats.store": ("FolderStore", "MemoryStore"),
    "pbio_spark.formats.formats_to_graph": ("formats_to_graph",),
    "pbio_spark.kafka.store": ("KafkaStore",),
    "pbio_spark.kafka.serializers": ("PbioSerializer", "PbioDeserializer"),
    "pbio_spark.wire.encode": ("encode",),
    "pbio_spark.wire.decode": ("decode",),
    "pbio_spark.wire.writer": ("FileWriter",),
    "pbio_spark.tables": ("read", "read_arrow", "read_batches", "read_formats", "open_writer", "RecordWriter"),
    "pbio_spark.source.session": ("spark_session",),
    "pbio_spark.source.dispatch": ("dispatch",),
    "pbio_spark.functions": ("from_pbio", "to_pbio", "schema_of_pbio", "format_id_of"),
    "pbio_spark.channels": (
        *("ChannelSpace", "Channel", "Submission", "Columns", "Subscription", "Event", "Position"),
        *("Modulator", "EagerSubscription", "Source", "DerivationReport", "DerivationVersion"),
        "derivations_to_arrow",
        "NotDeliveredError",
    ),
    "pbio_spark.gateways.evpath": ("ThinGateway", "ThinSender", "ThinSettings"),
    "pbio_spark.gateways.grid": ("GridProducer", "GridConsumer", "GridEvent"),
    "pbio_spark.errors": ("PbioError",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_SPARK = ("spark_session", "from_pbio", "to_pbio", "schema_of_pbio", "format_id_of")

# `from pbio_spark import *` exports what is installed.
for _library, _names in (("pyspark", _SPARK), ("hypothesis", ("testing",))):
    if find_spec(_library) is None:
        for _name in _names:
            __all__.remove(_name)


def __getattr__(name: str) -> Any:
    if name in ("explore", "testing"):
        return import_module(f"pbio_spark.{name}")
    if name == "parse_record":
        return import_module("pbio_spark.formats.record_json").json_to_record
    if name in _SPARK:
        from pbio_spark.extras import require

        require("pyspark", "spark")
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    # Imported here: most of what this module gives needs no error with a hint.
    from ecode.suggest import no_attribute

    raise no_attribute(__name__, name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
