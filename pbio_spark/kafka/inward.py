"""`RelayIn`: archives the records of a topic in a channel, each once.

Each commit of messages of a partition is a batch of an application named after the partition, numbered by the offset of
its last message: the log of the space itself says where a relay resumes. Two relays at once duplicate nothing: the
space refuses the batch of one if the other has published since.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from pbio_spark.channels import Channel, ChannelInfo, Deriver, Prepared, Publisher, RecordPreparer, Records
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.kafka.address import Address
from pbio_spark.kafka.client import READ_ONLY, Client, log
from pbio_spark.kafka.outward import FORMATS
from pbio_spark.kafka.stores import format_missing, open_store, put_with_priors, refuse_own
from pbio_spark.wire import ItemKind
from pbio_spark.wire.container import legible_id

MOST_MESSAGES = 10_000
"""The most messages of a partition in one commit."""

LOOK_AGAIN = 30.0
"""Seconds between two searches for new partitions of a followed topic."""

_LONGEST_NAME = 200
"""The most characters of a producer's name, which a key becomes."""

OF_A_MESSAGE = frozenset(
    {"PBIO_UNKNOWN_FORMAT", "PBIO_REJECTED", "PBIO_TRAP", "PBIO_UNEXPECTED_NULL", "PBIO_VALUE_BEYOND_TYPE"}
    | {"PBIO_BAD_RECORD", "PBIO_BAD_POINTER", "PBIO_BAD_STRING", "PBIO_BAD_VALUE", "PBIO_BAD_BODY", "PBIO_BAD_ID"}
    | {"PBIO_RECORD_EXPANDS", "PBIO_RECORD_TOO_LARGE", "PBIO_CANNOT_BE_NULL", "PBIO_INCOMPATIBLE_TYPE"}
    | {"PBIO_FORMAT_CONFLICT", "PBIO_BAD_OPT_INFO", "PBIO_BAD_LAYOUT", "PBIO_BAD_TYPE_STRING"}
)
"""Errors of a message; only these are a reason to leave it out."""


@dataclass(frozen=True, slots=True)
class InwardOptions:
    """The options of a relay.

    Attributes:
        formats: the store of the formats; by default the topic `pbio-formats` of the same brokers.
        settings: of the client, as Spark names them without `kafka.`.
        wait: seconds to wait for a format that the store lacks.
        on_bad: whether a message that cannot be an event of the channel is an error, or is left out and logged. The
            same holds for messages that the topic removed before they were archived.
    """

    formats: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0
    on_bad: Literal["fail", "skip"] = "fail"


@dataclass(slots=True)
class _Partition:
    """A partition: its name in the space, the last offset published, and whether its end was reached."""

    application: str
    last: int
    waiting: list[Any] = field(default_factory=list)
    is_at_end: bool = False


