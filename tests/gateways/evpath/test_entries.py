"""Commits of a gateway on a file system that fails for a time, and of connections that send invalid records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecode.types import FLOAT64, INT64, STRING, Field, record
from pbio_spark.channels import ChannelSpace, Columns, Records
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.gateways.evpath import entries
from pbio_spark.gateways.evpath.entries import CommitPart, EntryPublisher
from pbio_spark.gateways.evpath.stream import ThinStream
from tests.channels.spaces import COUNT, again, values
from tests.gateways.evpath.streams import thin_stream

KIND = record("load", [Field("host", STRING), Field("no", INT64), Field("load", FLOAT64)])


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChannelSpace:
    monkeypatch.setattr(entries, "_PAUSE", 0.001)
    made = ChannelSpace.create(str(tmp_path / "space"))
    made.create_channel("counts", COUNT)
    made.create_channel("load", KIND)
    return made


def entry(channel: str, form: Format, sent: list[dict[str, Any]], columns: Columns = Columns()) -> CommitPart:  # noqa: B008
    stream = ThinStream("a test")
    taken = stream.feed(thin_stream(form, sent))
    offsets = np.concatenate([[0], taken.lengths.cumsum()])
    return CommitPart(Records(channel, taken.items, offsets, tuple(stream.formats), taken.numbers, "p", columns))


def counts(*numbers: int) -> CommitPart:
    return entry("counts", Format.of(COUNT), [{"n": n} for n in numbers])


def publisher(space: ChannelSpace, ending: threading.Event | None = None) -> EntryPublisher:
    return EntryPublisher(space, "gateway of a test", ending or threading.Event())


def failing(code: str, times: int, do: Callable[..., Any], *, first: bool) -> Callable[..., Any]:
    """What does something, and fails so many times before or after that."""
    left = [times]

    def fail(*arguments: Any, **options: Any) -> Any:
        if not left[0]:
            return do(*arguments, **options)
        left[0] -= 1
        if not first:
            do(*arguments, **options)
        raise PbioError(code, "the disk is not well")

    return fail


def test_events_wait_until_there_is_room(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(space.folder, "add", failing("PBIO_NO_ROOM", 3, space.folder.add, first=True))
    one = counts(1, 2)
    publisher(space).publish([one])
    assert (one.published, one.error) == (2, None)
    assert values(space.channel("counts")) == [{"n": 1}, {"n": 2}]
    assert caplog.text.count("events wait, and are tried again") == 3


def test_a_commit_whose_outcome_is_unknown_is_not_made_twice(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = publisher(space)
    own.publish([counts(1)])
    fail = failing("PBIO_OUTCOME_UNKNOWN", 1, space.history.append, first=False)
    monkeypatch.setattr(space.history, "append", fail)
    one = counts(2)
    own.publish([one])
    own.publish([counts(3)])
    assert (one.published, one.error) == (1, None)
    assert values(again(space).channel("counts")) == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_two_gateways_of_one_name_do_not_take_the_others_commits_for_their_own(space: ChannelSpace) -> None:
    first, second = publisher(space), publisher(again(space))
    for number in range(4):
        for own in (first, second):
            one = counts(number)
            own.publish([one])
            assert (one.published, one.error) == (1, None)
    assert [value["n"] for value in values(space.channel("counts"))] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_what_cannot_be_published_when_the_gateway_ends_is_said(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = threading.Event()
    ending.set()
    monkeypatch.setattr(space.folder, "add", failing("PBIO_NO_ROOM", 9, space.folder.add, first=True))
    one = counts(1)
    publisher(space, ending).publish([one])
    assert one.published == 0
    assert one.error is not None
    assert one.error.code == "PBIO_NO_ROOM"


def test_what_one_sends_wrong_does_not_keep_others_from_being_published(
    space: ChannelSpace, caplog: pytest.LogCaptureFixture
) -> None:
    numbered = Columns(producer="host", sequence="no")
    form = Format.of(KIND)
    good = counts(1)
    wrong = [{"host": "a", "no": n, "load": 0.5} for n in (0, 1, -5, 3)]
    negative = entry("load", form, wrong, numbered)
    lost = entry("gone", form, [{"host": "a", "no": 0, "load": 0.5}])
    before = space.history.catch_up().version
    with caplog.at_level(logging.DEBUG):
        publisher(space).publish([lost, negative, good])
    assert (good.published, good.error) == (1, None)
    assert (negative.published, negative.error and negative.error.code) == (2, "PBIO_BAD_VALUE")
    assert negative.error is not None
    assert negative.error.record == 2
    assert (lost.published, lost.error and lost.error.code) == (0, "PBIO_UNKNOWN_CHANNEL")
    assert space.history.catch_up().version == before + 1


def test_a_channel_that_is_dropped_meanwhile_is_the_affair_of_its_senders(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = publisher(space)
    info = space.find("load")
    monkeypatch.setattr(space, "find", lambda name: info if name == "load" else ChannelSpace.find(space, name))
    again(space).drop_channel("load")
    lost, good = entry("load", Format.of(KIND), [{"host": "a", "no": 0, "load": 0.5}]), counts(1)
    own.publish([lost, good])
    assert (good.published, good.error) == (1, None)
    assert lost.error is not None
    assert lost.error.code == "PBIO_UNKNOWN_CHANNEL"


def test_numbers_of_a_producer_that_fall_within_a_commit_are_put_in_order(space: ChannelSpace) -> None:
    numbered = Columns(producer="host", sequence="no")
    sent = [{"host": "ab"[n % 2], "no": number, "load": float(number)} for n, number in enumerate([3, 2, 1, 5, 3, 2])]
    one = entry("load", Format.of(KIND), sent, numbered)
    publisher(space).publish([one])
    got = [(value["host"], value["no"], value["load"]) for value in values(space.channel("load"))]
    assert got == [("a", 1, 1.0), ("a", 3, 3.0), ("b", 2, 2.0), ("b", 5, 5.0)]
