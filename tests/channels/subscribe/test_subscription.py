"""Subscribers get the events that they want, as the type that they want, from where they left off."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ecode.types import FLOAT64, INT32, INT64, STRING, Field, Record, Ref, Struct, record
from pbio_spark.channels import Channel, ChannelSpace, Event, Position, Submission
from pbio_spark.channels.presence import subscribers
from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from tests.channels.spaces import COUNT, NEW, OLD, READING, again, everything, reading


@pytest.fixture
def counts(space: ChannelSpace) -> Channel:
    """A channel with the events 0 to 9, two of them in each commit, and another channel's between them."""
    channel = space.create_channel("counts", COUNT)
    space.create_channel("others", COUNT)
    for n in range(0, 10, 2):
        space.publish(
            [
                Submission("others", [{"n": -n}]),
                Submission("counts", [{"n": n}], producer="even", sequence=n),
                Submission("counts", [{"n": n + 1}]),
            ]
        )
    return channel


def numbers(channel: Channel, **options: Any) -> list[int]:
    return [event.values["n"] for event in channel.subscribe(**options).events()]


def test_from_earliest_latest_a_position_and_a_time(counts: Channel) -> None:
    assert numbers(counts, start="earliest") == list(range(10))
    assert numbers(counts) == []
    events = everything(counts)
    for number, event in enumerate(events):
        assert numbers(counts, start=event.position) == list(range(number, 10))
        assert numbers(counts, start=str(event.position)) == list(range(number, 10))
        assert numbers(counts, start=event.position.next) == list(range(number + 1, 10))
        assert Position.parse(str(event.position)) == event.position
        same_time = [e.values["n"] for e in events if e.published >= event.published]
        assert numbers(counts, start=event.published) == same_time
    assert numbers(counts, start=datetime(1970, 1, 1, tzinfo=UTC)) == list(range(10))
    assert numbers(counts, start=datetime(2999, 1, 1, tzinfo=UTC)) == []


def test_positions_before_a_channel_are_its_beginning(counts: Channel) -> None:
    assert numbers(counts, start=Position(0)) == list(range(10))
    counts.space.create_channel("later", COUNT).submit({"n": 1})
    assert numbers(counts.space.channel("later"), start=Position(1)) == [1]


def test_an_invalid_start_is_refused(counts: Channel) -> None:
    for start in ("first", datetime(2020, 1, 1)):
        with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
            counts.subscribe(start=start)
    with pytest.raises(PbioError, match="PBIO_BAD_OFFSET"):
        Position.parse("1.2")


def test_a_subscription_continues_with_later_events(counts: Channel) -> None:
    subscription = counts.subscribe()
    assert list(subscription.events()) == []
    counts.submit([{"n": 10}, {"n": 11}])
    events = subscription.events()
    assert next(events).values == {"n": 10}
    counts.submit({"n": 12})
    assert [event.values["n"] for event in subscription.events()] == [11, 12]


def test_a_waiting_subscriber_is_given_what_comes(counts: Channel) -> None:
    seen: list[int] = []

    def wait() -> None:
        for event in counts.subscribe(start="earliest").events(timeout=None):
            seen.append(event.values["n"])
            if event.values["n"] == 99:
                return

    thread = Thread(target=wait)
    thread.start()
    again(counts.space).channel("counts").submit({"n": 99})
    thread.join()
    assert seen == [*range(10), 99]


def test_a_subscriber_waits_for_seconds_or_a_timedelta(counts: Channel) -> None:
    subscription = counts.subscribe(start="earliest")
    for timeout in (timedelta(0), timedelta(microseconds=1), 0, 0.001):
        subscription.seek("earliest")
        assert len(list(subscription.events(timeout))) == 10
    for wrong in ("1", "0:01:00", True, math.nan):
        with pytest.raises(PbioError, match="give seconds, a timedelta, or None"):
            list(subscription.events(wrong))  # type: ignore[arg-type]


