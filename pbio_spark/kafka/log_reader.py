"""`TopicReader`: the records of a topic in order, up to the end at the time of the call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pbio_spark.extras import require
from pbio_spark.kafka.client import READ_ONLY, Client, Topic

Take = Callable[[Any], None]
"""Gets a message of the client library."""


class TopicReader:
    """Reads all partitions of a topic, each message once over all calls; only whole transactions.

    A topic that was deleted and created again has another ID, and is read from its start.

    Args:
        client: reaches the brokers.
        topic: its name.
        forget: called when the topic appears or goes, before any message of a new one is delivered.
    """

    def __init__(self, client: Client, topic: str, forget: Callable[[], None] = lambda: None) -> None:
        self._client = client
        self._topic = topic
        self._forget = forget
        self._topic_id = ""
        self._consumer: Any = None
        self._ends: dict[int, int] = {}

    @property
    def is_open(self) -> bool:
        """Whether the topic existed when it was last read."""
        return self._consumer is not None

    def read(self, take: Take) -> bool:
        """Deliver unread messages; returns whether the topic exists. Raises PBIO_KAFKA."""
        found = self._client.topic(self._topic)
        topic_id = "" if found is None else found.id
        if topic_id != self._topic_id:
            self.close()
            self._forget()
            self._topic_id = topic_id
        if found is None:
            return False
        if self._consumer is None:
            self._open(found)
        wanted = self._wanted()
        if wanted is None:
            self.close()
            return False
        if any(end < self._ends[number] for number, end in wanted.items()):  # brokers before 2.8 give no IDs
            self.close()
            self._forget()
            return self.read(take)
        self._read_to(wanted, take)
        return True

    def one(self, partition: int, offset: int) -> Any:
        """The message at an offset, or None if it no longer exists. Raises PBIO_KAFKA."""
        consumer = self._client.consumer()
        try:
            with self._client.trouble(f"read topic {self._topic!r}"):
                consumer.assign([self._place(partition, offset)])
                deadline = time.monotonic() + self._client.timeout
                while time.monotonic() < deadline:
                    message = consumer.poll(0.2)
                    if message is None:
                        continue
                    if message.error() is None:
                        return message if message.offset() == offset else None
                    if message.error().code() == self._client.kafka.KafkaError._PARTITION_EOF:
                        return None
            raise self._client.failed(f"read topic {self._topic!r}", "no answer in time")
        finally:
            consumer.close()

    def close(self) -> None:
        """Leave the brokers; the next `read` begins at the start."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer, self._ends = None, {}

    def _open(self, topic: Topic) -> None:
        consumer = self._client.consumer({**READ_ONLY, "isolation.level": "read_committed"})
        try:
            with self._client.trouble(f"read topic {self._topic!r}"):
                consumer.assign([self._place(number, 0) for number in topic.partitions])
            self._ends = dict.fromkeys(topic.partitions, 0)
            self._consumer, consumer = consumer, None
        finally:
            if consumer is not None:
                consumer.close()

    def _wanted(self) -> dict[int, int] | None:
        """The current ends of partitions, including open transactions; None if the topic is gone.

        A transaction that began earlier may hide later commits, so the reader waits for it.
        """
        admin = self._client.admin()
        latest = require("confluent_kafka.admin", "kafka").OffsetSpec.latest()
        specs = {self._place(number, 0): latest for number in self._ends}
        deadline = time.monotonic() + self._client.timeout
        while True:
            asked = admin.list_offsets(specs, request_timeout=self._client.timeout)
            try:
                return {place.partition: future.result().offset for place, future in asked.items()}
            except self._client.kafka.KafkaException as exception:
                error = exception.args[0]
                if self._client.topic(self._topic) is None:
                    return None
                if time.monotonic() > deadline:
                    raise self._client.failed(f"read topic {self._topic!r}", error) from None
                time.sleep(0.1)

    @property
    def _gone(self) -> tuple[int, ...]:
        errors = self._client.kafka.KafkaError
        return errors.UNKNOWN_TOPIC_OR_PART, errors._UNKNOWN_TOPIC, errors._UNKNOWN_PARTITION

    def _read_to(self, wanted: dict[int, int], take: Take) -> None:
        eof = self._client.kafka.KafkaError._PARTITION_EOF
        deadline = time.monotonic() + self._client.timeout
        while any(self._ends[number] < end for number, end in wanted.items()):
            with self._client.trouble(f"read topic {self._topic!r}"):
                message = self._consumer.poll(0.2)
            if message is None:
                if time.monotonic() > deadline:
                    raise self._client.failed(f"read topic {self._topic!r}", "no answer in time")
                continue
            error = message.error()
            if error is not None and error.code() == eof:
                # The last messages may be markers of transactions, which are invisible.
                self._ends[message.partition()] = message.offset()
            elif error is None:
                self._ends[message.partition()] = message.offset() + 1
                take(message)
                deadline = time.monotonic() + self._client.timeout
            elif error.code() in self._gone:
                return
            elif not error.retriable():
                raise self._client.failed(f"read topic {self._topic!r}", error)

    def _place(self, partition: int, offset: int) -> Any:
        return self._client.kafka.TopicPartition(self._topic, partition, offset)
