"""Writing to channels: tasks write data files, and the driver publishes them in one commit.

The driver prepares what tasks need and refuses what can be refused there. It compiles encoders and derivations, so
tasks neither compile nor open the log. A task that fails removes its files; if its job fails, the abort removes the
files of the other tasks; `vacuum` finds the rest.

A stream's batch is identified by its query's ID and its number, which come from the checkpoint: a batch that is retried
after its commit is not published again. If a batch of that number was published with other events, the checkpoint does
not belong to that batch, and it is unknown which of the events are in the space.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pbio_spark.channels import (
    ChannelInfo,
    ChannelSpace,
    Columns,
    Data,
    Deriver,
    Packed,
    Preparer,
    Publisher,
    Source,
    Submission,
    seconds_to_wait,
    stored_format,
    wait_for_subscribers,
)
from pbio_spark.columns import checksum_kernel, ranges_kernel
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.source.channels.task import EventTask, remove
from pbio_spark.source.options.derived import machine_of, nulls_of, options_to_key
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.naming import find_format
from pbio_spark.source.reason_first import says_reason_first

log = logging.getLogger("pbio_spark.source")

K = TypeVar("K")
V = TypeVar("V")

WARM = 4096
"""For how many channels the driver prepares tasks, if each row names its own. Tasks prepare the others themselves."""

COMPILED = 1024
"""The most encoders that it compiles for them at once, at 2 to 3 ms each; types that differ only in their names share
one."""

_KEPT = 16
"""How many channel spaces, sets of compiled tools and refusals a driver's process caches: Spark makes a new writer for
every micro-batch, and another for its commit."""


@dataclass(frozen=True, slots=True)
class TaskEvents(WriterCommitMessage):
    """The result of one task.

    Attributes:
        space: the ID of the channel space that it wrote to.
        query: the ID of the stream; None in batches.
        packed: its data files.
    """

    space: str
    query: str | None
    packed: tuple[Packed, ...]


@dataclass(slots=True)
class _Tools:
    """Encoders and derivations of events, compiled.

    Attributes:
        control: the control version for which everything that tasks need is compiled.
    """

    preparer: Preparer
    deriver: Deriver
    control: int = -1


class _Writer:
    """Publishes batches of one schema. Created on the driver; a copy writes in each task."""

    def __init__(self, root: str, options: Options, schema: pa.Schema, overwrite: bool) -> None:
        """
        Raises:
            PbioError: PBIO_NO_SPACE, PBIO_UNKNOWN_CHANNEL, PBIO_REJECTED, and what else `Preparer.prepare` raises that
                can be known without rows; PBIO_BAD_OPTION for an overwrite, and for contradictory options;
                PBIO_UNKNOWN_FORMAT and what `evolve` raises for transforms.
        """
        if overwrite:
            raise PbioError(
                "PBIO_BAD_OPTION",
                "events of a channel cannot be overwritten: its log only grows",
                file=root,
                hint='mode("append"); `keep` and vacuum remove old events',
            )
        self.root = root
        self.schema = schema
        self._null_value = options.null_value
        self._fail_on_loss = options.fail_on_data_loss
        self._has_number = True
        self._summing = checksum_kernel()
        self._ranging = ranges_kernel()
        self._seconds = seconds_to_wait(options.delivery, options.sync_timeout)
        columns = Columns(
            options.channel_column, options.producer_column, options.sequence_column, options.event_time_column
        )
        empty = schema.empty_table()
        self._submission = Submission(options.channel, empty, producer=options.producer, columns=columns)
        space = _opened(root)
        self._space = space.id
        self._folder = space.folder
        try:
            with space.history.lock:
                state = space.history.catch_up()
                named = None if options.channel is None else state.named(options.channel)
                fixed = named if options.channel_column is None else None
                self._state = state.outline(None if fixed is None else fixed.id)
            infos = self._channels() if fixed is None else [fixed]
            self._tools = _tools(space, options, schema, infos)
            self._warm(infos)
        except PbioError as error:
            raise error.at(file=root) from None

    def _channels(self) -> list[ChannelInfo]:
        """One channel of each type, and channels with derived ones, the most recently used first."""
        latest = sorted(self._state.channels.values(), key=lambda info: info.last)
        of_type = {info.format: info for info in latest}
        parents = self._state.parents
        return [info for info in reversed(latest) if info.id in parents or of_type[info.format] is info]

    def _warm(self, infos: Sequence[ChannelInfo]) -> None:
        """Compile what tasks need, and refuse what no row can fix."""
        if self._tools.control == self._state.control:
            return
        preparer, deriver = self._tools.preparer, self._tools.deriver
        preparer.check(self._submission)
        # Only the rows tell whether one names a channel that its columns do not suit.
        doubtful = () if self._submission.columns.channel is None else (PbioError,)
        parents, most = self._state.parents, len(preparer.encoders) + COMPILED
        with suppress(PbioError):  # which the channel concerned raises again
            preparer.fetch(infos[:WARM])
        for info in infos[:WARM]:
            if len(preparer.encoders) >= most:
                break
            with suppress(*doubtful):
                form = preparer.warm(info, self._submission, self._null_value)
                if info.id in parents:
                    deriver.warm(info.id, form, self._state)
        self._tools.control = self._state.control

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskEvents:
        context = TaskContext.get()
        assert context is not None
        task = EventTask(
            self.root,
            context.partitionId(),
            self._folder,
            self.schema,
            self._tools.preparer,
            self._tools.deriver,
            self._state,
            self._submission,
            self._null_value,
            self._summing if self._has_number else None,
            self._ranging,
        )
        packed = task.write(iterator)
        return TaskEvents(self._space, context.getLocalProperty("sql.streaming.queryId"), tuple(packed))

    def _publish(self, messages: Sequence[WriterCommitMessage | None], transaction: tuple[str, int] | None) -> None:
        """Publish what tasks wrote, if anything.

        Raises what `Publisher.publish` and `wait_for_subscribers` raise, and PBIO_NO_SPACE.
        """
        packed = _packed(messages)
        if not packed:
            return
        space = _opened(self.root)
        if {message.space for message in messages if isinstance(message, TaskEvents)} != {space.id}:
            raise PbioError(
                "PBIO_NO_SPACE",
                "the channel space was replaced since the write began",
                file=self.root,
                hint="write again: nothing was published",
            )
        publisher = Publisher(space.folder, space.history, space.formats, self._tools.deriver)
        published = publisher.publish(
            packed, transaction, fail_on_loss=self._fail_on_loss, is_gapless=isinstance(self, ChannelStreamWriter)
        )
        self._warn_of_refusals(space, published.version)
        if published.known and not published.events:
            # A retried batch ends here, too; but a producer that restarts at 0 would mistake this for success.
            reason = "the transaction, or the sequence numbers of the producers, are not above the last ones"
            log.warning("%s: all %d events had been published before: %s", self.root, published.known, reason)
        elif published.known:
            log.info("%s: %d of the events had been published before", self.root, published.known)
        if self._seconds is not None:
            channels = {channel for one in packed for channel in one.own.rows["channel"].tolist()}
            wait_for_subscribers(space.folder, space.history, channels, published.version, self._seconds)

    def _warn_of_refusals(self, space: ChannelSpace, version: int | None) -> None:
        """Warn which derived channels lack the events of a commit, and why; once for each reason."""
        entry = None if version is None else space.history.entry(version)
        refused = entry.change.refused if entry is not None and isinstance(entry.change, Data) else ()
        for channel, reason in refused:
            key = self.root, channel, reason
            is_known = _refusals.pop(key, False)
            _kept(_refusals, key, True)
            if is_known:
                continue
            info = space.history.state.channels.get(channel)
            name = channel if info is None else repr(info.name)
            log.warning("%s: the events of channel %s are not derived: %s", self.root, name, reason)

    def _discard(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the files of a job that failed before its commit; later they may already be published."""
        if None in messages:
            remove(self._folder, _packed(messages))


