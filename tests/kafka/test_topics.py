"""A new broker creates topics on request: the package creates its own, or none."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest

from pbio_spark import ChannelSpace, PbioDeserializer, PbioError, PbioSerializer
from pbio_spark.kafka.address import Address
from pbio_spark.kafka.client import Client
from pbio_spark.kafka.inward import InwardOptions, RelayIn
from pbio_spark.kafka.outward import OutwardOptions, RelayOut
from pbio_spark.kafka.store import KafkaStore
from pbio_spark.kafka.topics import loses, make_compacted
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


def test_a_relay_into_what_relays_keep_is_refused(broker: str, topic: str, tmp_path: Any) -> None:
    loads = ChannelSpace.create(str(tmp_path / "space")).create_channel("loads", OLD)
    for kept in ({"formats": f"kafka://{broker}/{topic}"}, {"progress": topic}):
        with pytest.raises(PbioError, match="keeps formats or the positions"):
            RelayOut(loads, Address(broker, topic), OutwardOptions(**kept))  # type: ignore[arg-type]
    with pytest.raises(PbioError, match="keeps formats or the positions"):
        RelayIn(loads, Address(broker, topic), InwardOptions(f"kafka://{broker}/{topic}"))
    assert topic not in topics(broker)


def test_a_compacted_topic_keeps_the_last_event_of_each_producer(
    broker: str, topic: str, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    loads = ChannelSpace.create(str(tmp_path / "space")).create_channel("loads", OLD)
    make_compacted(Client(broker, {}), topic, {})
    loads.submit([{"host": "a", "load": 0.5}], producer="p")
    with caplog.at_level(logging.WARNING):
        relay = RelayOut(loads, Address(broker, topic))
    assert "keeps only the last event of each producer" in caplog.text
    assert relay.run() == 1
    loads.submit([{"host": "b", "load": 0.5}])
    with pytest.raises(PbioError, match="no events without a producer") as caught:
        relay.run()
    assert caught.value.code == "PBIO_BAD_OPTION"
    relay.close()


def test_a_topic_that_is_created_again_lacks_what_was_relayed_and_it_is_said(
    broker: str, topic: str, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    loads = ChannelSpace.create(str(tmp_path / "space")).create_channel("loads", OLD)
    for n, is_new in enumerate((True, False, True)):
        if is_new:
            if n:
                client = admin(broker)
                client.delete_topics([topic])[topic].result()
                while topic in topics(broker):
                    time.sleep(0.01)
            make(broker, topic)
        loads.submit([{"host": "a", "load": n / 2}])
        with caplog.at_level(logging.WARNING):
            relay = RelayOut(loads, Address(broker, topic))
            assert relay.run() == 1
            relay.close()
        assert ("was created again" in caplog.text) == (n == 2)
    assert "it lacks the events before 3.0.1" in caplog.text


def test_a_topic_that_goes_as_a_relay_starts_is_missing(
    broker: str, topic: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ID is part of what the space remembers of its messages: without one they would come twice."""
    channel = ChannelSpace.create(str(tmp_path / "space")).create_channel("events", OLD)
    make(broker, topic)
    monkeypatch.setattr(Client, "topic", lambda self, topic: None)
    for relay in (RelayIn, RelayOut):
        with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\] there is no topic"):
            relay(channel, Address(broker, topic))
