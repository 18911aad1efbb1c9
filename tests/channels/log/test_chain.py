"""A commit that was lost or replaced is an error for every reader and writer, and nothing is written after it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pbio_spark.channels import ChannelSpace, Event
from pbio_spark.channels.commits.chain import digest_of
from pbio_spark.channels.log import history
from pbio_spark.channels.log import reader as log_reader
from pbio_spark.channels.log.layout import commit_path
from pbio_spark.channels.log.log import FolderLog
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT, again, everything, values

EVENTS = 14
"""In the commits 2 to 15 of a space whose last checkpoint is of version 12."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "CHECKPOINT_EVERY", 6)


def filled(space: ChannelSpace) -> ChannelSpace:
    channel = space.create_channel("counts", COUNT)
    for n in range(EVENTS):
        channel.submit({"n": n}, producer="p", sequence=n)
    return space


def entry(space: ChannelSpace, version: int) -> Path:
    return Path(space.root) / commit_path(version)


def numbers(space: ChannelSpace) -> list[int]:
    return [row["n"] for row in values(space.channel("counts"))]


def all_files(space: ChannelSpace) -> dict[str, bytes]:
    root = Path(space.root)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def refusal(match: str = r"commit \d+") -> pytest.RaisesExc[PbioError]:
    return pytest.raises(PbioError, match=rf"\[PBIO_BAD_LOG\] .*{match}")


def test_a_lost_commit_is_an_error_for_newcomers_and_nothing_is_written(space: ChannelSpace) -> None:
    filled(space)
    sound = all_files(space)
    ways: list[Callable[[ChannelSpace], object]] = [
        numbers,
        lambda one: one.channel("counts"),
        lambda one: one.publish([]),
        lambda one: one.create_channel("more", COUNT),
        lambda one: one.drop_channel("counts"),
        lambda one: one.compact(),
        lambda one: one.vacuum(),
    ]
    for lost in ([1], [2], [1, 2], [6], [7], [6, 7], [12], [13], [12, 13], [13, 14], [5, 9, 10, 11]):
        for version in lost:
            entry(space, version).unlink()
        before = all_files(space)
        for way in ways:
            fresh = again(space)
            for _ in range(2):  # it is not forgotten when it was told once
                with refusal(f"commit {lost[0]} is missing, but commit"):
                    way(fresh)
        assert all_files(space) == before
        assert list(problems(again(space)))
        for version in lost:
            entry(space, version).write_bytes(sound[commit_path(version)])


def test_an_earlier_writer_writes_nothing_into_a_hole(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "LISTING_PAUSE", {True: 0.0})
    monkeypatch.setattr(log_reader, "LISTING_SHARE", 0)
    channel = space.create_channel("counts", COUNT)
    for hole in (1, 2, 5):
        early = again(space).channel("counts")
        told = again(space).channel("counts")
        waiting = told.subscribe()
        for n in range(hole + 1):
            channel.submit({"n": n})
        kept = {}
        for version in range(early.space.history.state.version + 1, space.history.state.version):
            kept[version] = entry(space, version).read_bytes()
            entry(space, version).unlink()
        assert len(kept) == hole
        with refusal("is missing, but commit"):
            early.submit({"n": 9})
        with refusal("is missing, but commit"):
            values(early)
        with refusal("is missing, but commit"):  # who waits for the lost commit would wait for ever
            list(waiting.events(timeout=3600))
        for version, data in kept.items():
            entry(space, version).write_bytes(data)
        assert [event.values["n"] for event in waiting.events()] == list(range(hole + 1))


def test_a_reader_that_has_seen_a_lost_commit_continues(space: ChannelSpace) -> None:
    channel = filled(space).channel("counts")
    entry(space, 3).unlink()
    assert channel.submit({"n": 9}).version == EVENTS + 2


def test_a_reader_that_has_seen_the_last_commits_misses_them(space: ChannelSpace) -> None:
    filled(space)
    opened = again(space).channel("counts")
    reader = opened.subscribe(start="earliest")
    assert len(list(reader.events())) == EVENTS
    for version in (EVENTS, EVENTS + 1):
        entry(space, version).unlink()
    with refusal("the space was replaced"):
        opened.submit({"n": 9})
    with refusal("15 is gone"):
        list(reader.events())
    again(space).channel("counts").submit({"n": 77})  # a new writer cannot know
    again(space).channel("counts").submit({"n": 78})
    with refusal("15 is not the one"):
        list(reader.events())
    again(space).channel("counts").submit({"n": 79})
    with refusal("16 was not made on the commit 15"):
        list(reader.events())