@says_reason_first
class ChannelWriter(_Writer, DataSourceArrowWriter):
    """`df.write`: one commit for all rows."""

    def __init__(self, root: str, options: Options, schema: pa.Schema, overwrite: bool) -> None:
        super().__init__(root, options, schema, overwrite)
        name, number = options.txn_app_id, options.txn_version
        self._transaction = None if name is None or number is None else (name, number)
        self._has_number = self._transaction is not None

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._publish(messages, self._transaction)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._discard(messages)


@says_reason_first
class ChannelStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream`: one commit for each micro-batch that has rows."""

    def __init__(self, root: str, options: Options, schema: pa.Schema, overwrite: bool) -> None:
        """Raises what `_Writer` raises; PBIO_BAD_OPTION for outputMode("complete"), an overwrite to Spark."""
        if overwrite:
            raise PbioError(
                "PBIO_BAD_OPTION",
                'a channel cannot take outputMode("complete"), which replaces all rows: its log only grows',
                file=root,
                hint='use outputMode("append"), with withWatermark for an aggregation, or publish in foreachBatch',
            )
        super().__init__(root, options, schema, overwrite)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        queries = [message.query for message in messages if isinstance(message, TaskEvents)]
        if queries:
            assert queries[0] is not None
            self._publish(messages, (queries[0], batch_id))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        self._discard(messages)


def _packed(messages: Iterable[WriterCommitMessage | None]) -> list[Packed]:
    return [one for message in messages if isinstance(message, TaskEvents) for one in message.packed]


_spaces: dict[str, ChannelSpace] = {}
_tools_of: dict[object, _Tools] = {}
_refusals: dict[tuple[str, int, str], bool] = {}


def _opened(root: str) -> ChannelSpace:
    """A channel space, which this process may already have open. Raises what `ChannelSpace.open` raises."""
    space = _spaces.pop(root, None)
    if space is None or not space.is_there:
        space = ChannelSpace.open(root)
    return _kept(_spaces, root, space)


def _tools(space: ChannelSpace, options: Options, schema: pa.Schema, infos: Sequence[ChannelInfo]) -> _Tools:
    """The tools for some columns, possibly from the cache."""
    key = space.id, schema, options_to_key(replace(options, txn_version=None))
    known = _tools_of.pop(key, None)
    if known is not None:
        return _kept(_tools_of, key, known)
    transforms = tuple(
        (find_format(target, options, _targets(target, space, infos)), program)
        for _, target, program in options.transforms
    )
    nulls = None if options.nulls is None else nulls_of(options)
    preparer = Preparer(space.formats, machine=machine_of(options), transforms=transforms, nulls=nulls)
    tools = _Tools(preparer, Deriver(space.formats, Source(services=options.services)))
    return _kept(_tools_of, key, tools)


def _targets(said: str, space: ChannelSpace, infos: Sequence[ChannelInfo]) -> Iterable[Format]:
    """The formats in which a transform's type is searched: first those of the channels, then all."""
    own = [stored_format(info.format, space.formats) for info in infos]
    return own if any(said in (form.name, form.id.hex()) for form in own) else space.formats


def _kept(known: dict[K, V], key: K, value: V) -> V:
    """Cache a value as the newest, and drop the oldest if there are too many."""
    known[key] = value
    if len(known) > _KEPT:
        del known[next(iter(known))]
    return value
