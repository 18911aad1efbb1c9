"""Damaged thin streams: the gateway takes what an independent walk finds, however the bytes arrive.

PBIO_LONG=1 mutates a million streams, PBIO_MUTATIONS=N so many, PBIO_SEED=N others.
"""

from __future__ import annotations

import io
import os
import random
import tracemalloc
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from ecode.types import FLOAT64, INT32, STRING, Array, Field, record
from pbio_spark.channels import ChannelSpace, RecordPreparer, Records
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.gateways.evpath import ThinStream
from pbio_spark.gateways.evpath.stream import STONE
from pbio_spark.wire import FileWriter, ItemKind, Scanner, decode
from tests.channels.spaces import READING, reading

MUTATIONS = int(os.environ.get("PBIO_MUTATIONS", 1_000_000 if os.environ.get("PBIO_LONG") else 400))
SEED = int(os.environ.get("PBIO_SEED", 11))
MOST = 1 << 20

OTHER = Format.of(record("reading", [*READING.fields, Field("unit", STRING)]), "be32")


def sound_stream(indexed: bool = False) -> bytes:
    """Two formats by turns, comments between and among them, of all lengths."""
    file = io.BytesIO()
    own = Format.of(READING)
    with FileWriter(file, indexed=indexed) as writer:
        writer.comment("before")
        writer.comment("Stone 3")
        for number in range(12):
            writer.data(own, reading(number))
            if number % 3 == 0:
                writer.comment("x" * (number // 3))
                writer.data(OTHER, {**reading(number), "unit": "kPa"})
    return file.getvalue()


def found(data: bytes) -> tuple[int | None, list[bytes]]:
    """The stone, and the items of the records, that a walk in plain Python finds before anything wrong."""
    scanner, stone, records = Scanner(data, search=False), None, []
    try:
        for item in scanner.items():
            if item.kind is ItemKind.COMMENT:
                said = STONE.fullmatch(scanner.comment(item))
                if said is not None and stone not in (None, int(said[1])):
                    break
                stone = stone if said is None else int(said[1])
            elif stone is None and item.kind is not ItemKind.INDEX:
                break
            elif item.kind is ItemKind.DATA:
                scanner.format_of(item)
                records.append(data[item.offset : item.end])
    except PbioError:
        pass
    return stone, records


def taken(data: bytes, chance: random.Random | None = None) -> tuple[ThinStream, list[bytes], list[int]]:
    """The same, as a stream takes it that comes in pieces."""
    stream, records, numbers = ThinStream("a test", most_bytes=MOST), [], []
    at = 0
    while at < len(data) and stream.error is None:
        step = len(data) if chance is None else chance.choice((1, 7, 100, 1000))
        some = stream.feed(data[at : at + step])
        place = 0
        for length in some.lengths.tolist():
            records.append(some.items[place : place + length])
            place += length
        assert place == len(some.items)
        numbers += some.numbers.tolist()
        at += step
    assert stream.records == len(records) == len(numbers)
    return stream, records, numbers


def mutated(data: bytes, chance: random.Random) -> tuple[bytes, int]:
    """The stream with something wrong, and where that begins."""
    made, at = bytearray(data), chance.randrange(len(data))
    match chance.randrange(6):
        case 0:
            made[at] ^= 1 << chance.randrange(8)
        case 1:
            made[at : at + 4] = chance.choice((b"\xff" * 4, bytes(4), chance.randbytes(4)))
        case 2:
            del made[at : at + chance.choice((1, 4, 50))]
        case 3:
            made[at:at] = chance.randbytes(chance.choice((1, 4, 50)))
        case 4:
            del made[at:]
        case 5:
            other = chance.randrange(len(data))
            made[at:at] = data[other : other + chance.randrange(200)]
    return bytes(made), at


@pytest.mark.parametrize("indexed", [False, True])
def test_a_sound_stream_is_taken_whole_however_it_comes(indexed: bool) -> None:
    data = sound_stream(indexed)
    expected = found(data)
    assert len(expected[1]) == 16
    for chance in (None, *map(random.Random, range(20))):
        stream, records, numbers = taken(data, chance)
        assert (stream.stone, records, stream.error, stream.is_cut) == (*expected, None, False)
        assert [stream.formats[number].id for number in numbers] == [
            OTHER.id if b"kPa" in one else Format.of(READING).id for one in records
        ]


def test_mutated_streams_give_what_is_sound_in_them_and_an_error_or_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = ChannelSpace.create(str(tmp_path / "space"))
    channel = space.create_channel("readings", READING)
    preparer = RecordPreparer(space.formats)
    # Three walks see the formats of each stream, which are most often the two sound ones.
    monkeypatch.setattr(Format, "from_body", lru_cache(64)(Format.from_body))
    seen: set[tuple[Format, bytes]] = set()
    """Records that have been read, or refused, already."""
    data = sound_stream()
    sound = found(data)[1]
    ends = [data.index(one) + len(one) for one in sound]
    chance = random.Random(SEED)
    read = failed = 0
    for turn in range(MUTATIONS):
        wrong, at = mutated(data, chance)
        stone, expected = found(wrong)
        stream, records, numbers = taken(wrong, chance if turn % 4 else None)
        if turn % 8 == 1:
            whole, again, _ = taken(wrong)
            assert records == again
            assert (stream.error and stream.error.code) == (whole.error and whole.error.code)
        untouched = sum(end <= at for end in ends)
        assert records[:untouched] == sound[:untouched]
        if stream.error is None or stream.error.code != "PBIO_LIMIT":
            assert (stream.stone, records) == (stone, expected)
        else:
            assert records == expected[: len(records)]
        failed += stream.error is not None
        for number, one in zip(numbers[untouched:], records[untouched:], strict=True):
            form = stream.formats[number]
            if (form, one) in seen:
                read += 1
                continue
            seen.add((form, one))
            try:
                some = Records("readings", one, np.array([0, len(one)]), (form,), np.zeros(1, np.int32))
                preparer.prepare(some, space.find)
            except PbioError:
                continue
            read += 1
            decode(form, one[8:])  # what is published can be read
        if len(seen) > 100_000:
            seen.clear()
    assert failed > MUTATIONS // 4
    assert read > MUTATIONS
    assert channel.info.events == 0


def test_a_false_length_takes_no_memory() -> None:
    head = sound_stream()
    tracemalloc.start()
    for lie in (b"\3\0\xff\xff\xff\xff\xff\xff", b"\2\0\0\x0c\x7f\xff\xff\xff", b"\1\xff\xff\xff", b"\4\xff\xff\xff"):
        stream = ThinStream("a test", most_bytes=MOST)
        stream.feed(head)
        before = tracemalloc.get_traced_memory()[0]
        stream.feed(lie + OTHER.id)
        assert stream.error is not None
        assert stream.error.code == "PBIO_LIMIT"
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    tracemalloc.stop()


def test_a_large_item_is_looked_at_once_it_is_whole() -> None:
    """However small the pieces are in which it comes: to copy it each time would take the square of its size."""
    large = Format.of(record("large", [Field("n", INT32), Field("v", Array(FLOAT64, ("n",)))]))
    file = io.BytesIO()
    with FileWriter(file) as writer:
        writer.comment("Stone 1")
        writer.data(large, {"n": 100_000, "v": [0.5] * 100_000})
    data = file.getvalue()
    stream = ThinStream("a test", most_bytes=MOST)
    for at in range(0, len(data), 10):
        some = stream.feed(data[at : at + 10])
    assert len(some) == 1


def test_a_stream_has_at_most_so_many_formats() -> None:
    file = io.BytesIO()
    with FileWriter(file) as writer:
        writer.comment("Stone 1")
        for number in range(6):
            writer.data(Format.of(record(f"f{number}", [Field("n", INT32)])), {"n": number})
    stream = ThinStream("a test", most_formats=4)
    assert len(stream.feed(file.getvalue())) == 4
    assert stream.error is not None
    assert "more than 4 formats" in str(stream.error)


def test_what_is_wrong_with_a_stream_is_not_explained_as_with_a_file() -> None:
    sound, number = sound_stream(), random.Random(5)
    told = set()
    for _ in range(200):
        data = bytearray(sound)
        data[number.randrange(60, len(data))] ^= number.randrange(1, 256)
        stream = ThinStream("10.0.0.1:4711")
        stream.feed(bytes(data))
        if stream.error is not None and stream.error.code in ("PBIO_BAD_ITEM", "PBIO_UNKNOWN_FORMAT"):
            told.add(stream.error.code)
            assert "connect again" in (stream.error.hint or ""), stream.error
    assert len(told) == 2
