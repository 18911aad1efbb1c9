"""The record of a named subscriber: its position never goes back, and damage is an error."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pbio_spark.channels import ChannelSpace, Position, Subscriber
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.presence import subscribers
from pbio_spark.errors import PbioError
from tests.channels.clock import DAY, NOW, Clock


@pytest.fixture
def folder(space: ChannelSpace) -> Folder:
    return space.folder


def files(folder: Folder) -> list[Path]:
    return sorted((Path(folder.root) / "_subscribers").iterdir())


def test_a_subscriber_is_what_it_acknowledged(folder: Folder, clock: Clock) -> None:
    assert subscribers.read(folder, 3, "a") is None
    made = subscribers.acknowledge(folder, 3, "a", Position(5, 0, 2))
    assert made == Subscriber(3, "a", Position(5, 0, 2), NOW, 7 * DAY)
    assert subscribers.read(folder, 3, "a") == made
    other = subscribers.acknowledge(folder, 3, "b", Position(1), timedelta(hours=1))
    another = subscribers.acknowledge(folder, 2, "z", Position(1))
    assert subscribers.read_all(folder) == [another, made, other]
    for _ in range(2):
        subscribers.forget(folder, 3, "b")
    assert subscribers.read_all(folder) == [another, made]


def test_its_position_never_goes_back(folder: Folder) -> None:
    for position, kept in [((5, 0, 2), (5, 0, 2)), ((5, 0, 1), (5, 0, 2)), ((4, 9, 9), (5, 0, 2)), ((6,), (6,))]:
        assert subscribers.acknowledge(folder, 3, "a", Position(*position)).position == Position(*kept)
        found = subscribers.read(folder, 3, "a")
        assert found is not None
        assert found.position == Position(*kept)


def test_who_only_polls_writes_a_few_times_until_it_would_expire(folder: Folder, clock: Clock) -> None:
    subscribers.acknowledge(folder, 3, "a", Position(5), timedelta(days=4))
    seen = set()
    for _ in range(4 * 24 * 60):
        clock.go(minutes=1)
        seen.add(subscribers.acknowledge(folder, 3, "a", Position(5), timedelta(days=4)).seen)
        found = subscribers.read(folder, 3, "a")
        assert found is not None
        assert clock.now - found.seen <= DAY
    assert len(seen) == 5


def test_it_says_that_it_is_there_when_its_clock_jumps_and_when_it_wants_another_expiry(
    folder: Folder, clock: Clock
) -> None:
    subscribers.acknowledge(folder, 3, "a", Position(5))
    for jump in (timedelta(days=400), timedelta(days=-800)):
        clock.now += jump // timedelta(microseconds=1)
        assert subscribers.acknowledge(folder, 3, "a", Position(5)).seen == clock.now
    assert subscribers.acknowledge(folder, 3, "a", Position(5), timedelta(days=1)).expires_after == DAY


@pytest.mark.parametrize("name", ["", "a\n", "x" * 201])
def test_an_invalid_name_is_refused(folder: Folder, name: str) -> None:
    for look in (
        lambda: subscribers.read(folder, 3, name),
        lambda: subscribers.acknowledge(folder, 3, name, Position(5)),
        lambda: subscribers.forget(folder, 3, name),
    ):
        with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
            look()
    assert files(folder) == []


@pytest.mark.parametrize("expire_after", [timedelta(0), timedelta(days=-1), timedelta.max, "1h", None])
def test_an_invalid_expiry_is_refused(folder: Folder, expire_after: Any) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
        subscribers.acknowledge(folder, 3, "a", Position(5), expire_after)
    assert files(folder) == []


GOOD = '{"channel": 3, "name": "a", "position": "5.0.0", "seen": 1, "expires_after": 1}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD[:-1],
        "[]",
        GOOD.replace("3", "4"),  # another's
        GOOD.replace('"a"', '"b"'),
        GOOD.replace("5.0.0", "5.0"),
        GOOD.replace('"seen": 1', '"seen": -1'),
        GOOD.replace('"expires_after": 1', '"expires_after": 0'),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(folder: Folder, text: str) -> None:
    subscribers.acknowledge(folder, 3, "a", Position(5))
    (path,) = files(folder)
    path.write_text(GOOD)
    assert subscribers.read(folder, 3, "a") == Subscriber(3, "a", Position(5), 1, 1)
    path.write_text(text)
    for look in (
        lambda: subscribers.read(folder, 3, "a"),
        lambda: subscribers.acknowledge(folder, 3, "a", Position(5)),
        lambda: subscribers.read_all(folder),
    ):
        with pytest.raises(PbioError, match="PBIO_BAD_LOG") as caught:
            look()
        assert caught.value.file == f"_subscribers/{path.name}"
