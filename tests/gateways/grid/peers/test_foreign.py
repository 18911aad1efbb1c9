"""Peers written from the paper and its description alone, without the product: sockets and ElementTree.

They write XML as toolkits do: prefixes, declarations, comments, indentation, other encodings; and do what their authors
are likely to do: use the paper's IDs, end their side of the connection early, number nothing.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid import GridConsumer, GridProducer
from tests.gateways.grid.samples import NAME, TYPES, VALUES
from tests.gateways.grid.spaces import loads_in, new_space, serving, submit, take

M = "http://www.gridforum.org/Performance/Protocol"
E = "http://www.gridforum.org/Performance/Events"
P = "http://www.gridforum.org/Performance/EventParameters"


class Peer:
    """A socket on which messages come and go."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    @classmethod
    def to(cls, address: str) -> Self:
        host, _, port = address.rpartition(":")
        return cls(socket.create_connection((host, int(port))))

    def send(self, name: str, inside: str = "", request: str | None = None, encoding: str = "utf-8") -> None:
        said = "" if request is None else f' requestID="{request}"'
        text = (
            f'<?xml version="1.0" encoding="{encoding}"?>\n<!-- a message -->\n'
            f'<m:{name} xmlns:m="{M}" xmlns:e="{E}" xmlns:p="{P}"{said}>\n  {inside}\n</m:{name}>\n'
        ).encode(encoding)
        self.connection.sendall(struct.pack("!I", len(text)) + text)

    def next(self) -> ET.Element | None:
        """The next message; None at the end."""
        head = self.connection.recv(4, socket.MSG_WAITALL)
        if len(head) < 4:
            return None
        return ET.fromstring(self.connection.recv(struct.unpack("!I", head)[0], socket.MSG_WAITALL))

    def reply(self, name: str, request: str) -> ET.Element:
        """The next message, which is this reply."""
        made = self.next()
        assert made is not None
        assert (made.tag, made.get("requestID")) == (f"{{{M}}}{name}", request)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def said(element: ET.Element, name: str) -> str | None:
    return element.findtext(f"{{{M}}}{name}")


def id_(text: str) -> str:
    return f"<m:SubscriptionID> {text} </m:SubscriptionID>"


def event(load: float, more: str = "", host: str = "foo.gov") -> str:
    inside = (
        f"<e:Load1>\n {load} </e:Load1> <e:Load5>1.6</e:Load5><e:Load15>1.3</e:Load15><e:HostName>{host}</e:HostName>"
    )
    return f"<e:{NAME}>{inside}<e:TimeStamp>2000-11-09T21:51:45Z</e:TimeStamp>{more}</e:{NAME}>"


def with_gateway(space: ChannelSpace, work: Callable[[str], None], **settings: object) -> None:
    async def main() -> None:
        async with serving(space, **settings) as address:
            await asyncio.to_thread(work, address)

    asyncio.run(main())


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "utf-16"])
def test_a_consumer(tmp_path: Path, encoding: str) -> None:
    space = new_space(tmp_path)

    def consume(address: str) -> None:
        with Peer.to(address) as peer:
            peer.send("EventNamesRequest", request="é", encoding=encoding)
            names = peer.reply("EventNamesReply", "é")
            assert [(one.get("name"), one.get("namespace")) for one in names.findall(f"{{{M}}}Event")] == [(NAME, E)]
            peer.send("QueryRequest", f'<p:{NAME}><p:Period units="sec">9</p:Period></p:{NAME}>', "2", encoding)
            assert said(peer.reply("QueryReply", "2"), "Return") == "Failure"  # there is none yet
            wish = f"{id_('12')}<p:{NAME}><p:Count>2</p:Count></p:{NAME}>"
            peer.send("SubscribeRequest", wish, "1", encoding)
            reply = peer.reply("SubscribeReply", "1")
            assert said(reply, "Return") == "Success"
            submit(space, range(3))
            for load in (0.0, 1.0):
                message = peer.next()
                assert message is not None
                assert said(message, "SubscriptionID") == "12"
                assert message.findtext(f"{{{E}}}{NAME}/{{{E}}}Load1") == repr(load)
            ended = peer.next()
            assert ended is not None
            assert (ended.tag, said(ended, "SubscriptionID")) == (f"{{{M}}}UnsubscribeRequest", "12")
            peer.send("UnsubscribeReply", "<m:Return>Success</m:Return>", ended.get("requestID"), encoding)
            peer.send("QueryRequest", f"<p:{NAME}/>", "2", encoding)
            assert peer.reply("QueryReply", "2").findtext(f"{{{E}}}{NAME}/{{{E}}}HostName") == "foo.gov"

    with_gateway(space, consume)


