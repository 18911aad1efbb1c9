"""`pbio gateway publish`, `subscribe` and `names`: what a newcomer does, and what the command says."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.formats.layout import record_to_format
from pbio_spark.gateways.evpath import ThinSettings
from pbio_spark.gateways.grid import Handed, text_to_handed
from pbio_spark.gateways.text import to_address
from tests.cli.conftest import Ran
from tests.gateways.evpath.streams import running, thin_stream
from tests.gateways.grid.samples import LOAD, NAME
from tests.gateways.grid.spaces import loads_in, new_space, serving, submit

ROW = {"Load1": 1.5, "Load5": 2.5, "Load15": 3.5, "HostName": "h", "TimeStamp": "2000-11-09T21:51:45Z"}

_FIELDS = {"Load1": "float64", "Load5": "float64", "Load15": "float64", "HostName": "string"}
UNTIMED = json.dumps({NAME: _FIELDS})
TYPE = json.dumps({NAME: {**_FIELDS, "TimeStamp": "string"}})


class Gateway:
    """A gateway to a space, in a thread."""

    def __init__(self, space: ChannelSpace) -> None:
        self.space = space
        self.address = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        self._ready.wait()

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with serving(self.space, archive=NAME) as self.address:
                self._ready.set()
                await self._over.wait()
        finally:
            self._ready.set()

    def stop(self) -> None:
        """End it in order."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    made = Gateway(new_space(tmp_path))
    yield made
    made.stop()


def lines(folder: Path, *rows: dict[str, Any], name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("count", [1, 2])
def test_events_that_the_consumer_refuses_are_an_error(
    pbio: Callable[..., Ran], gateway: Gateway, tmp_path: Path, count: int
) -> None:
    bad = [{**ROW, "Load1": "x"}] * count
    good = {**ROW, "Load1": "7"}
    ran = pbio("gateway", "publish", gateway.address, NAME, lines(tmp_path, good, *bad))
    which = "2 of 3 events, the first because: not a number" if count == 2 else "1 of 2 events: not a number"
    assert ran.code == 1
    assert ran.err.startswith(f"[PBIO_REFUSED] the consumer refused {which}")
    assert f"events sent: {1 + count}; the consumer says: {count} event" in ran.out
    assert loads_in(gateway.space) == [7.0]


def test_numbers_that_are_known_already_are_a_warning_with_the_producer(
    pbio: Callable[..., Ran], gateway: Gateway, tmp_path: Path
) -> None:
    first, second = lines(tmp_path, ROW), lines(tmp_path, {**ROW, "Load1": 8.0}, name="second.jsonl")
    begin = ("gateway", "publish", gateway.address, NAME)
    assert pbio(*begin, first, "--sequence", "0").err == ""
    ran = pbio(*begin, second, "--sequence", "0")
    assert ran.code == 0
    assert ran.err.startswith("warning: 1 event was not published: the producer '127.0.0.1/1' has published events")
    assert "give another --producer" in ran.err
    assert pbio(*begin, second, "--producer", "second", "--sequence", "0") == Ran(0, f"{NAME}: events sent: 1\n", "")
    assert loads_in(gateway.space) == [1.5, 8.0]
    assert gateway.space.channel(NAME).last_sequence("127.0.0.1/second") == 0


@pytest.mark.parametrize("untimed", [{}, {"TimeStamp": None}])
def test_a_row_without_a_time_is_refused(
    pbio: Callable[..., Ran], gateway: Gateway, tmp_path: Path, untimed: dict[str, None]
) -> None:
    row = {**{name: value for name, value in ROW.items() if name != "TimeStamp"}, **untimed}
    path = lines(tmp_path, ROW, row)
    ran = pbio("gateway", "publish", gateway.address, NAME, path)
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_CANNOT_BE_NULL] line 2 has no TimeStamp")
    assert '"TimeStamp": "now"' in ran.err
    assert loads_in(gateway.space) == []


@pytest.mark.parametrize("type_", [(), ("--type", TYPE), ("--type", UNTIMED)])
def test_a_row_may_be_of_now(
    pbio: Callable[..., Ran], gateway: Gateway, tmp_path: Path, type_: tuple[str, ...]
) -> None:
    before = datetime.now(UTC)
    path = lines(tmp_path, {**ROW, "TimeStamp": "now"})
    assert pbio("gateway", "publish", gateway.address, NAME, path, *type_).err == ""
    (event,) = gateway.space.channel(NAME).subscribe(start="earliest").events()
    assert event.values["TimeStamp"] == event.event_time >= before