def test_what_a_listing_passes_over_is_not_lost(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder in which files come to be while it is listed may show a later one, and not an earlier one."""
    filled(space)
    monkeypatch.setattr(FolderLog, "spans", lambda self: [(2, 4), (6, 13), (15, 15)])
    assert numbers(again(space)) == list(range(EVENTS))


def test_a_commit_in_the_place_of_another_is_noticed_before_its_events_are_read(space: ChannelSpace) -> None:
    filled(space)
    texts = {version: entry(space, version).read_bytes() for version in range(1, EVENTS + 2)}
    for place in range(2, EVENTS + 2):
        for other in {1, 2, 7, 11, 12, 13, EVENTS + 1} - {place}:
            entry(space, place).write_bytes(texts[other])
            seen: list[Event] = []
            with refusal("in the place of commit"):
                seen.extend(again(space).channel("counts").subscribe(start="earliest").events())
            with refusal("in the place of commit"):
                seen.extend(again(space).channel("counts").subscribe(start=f"{place}.0.0").events())
            assert [event.values["n"] for event in seen] == list(range(place - 2 if place < 12 else 0))
            assert list(problems(again(space)))
        entry(space, place).write_bytes(texts[place])


def test_a_changed_commit_is_noticed_by_a_reader_of_the_next_one(space: ChannelSpace) -> None:
    filled(space)
    for place in range(2, EVENTS + 2):
        sound = entry(space, place).read_bytes()
        entry(space, place).write_bytes(sound.replace(b'"time":1', b'"time": 1'))
        if place == EVENTS + 1:
            assert numbers(again(space)) == list(range(EVENTS))  # there is no next one yet
        else:
            with refusal():
                numbers(again(space))
        assert bool(list(problems(again(space)))) == (place <= EVENTS)
        entry(space, place).write_bytes(sound)


def to_first_form(path: Path) -> None:
    made = json.loads(path.read_bytes())
    for name in ("version", "number", "prior"):
        del made[name]
    path.write_text(json.dumps(made, separators=(",", ":")))


def test_a_log_of_the_first_version_is_read_and_continued_in_this_one(space: ChannelSpace) -> None:
    filled(space)
    for version in range(1, EVENTS + 2):
        to_first_form(entry(space, version))
    for path in (Path(space.root) / "_log").glob("*.checkpoint"):
        made = json.loads(path.read_bytes())
        del made["digest"]
        path.write_text(json.dumps(made, separators=(",", ":")))
    old = again(space)
    assert list(problems(old)) == []
    assert numbers(old) == list(range(EVENTS))
    old.channel("counts").submit({"n": EVENTS}, producer="p", sequence=EVENTS)
    assert json.loads(entry(space, EVENTS + 2).read_bytes())["prior"] == digest_of(
        entry(space, EVENTS + 1).read_bytes()
    )
    assert numbers(again(space)) == list(range(EVENTS + 1))
    entry(space, EVENTS + 1).write_bytes(entry(space, EVENTS + 1).read_bytes() + b" ")
    with refusal():
        numbers(again(space))


def test_a_commit_of_a_newer_form_says_so(space: ChannelSpace) -> None:
    filled(space)
    last = entry(space, EVENTS + 1)
    last.write_bytes(last.read_bytes().replace(b'"version":3', b'"version":4'))
    with refusal("format version 4, but this program reads only up to 3"):
        numbers(again(space))


def test_whatever_is_lost_or_exchanged_events_are_read_up_to_there_or_not_at_all(tmp_path: Path) -> None:
    for trial in range(40):
        chance = random.Random(trial)
        space = filled(ChannelSpace.create(str(tmp_path / f"{trial}")))
        opened = again(space)
        opened.channel("counts")
        texts = {version: entry(space, version).read_bytes() for version in range(1, EVENTS + 2)}
        left = dict(texts)
        for _ in range(chance.choice([1, 1, 2, 4])):
            # A newcomer that starts from a checkpoint does not read the first commit.
            one, another = chance.choice(list(texts)[1:]), chance.choice(list(texts)[1:])
            match chance.choice(["lost", "replaced", "exchanged"]):
                case "lost":
                    left.pop(one, None)
                case "replaced":
                    left[one] = texts[another]
                case _:
                    left[one], left[another] = texts[another], texts[one]
        for version in texts:
            if version in left:
                entry(space, version).write_bytes(left[version])
            else:
                entry(space, version).unlink()
        # Only of the last commits a newcomer cannot know that they were there.
        is_sound = left == dict(list(texts.items())[: len(left)])
        for reader, must_know in ((again(space), left != texts and not is_sound), (opened, left != texts)):
            seen, is_told = [], True
            with suppress(PbioError):
                for event in everything_of(reader):
                    seen.append(event.values["n"])
                is_told = False
            assert seen == list(range(len(seen))), trial
            assert is_told or not must_know, trial
            assert is_told or len(seen) == max(len(left) - 1, 0), trial


def everything_of(space: ChannelSpace) -> list[Event]:
    return everything(space.channel("counts"))
