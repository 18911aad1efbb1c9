"""False, dying, slow and silent peers: each gets an answer or is disconnected, and other peers notice nothing."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.gateways.grid import GridConsumer
from pbio_spark.gateways.grid.peers.session import MOST_STRAYS
from pbio_spark.gateways.grid.protocol.codec import decode, encode
from pbio_spark.gateways.grid.protocol.frames import Frames, to_frame
from pbio_spark.gateways.grid.protocol.messages import (
    PARAMETERS,
    Event,
    EventNamesReply,
    EventNamesRequest,
    Message,
    QueryReply,
    SubscribeReply,
    SubscribeRequest,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from pbio_spark.gateways.grid.protocol.nodes import XmlElement
from pbio_spark.gateways.limits import GatewayLimits
from tests.gateways.grid.samples import EVENT, MESSAGES, NAME, TYPES, event_xml, xml
from tests.gateways.grid.spaces import hand_over, loads_in, new_space, serving, submit, take

WANTED = XmlElement(NAME, PARAMETERS)
LATEST = XmlElement(NAME, PARAMETERS, "", (), (XmlElement("After", PARAMETERS, "latest"),))


class Raw:
    """A peer by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._frames, self._come = Frames(), list[bytes]()

    def send(self, *messages: Message | bytes) -> None:
        """Send messages, or the XML of some."""
        for message in messages:
            self.writer.write(to_frame(message if isinstance(message, bytes) else encode(message)))

    async def next(self) -> Message | None:
        """The next message; None at the end of the connection."""
        while not self._come:
            try:
                data = await self.reader.read(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._come += self._frames.feed(data)
        return decode(self._come.pop(0))


@asynccontextmanager
async def raw(address: str) -> AsyncIterator[Raw]:
    """A connection by hand."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def watched(space: ChannelSpace, limits: GatewayLimits | None = None, **settings: object) -> AsyncIterator[str]:
    """A gateway with a consumer that must not notice anything of what other peers do."""
    async with serving(space, limits, **settings) as address, await GridConsumer.connect(address, TYPES) as consumer:
        events = await consumer.subscribe(NAME, {"After": "latest"})
        yield address
        await asyncio.to_thread(submit, space, [77])
        while await take(events, 1) != [77]:
            pass
        assert len(await consumer.names()) == 1


ENDS = {
    "longer than allowed": struct.pack(">I", 1 << 31) + b"<",
    "empty": struct.pack(">I", 0),
    "no XML": to_frame(b"hello"),
    "not UTF-8": to_frame(b"<a>\xff</a>"),
    "a document type": to_frame(b"<!DOCTYPE a><a/>"),
    "an XML bomb": to_frame(
        b'<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa">'
        + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(20))
        + b"]><b>&u;</b>"
    ),
    "an external entity": to_frame(b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'),
    "deep": to_frame(b"<a>" * 100_000),
    "an instruction": to_frame(b"<?php 1?><a/>"),
    "another protocol": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("what", ENDS)
def test_what_is_not_the_protocol_ends_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    async def main() -> None:
        async with watched(new_space(tmp_path)) as address, raw(address) as peer:
            peer.send(EventNamesRequest("1"))
            assert isinstance(await peer.next(), EventNamesReply)
            peer.writer.write(ENDS[what])
            assert await peer.next() is None

    with caplog.at_level(logging.WARNING, "pbio_spark.gateways"):
        asyncio.run(main())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "PBIO_LIMIT" in caplog.text or "PBIO_BAD_MESSAGE" in caplog.text


def test_requests_that_are_not_as_they_should_be_fail(tmp_path: Path) -> None:
    twice = XmlElement(NAME, PARAMETERS, "", (), (XmlElement("Period", "", "1"),) * 2)

    async def main() -> None:
        async with watched(new_space(tmp_path)) as address, raw(address) as peer:
            for message, reason in (
                (xml("", "SubscribeRequest", ' requestID="1"'), "lacks the element SubscriptionID"),
                (xml("<SubscriptionID>1</SubscriptionID>", "SubscribeRequest", ' requestID="2"'), "lacks an element"),
                (xml("", "QueryRequest", ' requestID="3"'), "lacks an element with an event"),
                (xml("", "UnsubscribeRequest", ' requestID="4"'), "lacks the element SubscriptionID"),
                (xml("<a/>", "EventNamesRequest", ' requestID="5"'), "unknown element 'a'"),
                (encode(UnsubscribeRequest("6", "99")), "there is no subscription '99'"),
                (encode(SubscribeRequest("7", "1", XmlElement(NAME, "urn:x"))), "in the name space 'urn:x'"),
                (encode(SubscribeRequest("8", "1", XmlElement("x" * 300, PARAMETERS))), "there are no events 'xxx"),
                (encode(SubscribeRequest("9", "1", twice)), "duplicate"),
            ):
                peer.send(message)
                reply = await peer.next()
                assert isinstance(reply, SubscribeReply | UnsubscribeReply | QueryReply | EventNamesReply)
                assert not reply.success
                assert reason in (reply.detail or "")

    asyncio.run(main())


def test_ids_that_are_in_use_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with watched(new_space(tmp_path)) as address, raw(address) as peer:
            peer.send(SubscribeRequest("1", "12", LATEST))
            first = await peer.next()
            assert isinstance(first, SubscribeReply)
            assert first.success
            peer.send(SubscribeRequest("2", "12", LATEST))
            assert await peer.next() == SubscribeReply(
                "2", False, "SubscriptionID '12' belongs to another subscription"
            )
            peer.send(SubscribeRequest("3", "13", LATEST), EventNamesRequest("3"))
            replies = [await peer.next(), await peer.next()]
            assert EventNamesReply("3", False, "requestID '3' is that of an open request") in replies
            assert any(isinstance(reply, SubscribeReply) and reply.success for reply in replies)
            assert first.subscription_id is not None
            peer.send(UnsubscribeRequest("4", first.subscription_id), UnsubscribeRequest("5", first.subscription_id))
            assert {str(await peer.next()), str(await peer.next())} == {
                str(UnsubscribeReply("4", True)),
                str(UnsubscribeReply("5", True)),
            }

    asyncio.run(main())


@pytest.mark.parametrize(
    "stray",
    [
        MESSAGES["SubscribeReply"],
        MESSAGES["EventNamesReply"],
        Event("99", EVENT),
        Event("99", None, "x"),
        xml("", "Nothing"),
        b"<a/>",
        xml("", "SubscribeReply", ' requestID="1"'),
        xml("", "SubscribeRequest"),
    ],
    ids=["reply", "names", "event", "error", "unknown", "other", "bad reply", "no requestID"],
)
def test_too_many_unrequested_messages_end_the_connection(tmp_path: Path, stray: Message | bytes) -> None:
    async def main() -> None:
        async with watched(new_space(tmp_path)) as address, raw(address) as peer:
            peer.send(*[stray] * (MOST_STRAYS - 1), EventNamesRequest("1"))
            assert isinstance(await peer.next(), EventNamesReply)
            peer.send(stray)
            assert await peer.next() is None

    asyncio.run(main())


@pytest.mark.parametrize("name", MESSAGES)
def test_a_peer_that_dies_in_the_middle_of_a_message(tmp_path: Path, name: str) -> None:
    frame = to_frame(encode(MESSAGES[name]))

    async def main() -> None:
        async with watched(new_space(tmp_path), archive="*") as address:
            for end in (1, 4, 5, len(frame) // 2, len(frame) - 1):
                async with raw(address) as peer:
                    peer.writer.write(frame[:end])
                    await peer.writer.drain()

    asyncio.run(main())


def test_a_producer_that_dies_leaves_what_it_sent(tmp_path: Path) -> None:
    space = new_space(tmp_path)

    async def main() -> None:
        async with watched(space, archive="*") as address:
            async with raw(address) as peer:
                peer.send(SubscribeRequest("1", "p", WANTED))
                reply = await peer.next()
                assert isinstance(reply, SubscribeReply)
                assert reply.subscription_id is not None
                message = encode(Event(reply.subscription_id, EVENT))
                peer.send(message, message)
                peer.writer.write(to_frame(message)[:100])
                await peer.writer.drain()
            await hand_over(address, [5])

    asyncio.run(main())
    assert sorted(loads_in(space)) == [1.5, 1.5, 5, 77]


def test_bad_events_of_a_producer_are_said_at_the_end(tmp_path: Path) -> None:
    space = new_space(tmp_path)
    good = "".join(f"<{child.name}>{child.text}</{child.name}>" for child in EVENT.children)

    async def main() -> None:
        async with watched(space, archive="*") as address, raw(address) as peer:
            peer.send(SubscribeRequest("1", "p", WANTED))
            reply = await peer.next()
            assert isinstance(reply, SubscribeReply)
            own = reply.subscription_id
            assert own is not None
            peer.send(event_xml(good, own))
            peer.send(event_xml(good.replace("<TimeStamp>2000-11-09T21:51:45Z</TimeStamp>", ""), own))
            peer.send(event_xml(good.replace("1.6", "many"), own))
            peer.send(event_xml("<b>" + "<a>" * 50 + "</a>" * 50 + "</b>" + good, own))
            peer.send(xml(f"<SubscriptionID>{own}</SubscriptionID><Other xmlns='urn:x'/>"))
            peer.send(Event(own, None, "broken", "the sensor"))
            peer.send(UnsubscribeRequest("2", own))
            reply = await peer.next()
            assert reply == UnsubscribeReply(
                "2",
                True,
                "1 element without a field was left out; "
                "4 events were refused, the first because: an event must have one TimeStamp ($.TimeStamp)",
            )

    asyncio.run(main())
    assert loads_in(space) == [1.5, 1.5, 77]


def test_a_silent_peer_is_dismissed_and_a_subscriber_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        limits = GatewayLimits(idle=0.3, grace=5)
        async with serving(new_space(tmp_path), limits) as address, raw(address) as subscriber, raw(address) as half:
            subscriber.send(SubscribeRequest("1", "1", LATEST))
            await subscriber.next()
            half.send(SubscribeRequest("1", "1", LATEST))
            await half.next()
            half.writer.write(b"\0\0")
            async with raw(address) as silent:
                assert await silent.next() is None
            assert await half.next() is None
            subscriber.send(EventNamesRequest("2"))
            assert isinstance(await subscriber.next(), EventNamesReply)

    asyncio.run(main())


def test_a_peer_that_does_not_read_is_dismissed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    space = new_space(tmp_path)
    submit(space, range(5_000))
    all_events = XmlElement(NAME, PARAMETERS, "", (), (XmlElement("After", PARAMETERS, "earliest"),))

    async def main() -> None:
        async with watched(space, GatewayLimits(unread=1 << 12, slow=0.3, grace=5)) as address:
            host, _, port = address.rpartition(":")
            with socket.socket() as small:
                small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
                small.connect((host, int(port)))
                for number in range(8):
                    small.sendall(to_frame(encode(SubscribeRequest(str(number), str(number), all_events))))
                while "PBIO_LIMIT" not in caplog.text:
                    await asyncio.sleep(0.05)

    asyncio.run(main())


def test_a_thousand_idle_connections(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    space = new_space(tmp_path)

    async def main() -> None:
        async with watched(space, GatewayLimits(connections=2000, per_peer=2000, grace=5)) as address:
            host, _, port = address.rpartition(":")
            writers = []
            for _ in range(1000):
                writers.append((await asyncio.open_connection(host, int(port)))[1])
            await hand_over_and_see(address)
            for writer in writers:
                writer.close()

    async def hand_over_and_see(address: str) -> None:
        async with await GridConsumer.connect(address, TYPES) as consumer, await consumer.subscribe(NAME) as events:
            await asyncio.to_thread(submit, space, [5])
            assert await take(events, 1) == [5]

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["known", "to be made"])
@pytest.mark.parametrize("odd", [{"name": "Other"}, {"namespace": "urn:others"}])
def test_events_of_another_name_are_never_taken_for_those_of_the_subscription(
    tmp_path: Path, kind: str, odd: dict[str, str]
) -> None:
    """Nor the first one, by which a peer shows that it is a producer."""

    async def main() -> None:
        space = new_space(tmp_path) if kind == "known" else ChannelSpace.create(str(tmp_path / "space"))
        other = replace(
            EVENT, **odd, children=tuple(replace(one, **odd | {"name": one.name}) for one in EVENT.children)
        )
        async with serving(space, archive=NAME, create=True) as address, raw(address) as peer:
            peer.send(SubscribeRequest("1", "m", WANTED))
            reply = await peer.next()
            assert isinstance(reply, SubscribeReply)
            assert reply.subscription_id is not None
            own = reply.subscription_id
            peer.send(
                Event(own, other),
                Event(own, EVENT),
                Event(own, other),
                UnsubscribeRequest("2", own),
            )
            ended = await peer.next()
            assert isinstance(ended, UnsubscribeReply)
            assert f"the subscription is for {NAME!r}, but the event is" in (ended.detail or "")
            assert "2 events were refused" in (ended.detail or "")
        assert len(list(space.channel(NAME).subscribe(start="earliest").events())) == 1
        assert [info.name for info in space.channels()] == [NAME]

    asyncio.run(main())
