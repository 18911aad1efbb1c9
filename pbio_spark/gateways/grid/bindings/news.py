"""Announces new commits to all that wait for events: one check for all subscriptions."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError

log = logging.getLogger("pbio_spark.gateways")

_SHORTEST, _LONGEST = 0.002, 0.1


class News:
    """Checks for commits while a subscription waits for them.

    Attributes:
        version: of the last commit that was seen.
    """

    def __init__(self, space: ChannelSpace) -> None:
        self.version = 0
        self._space = space
        self._came = asyncio.Event()
        self._is_waited = asyncio.Event()
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start checking."""
        self.version = await asyncio.to_thread(self._look)
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop checking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def latest(self) -> int:
        """The version of the last existing commit."""
        self.tell(await asyncio.to_thread(self._look))
        return self.version

    async def wait(self, version: int, seconds: float) -> None:
        """Wait for a commit after a version, at most a number of seconds."""
        if self.version > version:
            return
        self._waiting += 1
        self._is_waited.set()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while self.version <= version:
                        await self._came.wait()
        finally:
            self._waiting -= 1

    def tell(self, version: int) -> None:
        """Announce a commit."""
        if version > self.version:
            self.version = version
            came, self._came = self._came, asyncio.Event()
            came.set()

    async def _run(self) -> None:
        pause = _SHORTEST
        while True:
            if not self._waiting:
                self._is_waited.clear()
                await self._is_waited.wait()
            before = self.version
            try:
                self.tell(await asyncio.to_thread(self._look))
            except PbioError as error:  # readers will also find and report it
                log.warning("grid: the log cannot be read: %s", error.reason)
                self.tell(self.version + 1)
                await asyncio.sleep(1)
            except Exception:
                log.exception("grid: the gateway has a defect; it looks for events again")
                await asyncio.sleep(1)
            pause = _SHORTEST if self.version > before else min(pause * 2, _LONGEST)
            await asyncio.sleep(pause)

    def _look(self) -> int:
        with self._space.history.lock:
            return self._space.history.catch_up().version
