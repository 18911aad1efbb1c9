"""The options of format stores, which keep formats apart from records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pbio_spark.source.options import values
from pbio_spark.source.options.scopes import DECODES, Scope, option

KAFKA_PREFIX = "kafka."
"""The prefix of settings for Kafka's clients, each of which is an option."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """Where formats are looked up by ID and stored."""

    format_store: str | None = option(
        values.text,
        None,
        *DECODES,
        Scope.WRITE,
        Scope.TO,
        doc="A format store (the folder that holds `_formats`, or a topic, `kafka://host:port/topic`) for records "
        "whose formats the files lack; `to_pbio` stores its format there.",
    )
    format_wait: float = option(
        values.seconds,
        0.0,
        *DECODES,
        doc="How long to wait for a format that `formatStore` lacks, once for each ID in each process. This helps "
        "with stores that are mirrored after the records.",
    )
    kafka: Mapping[str, str] = option(
        values.prefix,
        dict,
        *DECODES,
        Scope.WRITE,
        Scope.TO,
        doc="A prefix, not one option: `kafka.security.protocol`, `kafka.sasl.jaas.config` and all other settings "
        "of Kafka's clients, for a `formatStore` in a topic, with the names of Spark's own Kafka source.",
    )