def test_deliveries_are_columns_with_their_places(counts: Channel) -> None:
    deliveries = list(counts.subscribe(start="earliest").deliveries())
    assert [d.batch.to_pydict() for d in deliveries] == [{"n": [n]} for n in range(10)]
    assert [d.group.producer for d in deliveries] == ["even", None] * 5
    events = everything(counts)
    assert [event for d in deliveries for event in d.events()] == events
    assert [d.end for d in deliveries] == [event.position.next for event in events]


def test_a_named_subscriber_resumes_after_what_it_acknowledged(counts: Channel) -> None:
    first = counts.subscribe(start="earliest", name="reader")
    events = first.events()
    for _ in range(3):
        next(events)
    first.acknowledge()
    next(events)  # this one was not acknowledged
    assert numbers(again(counts.space).channel("counts"), start="latest", name="reader") == list(range(3, 10))
    assert numbers(counts, start="earliest", name="another") == list(range(10))
    reader = subscribers.read(counts.space.folder, counts.info.id, "reader")
    assert reader is not None
    assert reader.position == everything(counts)[2].position.next
    assert [one.name for one in counts.space.subscribers()] == ["another", "reader"]
    assert reader in counts.space.subscribers()


def test_an_acknowledgement_never_goes_back(counts: Channel) -> None:
    late, early = (counts.subscribe(start="earliest", name="reader") for _ in range(2))
    assert len(list(late.events())) == 10
    late.acknowledge()
    next(early.events())
    early.acknowledge()
    assert numbers(counts, name="reader") == []


def test_a_new_named_subscriber_has_its_place_from_the_beginning(counts: Channel) -> None:
    counts.subscribe(name="reader")
    counts.submit({"n": 10})
    assert numbers(counts, name="reader") == [10]


def test_a_handler_that_fails_gets_its_event_again_and_only_that(counts: Channel) -> None:
    seen: list[int] = []

    def handle(event: Event) -> None:
        if event.values["n"] == 5 and seen.count(5) == 0:
            seen.append(5)
            raise RuntimeError("once")
        seen.append(event.values["n"])

    with pytest.raises(RuntimeError, match="once"):
        counts.subscribe(handle, start="earliest", name="reader").run()
    assert again(counts.space).channel("counts").subscribe(handle, name="reader").run() == 5
    assert seen == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9]


def test_running_without_a_handler_is_refused(counts: Channel) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
        counts.subscribe(start="earliest").run()


@pytest.mark.parametrize("text", ["", "{", '{"channel":1,"name":"reader","position":"x"}', '{"channel":9}'])
def test_a_damaged_acknowledgement_is_an_error_not_a_new_beginning(counts: Channel, text: str) -> None:
    counts.subscribe(name="reader")
    (path,) = (Path(counts.space.root) / "_subscribers").iterdir()
    path.write_text(text)
    for look in (lambda: counts.subscribe(name="reader"), counts.space.subscribers):
        with pytest.raises(PbioError) as caught:
            look()
        assert caught.value.file is not None
        assert caught.value.file.endswith(path.name)


def test_filter_says_which_events_come(counts: Channel) -> None:
    assert numbers(counts, start="earliest", filter="{ return input.n % 3 == 1; }") == [1, 4, 7]
    with pytest.raises(PbioError, match="PBIO_BAD_PROGRAM"):
        numbers(counts, start="earliest", filter="{ return input.m; }")
    with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
        counts.subscribe({COUNT: print, READING: print}, filter="{ return 1; }")


def test_a_subscriber_may_ask_for_less_or_for_other_widths(space: ChannelSpace) -> None:
    channel = space.create_channel("readings", READING)
    channel.submit([reading(n) for n in range(4)])
    seen: list[dict[str, Any]] = []
    less = record("less", [Field("name", STRING), Field("id", FLOAT64)])
    channel.subscribe({less: lambda event: seen.append(event.values)}, start="earliest").run()
    assert seen == [{"name": f"reading {n}", "id": float(n)} for n in range(4)]


