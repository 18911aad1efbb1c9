"""`RelayOut`: a named subscriber of a channel that writes each event into a topic, once.

Events and the position after them go into Kafka in one transaction; the position is in a compacted topic of its own,
under the relay's name. A relay that starts ends the transaction of a killed one of its name, reads the position, and
resumes there; only then does the space learn the position. A second relay of that name ends the first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pbio_spark.channels import Channel, Position, Start, Subscription
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.kafka.address import Address
from pbio_spark.kafka.client import Client, log
from pbio_spark.kafka.events import EventReader, RecordEvent
from pbio_spark.kafka.log_reader import TopicReader
from pbio_spark.kafka.stores import open_store, put_with_priors, refuse_own
from pbio_spark.kafka.topics import is_compacted, loses, make_compacted, refuse_loss

PROGRESS = "pbio-relays"
"""The topic, on the same brokers, that keeps the position of each relay."""

FORMATS = "pbio-formats"
"""The topic, on the same brokers, that keeps the formats unless another store is named."""

MOST_EVENTS, MOST_BYTES = 10_000, 8 << 20
"""The approximate size of a transaction."""

MOST_MESSAGE = 1 << 28
"""The largest record that is tried; the topic's `max.message.bytes` decides."""

_PAUSE, _LONGEST_PAUSE = 0.01, 0.5


@dataclass(frozen=True, slots=True)
class OutwardOptions:
    """The options of a relay.

    Attributes:
        subscriber: its name; by default one made of the topic's.
        start: where a new one begins, as for `Channel.subscribe`.
        formats: the store for the formats; by default the topic `pbio-formats` of the same brokers.
        settings: of the client, as Spark names them without `kafka.`.
        progress: the topic that keeps its position.
    """

    subscriber: str | None = None
    start: Start = "earliest"
    formats: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    progress: str = PROGRESS


