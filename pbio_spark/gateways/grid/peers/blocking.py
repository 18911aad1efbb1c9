"""Consumers and producers for programs without asyncio: the same, in a thread with its own loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Self, TypeVar

from ecode.types import Record
from pbio_spark.gateways.grid.peers.asking import Asked
from pbio_spark.gateways.grid.peers.consumer import GridConsumer, GridSubscription, Types
from pbio_spark.gateways.grid.peers.events import GridEvent
from pbio_spark.gateways.grid.peers.producer import GridProducer, ProducerConnection, ProducerSubscription
from pbio_spark.gateways.grid.protocol.messages import EventName

Result = TypeVar("Result")


class _Loop:
    """A loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="grid", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result], timeout: float | None = None) -> Result:
        """The result of work in the loop. Raises TimeoutError, and then the work has been given up."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        # In its own thread: the caller's may have a loop that runs, as in a notebook.
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BlockingConsumer:
    """A `GridConsumer` whose methods block; made by `GridConsumer.open`. A context manager."""

    def __init__(self, address: str, types: Types | None, options: Mapping[str, Any]) -> None:
        self._loop = _Loop()
        try:
            self._consumer = self._loop.run(GridConsumer.connect(address, types, **options))
        except BaseException:
            self._loop.close()
            raise

    def names(self) -> list[EventName]:
        """As `GridConsumer.names`."""
        return self._loop.run(self._consumer.names())

    def query(
        self, name: str | EventName, parameters: Asked | None = None, *, namespace: str | None = None
    ) -> GridEvent:
        """As `GridConsumer.query`."""
        return self._loop.run(self._consumer.query(name, parameters, namespace=namespace))

    def subscribe(
        self, name: str | EventName, parameters: Asked | None = None, *, namespace: str | None = None
    ) -> BlockingSubscription:
        """As `GridConsumer.subscribe`."""
        return BlockingSubscription(
            self._loop, self._loop.run(self._consumer.subscribe(name, parameters, namespace=namespace))
        )

    def close(self) -> None:
        """As `GridConsumer.close`."""
        self._loop.run(self._consumer.close())
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingSubscription:
    """A `GridSubscription` as an iterator that waits; a context manager."""

    def __init__(self, loop: _Loop, subscription: GridSubscription) -> None:
        self._loop = loop
        self._subscription = subscription

    def next(self, timeout: float | None = None) -> GridEvent | None:
        """The next event; None if there are no more. Raises TimeoutError if none comes within the timeout."""

        async def step() -> GridEvent | None:
            return await anext(self._subscription, None)

        async def in_time() -> GridEvent | None:
            async with asyncio.timeout(timeout):
                return await step()

        return self._loop.run(in_time())

    def __iter__(self) -> Iterator[GridEvent]:
        while (event := self.next()) is not None:
            yield event

    def unsubscribe(self) -> None:
        """As `GridSubscription.unsubscribe`."""
        self._loop.run(self._subscription.unsubscribe())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._subscription.__aexit__())


class BlockingProducer:
    """A `GridProducer` that listens, and whose methods block; made by `GridProducer.open`. A context manager.

    Attributes:
        address: where it listens.
    """

    def __init__(self, types: Mapping[str | EventName, Record], address: str, options: Mapping[str, Any]) -> None:
        self._producer = GridProducer(types)
        self._loop = _Loop()
        self._listening: AbstractAsyncContextManager[str] = self._producer.listen(address, **options)
        try:
            self.address: str = self._loop.run(self._enter())
        except BaseException:
            self._loop.close()
            raise

    async def _enter(self) -> str:
        return await self._listening.__aenter__()

    async def _exit(self) -> None:
        await self._listening.__aexit__(None, None, None)

    def publish(
        self,
        name: str | EventName,
        values: Mapping[str, Any],
        *,
        time: datetime | None = None,
        sequence: int | None = None,
        namespace: str | None = None,
    ) -> int:
        """As `GridProducer.publish`."""
        return self._loop.run(self._producer.publish(name, values, time=time, sequence=sequence, namespace=namespace))

    def connect(self, address: str, **options: Any) -> BlockingConnection:
        """As `GridProducer.connect`."""
        return BlockingConnection(self._loop, self._loop.run(self._producer.connect(address, **options)))

    def close(self) -> None:
        """Listen no longer, and end all connections."""
        self._loop.run(self._exit())
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingConnection:
    """A `ProducerConnection` whose methods block. A context manager."""

    def __init__(self, loop: _Loop, connection: ProducerConnection) -> None:
        self._loop = loop
        self._connection = connection

    def subscribe(
        self,
        name: str | EventName,
        parameters: Asked | None = None,
        *,
        namespace: str | None = None,
        subscription_id: str | None = None,
    ) -> BlockingProducerSubscription:
        """As `ProducerConnection.subscribe`."""
        asking = self._connection.subscribe(name, parameters, namespace=namespace, subscription_id=subscription_id)
        return BlockingProducerSubscription(self._loop, self._loop.run(asking))

    def close(self) -> None:
        """As `ProducerConnection.close`."""
        self._loop.run(self._connection.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingProducerSubscription:
    """A `ProducerSubscription` whose methods block."""

    def __init__(self, loop: _Loop, subscription: ProducerSubscription) -> None:
        self._loop = loop
        self._subscription = subscription

    @property
    def is_over(self) -> bool:
        """As `ProducerSubscription.is_over`."""
        return self._subscription.is_over

    def unsubscribe(self) -> str | None:
        """As `ProducerSubscription.unsubscribe`."""
        return self._loop.run(self._subscription.unsubscribe())
