"""`pbio gateway send` to a peer that is no thin listener, and a broken pipe that is not standard output."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.cli.gateway import _set_by_signals
from tests.channels.spaces import READING, reading
from tests.cli.conftest import Ran


def space_at(folder: Path) -> str:
    place = str(folder / "space")
    ChannelSpace.create(place).create_channel("readings", READING).submit([reading(n) for n in range(10)])
    return place


def test_a_peer_that_closes_the_connection_is_an_error_of_its_own(
    pbio: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pbio_spark.gateways.evpath.outward._WATCH", 600.0)
    space = space_at(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=lambda: listener.accept()[0].close()).start()
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        ran = pbio("gateway", "send", space, "readings", "--evpath", place, "--stone", "4")
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_DISCONNECTED] the peer closed the connection\n")
    assert place in ran.err
    assert "is it a thin listener, and does it know stone 4?" in ran.err


def test_a_signal_ends_a_sender(tmp_path: Path) -> None:
    space = space_at(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        options = ["gateway", "send", space, "readings", "--evpath", place, "--stone", "4", "--follow"]
        command = [sys.executable, "-c", "from pbio_spark.cli import main; main()", *options]
        sender = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with sender, listener.accept()[0]:
            sender.send_signal(signal.SIGTERM)
            out, err = sender.communicate()
    assert (sender.returncode, err) == (0, "")
    assert "events sent:" in out


def test_a_second_signal_ends_what_the_first_one_cannot() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with _set_by_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        assert signal.getsignal(signal.SIGTERM) == before
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("as_click", [False, True])
def test_a_broken_connection_is_not_taken_for_a_reader_that_has_gone(
    pbio: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch, as_click: bool
) -> None:
    def broken(**_: object) -> None:
        try:
            raise BrokenPipeError(32, os.strerror(32))
        except BrokenPipeError:
            if not as_click:
                raise
            sys.exit(1)

    monkeypatch.setattr("pbio_spark.cli.app", broken)
    ran = pbio("count", "x")
    assert ran.code == 1
    assert "Broken pipe" in ran.err
