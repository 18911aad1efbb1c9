"""`kafka://host:port,host:port/topic`: brokers, and a topic on them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pbio_spark.errors import PbioError

SCHEME = "kafka://"

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BROKER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+")
_BARE_IPV6 = re.compile(r"([0-9A-Fa-f.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f.]*):([0-9]{1,5})")
_LAST_PORT = 65535


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
    """Whether an address, such as that of a format store, is meant for Kafka, even misspelled: `kafka:/h:1/x`."""
    return address.lower().startswith("kafka:")


def parse_address(address: str) -> Address:
    """The brokers and the topic. Raises PBIO_BAD_OPTION."""
    brokers, slash, topic = address[len(SCHEME) :].partition("/")
    login, at, _ = brokers.rpartition("@")
    if at:
        address = address.replace(login, "***", 1)  # it may end in a log
    reason, hint = None, "an example is kafka://localhost:9092/formats"
    if address[: len(SCHEME)].lower() != SCHEME:
        reason = "it does not begin with kafka://"
    elif at:
        reason = "it cannot hold a login"
        hint = "it is a setting: kafka.security.protocol, kafka.sasl.mechanism and kafka.sasl.jaas.config"
    elif (wrong := next((one for one in brokers.split(",") if not _is_broker(one)), None)) is not None:
        reason = f"{wrong[:80]!r} is not host:port" + (", or several with commas" if wrong == brokers else "")
        hint = _hint(wrong) or hint
    elif not slash or not topic:
        reason = "the topic is missing"
    elif not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        reason = f"{topic[:80]!r} cannot be a topic: use letters, digits, '.', '_' and '-'"
    if reason is not None:
        raise PbioError("PBIO_BAD_OPTION", f"not the address of a topic, {address[:200]!r}: {reason}", hint=hint)
    return Address(brokers, topic)


def _is_broker(text: str) -> bool:
    found = _BROKER.fullmatch(text)
    return found is not None and 0 < int(found[2]) <= _LAST_PORT


def _hint(broker: str) -> str | None:
    """A hint for an address that is not a broker."""
    if found := _BARE_IPV6.fullmatch(broker):
        return f"put an IPv6 address in brackets: [{found[1]}]:{found[2]}"
    if _HOST.fullmatch(broker):
        return f"the port is missing: {broker}:9092 is usual"
    if _BROKER.fullmatch(broker):
        return f"a port is a number from 1 to {_LAST_PORT}"
    return None