def test_a_field_that_no_event_can_fill_is_refused_at_once(
    space: ChannelSpace, caplog: pytest.LogCaptureFixture
) -> None:
    def place(at: str, id_: str = "id") -> Record:
        struct = Struct("at", tuple(Field(name, FLOAT64) for name in at))
        return record("place", [Field(id_, INT32), Field("at", Ref("at"))], [struct])

    channel = space.create_channel("places", place("abcdexy"))
    channel.submit({"id": 1, "at": dict.fromkeys("abcdexy", 1.0)})
    for type_, said in (
        (place("abcdexy", "idd"), r"the field 'idd':.*did you mean 'id'"),
        (place("abcdexz"), r"the field 'at\.z':.*there are: a, b"),
        (place("abcdepq"), r"the fields 'at\.p', 'at\.q':.*there are: a, b"),
    ):
        for types in ({type_: print}, {type_: print, None: print}):
            with pytest.raises(PbioError, match=rf"(?s)PBIO_UNFILLED.*{said}.*on_unfilled"):
                channel.subscribe(types)
    seen: list[Any] = []
    handlers: dict[Any, Any] = {place("abcdxz"): lambda event: seen.append(event.values["at"]["z"])}
    channel.subscribe(handlers, start="earliest", on_unfilled="ignore").run()
    assert "lack" not in caplog.text
    channel.subscribe(handlers, start="earliest", on_unfilled="warn").run()
    assert "lack at.z of the type place" in caplog.text
    assert seen == [None, None]
    # An event may have more fields than its channel's type, and the space knows its format then.
    channel.submit({"id": 2, "at": dict.fromkeys("abcdexyz", 3.0)}, format=record_to_format(place("abcdexyz")))
    channel.subscribe(handlers, start="earliest").run()
    assert seen[2:] == [None, 3.0]


def test_old_and_new_subscribers_of_one_channel_each_get_their_own_version(space: ChannelSpace) -> None:
    channel = space.create_channel("loads", OLD)
    old: list[Any] = []
    new: list[Any] = []
    subscriptions = [
        channel.subscribe({OLD: lambda event: old.append(event.values)}),
        channel.subscribe({NEW: lambda event: new.append(event.values)}, on_reject="drop"),
    ]
    channel.submit({"average": 1.0})
    channel.submit({"total": 6.0, "cpus": 2}, format=NEW)
    for subscription in subscriptions:
        subscription.run()
    assert old == [{"average": 1.0}, {"average": 3.0}]
    assert new == [{"total": 6.0, "cpus": 2}]


def test_each_event_goes_to_the_handler_whose_type_it_fits_and_the_rest_to_the_default(space: ChannelSpace) -> None:
    anything = record("anything", [Field("id", INT64)])
    channel = space.create_channel("anything", anything)
    order = record("order", [Field("id", INT64), Field("price", FLOAT64), Field("amount", INT32)])
    trade = record("trade", [Field("id", INT64), Field("buyer", STRING), Field("seller", STRING)])
    note = record("note", [Field("id", INT64), Field("a", STRING), Field("b", STRING), Field("c", STRING)])
    channel.submit({"id": 1, "price": 2.5, "amount": 3}, format=record_to_format(order, "be64"))
    channel.submit({"id": 2, "buyer": "b", "seller": "s"}, format=record_to_format(trade))
    channel.submit({"id": 3, "a": "x", "b": "y", "c": "z"}, format=record_to_format(note))
    seen: list[tuple[str, str | None, dict[str, Any]]] = []
    handlers: dict[Any, Any] = {
        order: lambda event: seen.append(("order", event.type, event.values)),
        trade: lambda event: seen.append(("trade", event.type, event.values)),
    }
    rest: dict[Any, Any] = {None: lambda event: seen.append(("rest", event.type, event.values))}
    assert channel.subscribe(handlers | rest, start="earliest").run() == 3
    assert seen == [
        ("order", "order", {"id": 1, "price": 2.5, "amount": 3}),
        ("trade", "trade", {"id": 2, "buyer": "b", "seller": "s"}),
        ("rest", None, {"id": 3, "a": "x", "b": "y", "c": "z"}),
    ]
    seen.clear()
    with pytest.raises(PbioError, match="PBIO_REJECTED"):
        channel.subscribe(handlers, start="earliest").run()
    assert [what for what, _, _ in seen] == ["order", "trade"]
    assert channel.subscribe(handlers, start="earliest", on_reject="drop").run() == 2


