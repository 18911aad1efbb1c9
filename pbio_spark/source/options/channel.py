"""The options of reading and publishing channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pbio_spark.source.options import values
from pbio_spark.source.options.reading import ReadOptions
from pbio_spark.source.options.scopes import READS, WRITES, Scope, option

if TYPE_CHECKING:
    from ecode import Function
    from pbio_spark.channels import Modulator


@dataclass(frozen=True, slots=True)
class ChannelOptions(ReadOptions):
    """`ReadOptions`, and the options of channels."""

    channel: str | None = option(
        values.text, None, *READS, *WRITES, doc="The channel to read or to publish to, if the path is a channel space."
    )
    channels: tuple[str, ...] = option(values.names, (), *READS, doc="Several channels to read, as one union.")
    channel_pattern: str | None = option(
        values.pattern,
        None,
        *READS,
        doc="The channels to read, by name; a stream also reads matching channels that are created while it runs.",
    )
    modulator: Modulator | None = option(  # noqa: RUF009 - a field, as the others
        values.modulator,
        None,
        *READS,
        doc="Code that runs at the sources of the channel's events; the query reads its events: see [eager "
        "handlers](../events/eager-handlers.md#from-spark). For a stream, sources run it while the query runs or, "
        "with `subscriber`, as long as that name is known; for a batch, from the first read with this code on.",
    )
    parameters: Mapping[str, Any] | str | None = option(
        values.parameters, None, *READS, doc="The values of `param` for the code of `modulator`."
    )
    starting_offsets: str | tuple[int, ...] | None = option(
        values.starting_place,
        None,
        *READS,
        doc="The first event to read: `earliest` (the default in batches), new events only (`latest`, the "
        "default in streams), or the event at a position. A stream with a checkpoint resumes there.",
    )
    starting_timestamp: int | None = option(
        values.published_since, None, *READS, doc="Read the events published at this time and later."
    )
    ending_offsets: str | tuple[int, ...] = option(
        values.ending_place, "latest", Scope.READ, doc="The position after the last event to read."
    )
    max_records_per_trigger: int | None = option(
        values.positive, None, Scope.STREAM, doc="The most events of channels that one micro-batch reads."
    )
    fail_on_data_loss: bool = option(
        values.boolean,
        True,
        *READS,
        *WRITES,
        doc="Whether it is an error if events are no longer kept, or if their channel was dropped before they were "
        "read; for writing, if another batch was published under the same number. Otherwise a reader continues "
        "after the lost events, and a writer takes its batch as published.",
    )
    subscriber: str | None = option(
        values.text,
        None,
        Scope.STREAM,
        doc="A name under which the space records the position of the stream: a query without a checkpoint resumes "
        "there, and `keep=subscribed` keeps the events that it has not read. Only one query at a time may use it.",
    )
    channel_column: str | None = option(
        values.text,
        None,
        *WRITES,
        doc="The column that names the channel of each row; if it is null, `channel` names it. Like the three "
        "columns below, it is a field of the events only if the channel's type has a field of that name.",
    )
    producer: str | None = option(
        values.text,
        None,
        *WRITES,
        doc="The producer of the events, if `producerColumn` is not set or its value is null.",
    )
    producer_column: str | None = option(
        values.text, None, *WRITES, doc="The column that names the producer of each event."
    )
    sequence_column: str | None = option(
        values.text,
        None,
        *WRITES,
        doc="The column of integers that rise with each producer's events; events that are already published are "
        "left out. The integers must rise from row to row and from partition to partition, as after "
        "`df.repartition(producer).sortWithinPartitions(producer, sequence)`.",
    )
    event_time_column: str | None = option(
        values.text, None, *WRITES, doc="The column with the time at which an event happened."
    )
    services: tuple[Function | str, ...] = option(
        values.services,
        (),
        *WRITES,
        doc="Services that the writer grants to the code of derived channels. Tasks import the modules too.",
    )
    txn_app_id: str | None = option(
        values.text,
        None,
        Scope.WRITE,
        doc="With `txnVersion`: a name under which numbered writes are published once, no matter how often they "
        "are retried.",
    )
    txn_version: int | None = option(
        values.whole,
        None,
        Scope.WRITE,
        doc="The number of this write, which rises from write to write; in `foreachBatch`, the ID of the batch.",
    )
    delivery: Literal["async", "sync"] = option(
        values.one_of("async", "sync"),
        "async",
        *WRITES,
        doc="Whether a write ends when its events are durable, or when every named subscriber of their channels "
        "has acknowledged them.",
    )
    sync_timeout: float = option(
        values.seconds,
        60.0,
        *WRITES,
        doc="How long a `sync` write waits before it fails. Its events are still published. With `sequenceColumn` "
        "or `txnAppId`, a retry is safe and waits again. Needs `delivery=sync`.",
    )