def test_rows_without_a_time_are_of_now_if_that_is_said(
    pbio: Callable[..., Ran], gateway: Gateway, tmp_path: Path
) -> None:
    before = datetime.now(UTC)
    path = lines(tmp_path, ROW, {**ROW, "Load1": 2.0, "TimeStamp": None}, {**ROW, "Load1": 3.0, "TimeStamp": "now"})
    assert pbio("gateway", "publish", gateway.address, NAME, path, "--now").err == ""
    first, *others = gateway.space.channel(NAME).subscribe(start="earliest").events()
    assert first.event_time == datetime(2000, 11, 9, 21, 51, 45, tzinfo=UTC)
    assert [event.values["Load1"] for event in others if event.event_time >= before] == [2.0, 3.0]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("--sequence=-1", "--sequence takes a whole number from 0, not '-1'"),
        ("--sequence=one", "not 'one'"),
        ("--sequence=:0", "not ':0'"),
        ("--sequence=probe:0", "did you mean --producer probe --sequence 0?"),
        ("--producer= ", "cannot be blank"),
        ("--key=x", "--key needs --certificate"),
        ("--producr=x", "--producer"),
    ],
)
def test_wrong_usage_is_said_before_a_connection_is_made(
    pbio: Callable[..., Ran], tmp_path: Path, said: str, reason: str
) -> None:
    ran = pbio("gateway", "publish", "127.0.0.1:1", NAME, lines(tmp_path, ROW), said)
    assert ran.code == 2
    assert reason in ran.err


@pytest.mark.parametrize(
    ("said", "reason"), [("Period", "'Period' is not NAME=VALUE"), ("Count=1", "'Count' is given twice")]
)
def test_parameters_are_checked_before_a_connection_is_made(pbio: Callable[..., Ran], said: str, reason: str) -> None:
    ran = pbio("gateway", "subscribe", "127.0.0.1:1", NAME, "--set", "Count=2", "--set", said)
    assert ran.code == 2
    assert reason in ran.err


def test_a_file_that_is_not_a_certificate_is_named(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    for option in ("--ca", "--certificate"):
        ran = pbio("gateway", "names", "127.0.0.1:1", option, tmp_path / "none.pem")
        assert ran.code == 1
        assert ran.err.startswith(f"[PBIO_BAD_OPTION] {option}: ")
        assert "none.pem" in ran.err


@pytest.mark.parametrize(
    "handed",
    [
        Handed(),
        Handed(refused=1, reason="a; 3 events of x were known already"),
        Handed(refused=20, reason="b", known=1, producer="h/1"),
        Handed(known=3, producer="h/a b"),
    ],
)
def test_what_an_archive_says_is_read_as_it_was_meant(handed: Handed) -> None:
    assert text_to_handed(handed.to_text()) == handed


def test_what_another_archive_says_is_nothing_that_is_known() -> None:
    assert text_to_handed("thanks; come again") == text_to_handed(None) == Handed()


def test_a_subscription_that_the_producer_ends_is_said_to_be_over(
    pbio: Callable[..., Ran], gateway: Gateway, tmp_path: Path
) -> None:
    submit(gateway.space, [1.0, 2.0])
    begin = ("gateway", "subscribe", gateway.address, NAME, "--set", "After=earliest", "--set")
    assert pbio(*begin, "Count=2").err == ""
    stopping = threading.Timer(1.0, gateway.stop)
    stopping.start()
    ran = pbio(*begin, "Count=3")
    stopping.join()
    assert (ran.code, len(ran.out.splitlines())) == (0, 2)
    assert ran.err == f"{NAME}: the producer has ended the subscription; events shown: 2\n"


def test_a_port_of_thin_streams_is_doubted_to_be_one_of_grid_events(
    pbio: Callable[..., Ran], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    space = new_space(tmp_path)
    with running(space, ThinSettings(stones={})) as gateway:
        ran = pbio("gateway", "names", f"127.0.0.1:{gateway.address[1]}")
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_DISCONNECTED] ")
    assert "is this a Grid port?" in ran.err
    assert "`pbio gateway serve --grid`" in caplog.text


def test_a_thin_stream_at_a_grid_port_is_named(
    gateway: Gateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(to_address(gateway.address)) as connection:
        connection.sendall(thin_stream(record_to_format(LOAD), []))
        assert connection.recv(1) == b""
    assert "this is a thin stream, and no Grid message" in caplog.text


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"TimeStamp": 973806705000000}, 'it is a string such as "2000-11-09T21:51:45Z"'),
        ({"HostName": None}, "no row has a value of this field, so its type is unknown\n  at: field $.HostName"),
        ({"HostName": {"a": [None]}}, "so its type is unknown\n  at: field $.HostName.a"),
    ],
)
def test_what_is_wrong_with_the_type_of_rows_is_said_in_their_words(
    pbio: Callable[..., Ran], tmp_path: Path, row: dict[str, Any], said: str
) -> None:
    ran = pbio("gateway", "publish", "127.0.0.1:1", NAME, lines(tmp_path, {**ROW, **row}))
    assert ran.code == 1
    assert said in ran.err
    assert "names such as HostName" not in ran.err
    assert "Arrow" not in ran.err
