"""Any damage to any file of a space: every operation works, or raises a PbioError."""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from pbio_spark.channels import ChannelSpace, Submission
from pbio_spark.channels.log import history
from pbio_spark.channels.upkeep.check import leftovers, problems
from pbio_spark.channels.upkeep.expiry import expired
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT, READING, everything, reading

TRIALS = 2000 if os.environ.get("PBIO_LONG") else 40


@pytest.fixture
def sound(space: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A space with all there can be in it."""
    monkeypatch.setattr(history, "CHECKPOINT_EVERY", 4)
    space.create_channel("counts", COUNT)
    space.create_channel("readings", READING, keep=timedelta(0))
    space.derive_channel("few", "counts", filter="{ return input.n > param.n; }", parameters={"n": 2})
    for n in range(8):
        space.publish(
            [
                Submission("readings", [reading(n)], producer="q", sequence=n),
                Submission("counts", [{"n": n}], producer="p", sequence=n),
            ]
        )
        if n == 3:
            space.compact()
    space.set_parameters("few", {"n": 0})
    space.channel("counts").subscribe(lambda event: None, name="reader", start="earliest").run()
    assert expired(space.folder, space.subscribers(), time.time_ns() // 1000 + 10**12) == []  # but it is missed
    return Path(space.root)


def flip(data: bytes, chance: random.Random, _: list[Path]) -> bytes:
    changed = bytearray(data)
    for _time in range(chance.choice([1, 1, 3, 20])):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def cut(data: bytes, chance: random.Random, _: list[Path]) -> bytes:
    return data[: chance.randrange(len(data))]


def another(_: bytes, chance: random.Random, files: list[Path]) -> bytes:
    return chance.choice(files).read_bytes()


def digits(data: bytes, chance: random.Random, _: list[Path]) -> bytes:
    """Change numbers, so that JSON stays JSON."""
    places = [i for i, byte in enumerate(data) if 48 <= byte < 58] or [0]
    changed = bytearray(data)
    for _time in range(chance.choice([1, 2, 5])):
        changed[chance.choice(places)] = 48 + chance.randrange(10)
    return bytes(changed)


def number(data: bytes, chance: random.Random, _: list[Path]) -> bytes:
    """Make a number another one, as far from it as can be."""
    places = list(re.finditer(rb"\d+", data))
    if not places:
        return data
    place = chance.choice(places)
    new = chance.choice([b"0", b"-1", b"9007199254740993", b"9223372036854775807", b"9" * 400])
    return data[: place.start()] + new + data[place.end() :]


DAMAGES: list[Callable[[bytes, random.Random, list[Path]], bytes]] = [flip, cut, another, digits, number]


def use(root: str) -> None:
    """All that programs do with a space; what is a PbioError does not keep them from the rest."""

    def attempt(action: Callable[[], object]) -> None:
        with suppress(PbioError):
            action()

    def with_space() -> None:
        space = ChannelSpace.open(root)
        for name in ("counts", "readings", "few"):
            attempt(lambda name=name: everything(space.channel(name)))  # type: ignore[misc]
            attempt(lambda name=name: space.channel(name).subscribe(name="reader"))  # type: ignore[misc]
        attempt(lambda: space.channel("counts").submit({"n": 100}, producer="p", sequence=100))
        attempt(lambda: space.channel("counts").submit({"n": 101}, delivery="sync", sync_timeout=0))
        attempt(lambda: [space.backlog(one) for one in space.subscribers()])
        attempt(lambda: expired(space.folder, space.subscribers(), time.time_ns() // 1000 + 2 * 10**12))
        attempt(space.compact)
        attempt(lambda: list(problems(space)))
        attempt(lambda: leftovers(space))
        attempt(lambda: space.vacuum(grace=timedelta(0), linger=timedelta(0)))

    attempt(with_space)


def test_damage_anywhere_is_survived(sound: Path, tmp_path: Path) -> None:
    for trial in range(TRIALS):
        chance = random.Random(trial)
        root = tmp_path / f"trial-{trial}"
        shutil.copytree(sound, root)
        files = sorted(path for path in root.rglob("*") if path.is_file())
        path = chance.choice(files)
        path.write_bytes(chance.choice(DAMAGES)(path.read_bytes(), chance, files))
        try:
            use(str(root))
        except Exception as error:
            error.add_note(f"trial {trial}: {path.relative_to(root)}")
            raise
        shutil.rmtree(root)
