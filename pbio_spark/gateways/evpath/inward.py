"""`ThinGateway`: turns thin streams into events of channels."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from pbio_spark.channels import Channel, ChannelSpace, RecordPreparer
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.gateways.evpath.committer import Backlog, Committer, columns_of
from pbio_spark.gateways.evpath.room import ByteBudget
from pbio_spark.gateways.evpath.settings import Stone, ThinSettings
from pbio_spark.gateways.evpath.stream import ThinStream
from pbio_spark.gateways.limits import GatewayLimits
from pbio_spark.gateways.peer import Peer
from pbio_spark.gateways.text import one_line

log = logging.getLogger("pbio_spark.gateways")

_CHUNK = 1 << 18
_MOST_KNOWN = 10_000
_OWN = 1 << 16
"""How many bytes every connection may hold, independent of others."""


class ThinGateway:
    """The part of a gateway that accepts thin streams."""

    name = "evpath"

    def __init__(
        self, space: ChannelSpace, settings: ThinSettings | None = None, limits: GatewayLimits | None = None
    ) -> None:
        """`limits`: `memory` applies to all connections together; the others apply to each `Peer`."""
        self._space = space
        self._settings = settings or ThinSettings()
        self._room = ByteBudget((limits or GatewayLimits()).memory)
        self._committer = Committer(space, self._settings)
        self._compiling = asyncio.Lock()
        self._compiled: set[tuple[str, bytes]] = set()

    async def start(self, address: str) -> None:
        """Start committing. Errors of stones are logged now, since senders only see closed connections."""
        self._committer.start(address)
        await asyncio.to_thread(self._warn)

    async def stop(self) -> None:
        """Commit what has arrived."""
        await self._committer.stop()

    async def serve(self, peer: Peer) -> None:
        """Publish the events of a connection until it ends or fails, or the gateway stops."""
        stream = ThinStream(str(peer), most_bytes=peer.limits.frame, most_formats=self._settings.formats)
        connection = _Connection(self, peer, stream)
        try:
            await connection.run()
        finally:
            await connection.end()

    async def _source(self, stream: ThinStream, peer: Peer) -> Backlog:
        """The destination of a stream, whose first format is known if needed."""
        assert stream.stone is not None
        stone = self._settings.stones.get(stream.stone)
        if stone is None and not self._settings.create:
            known = ", ".join(map(str, sorted(self._settings.stones)[:10])) or "none"
            raise PbioError(
                "PBIO_UNKNOWN_STONE",
                f"unknown stone {stream.stone}",
                hint=f"stones of this gateway: {known}; [evpath.stones] in its configuration names their channels",
            )
        stone = stone or Stone(f"stone-{stream.stone}")
        await asyncio.to_thread(self._check, stone, stream.formats)
        return Backlog(stone, stone.producer or peer.name, stream.formats)

    async def compile(self, channel: str, form: Format) -> None:
        """Compile the code for records of a format before they join a commit, where other records would have to wait.

        Errors of the format are found again when they are published.
        """
        key = channel, form.id + form.body
        if key in self._compiled:
            return
        async with self._compiling:  # one at a time: a peer may bring a thousand formats
            await asyncio.to_thread(self._compile, channel, form)
        if len(self._compiled) >= _MOST_KNOWN:
            self._compiled.clear()
        self._compiled.add(key)

    def _compile(self, channel: str, form: Format) -> None:
        try:
            RecordPreparer(self._space.formats).warm(self._space.find(channel), form)
        except Exception as error:
            log.debug("evpath: the format %s cannot be compiled: %r", form.id.hex(), error)

    def _warn(self) -> None:
        for number, stone in self._settings.stones.items():
            try:
                self._check(stone)
            except PbioError as error:
                if error.code != "PBIO_UNKNOWN_CHANNEL" or not self._settings.create:
                    log.warning("evpath: stone %d: %s", number, one_line(error))

    def _check(self, stone: Stone, formats: Sequence[Format] = ()) -> None:
        """Raise the error of a stone's channel; create the channel from the first format, if configured."""
        channel = self._channel(stone.channel, formats)
        RecordPreparer(self._space.formats).check_columns(channel.info, columns_of(stone))

    def _channel(self, name: str, formats: Sequence[Format]) -> Channel:
        try:
            return self._space.channel(name)
        except PbioError as error:
            if error.code != "PBIO_UNKNOWN_CHANNEL" or not self._settings.create or not formats:
                raise
        try:
            return self._space.create_channel(name, formats[0].record)
        except PbioError as error:
            if error.code != "PBIO_CHANNEL_EXISTS":
                raise
            return self._space.channel(name)  # another connection was faster

    def is_ready(self, stream: ThinStream) -> bool:
        """Whether a stream has sent everything that determines its channel."""
        return stream.stone is not None and bool(stream.formats or not self._settings.create)


