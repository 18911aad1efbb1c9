"""Consumers, producers and admin of the client library for some brokers; its exceptions become PbioErrors."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pbio_spark.errors import PbioError
from pbio_spark.extras import require
from pbio_spark.kafka.settings import timeout_of, to_client

log = logging.getLogger("pbio_spark.kafka")

TIMEOUT = 30.0
"""Seconds that a call may ask the brokers for, unless `default.api.timeout.ms` says otherwise."""

READ_ONLY = {
    "group.id": "pbio",  # must be set, and is not used: nothing is committed, nobody joins
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
    "max.poll.interval.ms": "86400000",
}


class Client:
    """How to reach some brokers.

    Attributes:
        brokers: `host:port`, several with commas.
        settings: as Spark names them, without `kafka.`.
        timeout: seconds that a call may take.
        kafka: the client library.
        said: what the client last complained of.
    """

    def __init__(self, brokers: str, settings: Mapping[str, str]) -> None:
        self.brokers = brokers
        self.settings = dict(settings)
        self.timeout = timeout_of(settings, TIMEOUT)
        self.kafka: Any = require("confluent_kafka", "kafka")
        self.said = ""
        self._config = to_client(settings)
        self._admin: Any = None

    def consumer(self, config: Mapping[str, str] = READ_ONLY) -> Any:
        """Raises PBIO_BAD_OPTION for settings that the client does not know."""
        with self.trouble("be reached"):
            return self.kafka.Consumer(self._with(config), logger=log)

    def producer(self, config: Mapping[str, str]) -> Any:
        """Raises PBIO_BAD_OPTION for settings that the client does not know."""
        with self.trouble("be reached"):
            return self.kafka.Producer(self._with(config), logger=log)

    def admin(self) -> Any:
        """Raises PBIO_BAD_OPTION for settings that the client does not know."""
        admin = require("confluent_kafka.admin", "kafka")
        with self.trouble("be reached"):
            if self._admin is None:
                self._admin = admin.AdminClient(self._with({}), logger=log)
        return self._admin

    def partitions(self, client: Any, topic: str) -> list[int]:
        """The numbers of a topic's partitions; none if there is no such topic. Raises PBIO_KAFKA."""
        deadline = time.monotonic() + self.timeout
        while True:
            with self.trouble(f"say what topic {topic!r} is"):
                try:
                    found = client.list_topics(topic, timeout=self.timeout).topics.get(topic)
                except self.kafka.KafkaException:
                    client.poll(0)  # which tells why
                    raise
            if found is None or found.error is not None:
                error = None if found is None else found.error
                if error is None or error.code() == self.kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return []
                if not error.retriable() and error.code() != self.kafka.KafkaError.LEADER_NOT_AVAILABLE:
                    raise self.failed(f"say what topic {topic!r} is", error)
            elif found.partitions and all(one.leader >= 0 for one in found.partitions.values()):
                return sorted(found.partitions)
            if time.monotonic() > deadline:
                raise self.failed(f"lead topic {topic!r}", "no leader")
            time.sleep(0.05)

    def failed(self, what: str, error: object) -> PbioError:
        """The error of brokers that cannot do something."""
        text = error.str() if hasattr(error, "str") else str(error)
        said = f" ({self.said})" if self.said and self.said not in text else ""
        return PbioError(
            "PBIO_KAFKA",
            f"the brokers cannot {what}: {text[:300]}{said[:300]}",
            file=f"kafka://{self.brokers}",
            hint="see whether they run, and what kafka.security.protocol and the like must be; "
            f"{self.timeout:g} s are waited, or kafka.default.api.timeout.ms",
        )

    @contextmanager
    def trouble(self, what: str) -> Iterator[None]:
        """Turn the client's exceptions into PBIO_KAFKA, or PBIO_BAD_OPTION for a setting."""
        try:
            yield
        except self.kafka.KafkaException as exception:
            error = exception.args[0]
            if isinstance(error, self.kafka.KafkaError) and error.code() == self.kafka.KafkaError._INVALID_ARG:
                raise PbioError(
                    "PBIO_BAD_OPTION",
                    f"the Kafka client refuses its settings: {error.str()[:300]}",
                    hint="kafka.NAME sets what Java's clients call NAME, or librdkafka where it differs",
                ) from None
            raise self.failed(what, error) from None

    def _with(self, config: Mapping[str, str]) -> dict[str, Any]:
        # What it would log of every attempt to connect, our errors quote once.
        return {"log_level": "2", **config, **self._config, "bootstrap.servers": self.brokers, "error_cb": self._note}

    def _note(self, error: Any) -> None:
        self.said = error.str()
