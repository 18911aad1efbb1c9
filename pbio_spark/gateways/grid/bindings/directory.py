"""The directory of gateways: a channel of the space in which each gateway registers (grid-events 7).

In the paper, consumers ask an LDAP server which producer offers which events. Here they ask the space.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ecode.types import INT32, STRING, Array, Field, Notes, Record, record
from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.bindings.catalog import DIRECTORY
from pbio_spark.gateways.grid.protocol.messages import EventName

log = logging.getLogger("pbio_spark.gateways")

_KEPT = timedelta(days=1)


def _entry_type() -> Record:
    from ecode.types import INT64

    return record(
        "gateway",
        [
            Field("address", STRING),
            Field("expires", INT64, Notes(logical="timestamp")),
            Field("count", INT32, Notes(hidden=True)),
            Field("names", Array(STRING, ("count",))),
            Field("namespaces", Array(STRING, ("count",))),
        ],
    )


@dataclass(frozen=True, slots=True)
class GatewayEntry:
    """A gateway, as it registered.

    Attributes:
        address: where it listens.
        names: names of the events that it offers.
        expires: when it counts as gone unless it renews its entry.
    """

    address: str
    names: tuple[EventName, ...]
    expires: datetime


def gateways(space: ChannelSpace, now: datetime | None = None) -> list[GatewayEntry]:
    """The active gateways of a space, by address."""
    try:
        channel = space.channel(DIRECTORY)
    except PbioError as error:
        if error.code != "PBIO_UNKNOWN_CHANNEL":
            raise
        return []
    moment = now or datetime.now(UTC)
    found: dict[str, GatewayEntry] = {}
    for event in channel.subscribe(start=moment - _KEPT, fail_on_loss=False).events():
        values: dict[str, Any] = event.values
        names = zip(values["names"] or (), values["namespaces"] or (), strict=True)
        entry = GatewayEntry(values["address"], tuple(EventName(*one) for one in names), values["expires"])
        found[entry.address] = entry
    return [found[address] for address in sorted(found) if found[address].expires > moment]


class DirectoryEntry:
    """The entry of this gateway, renewed while it runs."""

    def __init__(self, space: ChannelSpace, address: str, seconds: float, names: Callable[[], list[EventName]]) -> None:
        self._space = space
        self._address = address
        self._seconds = seconds
        self._names = names
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Register the gateway, and renew the entry. Raises PbioError if the space cannot be written to."""
        await asyncio.to_thread(self._enter, self._seconds)
        self._task = asyncio.create_task(self._renew())

    async def stop(self) -> None:
        """Record that the gateway is gone."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        try:
            await asyncio.to_thread(self._enter, 0.0)
        except PbioError as error:
            log.warning("grid: the directory still has %s: %s", self._address, error.reason)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._seconds / 2)
            try:
                await asyncio.to_thread(self._enter, self._seconds)
            except PbioError as error:
                log.warning("grid: the entry in the directory cannot be renewed: %s", error.reason)

    def _enter(self, seconds: float) -> None:
        channel = self._space.create_channel(DIRECTORY, _entry_type(), keep=_KEPT, exist_ok=True)
        names = self._names()
        channel.submit(
            {
                "address": self._address,
                "expires": datetime.now(UTC) + timedelta(seconds=seconds),
                "names": [name.name for name in names],
                "namespaces": [name.namespace for name in names],
            }
        )
