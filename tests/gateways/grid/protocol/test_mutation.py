"""Mutated frames: an error or a message, never anything else; and reading with a shape equals reading without.

PBIO_LONG=1 reads a million frames, PBIO_MUTATIONS=N so many, PBIO_SEED=N others; a twentieth more are sessions.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
from collections import Counter

import pytest

from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.peers.session import Session
from pbio_spark.gateways.grid.peers.subscriptions import Incoming, Outgoing
from pbio_spark.gateways.grid.protocol.codec import decode, encode
from pbio_spark.gateways.grid.protocol.frames import Frames, to_frame
from pbio_spark.gateways.grid.protocol.messages import EventName, QueryRequest, SubscribeRequest
from pbio_spark.gateways.grid.protocol.nodes import XmlElement
from pbio_spark.gateways.grid.values.shapes import ReceivedEvent, ShapeReader
from pbio_spark.gateways.limits import GatewayLimits
from tests.gateways.grid.samples import EVENT, MESSAGES, NAME, PLAN

MUTATIONS = int(os.environ.get("PBIO_MUTATIONS", 1_000_000 if os.environ.get("PBIO_LONG") else 4_000))
SESSIONS = max(300, MUTATIONS // 20)
SEED = int(os.environ.get("PBIO_SEED", 7))

FRAMES = [to_frame(encode(message)) for message in MESSAGES.values()]
EVENT_FRAME = to_frame(encode(MESSAGES["Event"]))
TOKENS = (
    *(
        b"<",
        b">",
        b"&",
        b"&amp;",
        b"&lt;",
        b"&#65;",
        b"]]>",
        b"<!-- c -->",
        b"<![CDATA[x]]>",
        b"<?pi?>",
        b"<!DOCTYPE a>",
    ),
    *(
        b"_",
        b"1",
        b"0",
        b"-",
        b".",
        b"e",
        b"INF",
        b"NaN",
        b" ",
        b"\n",
        b"\r\n",
        b"\xc3\xa9",
        b"\xff",
        b"\0",
        b'"',
        b"'",
    ),
    *(b"<Load1>", b"</Load1>", b"<Load5/>", b"<item>1</item>", b' units="min"', b' xmlns="urn:x"', b"xmlns=''", b"12"),
)


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """A frame with some changes; mostly with the length that it then has."""
    message = bytearray(frame[4:])
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at, to = sorted((chance.randrange(len(message) + 1), chance.randrange(len(message) + 1)))
        match chance.randrange(6):
            case 0 if message:
                message[min(at, len(message) - 1)] = chance.randrange(256)
            case 1:
                del message[at : min(to, at + 20)]
            case 2:
                message[at:at] = message[at : min(to, at + 100)]
            case 3:
                piece = message[at:to]
                del message[at:to]
                place = chance.randrange(len(message) + 1)
                message[place:place] = piece
            case _:
                message[at : at + chance.choice((0, 0, 1, 3))] = chance.choice(TOKENS)
    made = to_frame(bytes(message))
    if chance.randrange(20) == 0:
        made = chance.randbytes(4) + made[4:]
    return made


def test_mutated_frames_are_messages_or_errors() -> None:
    chance, seen = random.Random(SEED), Counter[str]()
    reader = ShapeReader({"12": PLAN})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(MUTATIONS):
        frame = mutated(chance.choice((EVENT_FRAME, chance.choice(FRAMES))), chance)
        try:
            messages = Frames(1 << 20).feed(frame)
        except PbioError as error:
            seen[error.code] += 1
            continue
        for message in messages:
            seen[read_both_ways(reader, message)] += 1
        if number % 1000 == 0:
            reader.learn_again()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert {"ReceivedEvent", "PBIO_BAD_MESSAGE", "PBIO_BAD_VALUE"} < set(seen)
    assert grown < 128 << 10  # kilobytes


def read_both_ways(reader: ShapeReader, message: bytes) -> str:
    """Read a message with what shapes there are, and without any; what it is."""
    found = []
    for one in (reader, ShapeReader(reader.plans)):
        try:
            found.append(one.read(message))
        except PbioError as error:
            found.append(error)  # type: ignore[arg-type]
    with_shapes, without = found
    if isinstance(without, PbioError):
        assert str(with_shapes) == str(without)
        return without.code
    assert repr(with_shapes) == repr(without), message
    if not isinstance(without, ReceivedEvent):
        assert decode(message) == without
    return type(without).__name__


class Wire:
    """A connection on which some bytes come."""

    name, address, limits = "peer", "1.2.3.4:5", GatewayLimits()

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.written = 0
        self.is_aborted = False

    async def read(self, most: int, seconds: float | None = None) -> bytes:
        await asyncio.sleep(0)
        data, self._data = self._data[:most], self._data[most:]
        return data

    async def write(self, data: bytes) -> None:
        self.written += len(data)

    def arrived(self) -> int:
        return self.written

    def abort(self) -> None:
        self.is_aborted = True


class Willing:
    """A role that says yes to everything."""

    def __init__(self) -> None:
        self.events = 0

    async def subscribed(self, session: Session, request: SubscribeRequest, own: str) -> Outgoing | Incoming:
        async def take(item: object, size: int) -> None:
            self.events += 1

        return Incoming(EventName(NAME), own, plan=PLAN, take=take)

    async def begun(self, session: Session, subscription: Outgoing | Incoming) -> None:
        """Nothing is to be done."""

    async def queried(self, session: Session, request: QueryRequest) -> XmlElement:
        return EVENT

    async def named(self, session: Session) -> list[EventName]:
        return [EventName(NAME)]


def test_a_session_survives_or_ends_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    chance, ends = random.Random(SEED + 4), Counter[str]()

    async def main() -> None:
        for _ in range(SESSIONS):
            frames = [chance.choice(FRAMES) for _ in range(chance.randrange(1, 12))]
            stream = b"".join(mutated(frame, chance) if chance.randrange(3) == 0 else frame for frame in frames)
            wire = Wire(stream[: chance.randrange(len(stream) + 1)] if chance.randrange(5) == 0 else stream)
            session = Session(wire, Willing())
            try:
                async with asyncio.timeout(60):
                    await session.run()
                ends["in order"] += 1
            except PbioError as error:
                ends[error.code] += 1
            assert session.subscriptions == {}
            assert wire.written < 100_000

    asyncio.run(main())
    assert {"in order", "PBIO_BAD_MESSAGE", "PBIO_DISCONNECTED", "PBIO_LIMIT"} <= set(ends)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
