"""A check finds every kind of damage, says where, and finds nothing in a sound space."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pbio_spark.channels import ChannelSpace, Submission
from pbio_spark.channels.log import history
from pbio_spark.channels.upkeep.check import leftovers, problems
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT, READING, again, reading


@pytest.fixture
def full(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> ChannelSpace:
    """A space with all there can be in it."""
    monkeypatch.setattr(history, "CHECKPOINT_EVERY", 4)
    space.create_channel("counts", COUNT)
    space.create_channel("readings", READING)
    space.derive_channel("few", "counts", filter="{ return input.n > param.n; }", parameters={"n": 2})
    for n in range(4):
        space.publish(
            [
                Submission("readings", [reading(n), reading(n + 1)]),
                Submission("counts", [{"n": n}], producer="p", sequence=n),
            ],
            transaction=("application", n),
        )
    space.set_parameters("few", {"n": 0})
    space.create_channel("gone", COUNT)
    space.drop_channel("gone")
    list(space.channel("counts").subscribe(name="reader").events())
    return space


def test_nothing_is_wrong_with_a_sound_space(full: ChannelSpace) -> None:
    assert list(problems(again(full))) == []
    assert leftovers(full) == []


def test_files_of_dead_writers_are_not_damage(full: ChannelSpace) -> None:
    (Path(full.root) / "data" / f"{'0' * 32}.pbio").write_bytes(b"half")
    assert list(problems(full)) == []
    assert leftovers(full) == [f"data/{'0' * 32}.pbio"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip_last(path: Path) -> None:
    """Damage the last string of the last reading, which ends in a NUL."""
    data = bytearray(path.read_bytes())
    at = data.rindex(b"reading")
    data[at - 32 : at] = b"\xff" * 32
    path.write_bytes(bytes(data))


def lie(path: Path) -> None:
    made = json.loads(path.read_bytes())
    made["data"]["groups"]["count"][1] += 1
    path.write_text(json.dumps(made))


DAMAGES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a data file cut": ("data/*", cut),
    "a data file gone": ("data/*", Path.unlink),
    "a record damaged": ("data/*", flip_last),
    "a commit torn": ("_log/*5.json", cut),
    "a commit gone": ("_log/*5.json", Path.unlink),
    "a commit lies": ("_log/*5.json", lie),
    "a checkpoint lies": ("_log/*8.checkpoint", lambda path: path.write_text(path.read_text().replace("p", "q"))),
    "a checkpoint of nothing": ("_log/*8.checkpoint", lambda path: shutil.copy(path, str(path).replace("8.", "9."))),
    "a format gone": ("_formats/*", Path.unlink),
    "a format damaged": ("_formats/*", cut),
    "a subscriber torn": ("_subscribers/*", cut),
}


@pytest.mark.parametrize("mixed", ["_log", "_subscribers", "_space.json"])
def test_two_spaces_that_were_mixed_up_are_told_apart(full: ChannelSpace, tmp_path: Path, mixed: str) -> None:
    other = ChannelSpace.create(str(tmp_path / "other"))
    channel = other.create_channel("counts", COUNT)
    for n in range(20):
        channel.submit({"n": n})
    channel.subscribe(lambda event: None, name="reader").run()
    replaced, source = (Path(space.root) / mixed for space in (full, other))
    if replaced.is_dir():
        shutil.rmtree(replaced)
        shutil.copytree(source, replaced)
    else:
        shutil.copy(source, replaced)
    found = [str(problem) for problem in problems(ChannelSpace.open(full.root))]
    attempts: list[Callable[[], object]] = [
        lambda: again(full).channel("counts"),
        lambda: again(full).create_channel("new", COUNT),
    ]
    if mixed == "_subscribers":
        assert len(found) == 1
        assert "subscriber 'reader' is at 22.0.0" in found[0]
        assert "at: _subscribers/" in found[0]
        attempts = [lambda: again(full).channel("counts").subscribe(name="reader")]
    else:
        assert "the commit belongs to another space" in found[0]
        assert f"at: _log/{1:020}.json" in found[0]
    for attempt in attempts:
        with pytest.raises(PbioError, match=r"PBIO_BAD_LOG|PBIO_BAD_OFFSET"):
            attempt()


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_is_found(full: ChannelSpace, damage: str) -> None:
    pattern, do = DAMAGES[damage]
    path = sorted(Path(full.root).glob(pattern))[0]
    do(path)
    found = list(problems(again(full)))
    assert found
    assert all(str(problem).startswith("[PBIO_") for problem in found)
    if damage.startswith(("a data file", "a record", "a commit torn", "a subscriber")):
        assert all(problem.file is not None and problem.file.endswith(path.name) for problem in found)
    if damage.endswith("gone") and "format" not in damage:
        assert "put the file back from a copy of the space" in {problem.hint for problem in found}
    assert not any("space verify" in str(problem) for problem in found), "this is what found them"
