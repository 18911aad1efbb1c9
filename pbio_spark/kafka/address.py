"""`kafka://host:port,host:port/topic`: brokers, and a topic on them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pbio_spark.errors import PbioError

SCHEME = "kafka://"

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BROKER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Address:
    """A topic.

    Attributes:
        brokers: `host:port`, several with commas.
        topic: its name.

    >>> parse_address("kafka://a:9092,b:9092/formats")
    Address(brokers='a:9092,b:9092', topic='formats')
    >>> str(parse_address("kafka://a:9092/formats"))
    'kafka://a:9092/formats'
    """

    brokers: str
    topic: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.brokers}/{self.topic}"


def is_kafka(address: str) -> bool:
    """Whether an address, of a format store for instance, is one of Kafka's, if only meant so: `kafka:/h:1/x`."""
    return address.lower().startswith("kafka:")


def parse_address(address: str) -> Address:
    """The brokers and the topic. Raises PBIO_BAD_OPTION."""
    brokers, slash, topic = address[len(SCHEME) :].partition("/")
    reason = None
    if address[: len(SCHEME)].lower() != SCHEME:
        reason = "it does not begin with kafka://"
    elif not brokers or not all(map(_BROKER.fullmatch, brokers.split(","))):
        reason = f"{brokers[:80]!r} is not host:port, or several with commas"
    elif not slash or not topic:
        reason = "the topic is missing"
    elif not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        reason = f"{topic[:80]!r} cannot be a topic: letters, digits, '.', '_' and '-' can"
    if reason is not None:
        hint = "an example is kafka://localhost:9092/formats"
        raise PbioError("PBIO_BAD_OPTION", f"not the address of a topic, {address[:200]!r}: {reason}", hint=hint)
    return Address(brokers, topic)
