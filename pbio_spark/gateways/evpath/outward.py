"""`ThinSender`: a named subscriber of a channel that hands its events to a thin listener, such as an EVPath program.

TCP tells that bytes have reached the peer's machine, not that its program has read them. The subscriber acknowledges
what has reached it; what it had not acknowledged is sent again over the next connection. So an event comes at least
once to the peer's machine, and is lost only if the peer's program ends with bytes that it has not read.
"""

from __future__ import annotations

import fcntl
import logging
import select
import socket
import ssl
import struct
import termios
import threading
import time
from collections.abc import Callable

import pyarrow as pa

from pbio_spark.channels import Channel, Delivery, Start, Subscription
from pbio_spark.columns import Encoder, format_to_encoder
from pbio_spark.errors import PbioError
from pbio_spark.gateways.text import address_to_text, one_line, system_reason
from pbio_spark.wire import MAGIC, Kind
from pbio_spark.wire.writer import format_to_item

log = logging.getLogger("pbio_spark.gateways")

_CONNECT, _SLOW = 30.0, 60.0
"""The most seconds for a connection to be made, and without any progress of what is sent."""
_ACKNOWLEDGE_EVERY = 0.5
_LOOK = 0.2
"""How often an idle sender looks whether its peer is still there, in seconds."""
_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


class ThinSender:
    """Sends the events of a channel, in the channel's own format, to a stone of a thin listener.

    Attributes:
        name: of the subscriber: a sender of this name resumes where the last one was.
        sent: how many events have reached the peer's machine.
    """

    def __init__(
        self,
        channel: Channel,
        address: tuple[str, int],
        stone: int,
        *,
        name: str | None = None,
        start: Start = "earliest",
        filter: str | None = None,  # noqa: A002
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """
        Args:
            address: the host and the port of the listener.
            stone: its number there.
            name: by default one made of the address and the stone.
            start, filter: as for `Channel.subscribe`.
            tls: encrypts the connection.
        """
        if not 0 <= stone < 10**9:
            raise PbioError("PBIO_BAD_OPTION", f"a stone has a number from 0 on, not {stone}")
        self.name = name or f"evpath {address[0]}:{address[1]} stone {stone}"
        self.sent = 0
        self._channel = channel
        self._address = address
        self._stone = stone
        self._start = start
        self._filter = filter
        self._tls = tls
        self._format = channel.format
        self._encoders: dict[pa.Schema, Encoder] = {}
        self._subscribe()  # so that what is wrong with it is said before anything is sent

    def run(self, *, follow: bool = False, stop: threading.Event | None = None) -> int:
        """Send what there is; how many events.

        Args:
            follow: go on with what is published later, until `stop` is set, over new connections where one breaks.
            stop: ends it in order.

        Raises:
            PbioError: PBIO_NOT_LISTENING if nobody listens, with `follow` only at the first connection; what
                `Subscription.deliveries` raises; PBIO_CANNOT_BE_NULL for an event that the format cannot hold.
            OSError: the connection broke; without `follow` only.
        """
        stop = stop or threading.Event()
        pause, is_first = _PAUSE, True
        while not stop.is_set():
            before = self.sent
            try:
                with self._connect() as connection:
                    is_first = False
                    self._serve(connection, follow, stop)
                return self.sent
            except (PbioError, OSError) as error:
                is_passing = isinstance(error, OSError) or error.code == "PBIO_NOT_LISTENING"
                if not follow or is_first or not is_passing:
                    raise
                pause = _PAUSE if self.sent > before else min(2 * pause, _LONGEST_PAUSE)
                said = one_line(error) if isinstance(error, PbioError) else str(error)
                log.warning("evpath: %s: %s; trying again in %g s", self.name, said, pause)
            stop.wait(pause)
        return self.sent

    def _subscribe(self) -> Subscription:
        return self._channel.subscribe(name=self.name, start=self._start, filter=self._filter)

    def _connect(self) -> socket.socket:
        """A connection that has been told the stone and the format. Raises PBIO_NOT_LISTENING."""
        host, port = self._address
        try:
            connection = socket.create_connection(self._address, _CONNECT)
        except OSError as error:
            hint = "`EVthin_socket_listen` tells an EVPath program the port at which it listens"
            reason = f"cannot connect to {address_to_text(host, port)}: {system_reason(error)}"
            raise PbioError("PBIO_NOT_LISTENING", reason, hint=hint) from None
        connection.settimeout(_SLOW)
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_hostname=host)
            text = f"Stone {self._stone}".encode() + b"\0"
            head = MAGIC + (Kind.COMMENT << 24 | len(text)).to_bytes(4) + text
            connection.sendall(head + format_to_item(self._format))
        except BaseException:
            connection.close()
            raise
        return connection

    def _serve(self, connection: socket.socket, follow: bool, stop: threading.Event) -> None:
        """Send over a connection what there is and, to follow, what comes, until the stop."""
        with self._subscribe() as subscription:
            flight = _Flight(connection, subscription, self._count)
            while True:
                for delivery in subscription.deliveries(_LOOK if follow else 0):
                    connection.sendall(self._encode(delivery))
                    flight.add(delivery.batch.num_rows)
                    if stop.is_set():
                        break
                flight.land()
                if not follow or stop.is_set():
                    break
                _check_open(connection)
            connection.shutdown(socket.SHUT_WR)

    def _count(self, events: int) -> None:
        self.sent += events

    def _encode(self, delivery: Delivery) -> pa.Buffer:
        schema = delivery.batch.schema
        if schema not in self._encoders:
            self._encoders[schema] = format_to_encoder(self._format, schema, wrap=True)
        return self._encoders[schema].encode(delivery.batch).buffer


class _Flight:
    """Events that were sent, and whose bytes may not have reached the peer's machine yet."""

    def __init__(self, connection: socket.socket, subscription: Subscription, landed: Callable[[int], None]) -> None:
        self._connection = connection
        self._subscription = subscription
        self._landed = landed
        self._events = 0
        self._since = time.monotonic()

    def add(self, events: int) -> None:
        """Some more events; now and then it waits for them."""
        self._events += events
        if time.monotonic() - self._since > _ACKNOWLEDGE_EVERY:
            self.land()

    def land(self) -> None:
        """Wait until the peer's machine has all, and acknowledge it. Raises OSError if the connection breaks before."""
        left, deadline, pause = _unsent(self._connection), time.monotonic() + _SLOW, 0.0005
        while left:
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
            now = _unsent(self._connection)
            if now < left:
                deadline = time.monotonic() + _SLOW
            elif time.monotonic() > deadline:
                raise TimeoutError(f"the peer has taken no bytes for {_SLOW:g} s")
            left = now
        _check_sound(self._connection)
        self._subscription.acknowledge()
        self._landed(self._events)
        self._events, self._since = 0, time.monotonic()


def _unsent(connection: socket.socket) -> int:
    """How many bytes the peer's machine has not confirmed; Linux and macOS tell."""
    said = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
    return int(struct.unpack("i", said)[0])


def _check_sound(connection: socket.socket) -> None:
    """Raise OSError if the connection broke; a machine whose program ended with bytes unread breaks it, too."""
    failed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failed:
        raise OSError(failed, "the connection broke")


def _check_open(connection: socket.socket) -> None:
    """Raise OSError if the connection broke, or the peer has closed it: it reads nothing more."""
    _check_sound(connection)
    if select.select([connection], [], [], 0)[0] and not connection.recv(1 << 12):
        raise ConnectionResetError("the peer has closed the connection")
