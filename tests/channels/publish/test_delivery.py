"""Synchronous delivery returns when all subscribers have acknowledged the events, or names those that have not."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest

from pbio_spark.channels import Channel, ChannelSpace, Position, Submission
from pbio_spark.channels.presence import subscribers
from pbio_spark.channels.publish.delivery import NotDeliveredError
from pbio_spark.errors import PbioError
from tests.channels.clock import Clock
from tests.channels.spaces import COUNT, again, values


@pytest.fixture
def counts(space: ChannelSpace) -> Channel:
    return space.create_channel("counts", COUNT)


@contextmanager
def running(channel: Channel, name: str, handle: Callable[[Any], object] = lambda event: None) -> Iterator[None]:
    """A subscriber at work beside."""
    stop = Flag()
    subscription = again(channel.space).channel(channel.name).subscribe(handle, name=name)

    def run() -> None:
        while not stop.is_set():
            subscription.run(timeout=0.01)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_without_named_subscribers_it_returns_at_once(counts: Channel) -> None:
    counts.subscribe(start="earliest")
    assert counts.submit({"n": 1}, delivery="sync", sync_timeout=0).version == 2


def test_it_returns_when_all_have_acknowledged(counts: Channel) -> None:
    handled: list[tuple[str, int]] = []

    def handler(name: str) -> Callable[[Any], None]:
        def handle(event: Any) -> None:
            time.sleep(0.02)
            handled.append((name, event.values["n"]))

        return handle

    with running(counts, "a", handler("a")), running(counts, "b", handler("b")):
        for n in range(3):
            counts.submit([{"n": n}], delivery="sync", sync_timeout=timedelta(seconds=60))
            assert {(name, n) for name in "ab"} <= set(handled)


def test_who_is_late_is_named_and_the_events_are_published(counts: Channel) -> None:
    counts.subscribe(name="late")
    with pytest.raises(NotDeliveredError, match="PBIO_NOT_DELIVERED") as caught:
        counts.submit([{"n": 1}], producer="p", sequence=1, delivery="sync", sync_timeout=0.01)
    error = caught.value
    assert error.version == 2
    assert "published in commit 2" in str(error)
    assert "'late' of 'counts', at 2.0.0" in str(error)
    assert error.hint is not None
    assert "same sequence numbers" in error.hint
    assert values(counts) == [{"n": 1}]
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.version) == (str(error), 2)


def test_submitting_again_waits_again_and_doubles_nothing(counts: Channel) -> None:
    derived = counts.space.derive_channel("derived", "counts", filter="{ return input.n > 0; }")
    late = counts.subscribe(lambda event: None, name="late")
    later = derived.subscribe(lambda event: None, name="later")

    def submit() -> Any:
        return counts.submit([{"n": 1}], producer="p", sequence=1, delivery="sync", sync_timeout=0)

    def submit_as_transaction() -> Any:
        one = Submission("counts", [{"n": 2}])
        return counts.space.publish([one], transaction=("t", 1), delivery="sync", sync_timeout=0)

    for publish in (submit, submit_as_transaction):
        versions = []
        for act in (lambda: None, lambda: None, late.run):
            act()
            with pytest.raises(NotDeliveredError) as caught:
                publish()
            versions.append(caught.value.version)
        assert versions[0] is not None
        assert versions[1:] == [None, None]
        assert "published before" in str(caught.value)
        assert "'later'" in str(caught.value)
        assert "'late'" not in str(caught.value)
        later.run()
        assert publish().events == 0
    assert values(counts) == [{"n": 1}, {"n": 2}]


def test_all_channels_that_are_touched_count_and_no_others(counts: Channel) -> None:
    space = counts.space
    space.create_channel("others", COUNT)
    derived = space.derive_channel("derived", "counts", filter="{ return input.n > 5; }")
    for name in ("counts", "others", "derived"):
        space.channel(name).subscribe(name=f"of {name}")

    def late(*channels: str, n: int) -> set[str]:
        try:
            space.publish([Submission(name, [{"n": n}]) for name in channels], delivery="sync", sync_timeout=0)
        except NotDeliveredError as error:
            return {name for name in ("counts", "others", "derived") if f"'of {name}' of '{name}'" in error.reason}
        return set()

    assert late("counts", n=1) == {"counts"}
    assert late("counts", n=9) == {"counts", "derived"}
    assert late("counts", "others", n=9) == {"counts", "derived", "others"}
    derived.subscribe(lambda event: None, name="of derived").run()
    # The last commit had something for it, but this one has not.
    assert late("counts", n=1) == {"counts"}
    derived.submit({"n": 1})
    assert late("counts", n=1) == {"counts"}


def test_nothing_published_is_nothing_to_wait_for(counts: Channel) -> None:
    counts.subscribe(name="late")
    counts.submit({"n": 1})
    assert counts.submit([], delivery="sync", sync_timeout=0).version is None


def test_a_subscriber_that_comes_later_does_not_count(counts: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    on_time = counts.subscribe(lambda event: None, name="on time")

    def sleep(seconds: float) -> None:
        monkeypatch.undo()
        counts.subscribe(name="too late", start="earliest")
        on_time.run()

    monkeypatch.setattr("time.sleep", sleep)
    assert counts.submit({"n": 1}, delivery="sync").version == 2


def test_a_subscriber_that_vanishes_does_not_count_any_more(counts: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    counts.subscribe(name="vanishes")

    def sleep(seconds: float) -> None:
        monkeypatch.undo()
        counts.unsubscribe("vanishes")

    monkeypatch.setattr("time.sleep", sleep)
    assert counts.submit({"n": 1}, delivery="sync").version == 2


def test_who_has_expired_is_not_waited_for(counts: Channel, clock: Clock) -> None:
    counts.subscribe(name="goes")
    for day in range(0, 9, 4):
        if day < 8:
            with pytest.raises(NotDeliveredError):
                counts.submit({"n": day}, delivery="sync", sync_timeout=0)
        clock.go(days=4)
    assert counts.submit({"n": 9}, delivery="sync", sync_timeout=0).events == 1
    assert counts.subscribe(lambda event: None, name="goes").run() == 3  # it has lost nothing


@pytest.mark.parametrize("options", [{"filter": "{ return input.n > 5; }"}, {}])
def test_events_that_a_subscriber_does_not_want_are_acknowledged_too(counts: Channel, options: dict[str, str]) -> None:
    """It waits for the next one that it wants, and no other can acknowledge the events in between for it."""
    found: list[int] = []
    subscription = again(counts.space).channel("counts").subscribe(name="picky", **options)  # type: ignore[arg-type]

    def work() -> None:
        for event in subscription.events(timeout=None):
            found.append(event.values["n"])
            subscription.acknowledge()
            if event.values["n"] == 9:
                return

    thread = Thread(target=work)
    thread.start()
    for n in (1, 6, 2, 3):
        counts.submit({"n": n}, delivery="sync", sync_timeout=60)
    counts.submit({"n": 9})
    thread.join()
    assert found == ([6, 9] if options else [1, 6, 2, 3, 9])


def test_events_handed_out_are_not_acknowledged_for_the_subscriber(counts: Channel) -> None:
    subscription = counts.subscribe(name="slow", filter="{ return input.n > 5; }")
    for n in (6, 1):
        counts.submit({"n": n})
    assert [event.values["n"] for event in subscription.events(timeout=0.01)] == [6]
    found = subscribers.read(counts.space.folder, counts.info.id, "slow")
    assert found is not None
    assert found.position == Position(2)
    subscription.acknowledge()
    assert counts.subscribe(name="slow").position.version == 4


def test_a_subscriber_whose_file_is_damaged_has_not_acknowledged(counts: Channel) -> None:
    counts.subscribe(name="a")
    counts.space.create_channel("others", COUNT).subscribe(name="a")
    for path in (Path(counts.space.root) / "_subscribers").iterdir():
        path.write_text("{")
    with pytest.raises(NotDeliveredError, match=rf"that of _subscribers/{counts.info.id}-\w+.json .not JSON"):
        counts.submit({"n": 1}, delivery="sync", sync_timeout=0)
    assert values(counts) == [{"n": 1}]


def test_of_many_only_some_are_named(counts: Channel) -> None:
    for number in range(14):
        counts.subscribe(name=f"s{number}")
    with pytest.raises(NotDeliveredError, match="and 4 more") as caught:
        counts.submit({"n": 1}, delivery="sync", sync_timeout=0)
    assert caught.value.reason.count("'counts'") == 10


@pytest.mark.parametrize(
    "options",
    [
        {"delivery": "synch"},
        {"delivery": "sync", "sync_timeout": -1},
        {"delivery": "sync", "sync_timeout": float("nan")},
        {"delivery": "sync", "sync_timeout": float("inf")},
        {"delivery": "sync", "sync_timeout": timedelta(seconds=-1)},
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_published(counts: Channel, options: dict[str, Any]) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
        counts.submit({"n": 1}, **options)
    assert values(counts) == []