class RelayIn:
    """Relays a topic to a channel: each message becomes an event whose producer is the message's key.

    Messages without a value are left out, and so are messages that the topic removed before the first run. The space
    knows the last message that became an event, not those left out after it: a relay reads these again, and takes them
    for lost if the topic has removed them.
    """

    def __init__(self, channel: Channel, source: Address, options: InwardOptions = InwardOptions()) -> None:
        """Raises PBIO_KAFKA, PBIO_MISSING_EXTRA, PBIO_BAD_OPTION."""
        self._channel = channel
        self._source = source
        self._options = options
        space = channel.space
        self._client = Client(source.brokers, options.settings)
        address = options.formats or f"kafka://{source.brokers}/{FORMATS}"
        refuse_own(source, address)
        self._store = open_store(address, options.settings, options.wait)
        self._preparer = RecordPreparer(space.formats)
        self._publisher = Publisher(space.folder, space.history, space.formats, Deriver(space.formats, space.source))
        self._formats: dict[bytes, Format] = {}
        self._parts = self._places()
        config = {**READ_ONLY, "isolation.level": "read_committed", "auto.offset.reset": "error"}
        self._consumer = self._client.consumer(config)
        with self._client.trouble(f"read topic {source.topic!r}"):
            self._consumer.assign([self._start(number, one) for number, one in self._parts.items()])

    def run(self, *, follow: bool = False) -> int:
        """Relay available messages and, with `follow`, later ones; returns the number of events.

        Raises:
            PbioError: PBIO_KAFKA; with `on_bad=fail` what is wrong with a message, and its place; PBIO_OTHER_BATCH if
                another relay reads the same topic; what publishing raises.
        """
        count, silent, looked = 0, 0.0, time.monotonic()
        while follow or not all(one.is_at_end for one in self._parts.values()):
            began = time.monotonic()
            silent = 0.0 if self._fetch() else silent + time.monotonic() - began
            if silent > self._client.timeout and not follow:
                # The client searches for lost brokers forever, and does not report it here.
                raise self._client.failed(f"read topic {self._source.topic!r}", "no answer in time")
            for number, one in self._parts.items():
                if one.waiting:
                    count += self._publish(number, one)
            if follow and time.monotonic() - looked > LOOK_AGAIN:
                self._look_for_partitions()
                looked = time.monotonic()
        return count

    def close(self) -> None:
        """End it."""
        self._consumer.close()

    def _places(self) -> dict[int, _Partition]:
        """The partitions, each with its last offset in the space."""
        topic = self._source.topic
        found = self._client.topic(topic)
        if found is None:
            raise self._client.missing(topic)
        with self._channel.space.history.lock:
            known = self._channel.space.history.catch_up().transactions
        parts = {}
        for number in found.partitions:
            # A topic that is created again starts from 0; so does the same topic in another channel.
            application = f"kafka {topic} {found.id}/{number} to {self._channel.id}"
            parts[number] = _Partition(application, known.get(application, (-1, 0))[0])
        return parts

    def _look_for_partitions(self) -> None:
        """Read new partitions of the topic, from their first messages on."""
        try:
            new = {number: one for number, one in self._places().items() if number not in self._parts}
            if not new:
                return
            with self._client.trouble(f"read topic {self._source.topic!r}"):
                self._consumer.list_topics(self._source.topic, self._client.timeout)  # tells the consumer of them
                starts = [self._start(number, one) for number, one in new.items()]
        except PbioError as error:
            if error.code != "PBIO_KAFKA":
                raise
            # A relay that follows survives a time without brokers.
            log.info("cannot look for new partitions now: %s", error)
            return
        log.info("%s: new partitions: %s", self._source, ", ".join(map(str, new)))
        with self._client.trouble(f"read topic {self._source.topic!r}"):
            self._consumer.incremental_assign(starts)
        self._parts |= new

    def _start(self, number: int, one: _Partition) -> Any:
        """The offset at which a partition is read. Raises PBIO_EVENTS_GONE if messages after the last one are
        removed."""
        place = self._client.kafka.TopicPartition(self._source.topic, number, one.last + 1)
        first, _ = self._consumer.get_watermark_offsets(place, timeout=self._client.timeout)
        if first > one.last + 1 and one.last >= 0:
            reason = f"the topic has removed messages {one.last + 1} to {first - 1}, which were not archived yet"
            fails = self._options.on_bad == "fail"
            hint = "on_bad='skip', --skip-bad, continues after them" if fails else None
            error = PbioError("PBIO_EVENTS_GONE", reason, file=f"{self._source}, partition {number}", hint=hint)
            if fails:
                raise error
            log.warning("%s", error)
        place.offset = max(first, one.last + 1)
        return place

    def _fetch(self) -> bool:
        """Get some messages or ends of partitions; returns whether there were any."""
        kafka = self._client.kafka
        with self._client.trouble(f"read topic {self._source.topic!r}"):
            messages = self._consumer.consume(MOST_MESSAGES, 0.2)
        for message in messages:
            error = message.error()
            if error is None:
                one = self._parts[message.partition()]
                one.waiting.append(message)
                one.is_at_end = False
            elif error.code() == kafka.KafkaError._PARTITION_EOF:
                self._parts[message.partition()].is_at_end = True
            elif not error.retriable():
                raise self._client.failed(f"read topic {self._source.topic!r}", error)
        return bool(messages)

    def _publish(self, number: int, one: _Partition) -> int:
        """Publish the waiting messages of a partition in one commit; returns the number of events."""
        messages, one.waiting = one.waiting, []
        self._channel.space.history.catch_up()
        prepared = self._prepare([message for message in messages if message.value() is not None])
        last = messages[-1].offset()
        if not prepared:
            return 0  # the next run skips them again, since the space does not know of them
        place = f"{self._source}, partition {number}"
        try:
            published = self._publisher.publish([prepared], (one.application, last), after=one.last)
        except PbioError as error:
            raise error.at(file=place) from None
        log.debug("%s: %d events archived, up to offset %d", place, published.events, last)
        one.last = last
        return published.events

    def _prepare(self, messages: Sequence[Any]) -> list[Prepared]:
        """The events of messages; those of bad ones are left out, if they may be."""
        try:
            return self._prepared(messages)
        except PbioError as error:
            if error.code not in OF_A_MESSAGE:
                raise
        made: list[Prepared] = []
        for message in messages:  # find the bad ones
            try:
                made += self._prepared([message])
            except PbioError as error:
                if error.code not in OF_A_MESSAGE:
                    raise
                if self._options.on_bad == "fail":
                    raise _placed(error, message) from None
                log.warning("a message is left out: %s", _placed(error, message))
        return made

    def _prepared(self, messages: Sequence[Any]) -> list[Prepared]:
        return [
            prepared
            for producer, run in _runs(messages)
            for prepared in self._preparer.prepare(self._records(producer, run), self._find)
        ]

    def _find(self, name: str) -> ChannelInfo:
        info = self._channel.space.find(name)
        if info.id != self._channel.id:
            raise PbioError(
                "PBIO_UNKNOWN_CHANNEL",
                f"the channel {name!r} was dropped and created again",
                hint="start the relay again for the channel that is there now",
            )
        return info

    def _records(self, producer: str | None, messages: Sequence[Any]) -> Records:
        values = [message.value() for message in messages]
        heads = [(ItemKind.DATA << 24 | len(v) >> 32).to_bytes(4) + (len(v) & 0xFFFFFFFF).to_bytes(4) for v in values]
        forms = [self._format(value) for value in values]
        numbers = {form: number for number, form in enumerate(dict.fromkeys(forms))}
        return Records(
            self._channel.name,
            b"".join(part for pair in zip(heads, values, strict=True) for part in pair),
            np.cumsum([0, *(8 + len(value) for value in values)], dtype=np.int64),
            tuple(numbers),
            np.array([numbers[form] for form in forms], np.int32),
            producer,
        )

    def _format(self, value: bytes) -> Format:
        format_id = legible_id(value[:12])
        known = self._formats.get(format_id)
        if known is None:
            found = self._store.find([format_id]) if format_id else []
            if not found:
                if format_id:
                    self._store.get(format_id)  # raises the reason, if it knows one
                raise format_missing(value, self._store)
            known = self._formats[format_id] = found[0]
            put_with_priors(known, self._store, self._channel.space.formats)
        return known