def test_producers_that_all_use_the_papers_id(tmp_path: Path) -> None:
    """Two programs of one host, both with subscription 12, as in the paper. What they do not number is not mixed up."""
    space = new_space(tmp_path)

    def produce(address: str) -> None:
        with Peer.to(address) as one, Peer.to(address) as other:
            theirs = []
            for peer in (one, other):
                peer.send("SubscribeRequest", f"{id_('12')}<p:{NAME}/>", "1")
                theirs.append(said(peer.reply("SubscribeReply", "1"), "SubscriptionID"))
            for load in range(3):
                for peer, own in zip((one, other), theirs, strict=True):
                    peer.send("Event", id_(own or "") + event(load))
            for peer, own in zip((one, other), theirs, strict=True):
                peer.send("UnsubscribeRequest", id_(own or ""), "2")
                reply = peer.reply("UnsubscribeReply", "2")
                assert (said(reply, "Return"), said(reply, "ReturnDetail")) == ("Success", None)

    with_gateway(space, produce, archive="*")
    assert sorted(loads_in(space)) == [0, 0, 1, 1, 2, 2]


def test_a_program_that_says_all_and_then_reads(tmp_path: Path) -> None:
    """As `nc` does: its side of the connection ends before the answers come."""
    space = new_space(tmp_path)

    def produce(address: str) -> None:
        with Peer.to(address) as peer:
            peer.send("SubscribeRequest", f"{id_('12')}<p:{NAME}/>", "1")
            own = said(peer.reply("SubscribeReply", "1"), "SubscriptionID") or ""
            for load in range(100):
                peer.send("Event", id_(own) + event(load, f"<e:Sequence>{load}</e:Sequence>"))
            peer.send("UnsubscribeRequest", id_(own), "2")
            peer.send("QueryRequest", f"<p:{NAME}/>", "3")
            peer.connection.shutdown(socket.SHUT_WR)
            answers = {}
            while (made := peer.next()) is not None:
                answers[made.tag.partition("}")[2]] = said(made, "Return")
            assert answers["UnsubscribeReply"] == "Success"
            assert "QueryReply" in answers

    with_gateway(space, produce, archive="*", linger=0.3)
    assert loads_in(space) == [*range(100)]


def test_an_id_of_the_wrong_side_is_named(tmp_path: Path) -> None:
    def mistake(address: str) -> None:
        with Peer.to(address) as peer:
            peer.send("SubscribeRequest", f"{id_('12')}<p:{NAME}/>", "1")
            own = said(peer.reply("SubscribeReply", "1"), "SubscriptionID")
            peer.send("UnsubscribeRequest", id_("12"), "2")
            detail = said(peer.reply("UnsubscribeReply", "2"), "ReturnDetail") or ""
            assert f"the one of the receiver of this request is '{own}'" in detail

    with_gateway(new_space(tmp_path), mistake)


def listening(work: Callable[[Peer], None]) -> tuple[str, asyncio.Future[None]]:
    """A peer that deals with one connection in a thread."""
    server = socket.create_server(("127.0.0.1", 0))
    host, port = server.getsockname()

    def accept() -> None:
        with server, Peer(server.accept()[0]) as peer:
            work(peer)

    return f"{host}:{port}", asyncio.ensure_future(asyncio.to_thread(accept))


