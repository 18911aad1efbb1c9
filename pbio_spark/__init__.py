"""PBIO/FFS record streams in Spark: records of any machine, written by any version of the sender, as one DataFrame.

Each imports only those before it:

    errors     `PbioError`, with a stable code and every fact that helps to find the place
    disk       files that appear whole, and what a file system refuses, as such errors
    spaces     whether a path is inside of a channel space
    formats    what a sender's records look like, byte for byte, and which record type they have
    wire       files and records in plain Python: the oracle for everything compiled
    columns    record bytes <-> Arrow record batches, by kernels generated per format
    channels   typed streams of events in a folder, durable, for any number of writers and readers
    source     the Spark data source "pbio"
    functions  records in binary columns of a DataFrame
    explore    pictures of how formats evolved, and of what flowed through channels
    cli        the `pbio` command

Importing this imports none of them; nothing outside `source` and `functions` knows Spark. Names that are imported from
here are loaded when they are first used: `spark_session` starts Spark with the Python that is running, and `dispatch`
hands the rows of a read with several wanted types to a function for each.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pbio_spark.source.dispatch import dispatch
    from pbio_spark.source.session import spark_session

__all__ = ["dispatch", "spark_session"]

_HOMES = {"dispatch": "pbio_spark.source.dispatch", "spark_session": "pbio_spark.source.session"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
