"""Limits the memory that connections hold together."""

from __future__ import annotations

import asyncio

from pbio_spark.errors import PbioError


class ByteBudget:
    """A number of bytes, first come, first served.

    >>> room = ByteBudget(10)
    >>> room.take_now(6), room.take_now(6), room.free
    (True, False, 4)
    """

    def __init__(self, size: int) -> None:
        self.size = self.free = size
        self._given = asyncio.Condition()

    def take_now(self, count: int) -> bool:
        """Take some bytes, if they are free."""
        if count > self.free:
            return False
        self.free -= count
        return True

    async def take(self, count: int, seconds: float) -> None:
        """Take some bytes as soon as they are free. Raises PBIO_LIMIT after a timeout."""
        try:
            async with asyncio.timeout(seconds or None), self._given:
                await self._given.wait_for(lambda: self.take_now(count))
        except TimeoutError:
            raise PbioError(
                "PBIO_LIMIT",
                f"no room for {count} bytes more: all connections together hold {self.size - self.free}",
                hint="[limits] memory in the gateway's configuration is the limit",
            ) from None

    async def give(self, count: int) -> None:
        """Release some bytes."""
        self.free += count
        async with self._given:
            self._given.notify_all()