def test_a_producer_elsewhere_and_our_consumer() -> None:
    def produce(peer: Peer) -> None:
        request = peer.next()
        assert request is not None
        number = request.get("requestID")
        theirs = said(request, "SubscriptionID") or ""
        assert request.findtext(f"{{{P}}}{NAME}/{{{P}}}Period") == "600"
        peer.send("Event", id_(theirs) + event(0.5, host="before"))  # it cannot wait
        peer.send("SubscribeReply", f"<m:Return>Success</m:Return>{id_('1234')}", number)
        peer.send("Event", id_(theirs) + event(1.5, "<e:Load60>7</e:Load60>"))
        peer.send("Event", id_(theirs) + "<m:Error>42</m:Error><m:ErrorDetail>no sensor</m:ErrorDetail>")
        end = peer.next()
        assert end is not None
        assert said(end, "SubscriptionID") == "1234"
        peer.send("Event", id_(theirs) + event(2.5))  # on its way
        peer.send("UnsubscribeReply", "<m:Return>Success</m:Return>", end.get("requestID"))
        peer.next()

    async def main() -> None:
        address, serving_ = listening(produce)
        async with await GridConsumer.connect(address, TYPES) as consumer:
            events = await consumer.subscribe(NAME, {"Period": (600, "sec")})
            assert await take(events, 2) == [0.5, 1.5]
            with pytest.raises(PbioError, match="no sensor"):
                await anext(events)
            await events.unsubscribe()
            assert await take(events, 1) == [2.5]
        await serving_

    asyncio.run(main())


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ("<m:Return>success</m:Return>", "it is Success or Failure"),
        (f"<m:Return>Failure</m:Return>{id_('3')}", "cannot have the element SubscriptionID"),
        ("<m:Return>Success</m:Return>", "lacks the element SubscriptionID"),
        ("", "lacks the element Return"),
    ],
)
def test_an_answer_that_is_not_as_it_should_be_is_not_waited_for_again(inside: str, reason: str) -> None:
    def produce(peer: Peer) -> None:
        request = peer.next()
        assert request is not None
        peer.send("SubscribeReply", inside, request.get("requestID"))
        peer.next()

    async def main() -> None:
        address, serving_ = listening(produce)
        async with await GridConsumer.connect(address, TYPES, reply_time=0) as consumer:
            with pytest.raises(PbioError, match="PBIO_BAD_MESSAGE") as raised:
                await consumer.subscribe(NAME)
            assert reason in str(raised.value)
        await serving_

    asyncio.run(main())


def test_an_archive_elsewhere_and_our_producer() -> None:
    got: list[str | None] = []

    def archive(peer: Peer) -> None:
        request = peer.next()
        assert request is not None
        assert request.find(f"{{{P}}}{NAME}") is not None
        peer.send("SubscribeReply", f"<m:Return>Success</m:Return>{id_('7')}", request.get("requestID"))
        while (made := peer.next()) is not None:
            if made.tag == f"{{{M}}}UnsubscribeRequest":
                reply = "<m:Return>Success</m:Return><m:ReturnDetail>thanks</m:ReturnDetail>"
                peer.send("UnsubscribeReply", reply, made.get("requestID"))
            else:
                got.append(made.findtext(f"{{{E}}}{NAME}/{{{E}}}Load1"))

    async def main() -> None:
        address, serving_ = listening(archive)
        producer = GridProducer(TYPES)
        async with await producer.connect(address) as connection:
            subscription = await connection.subscribe(NAME)
            for load in range(3):
                await producer.publish(NAME, {**VALUES, "Load1": float(load)})
            assert await subscription.unsubscribe() == "thanks"
        await serving_

    asyncio.run(main())
    assert got == ["0.0", "1.0", "2.0"]
