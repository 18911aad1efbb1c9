"""What a concentrator says fills blocks, for which a writer wakes once; what comes late or in pieces counts, too."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pbio_spark.channels import ChannelSpace, Concentrator
from pbio_spark.channels.concentrator.client import ConcentratorConnection, _limit
from pbio_spark.channels.concentrator.frames import BLOCK, FrameError, Words, frame
from pbio_spark.channels.concentrator.visitor import Visitor
from tests.channels.spaces import COUNT, again

pytestmark = pytest.mark.usefixtures("sockets")

(TRYING,) = frame({"kind": "trying", "application": "concentrator here", "number": 1})


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    pair = socket.socketpair(socket.AF_UNIX)
    yield pair
    for end in pair:
        end.close()


def said(words: Words) -> list[dict[str, Any]]:
    """All messages until the connection ends."""
    return list(iter(words.next, None))


@pytest.mark.parametrize("attempts", [0, 1, 5, 20])
@pytest.mark.parametrize("length", [0, 300, 5000])
def test_announcements_and_their_answer_fill_blocks(
    ends: tuple[socket.socket, socket.socket], attempts: int, length: int
) -> None:
    visitor = Visitor(ends[0])
    answer = {"kind": "failed", "error": {"code": "PBIO_BAD_VALUE", "reason": "x" * length}}
    for _ in range(2):
        for _ in range(attempts):
            assert visitor.announce(TRYING)
        assert visitor.tell(answer)
    visitor.end()
    messages = ends[1].recv(1 << 20, socket.MSG_PEEK)
    assert len(messages) % (2 * BLOCK) == 0
    expected = [*[{"kind": "trying", "application": "concentrator here", "number": 1}] * attempts, answer]
    assert said(Words(ends[1])) == expected * 2


def test_what_was_announced_before_the_silence_is_there(ends: tuple[socket.socket, socket.socket]) -> None:
    """The system then gives what came, and does not say that it waited in vain."""
    words = Words(ends[1])
    words.limit = 0.05
    _limit(ends[1], 0.05)
    with pytest.raises(BlockingIOError):
        words.next()
    Visitor(ends[0]).announce(TRYING)
    with pytest.raises(BlockingIOError):
        words.next()
    ends[1].shutdown(socket.SHUT_RDWR)
    assert [one["kind"] for one in said(words)] == ["trying"]


def test_the_end_inside_a_message_is_an_error(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].sendall(TRYING + TRYING[:-1])
    ends[0].close()
    words = Words(ends[1])
    assert words.next() is not None
    with pytest.raises(FrameError, match="ends inside a message"):
        words.next()


def test_a_writer_wakes_once_for_a_publication(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = space.create_channel("counts", COUNT)
    calls = 0

    class Counting:
        def __init__(self, inner: socket.socket) -> None:
            self._inner = inner

        def recv(self, *given: Any) -> bytes:
            nonlocal calls
            calls += 1
            return self._inner.recv(*given)

    connect = ConcentratorConnection.__init__

    def counted(self: ConcentratorConnection, *given: Any) -> None:
        connect(self, *given)
        self._words._connection = Counting(self._words._connection)  # type: ignore[assignment]

    monkeypatch.setattr(ConcentratorConnection, "__init__", counted)
    with Concentrator(again(space)) as concentrator:
        for n in range(5):
            counts.submit([{"n": n}])
        assert concentrator.totals.commits == 5
    assert calls == 5
