"""Reading ahead, many commits at once, gives what reading commit by commit gives, whatever is between them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pbio_spark.channels import ChannelSpace, Event, Position, Submission
from pbio_spark.channels.commits.groups import Groups
from pbio_spark.channels.log import folds
from pbio_spark.channels.log.blocks import FoldBlock, fold_to_block
from pbio_spark.channels.log.history import History
from pbio_spark.channels.subscribe import subscription
from pbio_spark.channels.upkeep import folding
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT, again

NOW = timedelta(0)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "SIZES", (10, 40))
    monkeypatch.setattr(folding, "KEPT", 2)


def filled(space: ChannelSpace, seed: int) -> ChannelSpace:
    """Commits of all kinds."""
    chance = random.Random(seed)
    names = ["a", "b"]
    for name in names:
        space.create_channel(name, COUNT)
    space.derive_channel("few", "a", filter="{ return input.n % param.k == 0; }", parameters={"k": 3})
    for n in range(60):
        match chance.randrange(8):
            case 0:
                space.set_parameters("few", {"k": chance.randrange(1, 4)})
            case 1:
                names.append(f"channel {n}")
                space.create_channel(names[-1], COUNT)
            case 2 if len(names) > 2:
                space.drop_channel(names.pop())
            case 3:
                space.channel("a").submit(pa.table({"n": pa.array([n, n], pa.int32()), "more": [5, 6]}))
            case _:
                those = [Submission(name, rows(chance, n), producer=name, sequence=100 * n) for name in names]
                space.publish(chance.sample(those, chance.randrange(1, len(those) + 1)))
        if chance.random() < 0.05:
            space.compact()
    return space


def rows(chance: random.Random, n: int) -> list[dict[str, int]]:
    return [{"n": n + i} for i in range(chance.randrange(1, 4))]


def seen(space: ChannelSpace, name: str, **more: Any) -> list[Event]:
    return list(space.channel(name).subscribe(**{"start": "earliest", **more}).events())


def seen_lazily(space: ChannelSpace) -> Iterator[Event]:
    return space.channel("a").subscribe(start="earliest").events()


def one_by_one(space: ChannelSpace, name: str, **more: Any) -> list[Event]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(History, "block", lambda self, version: None)
        return seen(again(space), name, **more)


@pytest.mark.parametrize("seed", range(3))
def test_events_read_ahead_are_those_read_one_by_one(space: ChannelSpace, seed: int) -> None:
    filled(space, seed)
    space.compact()
    for is_removed in (False, True):
        if is_removed:
            space.vacuum(linger=NOW)
        for name in ("a", "b", "few"):
            expected = one_by_one(space, name)
            assert seen(again(space), name) == expected
            chance = random.Random(seed)
            for _ in range(4):
                start = chance.choice(expected).position
                assert seen(again(space), name, start=start) == one_by_one(space, name, start=start)
            kept = "{ return input.n % 2; }"
            assert seen(again(space), name, filter=kept) == one_by_one(space, name, filter=kept)


def test_many_commits_are_read_in_one_go(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = space.create_channel("a", COUNT)
    for n in range(45):
        channel.submit({"n": n}, producer="p", sequence=n)
    space.compact()
    calls: list[int] = []
    original = subscription.read_together

    def read_together(*arguments: Any) -> Any:
        found = original(*arguments)
        assert found is not None
        calls.append(sum(batch.num_rows for batch, _ in found))
        return found

    monkeypatch.setattr(subscription, "read_together", read_together)
    reader = again(space).channel("a").subscribe(start="earliest", name="reader")
    assert [event.values["n"] for event in reader.events()] == list(range(45))
    assert calls == [39]
    assert reader.position == Position(48)  # after the compaction


@pytest.mark.parametrize("damage", ["gone", "cut", "other bytes"])
def test_where_something_is_wrong_all_before_it_is_delivered(space: ChannelSpace, damage: str) -> None:
    channel = space.create_channel("a", COUNT)
    for n in range(45):
        channel.submit({"n": n})
    space.vacuum()
    entry = space.history.entry(22)
    assert entry is not None
    path = Path(space.root) / entry.change.files[0].path  # type: ignore[union-attr]
    data = path.read_bytes()
    match damage:
        case "gone":
            path.unlink()
        case "cut":
            path.write_bytes(data[:-2])
        case _:
            path.write_bytes(data[:-24] + b"\xff" * 24)
    told = []
    for is_ahead in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if not is_ahead:
                patch.setattr(History, "block", lambda self, version: None)
            found: list[int] = []
            with pytest.raises(PbioError) as caught:
                found.extend(event.values["n"] for event in seen_lazily(again(space)))
            assert found == list(range(20))
            told.append(str(caught.value))
    assert told[0] == told[1]


def block_of(space: ChannelSpace, change: Callable[[bytes], bytes] = lambda text: text) -> FoldBlock | None:
    texts = [change(space.history.text(version) or b"") for version in range(1, 13)]
    return fold_to_block(folds.Fold(1, texts), space.id)


def test_a_block_equals_its_commits_and_is_none_if_they_are_impossible(space: ChannelSpace) -> None:
    channel = space.create_channel("a", COUNT)
    for n in range(11):
        channel.submit([{"n": n}] * (n % 3 + 1), producer=f"producer {n % 2}", sequence=10 * n)
    block = block_of(space)
    assert block is not None
    assert block.alone == [1]
    for version in range(2, 13):
        entry = space.history.entry(version)
        assert entry is not None
        groups: Groups = entry.change.groups  # type: ignore[union-attr]
        placed = [one for one in block.walk({1}, version, version + 1) if not isinstance(one, int)]
        assert [one.group for one in placed] == list(groups)
        assert {(one.version, one.published) for one in placed} == {(version, entry.time)}
        assert {one.path for one in placed} == {file.path for file in entry.change.files}  # type: ignore[union-attr]
    for old, new in (
        (b'"count":[', b'"count":[-'),
        (b'"count":[1]', b'"count":[1.5]'),
        (b'"format":[0]', b'"format":[1]'),
        (b'"producer":[0]', b'"producer":[1]'),
        (b'"file":[0]', b'"file":[1]'),
        (b'"channel":[1]', b'"channel":[99]'),
        (b'"start":[', b'"start":[9'),
        (b'"data/', b'"../data/'),
        (b'"time":', b'"time":-'),
        (b'"groups":{', b'"groups":[{'),
        (space.id.encode(), b"another"),
    ):
        assert block_of(space, lambda text: text.replace(old, new)) is None, old  # noqa: B023