def _runs(messages: Sequence[Any]) -> Iterator[tuple[str | None, list[Any]]]:
    """Messages that follow each other and have one key, which names the producer if it is text."""
    run: list[Any] = []
    for message in messages:
        if run and run[-1].key() != message.key():
            yield _producer(run[0].key()), run
            run = []
        run.append(message)
    if run:
        yield _producer(run[0].key()), run


def _producer(key: bytes | None) -> str | None:
    """The producer that a key names: as text, else in hexadecimal. Of a long key, its start and a digest.

    >>> _producer(b"agent-7"), _producer(bytes.fromhex("ff01")), _producer(b"")
    ('agent-7', 'ff01', None)
    >>> _producer(b"x" * 5000) == _producer(b"x" * 5001), len(_producer(b"x" * 5000))
    (False, 165)
    """
    if not key:
        return None
    with suppress(UnicodeDecodeError):
        text = key.decode()
        if text.isprintable() and len(text) <= _LONGEST_NAME:
            return text
    text = key.hex()
    return text if len(text) <= _LONGEST_NAME else f"{text[:100]} {hashlib.sha256(key).hexdigest()}"


def _placed(error: PbioError, message: Any) -> PbioError:
    """An error with the place of its message."""
    error.file = f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
    error.offset = error.record = None
    return error
