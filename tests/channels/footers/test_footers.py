"""Every publisher writes true footers, and a damaged or false footer never loses an event silently."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pytest

from ecode.types import FLOAT64, INT64, STRING, Field, record
from pbio_spark.channels import (
    ChannelSpace,
    Columns,
    Preparer,
    StraightWriter,
    Submission,
    problems,
)
from pbio_spark.channels.footers import footer as module
from pbio_spark.channels.footers import making
from pbio_spark.channels.footers.footer import (
    MOST_BYTES,
    TAIL,
    DamagedFooterError,
    Footer,
    footer_to_bytes,
    read_footer,
)
from pbio_spark.channels.footers.making import file_to_footer
from pbio_spark.channels.log.files import Folder
from pbio_spark.errors import PbioError
from pbio_spark.wire.hints.ranges import Ranges
from tests.channels.spaces import again

READING = record("reading", [Field("n", INT64), Field("x", FLOAT64), Field("s", STRING)])
FILTER = "{ return input.n > 990; }"
LARGE = list(range(991, 1000))


def rows(count: int = 1000, first: int = 0) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"n": [*numbers], "x": [n / 8 for n in numbers], "s": [f"{n}" for n in numbers]})


def kept(space: ChannelSpace, channel: str = "readings", **options: object) -> list[int]:
    subscription = again(space).channel(channel).subscribe(start="earliest", filter=FILTER, **options)  # type: ignore[arg-type]
    return [event.values["n"] for event in subscription.events()]


def data_files(space: ChannelSpace) -> list[Path]:
    return sorted((Path(space.root) / "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)


def footer_of(path: Path) -> Footer | None:
    data = path.read_bytes()
    return read_footer(lambda start, length: data[start : start + length], len(data))


def same(footer: Footer, path: Path) -> None:
    """It is what reading the file finds, and has the same blocks."""
    with path.open("rb") as source:
        found = file_to_footer(source, "", int(footer.offsets[-1]), footer.offsets[:-1].tolist())
    assert found is not None
    assert footer.ordinals.tolist() == found.ordinals.tolist()
    for format_id, ranges in zip(footer.formats, footer.ranges, strict=True):
        assert ranges == found.of(format_id)


@pytest.fixture
def readings(space: ChannelSpace, small_blocks: None) -> ChannelSpace:
    space.create_channel("readings", READING)
    return space


def submit(space: ChannelSpace) -> None:
    space.channel("readings").submit(rows())


def submit_of_many(space: ChannelSpace) -> None:
    """Many small groups of some producers, and a large one."""
    who = [f"p{n % 7}" if n < 500 else "p" for n in range(1000)]
    table = rows().append_column("who", pa.array(who))
    space.publish([Submission("readings", table, columns=Columns(producer="who"))])


def derive(space: ChannelSpace) -> None:
    space.derive_channel("few", "readings", filter="{ return input.n % 2; }")
    space.derive_channel("also few", "readings", filter="{ return input.n % 2; }")
    transform = "{ output.n = input.n; output.x = -input.x; output.s = input.s; return 1; }"
    space.derive_channel("other", "readings", transform=transform, type=READING)
    submit(space)


def straight(space: ChannelSpace) -> None:
    info = space.history.state.named("readings")
    writer = StraightWriter(space.folder, Preparer(space.formats), info, Submission("readings", rows(0)))
    for batch in rows().to_batches(max_chunksize=70):
        writer.add(batch)
    finished = writer.finished()
    assert finished is not None
    writer.bring(finished)
    space.publisher.publish([finished.packed])


def compact(space: ChannelSpace) -> None:
    for first in range(0, 1000, 10):
        space.channel("readings").submit(rows(10, first))
    assert space.compact() == 100


def compact_large(space: ChannelSpace) -> None:
    """Files with several blocks each."""
    for first in range(0, 1000, 100):
        space.channel("readings").submit(rows(100, first))
    assert space.compact() == 10


@pytest.mark.parametrize("publish", [submit, submit_of_many, derive, straight, compact, compact_large])
def test_every_publisher_says_what_events_hold(
    readings: ChannelSpace, publish: Callable[[ChannelSpace], None], caplog: pytest.LogCaptureFixture
) -> None:
    publish(readings)
    path = data_files(readings)[-1]
    footer = footer_of(path)
    assert footer is not None
    assert footer.blocks > 20
    same(footer, path)
    caplog.set_level(logging.DEBUG, "pbio_spark.channels")
    for info in readings.channels():
        whole = kept(readings, info.name, skip_blocks=False)
        assert "skips" not in caplog.text
        assert kept(readings, info.name) == whole
        skipped = sum(int(number) for number in re.findall(r"the filter skips (\d+) events", caplog.text))
        assert (900 if info.derivation is None or info.name == "other" else 450) < skipped < 1000
        assert set(whole) <= set(LARGE)
        assert whole
        caplog.clear()
    assert list(problems(again(readings))) == []


def test_a_small_file_has_no_footer_and_a_large_one_has(space: ChannelSpace) -> None:
    channel = space.create_channel("readings", READING)
    channel.submit(rows(2_000))
    channel.submit(rows(20_000))
    small, large = data_files(space)
    assert footer_of(small) is None
    assert small.stat().st_size < making.LEAST
    assert footer_of(large) is not None


def test_a_file_without_footer_is_read_whole(readings: ChannelSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "LEAST", 1 << 60)  # as version 0.4 wrote it
    submit(readings)
    assert footer_of(data_files(readings)[0]) is None
    assert kept(readings) == LARGE


def test_the_footer_of_a_part_says_nothing_of_the_whole(
    readings: ChannelSpace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Version 0.4 puts files together as they are, so that the last one's footer is at the end."""
    readings.channel("readings").submit(rows(100, 900))
    readings.channel("readings").submit(rows(100))
    monkeypatch.setattr(making, "LEAST", 1 << 60)
    assert readings.compact() == 2
    monkeypatch.setattr(making, "LEAST", 500)
    whole = data_files(readings)[-1]
    assert whole.read_bytes().count(b"pbio values ") == 2
    assert footer_of(whole) is None
    caplog.set_level(logging.DEBUG, "pbio_spark.channels")
    assert kept(readings) == LARGE
    assert "skips" not in caplog.text
    assert list(problems(readings)) == []


