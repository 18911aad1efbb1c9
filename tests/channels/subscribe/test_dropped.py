"""A channel is more than its name: a subscriber of an earlier one with it gets an error, not these events."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pbio_spark.channels import Channel, ChannelSpace
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT, READING, again, reading, values


@pytest.fixture
def old(space: ChannelSpace) -> Channel:
    channel = space.create_channel("counts", COUNT)
    channel.submit([{"n": 0}, {"n": 1}], producer="p", sequence=0)
    return channel


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_who_has_opened_a_channel_does_nothing_to_another_of_its_name(old: Channel, is_made_anew: bool) -> None:
    waiting = old.subscribe()
    other = again(old.space)
    other.drop_channel("counts")
    if is_made_anew:
        other.create_channel("counts", COUNT).submit({"n": 77})
    ways: list[Callable[[], object]] = [
        lambda: old.submit({"n": 2}, producer="p", sequence=2),
        lambda: old.last_sequence("p"),
        lambda: old.status,
        lambda: old.subscribe(),
        lambda: old.subscribe(name="reader"),
        lambda: list(waiting.events(timeout=3600)),
        lambda: list(old.subscribe(start="4.0.0").events(timeout=3600)),
        lambda: list(old.subscribe(start="earliest").events(timeout=3600)),
    ]
    for way in ways:
        with pytest.raises(PbioError, match="PBIO_UNKNOWN_CHANNEL") as caught:
            way()
        assert caught.value.hint is not None
        assert ("open it again" in caught.value.hint) == is_made_anew
    assert old.space.subscribers() == []
    if is_made_anew:
        assert values(again(old.space).channel("counts")) == [{"n": 77}]
        assert old.space.channel("counts").submit({"n": 2}, producer="p", sequence=0).events == 1


def test_a_subscriber_with_unread_events_of_the_channel_before_is_told(old: Channel) -> None:
    watcher = old.subscribe(start="earliest", name="watcher")
    next(watcher.events())
    watcher.acknowledge()
    old.subscribe(start="earliest", name="one").acknowledge()
    reader = old.subscribe(start="earliest", name="through")
    list(reader.events())
    reader.acknowledge()
    old.space.drop_channel("counts")
    anew = old.space.create_channel("counts", READING)
    anew.submit(reading(1))
    for name in ("watcher", "one"):
        for _ in range(2):
            with pytest.raises(
                PbioError, match=r"PBIO_EVENTS_GONE.*dropped and created again before .* from \d"
            ) as caught:
                again(old.space).channel("counts").subscribe(name=name)
            assert "fail_on_loss=False" in (caught.value.hint or "")
    assert anew.subscribe(name="through", start="earliest").position.version == anew.info.first
    gone_on = anew.subscribe(name="one", start="earliest", fail_on_loss=False)
    assert [event.values["id"] for event in gone_on.events()] == [1]
    anew.subscribe(name="one")  # it is that of this channel now
    old.space.create_channel("other", COUNT).subscribe(name="watcher")  # of another channel, as always
