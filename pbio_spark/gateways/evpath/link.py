"""`OutwardLink`: a connection for sending events, which tracks how many bytes have arrived."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time

import pyarrow as pa

from pbio_spark.errors import PbioError
from pbio_spark.gateways.arrival import check_sound, unconfirmed
from pbio_spark.gateways.text import system_reason

_SLOW = 60.0
"""The most seconds without progress."""
_LOOK = 0.1
"""How often it checks whether to stop, in seconds."""
_GRACE = 1.0
"""How long pending data may take once it should stop, in seconds."""
_CHUNK = 1 << 20
_NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class StoppedError(Exception):
    """The link must stop, but the peer does not take pending data."""


class OutwardLink:
    """A connection to a peer that only reads.

    Its methods raise PBIO_DISCONNECTED if the peer has closed the connection, if it breaks, and if the peer takes
    nothing for a minute; `StoppedError` if they must stop meanwhile.
    """

    def __init__(self, connection: socket.socket, place: str, hint: str, stop: threading.Event) -> None:
        """
        Args:
            place: the peer's address, for errors.
            hint: why it may have closed the connection.
            stop: set when it must stop.
        """
        connection.setblocking(False)
        self._connection = connection
        self._place = place
        self._hint = hint
        self._stop = stop
        self._deadline = 0.0

    def send(self, data: bytes | pa.Buffer) -> None:
        """Send all of it."""
        rest = memoryview(data).cast("B")
        since = time.monotonic()
        while rest:
            try:
                sent = self._connection.send(rest[:_CHUNK])
            except _NOT_YET:
                select.select([], [self._connection], [], _LOOK)
                self._check_patience(since)
            except OSError as error:
                raise self._lost(error) from None
            else:
                rest, since = rest[sent:], time.monotonic()

    def confirm(self) -> None:
        """Wait until the peer's machine has all sent bytes."""
        left, since, pause = unconfirmed(self._connection), time.monotonic(), 0.0005
        while left:
            self._check_sound()
            self._check_patience(since)
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
            now = unconfirmed(self._connection)
            if now < left:
                since = time.monotonic()
            left = now
        self._check_sound()

    def watch(self, seconds: float) -> None:
        """Watch for some time whether the peer closes the connection."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self._stop.is_set():
            select.select([self._connection], [], [], min(left, _LOOK))
            self.check_open()

    def check_open(self) -> None:
        """Check whether the connection is broken, or the peer has closed it and reads nothing more."""
        self._check_sound()
        try:
            said = self._connection.recv(1 << 12)
        except _NOT_YET:
            return
        except OSError as error:
            raise self._lost(error) from None
        if not said:
            raise self._closed()

    def finish(self) -> None:
        """Tell the peer that nothing more will come."""
        try:
            self._connection.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise self._lost(error) from None

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def __enter__(self) -> OutwardLink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_sound(self) -> None:
        try:
            check_sound(self._connection)
        except OSError as error:
            raise self._lost(error) from None

    def _check_patience(self, since: float) -> None:
        """Raise after too long without progress."""
        now = time.monotonic()
        if self._stop.is_set():
            self._deadline = self._deadline or now + _GRACE
            if now >= self._deadline:
                raise StoppedError
        if now - since > _SLOW:
            reason = f"the peer has taken no bytes for {_SLOW:g} s"
            hint = "the program there does not read; the next send repeats what it has not received"
            raise PbioError("PBIO_DISCONNECTED", reason, file=self._place, hint=hint)

    def _lost(self, error: OSError) -> PbioError:
        if isinstance(error, ConnectionResetError | BrokenPipeError):
            return self._closed()
        reason = f"the connection broke: {system_reason(error)}"
        return PbioError(
            "PBIO_DISCONNECTED",
            reason,
            file=self._place,
            hint="start it again: it resumes after the last acknowledged event",
        )

    def _closed(self) -> PbioError:
        return PbioError("PBIO_DISCONNECTED", "the peer closed the connection", file=self._place, hint=self._hint)
