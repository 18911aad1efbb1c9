"""Relays between channels and topics: each event once, whichever process is killed at any time."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pbio_spark as pbio
from pbio_spark import ChannelSpace, Format, PbioDeserializer, PbioError, PbioSerializer, evolve
from pbio_spark.kafka.address import Address
from pbio_spark.kafka.inward import InwardOptions, RelayIn
from pbio_spark.kafka.outward import OutwardOptions, RelayOut
from tests.children import end, run_pbio, start
from tests.conftest import ROOT
from tests.kafka.test_store import admin, make, say

LONG = bool(os.environ.get("PBIO_LONG"))
KILLS = int(os.environ.get("PBIO_KILLS", 100 if LONG else 1))

OLD = Format.of(pbio.parse_record({"Load": {"n": "int64", "host": "string", "load": "float64"}}), machine="sparc")
NEW = evolve(
    OLD,
    Format.of(pbio.parse_record({"Load": {"n": "int64", "host": "string", "user": "float64", "system": "float64"}})),
    "{ old.n = new.n; old.host = new.host; old.load = new.user + new.system; }",
)


def old(n: int) -> dict[str, Any]:
    return {"n": n, "host": f"h{n % 3}", "load": n / 2}


def new(n: int) -> dict[str, Any]:
    return {"n": n, "host": f"h{n % 3}", "user": n / 2, "system": 1.0}


@pytest.fixture
def space(tmp_path: Path) -> ChannelSpace:
    space = ChannelSpace.create(str(tmp_path / "space"))
    space.create_channel("loads", OLD)
    return space


def messages(broker: str, topic: str) -> list[Any]:
    """What readers of whole transactions see in a topic."""
    from pbio_spark.kafka.client import Client
    from pbio_spark.kafka.log_reader import TopicReader

    found: list[Any] = []
    reader = TopicReader(Client(broker, {}), topic)
    assert reader.read(found.append)
    reader.close()
    return found


def numbers(broker: str, topic: str) -> list[int]:
    decode = PbioDeserializer(f"kafka://{broker}/pbio-formats", OLD)
    return [(decode(message.value()) or {})["n"] for message in messages(broker, topic)]


def archived(space: ChannelSpace, name: str = "loads") -> list[int]:
    return [event.values["n"] for event in space.channel(name).subscribe(start="earliest").events()]


def test_a_channel_becomes_a_topic_record_by_record(space: ChannelSpace, broker: str, topic: str) -> None:
    make(broker, topic)
    loads = space.channel("loads")
    loads.submit([old(0), old(1)], producer="p", sequence=5)
    loads.submit([new(2)], format=NEW)
    relay = RelayOut(loads, Address(broker, topic))
    assert relay.run() == 3
    assert relay.run() == 0
    loads.submit([old(3)], producer="q")
    assert relay.run() == 1
    first, second, third, _ = found = messages(broker, topic)
    assert [message.key() for message in found] == [b"p", b"p", None, b"q"]
    assert first.headers() == [("pbio.position", b"2.0.0"), ("pbio.sequence", b"5")]
    assert second.headers() == [("pbio.position", b"2.0.1"), ("pbio.sequence", b"6")]
    decode = PbioDeserializer(f"kafka://{broker}/pbio-formats")
    assert [decode(message.value()) for message in (first, second, third)] == [old(0), old(1), new(2)]
    assert first.value()[:12] == OLD.id  # as it was published, for a machine of another byte order
    assert numbers(broker, topic) == [0, 1, 2, 3]
    assert RelayOut(space.channel("loads"), Address(broker, topic)).run() == 0
    other = RelayOut(loads, Address(broker, topic), OutwardOptions(subscriber="other", start="latest"))
    loads.submit([old(4)])
    assert (other.run(), numbers(broker, topic)) == (1, [0, 1, 2, 3, 4])


def test_a_derived_channel_becomes_a_topic_and_a_topic_is_archived(
    space: ChannelSpace, broker: str, topic: str, tmp_path: Path
) -> None:
    make(broker, topic)
    space.derive_channel("high", "loads", filter="{ return input.load >= 2.0; }")
    space.channel("loads").submit([old(n) for n in range(10)], producer="p")
    assert RelayOut(space.channel("high"), Address(broker, topic)).run() == 6
    archive = ChannelSpace.create(str(tmp_path / "archive"))
    archive.create_channel("high", OLD)
    relay = RelayIn(archive.channel("high"), Address(broker, topic))
    assert (relay.run(), relay.run()) == (6, 0)
    relay.close()
    events = list(archive.channel("high").subscribe(start="earliest").events())
    assert [(event.values["n"], event.producer) for event in events] == [(n, "p") for n in range(4, 10)]
    assert RelayIn(archive.channel("high"), Address(broker, topic)).run() == 0


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_relay_out_that_ends_around_its_commit(
    space: ChannelSpace, broker: str, topic: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(broker, topic)
    loads, to = space.channel("loads"), Address(broker, topic)
    loads.submit([old(n) for n in range(5)])
    relay = RelayOut(loads, to)
    commit = relay._commit

    def end() -> None:
        if when == "after":
            commit()
        else:
            relay._producer.flush()
        raise KeyboardInterrupt

    monkeypatch.setattr(relay, "_commit", end)
    with pytest.raises(KeyboardInterrupt):
        relay.run()
    assert str(space.subscribers()[0].position) < "2.0.1"
    loads.submit([old(5)])
    assert RelayOut(loads, to).run() == (1 if when == "after" else 6)
    assert numbers(broker, topic) == [*range(6)]
    monkeypatch.setattr(relay, "_commit", commit)
    loads.submit([old(6)])
    with pytest.raises(PbioError, match=r"\[PBIO_KAFKA\]"):  # the first one is not dead yet, and continues
        relay.run()
    assert numbers(broker, topic) == [*range(6)]


def test_partitions_that_come_while_a_topic_is_followed(
    space: ChannelSpace, broker: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import NewPartitions

    make(broker, topic)
    serialize = PbioSerializer(OLD, f"kafka://{broker}/pbio-formats")
    client = admin(broker)

    def send(number: int, partition: int) -> None:
        producer = Producer({"bootstrap.servers": broker})  # which knows the partitions that there are now
        producer.produce(topic, serialize(old(number)), b"p", partition=partition)
        producer.flush()

    send(0, 0)
    relay = RelayIn(space.channel("loads"), Address(broker, topic))
    monkeypatch.setattr("pbio_spark.kafka.inward.LOOK_AGAIN", 0.0)
    look = relay._look_for_partitions
    steps = iter([True])

    def looked() -> None:
        look()
        have = sorted(archived(space))
        if have == [0] and next(steps, False):
            client.create_partitions([NewPartitions(topic, 3)])[topic].result()
            for partition in (1, 2, 0):
                send(10 + partition, partition)
        if len(have) == 4:
            raise StopIteration

    monkeypatch.setattr(relay, "_look_for_partitions", looked)
    with pytest.raises(StopIteration):
        relay.run(follow=True)
    relay.close()
    assert sorted(archived(space)) == [0, 10, 11, 12]
    assert RelayIn(space.channel("loads"), Address(broker, topic)).run() == 0


def test_two_relays_into_one_channel_double_nothing(
    space: ChannelSpace, broker: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(broker, topic)
    serialize = PbioSerializer(OLD, f"kafka://{broker}/pbio-formats")
    say(broker, topic, *((b"p", serialize(old(n))) for n in range(6)))
    loads, source = space.channel("loads"), Address(broker, topic)
    one, two = RelayIn(loads, source), RelayIn(ChannelSpace.open(space.root).channel("loads"), source)
    monkeypatch.setattr("pbio_spark.kafka.inward.MOST_MESSAGES", 4)
    one._fetch()
    monkeypatch.setattr("pbio_spark.kafka.inward.MOST_MESSAGES", 10_000)
    part = one._parts[0]
    while not part.waiting:
        one._fetch()
    part.waiting = part.waiting[:4]
    assert one._publish(0, part) == 4
    with pytest.raises(PbioError, match=r"\[PBIO_OTHER_BATCH\](.|\n)*partition 0"):
        two.run()
    assert archived(space) == [0, 1, 2, 3]
    assert RelayIn(loads, source).run() == 2
    assert archived(space) == [*range(6)]


def test_bad_messages_fail_with_their_place_or_are_left_out(space: ChannelSpace, broker: str, topic: str) -> None:
    make(broker, topic)
    store = f"kafka://{broker}/{topic}-formats"
    good = PbioSerializer(NEW, store, beside=[OLD])
    other = PbioSerializer(pbio.parse_record({"Other": {"x": "int32"}}), store)({"x": 1})
    values = [good(new(0)), None, b"\0\0\0\0\3avro", good(new(1))[:-1], other, b"", good(new(2))]  # type: ignore[index]
    say(broker, topic, *((b"\xff\0" if value == b"" else "\N{SNOWMAN}".encode(), value) for value in values))
    loads, source = space.channel("loads"), Address(broker, topic)
    with pytest.raises(PbioError, match=rf"schema ID 3(.|\n)*topic {topic}, partition 0, offset 2"):
        RelayIn(loads, source, InwardOptions(formats=store)).run()
    assert archived(space) == []
    assert RelayIn(loads, source, InwardOptions(formats=store, on_bad="skip")).run() == 2
    events = list(loads.subscribe(start="earliest").events())
    assert [(event.values["n"], event.producer) for event in events] == [(0, "\N{SNOWMAN}"), (2, "\N{SNOWMAN}")]
    say(broker, topic, (None, good(new(3))))
    assert RelayIn(loads, source, InwardOptions(formats=store)).run() == 1
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\] there is no topic"):
        RelayIn(loads, Address(broker, "nowhere"))
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\] there is no topic"):
        RelayOut(loads, Address(broker, "nowhere"))


def test_messages_that_were_removed_before_they_were_archived(space: ChannelSpace, broker: str, topic: str) -> None:
    from confluent_kafka import TopicPartition

    make(broker, topic)
    serialize = PbioSerializer(OLD, f"kafka://{broker}/pbio-formats")
    loads, source = space.channel("loads"), Address(broker, topic)

    def produce_and_remove(first: int, removed: int) -> None:
        say(broker, topic, *((b"p", serialize(old(n))) for n in range(first, first + 4)))
        client = admin(broker)
        [future.result() for future in client.delete_records([TopicPartition(topic, 0, removed)]).values()]

    produce_and_remove(0, 1)
    assert RelayIn(loads, source).run() == 3  # what was gone before the archive began is no loss
    produce_and_remove(4, 6)
    with pytest.raises(PbioError, match=rf"\[PBIO_EVENTS_GONE\](.|\n)*messages 4 to 5(.|\n)*{topic}, partition 0"):
        RelayIn(loads, source)
    assert RelayIn(loads, source, InwardOptions(on_bad="skip")).run() == 2
    assert archived(space) == [1, 2, 3, 6, 7]
    say(broker, topic, (b"p", None), (b"p", None))
    for _ in range(2):  # they are read again: a message that is left out leaves no trace in the space
        assert RelayIn(loads, source).run() == 0
    say(broker, topic, (b"p", serialize(old(8))))
    assert RelayIn(loads, source).run() == 1
    assert archived(space) == [1, 2, 3, 6, 7, 8]


def test_brokers_that_are_lost_end_an_archive_that_does_not_follow(
    space: ChannelSpace, broker: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(broker, topic)
    options = InwardOptions(settings={"default.api.timeout.ms": "300"})
    relay = RelayIn(space.channel("loads"), Address(broker, topic), options)

    class Lost:
        def consume(self, most: int, seconds: float) -> list[Any]:
            time.sleep(seconds)
            return []

    monkeypatch.setattr(relay, "_consumer", Lost())
    with pytest.raises(PbioError, match=r"\[PBIO_KAFKA\](.|\n)*no answer in time"):
        relay.run()


def test_large_records_and_a_topic_that_does_not_take_them(space: ChannelSpace, broker: str, topic: str) -> None:
    make(broker, topic, max_message_bytes="12000000")
    make(broker, f"{topic}-small", max_message_bytes="100000")
    wide = pbio.parse_record({"Wide": {"n": "int64", "data": "float64[count]", "count": "int64"}})
    space.create_channel("wide", wide)
    rows = [{"n": n, "data": [float(n)] * 1_250_000} for n in range(2)]
    space.channel("wide").submit(rows)
    assert RelayOut(space.channel("wide"), Address(broker, topic)).run() == 2
    space.create_channel("back", wide)
    assert RelayIn(space.channel("back"), Address(broker, topic)).run() == 2
    assert archived(space, "back") == [0, 1]
    with pytest.raises(PbioError, match=r"\[PBIO_KAFKA\](.|\n)*events 3.0.0 to(.|\n)*max.message.bytes"):
        RelayOut(space.channel("wide"), Address(broker, f"{topic}-small")).run()
    assert messages(broker, f"{topic}-small") == []


def command(*said: str) -> list[str]:
    return [sys.executable, "-c", "from pbio_spark.cli import main; main()", "space", *said]


def run_killed(words: tuple[str, ...], out: Path, step: Callable[[int], object], chance: random.Random) -> None:
    """Run a relay that follows, and kill it again and again while there is something to do."""
    for kill in range(KILLS):
        relay = start(out, run_pbio, "space", *words, "--follow")
        step(kill)
        time.sleep(chance.uniform(0, 1.5))
        step(kill + KILLS)
        time.sleep(chance.uniform(0, 0.3))
        end(relay)
    out.unlink()
    relay = start(out, run_pbio, "space", *words)
    relay.join()
    assert (relay.exitcode, out.read_text().count("\n")) == (0, 1), out.read_text()


def test_killed_relays_lose_and_double_nothing(space: ChannelSpace, broker: str, topic: str, tmp_path: Path) -> None:
    make(broker, topic)
    loads, chance, count = space.channel("loads"), random.Random(7), 0

    def publish(_: int) -> None:
        nonlocal count
        for _ in range(5):
            loads.submit([old(count + n) for n in range(50)], producer="p", sequence=count)
            count += 50

    words = ("relay", space.root, "loads", "--to", f"kafka://{broker}/{topic}")
    run_killed(words, tmp_path / "relay", publish, chance)
    assert numbers(broker, topic) == [*range(count)]

    archive = ChannelSpace.create(str(tmp_path / "archive"))
    archive.create_channel("loads", OLD)
    serialize, more = PbioSerializer(NEW, f"kafka://{broker}/pbio-formats", beside=[OLD]), count

    def produce(_: int) -> None:
        nonlocal more
        say(broker, topic, *((b"p", serialize(new(more + n))) for n in range(500)))
        more += 500

    words = ("archive", archive.root, "loads", "--from", f"kafka://{broker}/{topic}")
    run_killed(words, tmp_path / "archiving", produce, chance)
    assert archived(archive) == [*range(more)]


def test_the_examples_of_the_help_run(
    space: ChannelSpace, broker: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pbio_spark.cli import app
    from pbio_spark.cli.space.relay import archive as back
    from pbio_spark.cli.space.relay import relay

    make(broker, topic)
    archive = ChannelSpace.create(str(tmp_path / "archive"))
    for one in (space, archive):
        one.create_channel("readings", OLD)
    space.channel("readings").submit([old(1), old(2)])
    told = f"{relay.__doc__}{back.__doc__}".splitlines()
    examples = [line.split() for line in told if line.startswith("      pbio ")]
    assert len(examples) == 2
    for words in examples:
        words[-1] = f"kafka://{broker}/{topic}"
        words[3] = str(tmp_path / words[3])
        app(words[1:], standalone_mode=False)
    assert capsys.readouterr().out == "readings: events relayed: 2\nreadings: events archived: 2\n"


def test_where_a_relay_starts_and_how_long_an_archive_waits(
    space: ChannelSpace, broker: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pbio_spark.cli import app

    make(broker, topic)
    space.channel("loads").submit([old(1)])
    address, store = f"kafka://{broker}/{topic}", tmp_path / "formats"
    for first, count in (("latest", 0), ("1999-12-31", 1), ("2.0.0", 1)):
        words = f"relay {space.root} loads --to {address} --subscriber {first} --formats {store} --start {first}"
        app(["space", *words.split()], standalone_mode=False)
        assert capsys.readouterr().out == f"loads: events relayed: {count}\n"
    with pytest.raises(PbioError, match=r"\[PBIO_BAD"):
        app(["space", *words.split()[:-1], "lastest", "--subscriber", "new"], standalone_mode=False)

    other, late = f"{topic}-other", tmp_path / "late"
    make(broker, other)
    say(broker, other, (None, PbioSerializer(OLD, pbio.MemoryStore())(old(2))))
    words = f"archive {space.root} loads --from kafka://{broker}/{other} --formats {late}"
    with pytest.raises(PbioError, match=rf"\[PBIO_UNKNOWN_FORMAT\](.|\n)*not in {late}"):
        app(["space", *words.split()], standalone_mode=False)
    producer = threading.Timer(0.5, pbio.FolderStore(late).put, [OLD])
    producer.start()
    app(["space", *words.split(), "--wait", "60"], standalone_mode=False)
    producer.join()
    assert capsys.readouterr().out == "loads: events archived: 1\n"


def test_the_command_line_says_what_is_wrong(space: ChannelSpace) -> None:
    def said(verb: str, *arguments: str) -> str:
        ran = subprocess.run(command(verb, space.root, "loads", *arguments), cwd=ROOT, capture_output=True, text=True)
        assert ran.returncode
        return ran.stderr

    assert "--to" in said("relay")
    assert "the topic is missing" in said("archive", "--from", "kafka://a:1")
    assert "security.protocol=SSL" in said("relay", "--to", "kafka://a:1/b", "--kafka", "security.protocol")