class _Connection:
    """One thin stream, and its pending records."""

    def __init__(self, gateway: ThinGateway, peer: Peer, stream: ThinStream) -> None:
        self._gateway = gateway
        self._peer = peer
        self._stream = stream
        self._source: Backlog | None = None
        self._held = 0
        self._compiled = 0
        """How many of the stream's formats are compiled."""

    async def run(self) -> None:
        """Process the stream. Raises its error."""
        stopping = asyncio.create_task(self._peer.stopping.wait())
        try:
            while data := await self._read(stopping):
                await self._take(data)
        finally:
            stopping.cancel()
            if self._source is not None:
                await self._gateway._committer.finish(self._source)

    async def end(self) -> None:
        """Release the memory, and log the outcome."""
        await self._gateway._room.give(self._held)
        stream, source = self._stream, self._source
        said = [] if stream.stone is None else [f"stone {stream.stone}"]
        if source is not None:
            when = ", published now or before" if source.stone.sequence else ""
            said.append(f"{source.published} events are in {source.stone.channel!r}{when}")
        if stream.error is None and stream.is_cut:
            said.append(f"an item was cut off after {stream.waiting} bytes, and does not count")
        if self._peer.stopping.is_set():
            said.append("the gateway stops, and takes no more")
        log.info("evpath: %s: %s", self._peer, "; ".join(said) or "nothing came")

    async def _read(self, stopping: asyncio.Task[bool]) -> bytes:
        """The next bytes; none at the end, or when the gateway stops.

        A stream may rest between two items as long as it likes: it cannot tell that a connection has been closed, and
        would lose its next event.
        """
        is_inside = self._stream.stone is None or self._stream.is_cut
        reading = asyncio.create_task(self._peer.read(_CHUNK, None if is_inside else 0))
        await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            reading.cancel()
            return b""
        return reading.result()

    async def _take(self, data: bytes) -> None:
        stream, gateway = self._stream, self._gateway
        taken = stream.feed(data)
        if self._source is None and gateway.is_ready(stream):
            self._source = await gateway._source(stream, self._peer)
        if self._source is not None:
            if self._source.error is not None:
                raise self._source.error
            while self._compiled < len(stream.formats):
                await gateway.compile(self._source.stone.channel, stream.formats[self._compiled])
                self._compiled += 1
            if len(taken):
                gateway._committer.put(self._source, taken)
        if stream.error is not None:
            raise stream.error
        await self._hold()

    async def _hold(self) -> None:
        """Reserve memory, and wait while there is too little."""
        source, room = self._source, self._gateway._room
        if source is not None:
            await source.until(2 * self._gateway._settings.batch_bytes)
        more = self._wanted() - self._held
        if more > 0 and not room.take_now(more):
            if source is not None:
                await self._gateway._committer.finish(source)
            more = self._wanted() - self._held
            if more > 0:
                await room.take(more, self._peer.limits.slow)
        if more < 0:
            await room.give(-more)
        self._held += more

    def _wanted(self) -> int:
        return max(0, self._stream.waiting + (0 if self._source is None else self._source.bytes) - _OWN)
