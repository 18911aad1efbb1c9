"""A writer that keeps losing races takes a turn: no other can keep it out, and none waits long for a dead one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from ecode.types import FLOAT64, Field, record
from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.commits.commit import Turn
from pbio_spark.channels.log.history import History
from pbio_spark.channels.publish import batch
from pbio_spark.channels.publish import publisher as publishing
from tests.channels.spaces import again, values

POINT = record("point", [Field("x", FLOAT64)])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "_PATIENCE", 0.0)


@pytest.mark.usefixtures("impatient")
def test_changes_at_every_attempt_do_not_keep_a_writer_out(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = space.create_channel("points", POINT)
    kept = space.derive_channel("kept", "points", filter="{ return input.x >= param.m; }", parameters={"m": 0.0})
    rival = again(space)
    pack, rivals = batch.pack, []

    def pack_and_change(*args: object) -> object:
        """Whenever events have been derived, their parameters change, as long as they may."""
        packed = pack(*args)  # type: ignore[arg-type]
        thread = threading.Thread(target=rival.set_parameters, args=("kept", {"m": float(len(rivals))}))
        rivals.append(thread)
        thread.start()
        thread.join(0.3)
        return packed

    monkeypatch.setattr(batch, "pack", pack_and_change)
    published = points.submit([{"x": float(x)} for x in range(100)], producer="p", sequence=0)
    assert published.events == 100
    for thread in rivals:
        thread.join()
    # Each event is derived under exactly one version: that of the commit before the one that publishes it.
    control = rival.history.entry(published.version or 0)
    assert control is not None
    versions = [version for version in range(1, (published.version or 0)) if changed(rival.history, version)]
    assert [row["x"] for row in values(kept)] == [float(x) for x in range(len(versions) - 1, 100)]
    assert len(rivals) == publishing._LOST + 2  # a lost one more than it bears, and the one in its turn
    assert space.channel("kept").info.derivation == again(space).channel("kept").info.derivation


def changed(history: History, version: int) -> bool:
    entry = history.entry(version)
    return entry is not None and type(entry.change).__name__ == "Change"


def test_no_writer_waits_for_one_that_died_in_its_turn(space: ChannelSpace) -> None:
    points = space.create_channel("points", POINT)
    space.history.commit(lambda _: Turn("somebody", 400))
    begun = time.monotonic()
    points.submit({"x": 1.0})
    assert time.monotonic() - begun > 0.35
    again(space).channel("points").submit({"x": 2.0})
    assert [row["x"] for row in values(points)] == [1.0, 2.0]


@pytest.mark.parametrize(
    "act",
    [
        lambda space: space.create_channel("other", POINT),
        lambda space: space.derive_channel("other", "points", filter="{ return 1; }"),
        lambda space: space.drop_channel("points"),
        lambda space: space.channel("points").submit({"x": 1.0}),
    ],
    ids=["create", "derive", "drop", "submit"],
)
def test_everyone_waits_for_a_turn_and_threads_of_its_process_too(
    space: ChannelSpace, act: Callable[[ChannelSpace], object]
) -> None:
    space.create_channel("points", POINT)
    space.history.commit(lambda _: Turn("somebody", 30_000))
    thread = threading.Thread(target=act, args=(space,))
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    version = space.history.commit(lambda _: Turn("somebody", 0), "somebody")
    assert version == 3
    thread.join()
    assert space.history.catch_up().version == 4


def test_the_holder_of_a_turn_commits_next(space: ChannelSpace) -> None:
    first, second = again(space), again(space)
    first.create_channel("points", POINT)
    first.history.commit(lambda _: Turn("first", 30_000))
    assert second.history.catch_up().turn == Turn("first", 30_000)
    assert second.history.append(Turn("second", 0)) is None
    assert first.history.append(Turn("first", 0), "first") == 3
    assert second.history.catch_up().turn == Turn("first", 0)
    assert second.history.append(Turn("second", 0)) == 4
