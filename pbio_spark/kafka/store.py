"""`KafkaStore`: formats by ID in a compacted topic, whose keys are IDs and whose values are bodies."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pbio_spark.errors import PbioError
from pbio_spark.formats.body.layouts import MAX_BODY
from pbio_spark.formats.format import Format
from pbio_spark.kafka.address import parse_address
from pbio_spark.kafka.client import Client, log
from pbio_spark.kafka.log_reader import TopicReader
from pbio_spark.kafka.settings import NO_SETTINGS
from pbio_spark.kafka.topics import loses, make_compacted, refuse_loss

MOST_BYTES = 64 << 20
"""The most bytes of bodies that a process remembers; others are read again."""

MOST_BAD = 1000
"""How many unusable messages are remembered, to report the error when their format is requested."""

ROOM = 1 << 16
"""The bytes of a message besides a body."""


@dataclass(slots=True)
class _Known:
    """The place and the identity of a body."""

    partition: int
    offset: int
    digest: bytes


class KafkaStore:
    """Formats in a topic. The first `put` creates it, compacted and with one partition.

    A format is durable on the brokers when `put` returns. The store remembers where the bodies are, and some of them;
    for an unknown ID, it reads the new messages. It skips, with a warning, a message that is not a format or has
    another ID than its body; requesting that ID is an error that says where the message is. A null value removes a
    format.

    Pickling a store keeps its address and settings.

    Args:
        address: `kafka://host:port/topic`.
        settings: of the client, as Spark names them, without `kafka.` before them, such as `security.protocol`.
        most_bytes: of bodies that are remembered.

    Raises PBIO_BAD_OPTION, PBIO_MISSING_EXTRA; the methods raise PBIO_KAFKA if the brokers cannot be reached.
    """

    def __init__(
        self, address: str, settings: Mapping[str, str] = NO_SETTINGS, *, most_bytes: int = MOST_BYTES
    ) -> None:
        self.address = parse_address(address)
        self._settings = dict(settings)
        self._most_bytes = most_bytes
        self._lock = threading.RLock()
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._client = Client(self.address.brokers, self._settings)
        self._reader = TopicReader(self._client, self.address.topic, self._clear)
        self._clear()

    def _clear(self) -> None:
        """Forget what the topic held, and the producer, which for some time takes a topic that is new for missing."""
        self._known: dict[bytes, _Known] = {}
        self._bodies: OrderedDict[bytes, Format] = OrderedDict()
        self._size = 0
        self._bad: OrderedDict[bytes, PbioError] = OrderedDict()
        self._is_checked = False
        self._loss: str | None = None
        self._producer: Any = None

    @property
    def place(self) -> str:
        """The name of the store in errors."""
        return str(self.address) if self._reader.is_open else f"{self.address} (there is no such topic)"

    def get(self, format_id: bytes) -> Format | None:
        """Raises PBIO_BAD_BODY, PBIO_BAD_ID or PBIO_FORMAT_CONFLICT if all messages with the ID are unusable."""
        with self._own():
            if format_id not in self._known:
                self._catch_up()
            found = self._load(format_id)
            if format_id in self._bad and found is None:
                raise copy(self._bad[format_id])  # callers add places to what they catch
            return found

    def find(self, format_ids: Iterable[bytes]) -> list[Format]:
        """The formats of some IDs that the topic has; an ID with only unusable messages counts as missing."""
        wanted = list(format_ids)
        with self._own():
            if not self._known.keys() >= set(wanted):
                self._catch_up()
            return [found for format_id in wanted if (found := self._load(format_id)) is not None]

    def put(self, format: Format) -> None:  # noqa: A002
        """Raises PBIO_BAD_OPTION if the topic is not compacted, because formats would be lost."""
        format.verify_id()
        topic = self.address.topic
        with self._own():
            if not self._catch_up():
                room = str(MAX_BODY + ROOM)
                make_compacted(self._client, topic, {"max.message.bytes": room})
                self._catch_up()
            if self._loss is not None:
                self._loss = loses(self._client, topic)  # it may have been mended
            if self._loss is not None:
                raise refuse_loss(self._client, topic, self._loss)
            if format.id not in self._known:
                self._produce(format)
                self._catch_up()
            # Another writer may have been faster, and an ID that is not a hash may have two bodies.
            known = self._known.get(format.id)
            if known is None:
                bad = copy(self._bad.get(format.id))
                raise bad or self._client.failed(f"keep a format in {topic!r}", "it is not there")
            if known.digest != _digest(format.body):
                raise self._conflict(format.id, known)

    def __iter__(self) -> Iterator[Format]:
        with self._own():
            if not self._catch_up():
                log.warning("%s: there is no such topic yet, and no format", self.address)
            ids = sorted(self._known)
        for format_id in ids:
            with self._own():
                found = self._load(format_id)
            if found is not None:
                yield found

    def close(self) -> None:
        """Leave the brokers. The store can be used again."""
        with self._own():
            self._reader.close()

    def __reduce__(self) -> tuple[Callable[..., KafkaStore], tuple[str, dict[str, str]]]:
        return shared_store, (str(self.address), self._settings)

    def _own(self) -> threading.RLock:
        """The lock. After a fork, it first forgets what belongs to the parent process."""
        if self._process != os.getpid():
            # The parent's threads do not exist here, so its clients cannot even be closed.
            _OF_OTHERS.append((self._reader, self._client, self._producer))
            self._lock = threading.RLock()
            self._reset()
        return self._lock

    def _catch_up(self) -> bool:
        """Read the new messages; returns whether the topic exists."""
        is_there = self._reader.read(self._take)
        if is_there and not self._is_checked:
            self._is_checked = True
            self._loss = loses(self._client, self.address.topic)
            if self._loss is not None:
                log.warning("%s", refuse_loss(self._client, self.address.topic, self._loss))
        return is_there

    def _take(self, message: Any) -> None:
        key, body = message.key() or b"", message.value()
        partition, offset = message.partition(), message.offset()
        if body is None:
            self._known.pop(key, None)
            self._forget(key)
            return
        try:
            form = Format.from_body(body, key)
            form.verify_id()
        except PbioError as error:
            self._refuse(key, error, partition, offset)
            return
        known = self._known.get(key)
        if known is not None and known.digest != _digest(body):
            self._refuse(key, self._conflict(key, known), partition, offset)
            return
        self._known[key] = _Known(partition, offset, _digest(body))
        self._remember(form)

    def _refuse(self, key: bytes, error: PbioError, partition: int, offset: int) -> None:
        error.at(file=f"{self.address}, partition {partition}", offset=offset, format=key[:12].hex() or None)
        log.warning("a message of the format store is skipped: %s", error)
        self._bad[key[:12]] = error
        if len(self._bad) > MOST_BAD:
            self._bad.popitem(last=False)

    def _load(self, format_id: bytes) -> Format | None:
        """A format that is known, from memory or from the topic."""
        for _ in range(2):
            known = self._known.get(format_id)
            if known is None:
                return None
            if format_id in self._bodies:
                self._bodies.move_to_end(format_id)
                return self._bodies[format_id]
            message = self._reader.one(known.partition, known.offset)
            if message is not None and message.key() == format_id:
                form = Format.from_body(message.value() or b"", format_id)
                form.verify_id()
                self._remember(form)
                return form
            # It was put again since, and compaction has removed this one; or the topic was created again.
            self._reader.close()
            self._known.clear()
            self._catch_up()
        return None

    def _remember(self, form: Format) -> None:
        self._forget(form.id)
        self._bodies[form.id] = form
        self._size += len(form.body)
        while self._size > self._most_bytes and len(self._bodies) > 1:
            self._forget(next(iter(self._bodies)))

    def _forget(self, format_id: bytes) -> None:
        gone = self._bodies.pop(format_id, None)
        self._size -= 0 if gone is None else len(gone.body)

    def _produce(self, form: Format) -> None:
        topic = self.address.topic
        if self._producer is None:
            room = {"acks": "all", "linger.ms": "0", "message.max.bytes": str(MAX_BODY + ROOM)}
            room["delivery.timeout.ms"] = str(int(1000 * self._client.timeout))
            self._producer = self._client.producer(room)
        producer = self._producer
        errors: list[Any] = ["no answer in time"]

        def delivered(error: Any, _: Any) -> None:
            errors[0] = error

        with self._client.trouble(f"keep a format in {topic!r}"):
            producer.produce(topic, key=form.id, value=form.body, on_delivery=delivered)
            producer.flush(self._client.timeout + 1)
        if errors[0] is not None:
            raise self._client.failed(f"keep a format in {topic!r}", errors[0])

    def _conflict(self, format_id: bytes, known: _Known) -> PbioError:
        return PbioError(
            "PBIO_FORMAT_CONFLICT",
            f"the store has another body with this ID, at offset {known.offset} of partition {known.partition}",
            file=str(self.address),
            format=format_id.hex(),
            hint="one of the two bodies comes from a damaged file or from another format server",
        )


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()


_SHARED: dict[tuple[str, tuple[tuple[str, str], ...]], KafkaStore] = {}
_OF_OTHERS: list[object] = []


def shared_store(address: str, settings: Mapping[str, str] = NO_SETTINGS) -> KafkaStore:
    """The store of an address, one for all users in this process, so that a topic is read once.

    Raises PBIO_BAD_OPTION, PBIO_MISSING_EXTRA.
    """
    key = address, tuple(sorted(settings.items()))
    if key not in _SHARED:
        _SHARED[key] = KafkaStore(address, settings)
    return _SHARED[key]
