"""The format store that options name."""

from __future__ import annotations

from pbio_spark.formats.store import FormatStore
from pbio_spark.kafka.stores import open_store
from pbio_spark.source.options.options import Options


def store_of(options: Options) -> FormatStore | None:
    """The store, if any. Raises what `open_store` raises."""
    if options.format_store is None:
        return None
    return open_store(options.format_store, options.kafka, options.format_wait)
