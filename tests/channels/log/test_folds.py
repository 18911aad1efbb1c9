"""Folded commits are read as before, by programs that have the space open and by new ones; no writer that slept puts
its own in their place."""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.log import folds, history
from pbio_spark.channels.log.folds import Fold, bytes_to_fold, fold_to_bytes
from pbio_spark.channels.log.layout import commit_path
from pbio_spark.channels.log.log import FolderLog
from pbio_spark.channels.upkeep import folding
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.channels.upkeep.folding import make_folds
from pbio_spark.errors import PbioError
from tests.channels.faults.test_failures import failing
from tests.channels.spaces import COUNT, again, everything, values

NOW = timedelta(0)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "SIZES", (3, 12))
    monkeypatch.setattr(folding, "KEPT", 2)
    monkeypatch.setattr(history, "CHECKPOINT_EVERY", 6)


def fill(space: ChannelSpace, first: int, last: int) -> None:
    for n in range(first, last):
        space.channel("counts").submit({"n": n}, producer="p", sequence=n)


@pytest.fixture
def full(space: ChannelSpace) -> ChannelSpace:
    """A space with a channel and 40 commits."""
    space.create_channel("counts", COUNT)
    fill(space, 0, 39)
    return space


def numbers(space: ChannelSpace, **more: Any) -> list[int]:
    subscription = space.channel("counts").subscribe(**{"start": "earliest", **more})
    return [event.values["n"] for event in subscription.events()]


def listed(space: ChannelSpace, ending: str) -> list[str]:
    return [name for name in space.folder.names("_log") if name.endswith(ending)]


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_folded_commits_are_read_as_before(space: ChannelSpace, kind: str) -> None:
    if kind == "memory":
        space = ChannelSpace.create(f"memory://{uuid.uuid4().hex}")
    space.create_channel("counts", COUNT)
    fill(space, 0, 39)
    before = everything(space.channel("counts"))
    texts = [space.history.text(version) for version in range(1, 41)]
    assert space.vacuum(linger=NOW).files == 36 + 4  # commits, and checkpoints
    assert (len(listed(space, ".json")), len(listed(space, ".fold"))) == (4, 3)
    for one in (space, again(space)):
        assert everything(one.channel("counts")) == before
        assert numbers(one, start="20.0.0") == list(range(18, 39))
        assert numbers(one, start=before[7].published) == list(range(7, 39))
        assert [one.history.text(version) for version in range(1, 41)] == texts
        assert one.channel("counts").submit({"n": 5}, producer="p", sequence=5).known == 1
    fill(again(space), 39, 42)
    space.vacuum(linger=NOW)
    assert numbers(again(space)) == list(range(42))
    assert len(listed(space, ".json")) <= 5
    assert list(problems(again(space))) == []
    for checkpoint in listed(space, ".checkpoint"):
        space.folder.remove(f"_log/{checkpoint}")
    assert numbers(again(space)) == list(range(42))  # the folds say it all