def test_a_compacted_file_may_end_with_a_large_group(
    readings: ChannelSpace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a file that has no footer, so that no item follows the group."""
    monkeypatch.setattr(making, "LEAST", 1 << 60)
    for first in range(0, 1000, 500):
        readings.channel("readings").submit(rows(500, first))
    monkeypatch.setattr(making, "LEAST", 500)
    assert readings.compact() == 2
    path = data_files(readings)[-1]
    footer = footer_of(path)
    assert footer is not None
    same(footer, path)
    caplog.set_level(logging.DEBUG, "pbio_spark.channels")
    assert kept(readings) == LARGE
    assert "the filter skips" in caplog.text


def test_a_subscriber_passes_what_it_skips(readings: ChannelSpace) -> None:
    """As it passes what the filter refuses: a named one that got nothing is after it when it comes back."""
    for first in (0, 995):
        readings.channel("readings").submit(rows(1000, first) if not first else rows(5, first))
    subscription = readings.channel("readings").subscribe(start="earliest", name="s", filter="{ return input.n < 0; }")
    assert list(subscription.events()) == []
    assert subscription.position.version == readings.history.catch_up().version + 1
    (known,) = readings.subscribers()
    assert known.position == subscription.position, (known.position, subscription.position)


def test_numbers_and_times_of_what_is_left(readings: ChannelSpace) -> None:
    """They are counted from the beginning of the group, not of the block."""
    readings.channel("readings").submit(rows(), producer="p", sequence=5000)
    (first, *_), (whole, *_) = (
        list(readings.channel("readings").subscribe(start="earliest", filter=FILTER, skip_blocks=skips).events())
        for skips in (True, False)
    )
    assert first == whole
    assert (first.sequence, first.position.ordinal) == (5991, 991)


def test_a_damaged_footer_loses_nothing(readings: ChannelSpace, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever byte of it is another one: it is not believed, and a check says so."""
    submit(readings)
    (path,) = data_files(readings)
    data, footer = path.read_bytes(), footer_of(path)
    assert footer is not None
    start, chance, found = int(footer.offsets[-1]), random.Random(4), 0
    for at in [
        *chance.sample(range(start, len(data) - 30), 30),
        *range(start, start + 16),
        *range(len(data) - 30, len(data)),
    ]:
        path.write_bytes(data[:at] + bytes([data[at] ^ chance.randrange(1, 256)]) + data[at + 1 :])
        caplog.clear()
        caplog.set_level(logging.DEBUG, "pbio_spark.channels")
        assert kept(readings) == LARGE
        assert "the filter skips" not in caplog.text
        codes = {problem.code for problem in problems(again(readings))}
        assert codes <= {"PBIO_BAD_INDEX", "PBIO_BAD_ITEM", "PBIO_TRUNCATED"}
        found += bool(codes) and ("nothing of the file is skipped" in caplog.text)
    assert found > 50


def false(footer: Footer, path: Path) -> None:
    """Give a file another footer, with the right digest."""
    data = path.read_bytes()[: int(footer.offsets[-1])]
    path.write_bytes(data + footer_to_bytes(footer))


def wrong_most(footer: Footer) -> Footer:
    (ranges,) = footer.ranges
    most = np.frombuffer(ranges.most, "<i8").copy()
    most[footer.blocks - 1] = 5  # the first field, in the last block
    return replace(footer, ranges=(replace(ranges, most=most.tobytes()),))


def wrong_count(footer: Footer) -> Footer:
    (ranges,) = footer.ranges
    counts = np.frombuffer(ranges.counts, "<i8").copy()
    counts[0] += 1
    return replace(footer, ranges=(replace(ranges, counts=counts.tobytes()),))


def wrong_ordinals(footer: Footer) -> Footer:
    return replace(footer, ordinals=footer.ordinals + np.arange(footer.blocks + 1))


def test_a_check_finds_what_is_false(readings: ChannelSpace) -> None:
    submit(readings)
    (path,) = data_files(readings)
    footer, size = footer_of(path), path.stat().st_size
    assert footer is not None
    for change in (wrong_most, wrong_count, wrong_ordinals):
        false(change(footer), path)
        (log,) = [one for one in (Path(readings.root) / "_log").glob("*.json") if str(size) in one.read_text()]
        text = log.read_text()
        log.write_text(text.replace(str(size), str(path.stat().st_size)))
        found = [problem for problem in problems(again(readings)) if problem.code == "PBIO_BAD_INDEX"]
        assert found, change
        assert "skipBlocks=false" in (found[0].hint or "")
        assert kept(readings, skip_blocks=False) == LARGE
        if change is wrong_ordinals:
            assert kept(readings) == LARGE  # the log has other events, and counts
        log.write_text(text)
        false(footer, path)


@pytest.mark.parametrize("root", ["", "memory://checked/"])
def test_a_check_fetches_each_file_once(readings: ChannelSpace, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(readings)
    checked = again(readings)
    if root:
        memory = fsspec.filesystem("memory")
        memory.put(readings.root, f"/checked/{readings.id}", recursive=True)
        checked = ChannelSpace.open(f"{root}{readings.id}")
    assert any(footer_of(path) is not None for path in data_files(readings))
    fetched: list[str] = []
    for method in ("open", "read_part"):
        original = getattr(Folder, method)

        def counted(self: Folder, name: str, *said: int, original: Any = original) -> Any:
            fetched.append(name)
            return original(self, name, *said)

        monkeypatch.setattr(Folder, method, counted)
    assert list(problems(checked)) == []
    files = [name for name in fetched if name.startswith("data/")]
    assert sorted(files) == sorted(f"data/{path.name}" for path in data_files(readings))
    for path in data_files(readings):
        path.unlink()
        if root:
            memory.rm_file(f"/checked/{readings.id}/data/{path.name}")
    missing = list(problems(checked))
    assert missing
    assert all("missing" in problem.reason for problem in missing)


def test_footers_are_read_from_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one request, or in two if they are long; one that is too long counts as missing."""
    chance = np.random.default_rng(1)
    for blocks, requests in ((10, 1), (20_000, 2), (300_000, 1)):
        keys = chance.integers(0, 1 << 62, blocks).astype("<i8").tobytes()
        offsets = np.arange(4, 5 + blocks)
        ranges = Ranges(np.ones(blocks, "<i8").tobytes(), (("n",),), "i", keys, keys)
        footer = Footer(offsets, np.arange(blocks + 1), ("00" * 12,), (ranges,))
        data = bytes(int(offsets[-1])) + footer_to_bytes(footer)
        asked = []

        def read(start: int, length: int, data: bytes = data, asked: list[int] = asked) -> bytes:
            asked.append(length)
            return data[start : start + length]

        found = read_footer(read, len(data))
        assert len(asked) == requests
        assert max(asked) <= MOST_BYTES
        assert (found is None) == (blocks == 300_000)
        if found is not None:
            assert found.ranges == footer.ranges
            assert (len(data) - int(offsets[-1]) > TAIL) == (requests == 2)


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{}",
        b'{"version":1}',
        b'{"version":1,"offsets":[4],"ordinals":[0],"formats":[],"ranges":[]}',
        b'{"version":1,"offsets":[4,true],"ordinals":[0,1],"formats":[],"ranges":[]}',
        b'{"version":1,"offsets":[9,4],"ordinals":[0,1],"formats":[],"ranges":[]}',
        b'{"version":1,"offsets":[4,9],"ordinals":[0,1e9],"formats":[],"ranges":[]}',
        b'{"version":1,"offsets":[4,9],"ordinals":[0,1],"formats":["00"],"ranges":[]}',
        b'{"version":1,"offsets":[4,9],"ordinals":[0,1],"formats":["00"],"ranges":[{"counts":"AA=="}]}',
        b"[" * 100_000,
        b"\xff",
        b"9" * 10_000,
    ],
)
def test_hostile_footers(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.json, "dumps", lambda said, separators: text.decode("latin-1"))
    ranges = Ranges(np.ones(1, "<i8").tobytes())
    item = footer_to_bytes(Footer(np.array([4, 9]), np.array([0, 1]), ("00",), (ranges,)))
    with pytest.raises(DamagedFooterError):
        read_footer(lambda start, length: item[start : start + length], len(item))


def test_another_version_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = Ranges(np.ones(1, "<i8").tobytes())
    monkeypatch.setattr(module, "VERSION", 2)
    item = footer_to_bytes(Footer(np.array([4, 9]), np.array([0, 1]), ("00",), (ranges,)))
    monkeypatch.setattr(module, "VERSION", 1)
    assert read_footer(lambda start, length: item[start : start + length], len(item)) is None


def test_a_file_that_is_gone_is_an_error_as_without_skipping(readings: ChannelSpace) -> None:
    submit(readings)
    (path,) = data_files(readings)
    path.unlink()
    for skips in (True, False):
        with pytest.raises(PbioError, match="is missing"):
            kept(readings, skip_blocks=skips)
