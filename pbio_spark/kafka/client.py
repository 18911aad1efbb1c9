"""Consumers, producers and admin of the client library for some brokers; its exceptions become PbioErrors."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError
from pbio_spark.extras import require
from pbio_spark.kafka.settings import USUAL, timeout_of, to_client

log = logging.getLogger("pbio_spark.kafka")

TIMEOUT = 30.0
"""Seconds that a call waits for the brokers, unless `default.api.timeout.ms` says otherwise."""

_UNKNOWN = re.compile(r'No such configuration property: "(.*)"')

READ_ONLY = {
    "group.id": "pbio",  # required, but unused: nothing is committed, no consumer joins
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "enable.partition.eof": "true",
    "max.poll.interval.ms": "86400000",
}


@dataclass(frozen=True, slots=True)
class Topic:
    """What the brokers say of a topic.

    Attributes:
        id: distinguishes it from a later one of the same name.
        partitions: their numbers, at least one.
    """

    id: str
    partitions: tuple[int, ...]


class Client:
    """How to reach some brokers. Raises PBIO_BAD_OPTION for settings unknown to the client.

    Attributes:
        brokers: `host:port`, several with commas.
        settings: as Spark names them, without `kafka.`.
        timeout: seconds that a call may take.
        kafka: the client library.
        said: the client's last complaint.
    """

    def __init__(self, brokers: str, settings: Mapping[str, str]) -> None:
        self.brokers = brokers
        self.settings = dict(settings)
        self.timeout = timeout_of(settings, TIMEOUT)
        self.kafka: Any = require("confluent_kafka", "kafka")
        self.said = ""
        self._config = to_client(settings)
        self._admin: Any = None
        if self._config:
            self.admin()  # refuses unknown settings

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

    def topic(self, topic: str) -> Topic | None:
        """A topic, once each partition has a leader; None for a missing topic, which is not created. Raises PBIO_KAFKA.

        Brokers create topics that clients ask for by name, as readers and writers do, unless they are told not to.
        """
        what, errors = f"say what topic {topic!r} is", self.kafka.KafkaError
        deadline = time.monotonic() + self.timeout
        while True:
            left = max(0.001, deadline - time.monotonic())
            asked = self.admin().describe_topics(self.kafka.TopicCollection([topic]), request_timeout=left)
            try:
                found = asked[topic].result()
            except self.kafka.KafkaException as exception:
                self.admin().poll(0)  # logs the reason
                error = exception.args[0]
                if error.code() == errors.UNKNOWN_TOPIC_OR_PART:
                    return None
                if not error.retriable() and error.code() != errors.LEADER_NOT_AVAILABLE:
                    raise self.failed(what, error) from None
                trouble: object = error
            else:
                led = [one.leader is not None and one.leader.id >= 0 for one in found.partitions]
                if led and all(led):
                    return Topic(str(found.topic_id), tuple(sorted(one.id for one in found.partitions)))
                trouble = "no leader"
            if time.monotonic() > deadline:
                raise self.failed(what, trouble)
            time.sleep(0.05)

    def missing(self, topic: str, hint: str = "") -> PbioError:
        """The error for a topic that does not exist. Raises PBIO_KAFKA."""
        with self.trouble("list their topics"):
            known = self.admin().list_topics(timeout=self.timeout).topics  # asking for all creates none
        near = did_you_mean(topic, (name for name in known if not name.startswith("__")))
        place = f"kafka://{self.brokers}/{topic}"
        return PbioError("PBIO_BAD_OPTION", f"there is no topic {topic!r}", file=place, hint=near or hint)

    def failed(self, what: str, error: object) -> PbioError:
        """The error for a request that the brokers cannot serve."""
        text = error.str() if hasattr(error, "str") else str(error)
        said = f" ({self.said})" if self.said and self.said not in text else ""
        return PbioError(
            "PBIO_KAFKA",
            f"the brokers cannot {what}: {text[:300]}{said[:300]}",
            file=f"kafka://{self.brokers}",
            hint="check that they run, and whether they need settings such as kafka.security.protocol; "
            f"a call waits {self.timeout:g} s, which kafka.default.api.timeout.ms changes",
        )

    @contextmanager
    def trouble(self, what: str) -> Iterator[None]:
        """Turn the client's exceptions into PBIO_KAFKA, or PBIO_BAD_OPTION for a setting."""
        try:
            yield
        except self.kafka.KafkaException as exception:
            error = exception.args[0]
            if isinstance(error, self.kafka.KafkaError) and error.code() == self.kafka.KafkaError._INVALID_ARG:
                unknown = _UNKNOWN.search(error.str())
                raise PbioError(
                    "PBIO_BAD_OPTION",
                    f"the Kafka client refuses its settings: {error.str()[:300]}",
                    hint=(unknown and did_you_mean(unknown[1], USUAL))
                    or "kafka.NAME sets what Java's clients call NAME, or librdkafka where it differs",
                ) from None
            raise self.failed(what, error) from None

    def _with(self, config: Mapping[str, str]) -> dict[str, Any]:
        # The client would log every attempt to connect; our errors quote it once. Brokers must not create topics:
        # those that brokers make of themselves are not compacted, and a misspelled one would be read as empty.
        ours = {"log_level": "2", "allow.auto.create.topics": "false"}
        return {**ours, **config, **self._config, "bootstrap.servers": self.brokers, "error_cb": self._note}

    def _note(self, error: Any) -> None:
        self.said = error.str()