def test_smaller_folds_give_way_to_larger_ones(space: ChannelSpace) -> None:
    space.create_channel("counts", COUNT)
    for n in range(0, 48, 4):
        fill(space, n, n + 4)
        space.vacuum(linger=NOW)
        assert len(listed(space, ".json")) <= 5
        assert len(listed(space, ".fold")) <= n // 12 + 4
        assert numbers(again(space) if n % 8 == 0 else space, start=f"{n // 2 + 2}.0.0") == list(range(n // 2, n + 4))
    assert list(problems(again(space))) == []


def test_commits_that_are_young_are_copied_and_stay(full: ChannelSpace) -> None:
    assert full.vacuum().files == 4
    assert (len(listed(full, ".json")), len(listed(full, ".fold"))) == (40, 3)
    full.compact()
    assert full.vacuum(linger=timedelta(hours=1)).files == 0
    assert numbers(again(full)) == list(range(39))


def test_who_has_the_space_open_notices_nothing(space: ChannelSpace) -> None:
    space.create_channel("counts", COUNT)
    fill(space, 0, 5)
    opened = [again(space) for _ in range(6)]
    early = [one.channel("counts").subscribe(start="earliest") for one in opened]
    for subscription in early[:3]:
        assert len(list(subscription.events())) == 5
    known = opened[3].channel("counts")
    fill(space, 5, 60)
    space.vacuum(linger=NOW)
    assert opened[0].channel("counts").submit({"n": 60}, producer="p", sequence=60).events == 1
    assert [event.values["n"] for event in early[1].events()] == list(range(5, 61))
    assert [event.values["n"] for event in early[4].events()] == list(range(61))
    assert known.submit({"n": 61}, producer="p", sequence=61).version == 63
    assert known.last_sequence("p") == 61
    space.create_channel("more", COUNT)
    fill(space, 62, 90)
    space.vacuum(linger=NOW)
    assert opened[5].channel("more").info.events == 0
    assert [event.values["n"] for event in early[2].events()] == list(range(5, 90))
    assert list(problems(again(space))) == []


@pytest.mark.parametrize("commits", [2, 15])
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_a_writer_that_slept_while_its_place_was_folded_finds_another(
    space: ChannelSpace, monkeypatch: pytest.MonkeyPatch, commits: int, kind: str
) -> None:
    if kind == "memory":
        space = ChannelSpace.create(f"memory://{uuid.uuid4().hex}")
    space.create_channel("counts", COUNT)
    for asleep in range(5):
        fill(again(space), 100 * asleep, 100 * asleep + 1)
        writer, original = again(space), FolderLog.append

        def append(self: FolderLog, version: int, entry: bytes) -> bool:
            monkeypatch.setattr(FolderLog, "append", original)  # noqa: B023
            fill(again(space), 100 * asleep + 1, 100 * asleep + 1 + commits)  # noqa: B023
            again(space).vacuum(linger=NOW)
            return original(self, version, entry)  # noqa: B023

        monkeypatch.setattr(FolderLog, "append", append)
        published = writer.channel("counts").submit({"n": -asleep}, producer="sleeper", sequence=asleep)
        assert published.events == 1
        assert numbers(writer)[-1] == numbers(again(space))[-1] == -asleep
        assert list(problems(again(space))) == []
    assert len(numbers(again(space))) == 5 * (commits + 2)


def test_a_writer_that_died_after_it_slept_is_passed_over(full: ChannelSpace) -> None:
    sound = {version: full.history.text(version) for version in range(1, 41)}
    full.vacuum(linger=NOW)
    for version in (1, 5, 12, 13):
        text = sound[version]
        assert text is not None
        rogue = text.replace(b'"commit":"', b'"commit":"another')
        assert FolderLog(full.folder).append(version, rogue)
    assert numbers(again(full)) == list(range(39))
    assert list(problems(again(full))) == []
    full.vacuum(linger=NOW)
    assert len(listed(full, ".json")) == 4
    assert numbers(again(full)) == list(range(39))


def damages(full: ChannelSpace, other: ChannelSpace) -> dict[str, Callable[[], object]]:
    log, elsewhere = Path(full.root) / "_log", Path(other.root) / "_log"
    first, second, third = sorted(log.glob("*.fold"))

    def cut() -> None:
        second.write_bytes(second.read_bytes()[:-1])

    def drop_a_commit() -> None:
        fold = bytes_to_fold(second.read_bytes(), 13, 12)
        second.write_bytes(fold_to_bytes(Fold(13, fold.written[:-1])))

    def exchange_commits() -> None:
        texts = list(bytes_to_fold(second.read_bytes(), 13, 12).written)
        texts[3], texts[4] = texts[4], texts[3]
        second.write_bytes(fold_to_bytes(Fold(13, texts)))

    def change_a_commit() -> None:
        texts = list(bytes_to_fold(second.read_bytes(), 13, 12).written)
        texts[-1] = texts[-1].replace(b'"sequence":[22]', b'"sequence":[21]')
        second.write_bytes(fold_to_bytes(Fold(13, texts)))

    return {
        "lost": second.unlink,
        "the first one lost": first.unlink,
        "the last one lost": third.unlink,
        "another of this log": lambda: shutil.copy(first, second),
        "that of a copy that went another way": lambda: shutil.copy(elsewhere / second.name, second),
        "the last one of that copy": lambda: shutil.copy(elsewhere / third.name, third),
        "cut": cut,
        "without a commit": drop_a_commit,
        "commits exchanged": exchange_commits,
        "the last commit changed": change_a_commit,
        "nonsense": lambda: second.write_bytes(b"nonsense"),
        "empty": lambda: second.write_bytes(b""),
        "a link": lambda: [second.unlink(), second.symlink_to(first)],
    }


def test_a_fold_that_was_lost_or_replaced_is_noticed(tmp_path: Path, space: ChannelSpace) -> None:
    space.create_channel("counts", COUNT)
    fill(space, 0, 18)
    shutil.copytree(space.root, tmp_path / "copy")
    copy = ChannelSpace.open(str(tmp_path / "copy"))
    for one in (space, copy):
        fill(one, 18, 39)
        one.vacuum(linger=NOW)
    for what in damages(space, copy):
        root = tmp_path / what
        shutil.copytree(space.root, root)
        damaged = ChannelSpace.open(str(root))
        early = ChannelSpace.open(str(root))
        early.channel("counts")
        damages(damaged, copy)[what]()
        for one in (damaged, early):
            seen: list[int] = []
            with pytest.raises(PbioError, match="PBIO_BAD_LOG"):
                seen.extend(event.values["n"] for event in everything(one.channel("counts")))
            assert seen == []
            if one is damaged or "first" not in what:  # what is before is not read again
                with pytest.raises(PbioError, match="PBIO_BAD_LOG"):
                    numbers(one, start="26.0.0" if "last one" in what else "13.0.0")
        assert list(problems(ChannelSpace.open(str(root))))
        if "lost" in what:
            with pytest.raises(PbioError, match="is missing"):
                ChannelSpace.open(str(root)).channel("counts").submit({"n": 1})


def test_a_damaged_log_is_not_folded(full: ChannelSpace) -> None:
    path = Path(full.root) / commit_path(20)
    path.write_bytes(path.read_bytes().replace(b'"time":1', b'"time": 1'))
    with pytest.raises(PbioError, match="PBIO_BAD_LOG"):
        again(full).vacuum(linger=NOW)
    assert len(listed(full, ".json")) == 40


def test_a_fold_that_was_damaged_removes_nothing(full: ChannelSpace) -> None:
    make_folds(full.history, full.folder)
    second = sorted((Path(full.root) / "_log").glob("*.fold"))[1]
    second.write_bytes(second.read_bytes()[:-1])
    with pytest.raises(PbioError, match="PBIO_BAD_LOG"):
        again(full).vacuum(linger=NOW)
    assert len(listed(full, ".json")) == 40
    second.unlink()
    again(full).vacuum(linger=NOW)
    assert numbers(again(full)) == list(range(39))


def test_commits_that_are_too_long_together_stay(full: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    for longest, count in ((100, 0), (3 * 520, 12)):
        monkeypatch.setattr(folds, "LONGEST_FOLD", longest)
        full.vacuum(linger=NOW)
        assert len(listed(full, ".fold")) == count
        assert numbers(again(full)) == list(range(39))


@pytest.mark.parametrize("after", [False, True])
def test_a_vacuum_that_fails_anywhere_leaves_a_sound_log(tmp_path_factory: pytest.TempPathFactory, after: bool) -> None:
    made = ChannelSpace.create(str(tmp_path_factory.mktemp("root") / "space"))
    made.create_channel("counts", COUNT)
    fill(made, 0, 16)
    for number in range(100):
        root = str(tmp_path_factory.mktemp("root") / "space")
        shutil.copytree(made.root, root)
        space = ChannelSpace.open(root)
        with failing(number, after=after) as calls, suppress(PbioError):
            space.vacuum(linger=NOW)
        for one in (space, again(space)):
            assert numbers(one) == list(range(16))
            assert one.channel("counts").submit({"n": 3}, producer="p", sequence=3).known == 1
        assert list(problems(again(space))) == []
        again(space).vacuum(grace=NOW, linger=NOW)
        assert len(listed(space, ".json")) == 2
        assert numbers(again(space)) == list(range(16))
        if len(calls) <= number:
            return
    pytest.fail("a vacuum takes more than 100 steps")


def test_publishers_subscribers_and_vacuums_at_once(space: ChannelSpace) -> None:
    space.create_channel("counts", COUNT)
    is_over, failures = Flag(), list[BaseException]()

    def guarded(act: Callable[[], None]) -> Thread:
        def run() -> None:
            try:
                act()
            except BaseException as error:
                failures.append(error)

        return Thread(target=run)

    def write(producer: str) -> None:
        own, chance = again(space), random.Random(producer)
        for n in range(60):
            own.channel("counts").submit({"n": n}, producer=producer, sequence=n)
            if chance.random() < 0.1:
                own = again(space)

    def read() -> None:
        own = again(space).channel("counts").subscribe(start="earliest")
        seen: list[tuple[str | None, int]] = []
        while len(seen) < 180:
            seen += [(event.producer, event.values["n"]) for event in own.events(timeout=0.01)]
        for producer in "abc":
            assert [n for who, n in seen if who == producer] == list(range(60))

    def open_often() -> None:
        while not is_over.is_set():
            found = numbers(again(space))
            assert sorted(found) == found or len(found) <= 180

    def maintain() -> None:
        own = again(space)
        while not is_over.is_set():
            own.vacuum(linger=NOW)
            own.compact()

    writers = [guarded(lambda producer=producer: write(producer)) for producer in "abc"]  # type: ignore[misc]
    others = [guarded(read), guarded(open_often), guarded(maintain), guarded(maintain)]
    for thread in (*writers, *others):
        thread.start()
    for thread in (*writers, others[0]):
        thread.join()
    is_over.set()
    for thread in others:
        thread.join()
    assert failures == []
    assert list(problems(again(space))) == []
    assert len(values(again(space).channel("counts"))) == 180