def test_after_a_channel_is_dropped_its_subscribers_get_what_there_was_and_an_error(counts: Channel) -> None:
    counts.space.drop_channel("counts")
    counts.space.create_channel("counts", COUNT).submit({"n": 77})
    seen: list[int] = []
    subscription = counts.subscribe(lambda event: seen.append(event.values["n"]), start="earliest")
    with pytest.raises(PbioError, match="PBIO_UNKNOWN_CHANNEL"):
        subscription.run()
    assert seen == list(range(10))


def test_a_channel_without_the_body_of_its_format_is_an_error(counts: Channel) -> None:
    for path in (Path(counts.space.root) / "_formats").iterdir():
        path.unlink()
    with pytest.raises(PbioError, match="PBIO_UNKNOWN_FORMAT"):
        everything(again(counts.space).channel("counts"))


def test_a_type_that_no_event_can_reach_is_refused_at_once(space: ChannelSpace) -> None:
    """Unless another subscriber takes the events, or they are dropped; any format of the space may reach it."""
    channel = space.create_channel("loads", OLD)
    for types in ({NEW: print}, {NEW: print, record("other", [Field("unlike", STRING)]): print}):
        with pytest.raises(PbioError, match=r"(?s)PBIO_REJECTED.*the nearest wanted type is.*on_unfilled='warn' waits"):
            channel.subscribe(types)
    for said in ({"on_reject": "drop"}, {"on_unfilled": "warn"}, {"on_unfilled": "ignore"}):
        assert channel.subscribe({NEW: print}, **said).run() == 0  # type: ignore[arg-type]
    assert channel.subscribe({NEW: print, None: print}).run() == 0
    assert channel.subscribe({NEW: print, OLD: print}).run() == 0
    channel.submit({"total": 6.0, "cpus": 2}, format=NEW)
    assert channel.subscribe({NEW: lambda event: None}, start="earliest").run() == 1


@pytest.mark.parametrize("handlers", ["print", 5, {COUNT: "print"}, {"counts": print}, {None: [print]}])
def test_what_is_not_a_handler_is_refused_before_anything_is_read(counts: Channel, handlers: Any) -> None:
    with pytest.raises(PbioError, match="handler") as caught:
        counts.subscribe(handlers)
    assert caught.value.code == "PBIO_BAD_OPTION"


def test_a_filter_that_is_not_a_program_is_refused(counts: Channel) -> None:
    with pytest.raises(PbioError, match="a program cannot be of type function") as caught:
        counts.subscribe(print, filter=lambda event: True)  # type: ignore[arg-type]
    assert caught.value.code == "PBIO_BAD_PROGRAM"


@pytest.mark.parametrize("said", [{"fail_on_loss": "false"}, {"skip_blocks": 0}], ids=str)
def test_what_is_true_or_false_is_not_taken_from_text(space: ChannelSpace, said: dict[str, Any]) -> None:
    channel = space.create_channel("events", record("event", [Field("n", INT32)]))
    with pytest.raises(PbioError, match=r"(?s)PBIO_BAD_OPTION.*cannot be.*True or False"):
        channel.subscribe(**said)
