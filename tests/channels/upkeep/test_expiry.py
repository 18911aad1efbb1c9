"""Subscribers that have gone hold nothing back, and those that are there stay, whatever the clocks do."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pbio_spark.channels import Channel, ChannelSpace, Position
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.presence import subscribers
from pbio_spark.channels.upkeep.expiry import expired
from pbio_spark.errors import PbioError
from tests.channels.clock import DAY, Clock
from tests.channels.spaces import COUNT, again

NOTHING = timedelta(0)
YEAR = 365 * DAY


@pytest.fixture
def folder(space: ChannelSpace) -> Folder:
    return space.folder


def names(folder: Folder, now: int, **options: Any) -> list[str]:
    return [one.name for one in expired(folder, subscribers.read_all(folder), now, **options)]


def come(folder: Folder, *who: str) -> None:
    for name in who:
        subscribers.acknowledge(folder, 3, name, Position(5))


def test_who_stays_away_expires_when_its_time_has_come(folder: Folder, clock: Clock) -> None:
    come(folder, "stays", "goes")
    subscribers.acknowledge(folder, 3, "slow", Position(5), timedelta(days=30))
    first: dict[str, int] = {}
    for day in range(1, 40):
        clock.go(days=1)
        come(folder, "stays")
        for name in names(folder, clock.now):
            first.setdefault(name, day)
    assert first == {"goes": 8, "slow": 30}  # missed since the fourth day, and the fifteenth
    come(folder, "goes", "slow")
    assert names(folder, clock.now) == []


def test_a_single_look_expires_no_subscriber(folder: Folder, clock: Clock) -> None:
    come(folder, "a", "b")
    clock.go(days=100)
    assert names(folder, clock.now) == []
    clock.go(days=3)
    assert names(folder, clock.now) == []
    clock.go(days=1)
    assert names(folder, clock.now) == ["a", "b"]


def test_who_only_wants_to_know_leaves_no_note(folder: Folder, clock: Clock) -> None:
    come(folder, "a")
    for _ in range(3):
        clock.go(days=10)
        assert names(folder, clock.now, note=False) == []


@pytest.mark.parametrize("off", [YEAR, -YEAR, 10 * YEAR])
def test_a_clock_that_jumps_expires_no_active_subscriber(folder: Folder, clock: Clock, off: int) -> None:
    """For any clock, whenever it jumps or is set right again: the observer has two clocks here."""
    come(folder, "stays")
    for hour in range(24 * 60):
        clock.go(hours=1)
        come(folder, "stays")
        jumped = 200 <= hour < 900
        assert names(folder, clock.now + jumped * off) == []
        if hour % 7 == 0:  # another, whose clock is right
            assert names(folder, clock.now) == []


@pytest.mark.parametrize("off", [YEAR, -YEAR])
def test_a_subscriber_whose_own_clock_is_off_stays(folder: Folder, clock: Clock, off: int) -> None:
    for _ in range(24 * 30):
        clock.go(hours=1)
        clock.now += off
        come(folder, "stays")
        clock.now -= off
        assert names(folder, clock.now) == []


@pytest.mark.parametrize("off", [YEAR, -YEAR])
def test_a_clock_that_was_once_wrong_keeps_no_absent_subscriber(folder: Folder, clock: Clock, off: int) -> None:
    clock.now += off
    come(folder, "its own")
    clock.now -= off
    come(folder, "another")
    assert names(folder, clock.now + off) == []  # a note from a time to come, or long ago
    for _ in range(11):
        clock.go(days=1)
        gone = names(folder, clock.now)
    assert gone == ["another", "its own"]


def test_a_torn_note_is_written_again(folder: Folder, clock: Clock) -> None:
    come(folder, "a")
    clock.go(days=4)
    assert names(folder, clock.now) == []
    (note,) = Path(folder.root).glob("_subscribers/*.missing")
    note.write_bytes(note.read_bytes()[:-1])
    clock.go(days=4)
    assert names(folder, clock.now) == []
    clock.go(days=4)
    assert names(folder, clock.now) == ["a"]


def test_an_absence_that_cannot_be_noted_is_reported_and_expires_no_subscriber(
    folder: Folder, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def replace(self: Folder, name: str, data: bytes) -> None:
        raise PbioError("PBIO_FILE_SYSTEM", "no")

    come(folder, "a")
    monkeypatch.setattr(Folder, "replace", replace)
    for _ in range(2):
        clock.go(days=8)
        assert names(folder, clock.now) == []
    assert "'a' is missing" in caplog.text


def publish(channel: Channel, first: int, last: int) -> None:
    for n in range(first, last):
        channel.submit({"n": n})


def test_vacuum_forgets_the_expired_and_what_is_kept_for_them(
    space: ChannelSpace, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    counts = space.create_channel("counts", COUNT, keep="subscribed")
    counts.subscribe(name="goes", expire_after=timedelta(days=2))
    stays = counts.subscribe(lambda event: None, name="stays", expire_after=timedelta(days=2))
    publish(counts, 0, 6)
    stays.run()
    for _ in range(2):
        assert space.vacuum(linger=NOTHING).channels == ()
        clock.go(days=1)
        stays.run()
    removed = space.vacuum(linger=NOTHING)
    assert removed.channels == ("counts",)
    assert [one.name for one in removed.subscribers] == ["goes"]
    assert "'goes'" in caplog.text
    assert [one.name for one in space.subscribers()] == ["stays"]
    assert len(list(Path(space.root).glob("_subscribers/*"))) == 1  # no note is left either
    assert space.vacuum(linger=NOTHING).channels == ()


def test_events_stay_if_all_their_subscribers_expire(space: ChannelSpace, clock: Clock) -> None:
    counts = space.create_channel("counts", COUNT, keep="subscribed")
    half = counts.subscribe(start="earliest", name="half")
    counts.subscribe(start="earliest", name="most")
    publish(counts, 0, 6)
    events = half.events()
    for _ in range(3):
        next(events)
    half.acknowledge()
    for _ in range(3):
        clock.go(days=4)
        space.vacuum(linger=NOTHING)
    assert space.subscribers() == []
    assert [event.values["n"] for event in counts.subscribe(start="earliest").events()] == list(range(6))


def test_a_returning_subscriber_resumes_or_starts_again(space: ChannelSpace, clock: Clock) -> None:
    counts = space.create_channel("counts", COUNT, keep=timedelta(days=1))

    def numbers(**options: Any) -> list[int]:
        subscription = counts.subscribe(name="comes back", start="latest", **options)
        found = [event.values["n"] for event in subscription.events()]
        subscription.acknowledge()
        return found

    assert numbers() == []
    publish(counts, 0, 2)
    clock.go(days=20)
    assert expired(space.folder, space.subscribers(), clock.now) == []
    clock.go(days=20)
    assert len(expired(space.folder, space.subscribers(), clock.now)) == 1
    assert numbers() == [0, 1]  # it has expired, and its file is there
    assert expired(space.folder, space.subscribers(), clock.now) == []
    publish(counts, 2, 4)
    clock.go(days=5)
    publish(counts, 4, 5)
    space.vacuum(linger=NOTHING)
    with pytest.raises(PbioError, match="PBIO_EVENTS_GONE"):
        numbers()
    assert numbers(fail_on_loss=False) == [4]
    publish(counts, 5, 6)
    for _ in range(2):
        clock.go(days=5)
        space.vacuum(linger=NOTHING)
    assert space.subscribers() == []
    assert numbers() == []  # from the latest event, as one that never was here


def test_an_idle_subscriber_stays_with_few_writes(
    space: ChannelSpace, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a month; each of its pauses is an hour."""
    counts = space.create_channel("counts", COUNT, keep="subscribed")
    subscription = counts.subscribe(name="idle")
    writes: list[str] = []
    original = Folder.replace

    def replace(self: Folder, name: str, data: bytes) -> None:
        writes.append(name)
        original(self, name, data)

    wait, here = time.sleep, threading.current_thread()

    def sleep(seconds: float) -> None:
        if threading.current_thread() is not here:  # such as one of a Spark session
            wait(seconds)
            return
        clock.go(hours=1)
        if (clock.now // 3_600_000_000) % 6 == 0:
            assert expired(space.folder, space.subscribers(), clock.now) == []
        if clock.now > end:
            again(space).channel("counts").submit({"n": 1})

    monkeypatch.setattr(Folder, "replace", replace)
    monkeypatch.setattr("time.sleep", sleep)
    end = clock.now + 30 * DAY
    assert next(subscription.events(timeout=None)).values == {"n": 1}
    assert 4 * 30 / 7 - 1 <= len(writes) <= 4 * 30 / 7 + 1
    assert not any(name.endswith(".missing") for name in writes)


def test_a_live_subscriber_that_was_forgotten_is_there_again_when_it_says_so(space: ChannelSpace, clock: Clock) -> None:
    counts = space.create_channel("counts", COUNT)
    subscription = counts.subscribe(name="a")
    counts.unsubscribe("a")
    assert list(subscription.events()) == []
    assert space.subscribers() == []
    clock.go(days=3)
    assert list(subscription.events()) == []
    assert [(one.name, one.position) for one in space.subscribers()] == [("a", subscription.position)]
