"""Commits survive the way through JSON; a false or malformed commit is refused wherever it is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbio_spark.channels import ChannelSpace, Position
from pbio_spark.channels.commits.checked import EARLIEST, LATEST
from pbio_spark.channels.commits.commit import (
    Change,
    Commit,
    Compact,
    Create,
    Data,
    DataFile,
    Drop,
    Held,
    Made,
    Replace,
    Share,
    Transaction,
    Trim,
    Trims,
    Watch,
)
from pbio_spark.channels.commits.commit_json import commit_to_json, json_to_commit
from pbio_spark.channels.commits.contents import DIGESTS, Contents
from pbio_spark.channels.commits.derivation import Derivation, ParameterBlock
from pbio_spark.channels.commits.groups import Group, Groups
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT, again, everything

HEX = st.binary(min_size=12, max_size=12).map(bytes.hex)
TEXT = st.text(min_size=1, max_size=20)
NAMES = TEXT.filter(str.isprintable)
NUMBERS = st.integers(0, 2**60)
EVENT_TIMES = st.integers(EARLIEST, LATEST)
STEPS = st.lists(st.integers(1, 9), min_size=8, max_size=8)


@st.composite
def data_changes(draw: st.DrawFn) -> Data:
    """Commits of data in which nothing contradicts anything else."""
    files, groups = [], []
    for number in range(draw(st.integers(0, 3))):
        end, ordinal = 4, 0
        for _ in range(draw(st.integers(0, 3))):
            count = draw(st.integers(1, 9))
            start = end + draw(st.integers(0, 99))
            end = start + count * draw(st.integers(8, 99))
            producer = draw(st.none() | TEXT)
            sequence = None if producer is None else draw(st.none() | NUMBERS)
            channel = draw(st.integers(0, 1000))
            event_time = draw(st.none() | EVENT_TIMES)
            sequences = times = None
            if sequence is not None and draw(st.booleans()):
                sequences = sequence + np.cumsum([0, *draw(STEPS)])[:count]
            if event_time is not None and draw(st.booleans()):
                times = np.array([event_time, *draw(st.lists(EVENT_TIMES, min_size=8, max_size=8))])[:count]
            derivation = draw(st.none() | st.integers(0, 1000))
            said = draw(HEX), producer, sequence, event_time, derivation, sequences, times
            groups.append(Group(channel, number, start, end, ordinal, count, *said))
            ordinal += count + draw(st.integers(0, 2))
        files.append(DataFile(f"data/{draw(st.uuids()).hex}.pbio", end))
    contents = st.builds(Contents, NUMBERS, st.integers(0, DIGESTS - 1))
    old, new = (
        st.builds(Transaction, TEXT, NUMBERS),
        st.builds(Transaction, TEXT, NUMBERS, st.integers(0, 999), contents),
    )
    transaction = draw(st.none() | old | new)
    refused = draw(st.lists(st.tuples(st.integers(0, 1000), TEXT), max_size=2).map(tuple))
    made = draw(st.lists(st.builds(Made, *[st.integers(0, 1000)] * 8), max_size=2).map(tuple))
    held = st.builds(Held, st.sampled_from(["", '{"state": {"n": 1}}']), st.integers(0, LATEST))
    states = draw(st.lists(st.tuples(st.integers(0, 1000), st.just("") | TEXT, held), max_size=2).map(tuple))
    source = draw(st.just("") | TEXT)
    control = draw(st.integers(0, 1000))
    return Data(
        control,
        tuple(files),
        Groups.of(groups),
        transaction,
        refused,
        source=source,
        made=made,
        suspended=refused[:1],
        states=states,
    )


FIELD_NAMES = st.from_regex("[a-z_]{1,5}", fullmatch=True).filter(lambda name: not name.endswith("_count"))
SCALARS = st.one_of(
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
)
VALUES = SCALARS | st.integers(1, 3).flatmap(lambda count: SCALARS.map(lambda value: [value] * count))
PARAMETERS = st.dictionaries(FIELD_NAMES, VALUES | st.dictionaries(FIELD_NAMES, VALUES, max_size=2), max_size=3).map(
    ParameterBlock.of
)
derivations = st.builds(
    Derivation,
    st.integers(0, 1000),
    st.none() | TEXT,
    st.none() | TEXT,
    PARAMETERS,
    NUMBERS,
    st.integers(0, 1000),
    PARAMETERS,
    st.none() | TEXT,
    st.none() | TEXT,
    NUMBERS,
    st.lists(TEXT, max_size=2).map(tuple),
    st.booleans(),
    st.sampled_from(["always", "subscribed"]),
    st.booleans(),
    NUMBERS,
)
KEEPS = st.sampled_from(["always", "subscribed"]) | NUMBERS
PATHS = st.uuids().map(lambda made: f"data/{made.hex}.pbio")
COUNTS = st.integers(0, 10**18 - 1)
positions = st.builds(Position, st.integers(0, 99), COUNTS, COUNTS)
parts = st.lists(st.tuples(PATHS, st.integers(0, 2**60)), max_size=3).map(tuple)
changes = (
    st.builds(Create, NAMES, HEX, st.none() | derivations, KEEPS)
    | st.builds(Share, NAMES, PARAMETERS)
    | st.builds(Change, st.integers(0, 1000), PARAMETERS, NUMBERS)
    | st.builds(Replace, st.integers(0, 1000), HEX, derivations, st.booleans())
    | st.builds(Watch, st.integers(0, 1000), st.booleans())
    | st.builds(Drop, st.integers(0, 1000))
    | st.builds(Trim, st.integers(0, 1000), st.integers(100, 1000), positions)
    | st.dictionaries(st.integers(0, 1000), st.tuples(st.integers(100, 1000), positions), max_size=3).map(
        lambda made: Trims(tuple(Trim(channel, before, end) for channel, (before, end) in made.items()))
    )
    | st.builds(Compact, st.integers(0, 500), st.integers(500, 1000), st.builds(DataFile, PATHS, st.just(2**60)), parts)
    | data_changes()
)

entries = st.builds(Commit, TEXT, TEXT, st.integers(0, LATEST), changes, st.none() | st.just("0f" * 32))


@given(entries)
def test_commits_survive_json(entry: Commit) -> None:
    assert json_to_commit(commit_to_json(entry, 1000), 1000) == entry


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


@given(entries, st.data())
def test_whatever_is_changed_in_a_commit_is_refused_or_makes_another_sound_one(
    entry: Commit, data: st.DataObject
) -> None:
    made: Any = json.loads(commit_to_json(entry, 1000))
    place = made
    while isinstance(place, dict | list) and place:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
        if isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
            place = place[key]
        else:
            place[key] = data.draw(JSON)
            break
    try:
        changed = json_to_commit(json.dumps(made).encode(), 1000)
    except PbioError as refused:
        code = refused.code
    else:
        code = "PBIO_BAD_LOG"
        assert json_to_commit(commit_to_json(changed, 1000), 1000) == changed
    assert code == "PBIO_BAD_LOG"


@given(st.binary(max_size=60))
def test_bytes_that_are_not_a_commit_are_refused(data: bytes) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_LOG"):
        json_to_commit(data, 1)


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_LOG"):
        json_to_commit(b'{"data":' + b"[" * 100_000, 1)


def group_with(column: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(made: dict[str, Any]) -> None:
        made["data"]["groups"][column][0] = value

    return change


def set_to(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda made: made.__setitem__(key, value)


def file_at(path: str) -> Callable[[dict[str, Any]], None]:
    return lambda made: made["data"]["files"][0].__setitem__(0, path)


def instead(**change: Any) -> Callable[[dict[str, Any]], None]:
    def put(made: dict[str, Any]) -> None:
        del made["data"]
        made.update(change)

    return put


CHILD: dict[str, Any] = {"parent": 2, "filter": None, "transform": None, "parameters": {}}
LIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "another space": set_to("space", "another"),
    "older than the one before": set_to("time", 0),
    "a time that has no date": set_to("time", 2**62),
    "an event of a time that has no date": lambda made: made["data"]["groups"].__setitem__("event_time", [2**62]),
    "no such channel": group_with("channel", 2),
    "a channel of the future": group_with("channel", 99),
    "no such file": group_with("file", 1),
    "before the start": group_with("start", 0),
    "after the end": group_with("end", 10**6),
    "another ordinal": group_with("ordinal", 10**6),
    "no events": group_with("count", 0),
    "out of the space": file_at("data/../../outside.pbio"),
    "absolute": file_at("/etc/passwd"),
    "known sequence": group_with("sequence", 0),
    "a child of nobody": instead(create={"name": "x", "format": "02" * 12, "derivation": CHILD, "keep": "always"}),
    "parameters of a channel that has none": instead(change={"channel": 1, "parameters": {}}),
    "the end of a channel that never was": instead(drop={"channel": 2}),
    "a channel of a known name": instead(create={"name": "counts", "format": "02" * 12, "keep": "always"}),
    "events lost that are kept": instead(trim={"channel": 1, "before": 2, "end": "2.0.1"}),
    "a compaction of the future": instead(
        compact={"first": 1, "last": 4, "file": [f"data/{'0' * 32}.pbio", 9], "parts": []}
    ),
    "a compaction whose parts are after its end": instead(
        compact={"first": 1, "last": 2, "file": [f"data/{'0' * 32}.pbio", 9], "parts": [[f"data/{'1' * 32}.pbio", 10]]}
    ),
    "a data file without end": instead(
        compact={"first": 1, "last": 2, "file": [f"data/{'0' * 32}.pbio", 2**62], "parts": []}
    ),
    "a compaction out of the space": instead(compact={"first": 1, "last": 2, "file": ["../x", 9], "parts": []}),
    "two kinds": set_to("drop", {"channel": 1}),
    "an unknown kind": lambda made: made.__setitem__("other", made.pop("data")),
    "a control change that never was": lambda made: made["data"].__setitem__("control", 0),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_false_commit_is_refused_and_those_before_it_are_read(space: ChannelSpace, lie: str) -> None:
    channel = space.create_channel("counts", COUNT)
    channel.submit([{"n": 0}, {"n": 1}], producer="p", sequence=0)
    channel.submit([{"n": 2}], producer="p", sequence=2)
    path = Path(space.root) / "_log" / f"{3:020}.json"
    made = json.loads(path.read_bytes())
    LIES[lie](made)
    path.write_text(json.dumps(made))
    other = again(space)
    with pytest.raises(PbioError) as caught:
        other.channel("counts")
    assert caught.value.code == "PBIO_BAD_LOG"
    assert caught.value.file is not None
    assert caught.value.file.endswith(f"{3:020}.json")
    seen = []
    for event in channel.subscribe(start="earliest").events():
        seen.append(event.values["n"])
        if len(seen) == 2:
            break
    assert seen == [0, 1]


def test_events_that_are_not_where_a_commit_says_are_an_error(space: ChannelSpace) -> None:
    channel = space.create_channel("counts", COUNT)
    channel.submit([{"n": n} for n in range(5)])
    path = Path(space.root) / "_log" / f"{2:020}.json"
    sound = json.loads(path.read_bytes())
    groups = sound["data"]["groups"]
    for column, value in (
        ("count", 4),
        ("count", 6),
        ("start", groups["start"][0] + 1),
        ("end", groups["end"][0] - 1),
        ("formats", "0200001a053080b115ed568f"),
    ):
        made = json.loads(json.dumps(sound))
        made["data"]["groups"][column][0] = value
        path.write_text(json.dumps(made))
        with pytest.raises(PbioError):
            everything(again(space).channel("counts"))


def test_a_data_file_that_is_missing_or_cut_is_an_error(space: ChannelSpace) -> None:
    channel = space.create_channel("counts", COUNT)
    channel.submit([{"n": n} for n in range(5)])
    (path,) = (Path(space.root) / "data").iterdir()
    data = path.read_bytes()
    for cut in (0, 3, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(PbioError):
            everything(channel)
    path.unlink()
    with pytest.raises(PbioError, match="PBIO_BAD_LOG"):
        everything(channel)
    path.write_bytes(data)
    assert len(everything(channel)) == 5
