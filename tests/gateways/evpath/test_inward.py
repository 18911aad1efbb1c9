"""The channel of a stone holds what its thin streams sent: all of it, in order, and nothing else."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from ecode.types import FLOAT64, INT32, INT64, STRING, Field, record
from pbio_spark.channels import ChannelInfo, ChannelSpace, RecordPreparer
from pbio_spark.formats import Format
from pbio_spark.gateways.evpath import Stone, ThinSettings
from pbio_spark.gateways.limits import GatewayLimits
from pbio_spark.wire import MAGIC
from tests.channels.spaces import COUNT, NEW, OLD, READING, everything, reading, values
from tests.gateways.evpath.streams import COUNTS, running, thin_stream

COUNT_FORMAT = Format.of(COUNT)


@pytest.fixture
def space(tmp_path: Path) -> ChannelSpace:
    made = ChannelSpace.create(str(tmp_path / "space"))
    made.create_channel("counts", COUNT)
    return made


def counted(space: ChannelSpace) -> list[int]:
    return [value["n"] for value in values(space.channel("counts"))]


def numbers(*of: int) -> bytes:
    return thin_stream(COUNT_FORMAT, [{"n": n} for n in of])


def test_ten_thousand_small_events_are_a_few_commits(space: ChannelSpace) -> None:
    before = space.history.catch_up().version
    with running(space) as gateway:
        gateway.send(numbers(*range(10_000)))
    assert counted(space) == [*range(10_000)]
    assert space.history.catch_up().version - before <= 5


def test_events_have_the_peer_or_the_producer_of_the_stone_as_their_producer(space: ChannelSpace) -> None:
    stones = {**COUNTS, 4: Stone("counts", producer="monitor")}
    with running(space, ThinSettings(stones=stones)) as gateway:
        gateway.send(numbers(1))
        gateway.send(thin_stream(COUNT_FORMAT, [{"n": 2}], stone=4))
    assert [event.producer for event in everything(space.channel("counts"))] == ["127.0.0.1", "monitor"]


def test_a_stream_may_come_byte_by_byte(space: ChannelSpace) -> None:
    with running(space) as gateway, gateway.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in numbers(1, 2, 3):
            connection.sendall(bytes([byte]))
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
        assert counted(space) == [1, 2, 3]


def test_events_do_not_wait_for_the_end_of_their_stream(space: ChannelSpace) -> None:
    subscription = space.channel("counts").subscribe()
    with running(space) as gateway, gateway.connect() as connection:
        connection.sendall(numbers(1))
        assert next(subscription.events(timeout=None)).values == {"n": 1}


def test_versions_of_a_format_come_in_one_stream_in_order_and_from_any_machine(space: ChannelSpace) -> None:
    space.create_channel("load", OLD)
    new = thin_stream(NEW, [{"total": 8.0, "cpus": 4}], 5).partition(b"Stone 5\0")[2]
    old = thin_stream(OLD, [{"average": 1.0}], 5)
    with running(space, ThinSettings(stones={5: Stone("load")})) as gateway:
        gateway.send(old + new + old.partition(b"Stone 5\0")[2])
    assert [value["average"] for value in values(space.channel("load"))] == [1.0, 2.0, 1.0]
    assert space.formats.get(NEW.id) == NEW


def test_a_sender_with_more_fields_than_the_channel_keeps_them(space: ChannelSpace) -> None:
    more = Format.of(record("count", [Field("n", INT32), Field("who", STRING)]), "sparc")
    with running(space) as gateway:
        gateway.send(thin_stream(more, [{"n": 7, "who": "me"}]))
    events = list(space.channel("counts").subscribe({more: print}, start="earliest").events())
    assert counted(space) == [7]
    assert [event.values for event in events] == [{"n": 7, "who": "me"}]


def test_channels_are_derived_from_what_comes_whatever_its_format_is(space: ChannelSpace) -> None:
    space.derive_channel("odd", "counts", filter="{ return input.n % 2 == 1; }")
    space.derive_channel(
        "falls", "counts", filter="{ static int most = 0; int is = input.n < most; most = input.n; return is; }"
    )
    more = Format.of(record("count", [Field("who", STRING), Field("n", INT64)]), "be32")
    with running(space) as gateway, gateway.connect() as connection:
        connection.sendall(numbers(1, 2, 3))
        gateway.wait_for(lambda: len(counted(space)) == 3)
        tail = thin_stream(more, [{"who": "me", "n": n} for n in (1, 5, 4)]).partition(b"Stone 3\0")[2]
        connection.sendall(tail)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
    assert counted(space) == [1, 2, 3, 1, 5, 4]
    assert values(space.channel("odd")) == [{"n": n} for n in (1, 3, 1, 5)]
    assert values(space.channel("falls")) == [{"n": 1}, {"n": 4}]


def test_strings_and_arrays_arrive(space: ChannelSpace) -> None:
    channel = space.create_channel("readings", READING)
    sent = [reading(number) for number in range(500)]
    with running(space, ThinSettings(stones={0: Stone("readings")})) as gateway:
        gateway.send(thin_stream(channel.format, sent, stone=0))
    assert values(channel) == sent


def test_a_stone_without_a_channel_gets_one_of_the_first_format_if_that_is_wanted(space: ChannelSpace) -> None:
    with running(space, ThinSettings(create=True, stones={4: Stone("named")})) as gateway:
        gateway.send(numbers(1))
        gateway.send(numbers(2))
        gateway.send(thin_stream(Format.of(READING, "be32"), [reading(1)], stone=4))
    assert values(space.channel("stone-3")) == [{"n": 1}, {"n": 2}]
    assert values(space.channel("named")) == [reading(1)]


def test_numbered_events_that_are_sent_again_are_there_once(
    space: ChannelSpace, caplog: pytest.LogCaptureFixture
) -> None:
    kind = record("load", [Field("host", STRING), Field("no", INT64), Field("load", FLOAT64)])
    channel = space.create_channel("load", kind)
    stone = Stone("load", producer_field="host", sequence="no")
    events = [{"host": f"host {n % 3}", "no": n // 3, "load": n / 2} for n in range(300)]
    with caplog.at_level(logging.INFO), running(space, ThinSettings(stones={1: stone})) as gateway:
        gateway.send(thin_stream(channel.format, events[:200], stone=1))
        gateway.send(thin_stream(channel.format, events[100:], stone=1))
    assert caplog.text.count("200 events are in 'load', published now or before") == 2
    got = everything(channel)
    assert sorted((event.producer, event.sequence, event.values["load"]) for event in got) == sorted(
        (event["host"], event["no"], event["load"]) for event in events
    )
    for host in range(3):
        own = [event.sequence for event in got if event.producer == f"host {host}"]
        assert own == [*range(100)]


def test_a_record_that_the_end_cuts_off_never_happened(space: ChannelSpace, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pbio_spark.gateways"), running(space) as gateway:
        gateway.send(numbers(1, 2)[:-1])
    assert counted(space) == [1]
    assert "an item was cut off after 27 bytes" in caplog.text


def test_a_peer_that_dies_in_the_middle_leaves_what_it_sent(space: ChannelSpace) -> None:
    with running(space) as gateway:
        connection = gateway.connect()
        connection.sendall(numbers(1, 2)[:-1])
        gateway.wait_for(lambda: counted(space) == [1])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()  # with a reset
    assert counted(space) == [1]


def test_what_has_come_is_published_when_the_gateway_stops(
    space: ChannelSpace, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ThinSettings(stones=COUNTS, linger=3600)
    with caplog.at_level(logging.INFO), running(space, settings) as gateway, gateway.connect() as connection:
        connection.sendall(numbers(1, 2, 3))
        gateway.wait_for(lambda: gateway.half._committer._events == 3)
        gateway.stop()
        assert counted(space) == [1, 2, 3]
    assert "3 events are in 'counts'; the gateway stops" in caplog.text


def item(number: int) -> bytes:
    """The item of one record, which has a header of 16 bytes."""
    return numbers(number)[-28:]


BAD = {
    "not-a-stream": (b"GET / HTTP/1.1\r\n\r\n", "PBIO_BAD_STREAM", "it starts with 47 45 54 20"),
    "no-stone": (MAGIC + b"\1\0\0\3hi\0" + item(1), "PBIO_BAD_STREAM", "before the comment that names the"),
    "unknown-stone": (thin_stream(COUNT_FORMAT, [{"n": 1}], 4), "PBIO_UNKNOWN_STONE", "stones of this gateway: 3"),
    "another-stone": (numbers(1) + b"\1\0\0\x08Stone 4\0", "PBIO_BAD_STREAM", "is for stone 4 from here on"),
    "long-item": (numbers(1) + b"\3\0\0\0\x7f\0\0\0", "PBIO_LIMIT", "an item claims 2130706440 bytes"),
    "long-format": (numbers(1) + b"\2\0\0\x0c\xff\0\0\0" + COUNT_FORMAT.id, "PBIO_LIMIT", "an item claims"),
    "zeros": (numbers(1) + bytes(300), "PBIO_BAD_ITEM", "zeros, where an item should begin"),
    "unknown-kind": (numbers(1) + b"\x09\0\0\0\0\0\0\0", "PBIO_BAD_ITEM", "unknown kind of item 0x09"),
    "unknown-format": (
        numbers(1) + b"\3\0\0\0\0\0\0\x18" + bytes([2, 0, 0, 9, *[7] * 8, *[0] * 12]),
        "PBIO_UNKNOWN_FORMAT",
        "describes no format with the ID 0200000907",
    ),
    "other-format": (
        thin_stream(Format.of(record("other", [Field("x", FLOAT64)])), [{"x": 1.0}]),
        "PBIO_REJECTED",
        "the events lack n",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_stream_ends_with_a_reason_and_its_good_events_stay(
    case: str, space: ChannelSpace, caplog: pytest.LogCaptureFixture
) -> None:
    sent, code, reason = BAD[case]
    with running(space) as gateway, gateway.connect() as other:
        other.sendall(numbers(100))
        gateway.send(sent)
        other.sendall(item(101))
        other.shutdown(socket.SHUT_WR)
        other.recv(1)
    warned = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(warned) == 1, warned
    assert f"[{code}]" in warned[0]
    assert reason in warned[0]
    expected = [1, 100, 101] if sent.startswith(numbers(1)) else [100, 101]
    assert sorted(counted(space)) == expected


def test_a_body_that_belongs_to_another_id_is_refused(space: ChannelSpace, caplog: pytest.LogCaptureFixture) -> None:
    lie = numbers(1).replace(COUNT_FORMAT.id, COUNT_FORMAT.id[:-1] + b"\0")
    with running(space) as gateway:
        gateway.send(lie)
    assert "[PBIO_BAD_ID]" in caplog.text
    assert counted(space) == []


def test_a_bad_record_is_named_and_those_before_it_stay(space: ChannelSpace, caplog: pytest.LogCaptureFixture) -> None:
    channel = space.create_channel("readings", READING)
    stream = bytearray(thin_stream(channel.format, [reading(n) for n in range(100)], stone=0))
    place = stream.index(b"reading 70")
    pointer = stream.rindex(struct.pack("<q", 32), 0, place)
    stream[pointer : pointer + 8] = struct.pack("<q", 1 << 40)
    with running(space, ThinSettings(stones={0: Stone("readings")})) as gateway:
        gateway.send(bytes(stream))
    assert "[PBIO_BAD_POINTER]" in caplog.text
    assert "record 70" in caplog.text
    assert values(channel) == [reading(n) for n in range(70)]


def test_a_format_that_takes_long_to_compile_keeps_only_its_sender_waiting(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()
    warm = RecordPreparer.warm

    def slow(self: RecordPreparer, info: ChannelInfo, form: Format) -> None:
        if form == more:
            begun.set()
            over.wait()
        warm(self, info, form)

    monkeypatch.setattr(RecordPreparer, "warm", slow)
    more = Format.of(record("count", [Field("n", INT32), Field("who", STRING)]))
    with running(space) as gateway, gateway.connect() as connection:
        gateway.send(numbers(1))
        connection.sendall(thin_stream(more, [{"n": 7, "who": "me"}]))
        begun.wait()
        gateway.send(numbers(2))
        assert counted(space) == [1, 2]
        over.set()
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
    assert counted(space) == [1, 2, 7]


def test_what_is_wrong_with_a_stone_is_said_when_the_gateway_starts(
    space: ChannelSpace, caplog: pytest.LogCaptureFixture
) -> None:
    stones = {
        1: Stone("count"),
        2: Stone("counts", sequence="m"),
        3: Stone("counts", event_time="n"),
        4: Stone("counts"),
    }
    with running(space, ThinSettings(stones=stones)):
        pass
    warned = [one.getMessage() for one in caplog.records]
    assert len(warned) == 3
    assert "stone 1: [PBIO_UNKNOWN_CHANNEL] unknown channel 'count'" in warned[0]
    assert "counts" in warned[0].partition("hint")[2]
    assert "stone 2: [PBIO_UNKNOWN_COLUMN] unknown column 'm'" in warned[1]
    assert "stone 3: [PBIO_INCOMPATIBLE_TYPE]" in warned[2]
    caplog.clear()
    with running(space, ThinSettings(stones={1: Stone("later")}, create=True)):
        pass
    assert not caplog.records


def test_a_silent_peer_is_let_go_but_not_one_that_rests_between_events(
    space: ChannelSpace, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        running(space, limits=GatewayLimits(idle=0.2)) as gateway,
        gateway.connect() as silent,
        gateway.connect() as resting,
    ):
        resting.sendall(numbers(1))
        assert silent.recv(1) == b""
        time.sleep(0.5)
        resting.sendall(item(2))
        resting.shutdown(socket.SHUT_WR)
        resting.recv(1)
    assert "the peer was silent for 0.2 s" in caplog.text
    assert counted(space) == [1, 2]


def test_connections_beyond_the_limit_are_refused(space: ChannelSpace, caplog: pytest.LogCaptureFixture) -> None:
    with running(space, limits=GatewayLimits(per_peer=2)) as gateway:
        first, second = gateway.connect(), gateway.connect()
        first.sendall(numbers(1))
        second.sendall(numbers(2))
        gateway.send(numbers(3))
        for one in (first, second):
            one.shutdown(socket.SHUT_WR)
            one.recv(1)
            one.close()
        gateway.send(numbers(4))
    assert sorted(counted(space)) == [1, 2, 4]
    assert "[PBIO_LIMIT] 2 connections from its host are open" in caplog.text


def test_unfinished_items_of_all_connections_together_have_a_limit(
    space: ChannelSpace, caplog: pytest.LogCaptureFixture
) -> None:
    limits = GatewayLimits(memory=1 << 20, slow=0.2)
    half = numbers(1) + b"\3\0\0\0\0\x0f\0\0" + bytes(900_000)
    with running(space, limits=limits) as gateway, gateway.connect() as first:
        first.sendall(half)
        gateway.wait_for(lambda: gateway.half._room.free < 300_000)
        gateway.send(half)
        assert "no room for" in caplog.text
        first.close()
        gateway.wait_for(lambda: gateway.half._room.free == gateway.half._room.size)
        gateway.send(half)
    assert counted(space) == [1, 1, 1]
    assert caplog.text.count("no room for") == 1
