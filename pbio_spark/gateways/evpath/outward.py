"""`ThinSender`: a named subscriber of a channel that hands its events to a thin listener, such as an EVPath program.

TCP tells that bytes have reached the peer's machine, not that its program has read them. The subscriber acknowledges
what has reached the machine, and sends the rest again over the next connection. So an event reaches the peer's machine
at least once, and is lost only if the peer's program ends with unread bytes.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable

import pyarrow as pa

from pbio_spark.channels import Channel, Delivery, Start, Subscription
from pbio_spark.columns import Encoder, check_filter, format_to_encoder
from pbio_spark.errors import PbioError
from pbio_spark.gateways.evpath.link import OutwardLink, StoppedError
from pbio_spark.gateways.text import address_to_text, one_line, system_reason
from pbio_spark.wire import MAGIC, ItemKind
from pbio_spark.wire.writer import format_to_item

log = logging.getLogger("pbio_spark.gateways")

_CONNECT = 30.0
"""The most seconds for connecting."""
_WATCH = 0.25
"""How long, in seconds, the peer may take to close a connection on which it does not want events: before the first one,
since afterwards nothing tells whether it has read them."""
_ACKNOWLEDGE_EVERY = 0.5
_LOOK = 0.2
"""How often an idle sender checks that its peer still responds, in seconds."""
_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_PASSING = ("PBIO_NOT_LISTENING", "PBIO_DISCONNECTED")


class ThinSender:
    """Sends the events of a channel, in the channel's own format, to a stone of a thin listener.

    Attributes:
        name: of the subscriber: a sender of this name resumes where the last one left off.
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
            name: by default made from the address and the stone.
            start, filter: as for `Channel.subscribe`.
            tls: encrypts the connection.

        Raises PBIO_BAD_OPTION, PBIO_BAD_PROGRAM, and what `Channel.subscribe` raises.
        """
        if not 0 <= stone < 10**9:
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"a stone has a number from 0 on, not {stone}",
                hint="give the number of a stone of the receiving program",
            )
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
        # Errors of these are reported before anything is sent.
        if filter is not None:
            check_filter(filter, self._format.record)
        self._subscribe()

    def run(self, *, follow: bool = False, stop: threading.Event | None = None) -> int:
        """Send available events; returns how many.

        Args:
            follow: continue with later events until `stop` is set, reconnecting if a connection breaks.
            stop: ends it in an orderly way.

        Raises:
            PbioError: PBIO_NOT_LISTENING if nothing listens, and PBIO_DISCONNECTED if the peer closes the connection
                before the first event, with `follow` only at the first connection; PBIO_DISCONNECTED if it breaks
                later, only without `follow`; what `Subscription.deliveries` raises; PBIO_CANNOT_BE_NULL for an event
                that the format cannot represent.
            OSError: the file system fails; only without `follow`.
        """
        stop = stop or threading.Event()
        pause, is_first = _PAUSE, True
        while not stop.is_set():
            before = self.sent
            try:
                with self._connect(stop) as link:
                    is_first = False
                    self._serve(link, follow, stop)
                return self.sent
            except StoppedError:
                return self.sent
            except (PbioError, OSError) as error:
                is_passing = isinstance(error, OSError) or error.code in _PASSING
                if not follow or is_first or not is_passing:
                    raise
                pause = _PAUSE if self.sent > before else min(2 * pause, _LONGEST_PAUSE)
                said = one_line(error) if isinstance(error, PbioError) else str(error)
                log.warning("evpath: %s: %s; trying again in %g s", self.name, said, pause)
            stop.wait(pause)
        return self.sent

    def _subscribe(self) -> Subscription:
        return self._channel.subscribe(name=self.name, start=self._start, filter=self._filter)

    def _connect(self, stop: threading.Event) -> OutwardLink:
        """A connection that has been told the stone and the format, and is still there. Raises PBIO_NOT_LISTENING,
        PBIO_DISCONNECTED."""
        host, port = self._address
        place = address_to_text(host, port)
        connection: socket.socket | None = None
        try:
            connection = socket.create_connection(self._address, _CONNECT)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_hostname=host)
        except OSError as error:
            if connection is not None:
                connection.close()
            hint = "`EVthin_socket_listen` tells an EVPath program the port at which it listens"
            if isinstance(error, ssl.SSLError):
                hint = "check that the peer speaks TLS, and that the authorities and its name match its certificate"
            reason = f"cannot connect to {place}: {system_reason(error)}"
            raise PbioError("PBIO_NOT_LISTENING", reason, hint=hint) from None
        try:
            hint = f"is it a thin listener, and does it know stone {self._stone}?"
            link = OutwardLink(connection, place, hint, stop)
            text = f"Stone {self._stone}".encode() + b"\0"
            head = MAGIC + (ItemKind.COMMENT << 24 | len(text)).to_bytes(4) + text
            link.send(head + format_to_item(self._format))
            link.watch(_WATCH)
        except BaseException:
            connection.close()
            raise
        return link

    def _serve(self, link: OutwardLink, follow: bool, stop: threading.Event) -> None:
        """Send available events over a connection and, with `follow`, later ones until the stop."""
        with self._subscribe() as subscription:
            flight = _Flight(link, subscription, self._count)
            while True:
                for delivery in subscription.deliveries(_LOOK if follow else 0):
                    link.send(self._encode(delivery))
                    flight.add(delivery.batch.num_rows)
                    if stop.is_set():
                        break
                flight.land()
                if not follow or stop.is_set():
                    break
                link.check_open()
            link.finish()

    def _count(self, events: int) -> None:
        self.sent += events

    def _encode(self, delivery: Delivery) -> pa.Buffer:
        schema = delivery.batch.schema
        if schema not in self._encoders:
            self._encoders[schema] = format_to_encoder(self._format, schema, wrap=True)
        return self._encoders[schema].encode(delivery.batch).buffer


class _Flight:
    """Sent events whose bytes may not have reached the peer's machine yet."""

    def __init__(self, link: OutwardLink, subscription: Subscription, landed: Callable[[int], None]) -> None:
        self._link = link
        self._subscription = subscription
        self._landed = landed
        self._events = 0
        self._since = time.monotonic()

    def add(self, events: int) -> None:
        """Add events; waits for them from time to time."""
        self._events += events
        if time.monotonic() - self._since > _ACKNOWLEDGE_EVERY:
            self.land()

    def land(self) -> None:
        """Wait until the peer's machine has all, and acknowledge it. Raises what `OutwardLink.confirm` raises."""
        self._link.confirm()
        self._subscription.acknowledge()
        self._landed(self._events)
        self._events, self._since = 0, time.monotonic()
