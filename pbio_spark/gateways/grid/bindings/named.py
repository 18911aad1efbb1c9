"""Named subscribers: one connection at a time has a name, and the last one to ask for it gets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from pbio_spark.channels import Channel, ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.peers.session import Session
from pbio_spark.gateways.grid.peers.subscriptions import Outgoing
from pbio_spark.gateways.grid.protocol.messages import Event
from pbio_spark.gateways.grid.settings import GridSettings


class NamedSubscribers:
    """The named subscribers whose consumers are connected."""

    def __init__(self, space: ChannelSpace, settings: GridSettings) -> None:
        self._space = space
        self._settings = settings
        self._there: dict[tuple[int, str], tuple[Session, Outgoing]] = {}
        self._taking = asyncio.Lock()
        self._telling: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def taking(self, session: Session, outgoing: Outgoing, channel: Channel, name: str) -> AsyncIterator[str]:
        """The name in the space for a consumer's name: two peers may use the same one.

        A returning consumer may have lost a connection that this side still believes to be alive. So the former
        subscription ends before the block begins, in which the new one is made.

        Raises PBIO_LIMIT if the peer would have too many subscribers.
        """
        stored = f"{session.link.name}/{name}"
        key = channel.id, stored
        async with self._taking:
            await asyncio.to_thread(self._check, *key, f"{session.link.name}/")
            former = self._there.pop(key, None)
            if former is not None:
                await self._end(*former, name)
            yield stored
            self._there = {one: pair for one, pair in self._there.items() if not pair[0].is_over}
            self._there[key] = session, outgoing

    def _check(self, channel: int, stored: str, begin: str) -> None:
        own = [(one.channel, one.name) for one in self._space.subscribers() if one.name.startswith(begin)]
        if len(own) >= self._settings.subscribers and (channel, stored) not in own:
            reason = f"a peer may have {self._settings.subscribers} named subscribers"
            raise PbioError("PBIO_LIMIT", reason, hint="[grid] subscribers in the gateway's configuration is the limit")

    def has_lost(self, outgoing: Outgoing) -> bool:
        """Whether another connection has taken the name of a subscription that had one."""
        return all(other is not outgoing for _, other in self._there.values())

    async def _end(self, session: Session, outgoing: Outgoing, name: str) -> None:
        """End a subscription whose name another takes; its consumer may be slow."""
        await outgoing.stop()
        task = asyncio.create_task(_tell(session, outgoing, name))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)


async def _tell(session: Session, outgoing: Outgoing, name: str) -> None:
    reason = f"another connection subscribes as {name!r}"
    with suppress(PbioError, OSError):
        await session.send(Event(outgoing.theirs, None, "PBIO_REFUSED", reason))
        await session.unsubscribe(outgoing)
