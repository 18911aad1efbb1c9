"""A sender whose peer refuses its events says so at once, and a sender that should stop does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pbio_spark.channels import Channel, ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.gateways.evpath import Stone, ThinSender, ThinSettings, link, outward
from pbio_spark.wire import MAGIC
from tests.channels.spaces import READING, reading
from tests.gateways.evpath.streams import running


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    made = ChannelSpace.create(str(tmp_path / "space")).create_channel("readings", READING)
    made.submit([reading(number) for number in range(100)])
    return made


@contextmanager
def peer(serve: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """A listener that deals with one connection, and the place where it is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with listener.accept()[0] as connection:
                serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[:2]
        thread.join()


def read_magic(connection: socket.socket) -> None:
    assert connection.recv(4) == MAGIC  # the rest is not read, and breaks the connection when it is closed


def read_all_and_leave(connection: socket.socket) -> None:
    connection.recv(1 << 16)


@pytest.mark.parametrize("serve", [read_magic, read_all_and_leave, lambda _: None])
@pytest.mark.parametrize("follow", [False, True])
def test_a_peer_that_closes_the_connection_is_named_before_an_event_is_lost(
    channel: Channel, serve: Callable[[socket.socket], None], follow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outward, "_WATCH", 600.0)  # the machine may be busy
    with peer(serve) as address:
        sender = ThinSender(channel, address, 7, name="viewer")
        with pytest.raises(PbioError, match="the peer closed the connection") as raised:
            sender.run(follow=follow)
    assert (raised.value.code, sender.sent) == ("PBIO_DISCONNECTED", 0)
    assert raised.value.hint == "is it a thin listener, and does it know stone 7?"
    assert len([*channel.subscribe(name="viewer").deliveries(0)]) > 0  # nothing was acknowledged


def test_a_gateway_that_does_not_know_the_stone_gets_no_events(
    channel: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outward, "_WATCH", 600.0)
    other = ChannelSpace.create(str(tmp_path / "other"))
    other.create_channel("readings", READING)
    with running(other, ThinSettings(stones={3: Stone("readings")})) as gateway:
        with pytest.raises(PbioError, match="does it know stone 4"):
            ThinSender(channel, gateway.address, 4).run()
        monkeypatch.undo()
        assert ThinSender(channel, gateway.address, 3).run() == 100


def test_a_connection_that_breaks_later_is_not_a_defect_of_the_file_system(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outward, "_WATCH", 0.0)
    monkeypatch.setattr(outward.ThinSender, "_encode", lambda *_: bytes(64 << 20))  # more than any buffer holds
    with peer(read_magic) as address, pytest.raises(PbioError) as raised:
        ThinSender(channel, address, 7).run()
    assert (raised.value.code, raised.value.reason) == ("PBIO_DISCONNECTED", "the peer closed the connection")


def test_a_sender_whose_peer_reads_nothing_stops_when_it_is_to(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_SLOW", 600.0)
    monkeypatch.setattr(outward.ThinSender, "_encode", lambda *_: bytes(64 << 20))
    stop, done = threading.Event(), threading.Event()
    with peer(lambda _: done.wait() and None) as address:  # type: ignore[func-returns-value]
        threading.Timer(0.5, stop.set).start()
        assert ThinSender(channel, address, 7).run(stop=stop) == 0
        done.set()


def test_a_peer_that_reads_nothing_for_long_is_given_up(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_SLOW", 0.2)
    monkeypatch.setattr(outward.ThinSender, "_encode", lambda *_: bytes(64 << 20))
    done = threading.Event()
    with peer(lambda _: done.wait() and None) as address:  # type: ignore[func-returns-value]
        with pytest.raises(PbioError, match=r"the peer has taken no bytes for 0\.2 s") as raised:
            ThinSender(channel, address, 7).run()
        done.set()
    assert raised.value.code == "PBIO_DISCONNECTED"