class RelayOut:
    """Relays a channel to a topic. Messages have the producer as key, and headers that say what the log knows:

    `pbio.position`, and where they are known `pbio.sequence` and `pbio.event_time` (microseconds since 1970 UTC), as
    text; their time is the event's, else that of its publication.
    """

    def __init__(self, channel: Channel, to: Address, options: OutwardOptions = OutwardOptions()) -> None:
        """Raises PBIO_KAFKA, PBIO_MISSING_EXTRA, PBIO_BAD_OPTION, and what `Channel.subscribe` raises."""
        self._channel = channel
        self._to = to
        self._client = Client(to.brokers, options.settings)
        formats = options.formats or f"kafka://{to.brokers}/{FORMATS}"
        refuse_own(to, formats, f"kafka://{to.brokers}/{options.progress}")
        self._store = open_store(formats, options.settings)
        self._known: set[Format] = set()
        self._progress = options.progress
        name = options.subscriber or f"kafka {to.topic}"
        self._key = json.dumps([channel.space.id, channel.id, name, to.topic]).encode()
        found = self._client.topic(to.topic)
        if found is None:
            hint = "create it, with as many partitions as it needs: kafka-topics --create --topic NAME"
            raise self._client.missing(to.topic, hint)
        self._topic_id = found.id
        self._is_compacted = is_compacted(self._client, to.topic)
        if self._is_compacted:
            log.warning("topic %s is compacted: in time it keeps only the last event of each producer", to)
        self._subscription: Subscription = channel.subscribe(start=options.start, name=name)
        self._producer = self._begin(name)
        self._subscription.position = max(self._subscription.position, self._reached())
        self._subscription.acknowledge()
        self._reader = EventReader(channel, self._subscription.position)

    def run(self, *, follow: bool = False) -> int:
        """Relay available events and, with `follow`, later ones; returns how many.

        Raises PBIO_KAFKA, also if another relay of the same name has started; what `EventReader.read` raises.
        """
        count, pause = 0, _PAUSE
        while True:
            events = self._reader.read(MOST_EVENTS, MOST_BYTES)
            if events:
                self._send(events)
                count += len(events)
            # This also records events of other channels, and the presence of the subscriber.
            self._subscription.position = self._reader.position
            self._subscription.acknowledge()
            if not events and not follow:
                return count
            pause = _PAUSE if events else min(2 * pause, _LONGEST_PAUSE)
            if not events:
                time.sleep(pause)

    def close(self) -> None:
        """End it."""
        self._subscription.close()

    def _begin(self, name: str) -> Any:
        config = {
            "transactional.id": f"pbio-relay {self._key.decode()}",
            "message.max.bytes": str(MOST_MESSAGE),
            "linger.ms": "5",
            "partitioner": "murmur2_random",  # as Java's clients: a producer's events stay in one partition
        }
        producer = self._client.producer(config)
        make_compacted(self._client, self._progress, {"segment.bytes": str(1 << 20)})
        if (why := loses(self._client, self._progress)) is not None:
            raise refuse_loss(self._client, self._progress, why)
        with self._client.trouble(f"begin the transactions of {name!r}"):
            producer.init_transactions(self._client.timeout)
        return producer

    def _reached(self) -> Position:
        """The position after the last event that is in Kafka."""
        found: list[bytes] = []

        def take(message: Any) -> None:
            if message.key() == self._key and message.value() is not None:
                found[:] = [message.value()]

        reader = TopicReader(self._client, self._progress)
        reader.read(take)
        reader.close()
        position, _, topic_id = found[0].decode("ascii", "replace").partition(" ") if found else ("", "", "")
        if topic_id not in ("", self._topic_id):
            log.warning(
                "topic %s was created again: it lacks the events before %s, which went to the old topic; "
                "a relay of another name (--subscriber) begins with the first event",
                self._to,
                position,
            )
        return Position.parse(position) if position else Position(0)

    def _send(self, events: Sequence[RecordEvent]) -> None:
        for form in {event.format for event in events} - self._known:
            put_with_priors(form, self._channel.space.formats, self._store)
            self._known.add(form)
        if self._is_compacted and any(event.producer is None for event in events):
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"the topic {self._to.topic!r} is compacted, and takes no events without a producer, which is the key",
                file=str(self._to),
                hint="give the events producers, or relay to a topic with cleanup.policy=delete",
            )
        end = events[-1].position.next
        bad: list[Any] = []

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                bad.append(error)

        with self._client.trouble(f"take events into {self._to.topic!r}"):
            self._producer.begin_transaction()
            try:
                for event in events:
                    self._produce(event, delivered)
                self._put(self._progress, delivered, key=self._key, value=f"{end} {self._topic_id}".encode())
                self._commit()
            except self._client.kafka.KafkaException as exception:
                if not _is_fatal(exception):
                    self._producer.abort_transaction(self._client.timeout)
                if bad:
                    raise self._refused(events, bad[0]) from None
                raise
        log.debug("%s: %d events relayed, up to %s", self._to, len(events), end)

    def _produce(self, event: RecordEvent, delivered: Any) -> None:
        said = {"position": event.position, "sequence": event.sequence, "event_time": event.event_time}
        headers = [(f"pbio.{name}", str(value).encode()) for name, value in said.items() if value is not None]
        when = event.published if event.event_time is None else event.event_time
        key = None if event.producer is None else event.producer.encode("utf-8", "surrogateescape")
        values = {"key": key, "value": event.record, "headers": headers, "timestamp": max(0, when // 1000)}
        self._put(self._to.topic, delivered, **values)

    def _put(self, topic: str, delivered: Any, **message: Any) -> None:
        while True:
            try:
                self._producer.produce(topic, on_delivery=delivered, **message)
            except BufferError:
                self._producer.poll(0.1)  # the client's queue is full
            else:
                return

    def _commit(self) -> None:
        deadline = time.monotonic() + self._client.timeout
        while True:
            try:
                self._producer.commit_transaction(self._client.timeout)
            except self._client.kafka.KafkaException as exception:
                # The outcome is not known yet; asking again is safe.
                if not exception.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _refused(self, events: Sequence[RecordEvent], error: Any) -> PbioError:
        largest = max(len(event.record) for event in events)
        refused = self._client.failed(f"take events into {self._to.topic!r}", error)
        if error.code() == self._client.kafka.KafkaError.MSG_SIZE_TOO_LARGE:
            refused.hint = f"a record has {largest} bytes: raise the topic's max.message.bytes above that"
        return refused.at(record=f"events {events[0].position} to {events[-1].position}")


def _is_fatal(exception: Exception) -> bool:
    return bool(exception.args[0].fatal())
