"""A new broker makes the topics that it is asked for by name: ours are made by us, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from pbio_spark import ChannelSpace, PbioDeserializer, PbioError, PbioSerializer
from pbio_spark.kafka.address import Address
from pbio_spark.kafka.client import Client
from pbio_spark.kafka.inward import RelayIn
from pbio_spark.kafka.outward import OutwardOptions, RelayOut
from pbio_spark.kafka.store import KafkaStore
from pbio_spark.kafka.topics import loses
from tests.kafka.test_serializers import OLD
from tests.kafka.test_store import ONE, PATIENT, admin, make, say


def topics(broker: str) -> set[str]:
    """All but those of the broker itself."""
    return {name for name in admin(broker).list_topics(timeout=30).topics if not name.startswith("__")}


def test_the_broker_makes_topics_of_itself(broker: str, topic: str) -> None:
    say(broker, topic, (None, b"x"))
    assert topic in topics(broker)
    assert loses(Client(broker, {}), topic) is not None


def test_the_first_serialiser_makes_a_topic_that_is_kept(broker: str, topic: str) -> None:
    address = f"kafka://{broker}/{topic}"
    before = topics(broker)
    store = KafkaStore(address)
    assert (store.get(ONE.id), list(store)) == (None, [])
    assert topics(broker) == before  # to look makes nothing
    record = PbioSerializer(OLD, address)({"host": "a", "load": 0.5})
    assert topics(broker) == {*before, topic}
    assert loses(Client(broker, {}), topic) is None
    assert PbioDeserializer(address)(record) == {"host": "a", "load": 0.5}


def test_a_topic_that_is_deleted_is_not_made_by_those_who_have_it_open(broker: str, topic: str) -> None:
    store = KafkaStore(f"kafka://{broker}/{topic}", PATIENT)
    store.put(ONE)
    client = admin(broker)
    client.delete_topics([topic])[topic].result()
    assert store.find([OLD.id]) == []
    with pytest.raises(PbioError, match=r"\[PBIO_KAFKA\]"):
        store._produce(OLD)  # as if it went while a format is put
    assert topic not in topics(broker)
    store.put(OLD)
    assert loses(Client(broker, {}), topic) is None
    assert list(KafkaStore(f"kafka://{broker}/{topic}")) == [OLD]


def test_a_relay_makes_what_it_needs(broker: str, topic: str, tmp_path: Any) -> None:
    space = ChannelSpace.create(str(tmp_path / "space"))
    space.create_channel("loads", OLD).submit([{"host": "a", "load": 0.5}])
    make(broker, topic)
    options = OutwardOptions(formats=f"kafka://{broker}/{topic}-formats", progress=f"{topic}-relays")
    assert RelayOut(space.channel("loads"), Address(broker, topic), options).run() == 1
    for name in (f"{topic}-formats", f"{topic}-relays"):
        assert loses(Client(broker, {}), name) is None


def test_a_misspelled_topic_is_an_error_and_is_not_made(broker: str, topic: str, tmp_path: Any) -> None:
    make(broker, topic)
    space = ChannelSpace.create(str(tmp_path / "space"))
    loads, before = space.create_channel("loads", OLD), topics(broker)
    for relay in (RelayIn, RelayOut):
        with pytest.raises(PbioError, match=rf"\[PBIO_BAD_OPTION\] there is no topic(.|\n)*did you mean '{topic}'"):
            relay(loads, Address(broker, f"{topic}x"))
    with pytest.raises(PbioError, match=r"there is no topic(.|\n)*kafka-topics --create"):
        RelayOut(loads, Address(broker, "Qq"))
    assert topics(broker) == before
    assert space.subscribers() == []
