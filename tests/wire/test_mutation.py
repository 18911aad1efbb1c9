"""Damaged files and records: a PbioError or sound values come out, in bounded time and memory.

PBIO_LONG=1 runs 200,000 damaged files and records; without it some thousands.
"""

from __future__ import annotations

import io
import os
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.testing.strategies import formats, same_values, values
from pbio_spark.wire import FileWriter, ItemKind, Scanner, decode, encode, items_to_json, read_index, record_to_json
from tests.corpus import ffs_files
from tests.wire.samples import TREE, sample

LONG = bool(os.environ.get("PBIO_LONG"))
SEEDS = range(32)
DAMAGED = 160_000 if LONG else 3_200
WORDS = [0, 1, 2, 3, 7, 8, 12, 16, 24, 255, 256, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]


def damage(data: bytes, chance: random.Random) -> bytes:
    """A copy with one to three spots changed."""
    copy = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(copy) + 1)
        match chance.randrange(6):
            case 0:
                copy[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                copy[at : at + 1] = bytes([(copy[at : at + 1] or b"\0")[0] ^ 1 << chance.randrange(8)])
            case 2:
                copy[at : at + 4] = chance.choice(WORDS).to_bytes(4, chance.choice(("little", "big")))
            case 3:
                del copy[at:]
            case 4:
                del copy[at : at + chance.randint(1, 16)]
            case 5:
                piece = chance.randrange(len(copy) + 1)
                copy[at:at] = copy[piece : piece + chance.randint(1, 32)]
    return bytes(copy)


def seeds() -> list[bytes]:
    """Sound files, small ones, of all that a file may hold."""
    node: dict[str, Any] = {"tag": [65, 66], "left": None, "right": None}
    node["left"] = {"tag": [67, 68], "left": node, "right": None}
    trees = io.BytesIO()
    with FileWriter(trees) as writer:
        writer.data(TREE, {"n": 2, "roots": [node, node]})
        writer.data(TREE, {"n": 0, "roots": None})
    return [sample(), sample(indexed=True), trees.getvalue()]


def read_all(data: bytes) -> None:
    """Reads a file in every way, and continues after bad records."""
    scanner = Scanner(data)
    with suppress(PbioError):
        for item in scanner.items():
            with suppress(PbioError):
                if item.kind is ItemKind.COMMENT:
                    scanner.comment(item)
                elif item.kind is ItemKind.DATA:
                    record_to_json(scanner.format_of(item), scanner.read(item))
    with suppress(PbioError):
        list(items_to_json(Scanner(data)))
    with suppress(PbioError):
        read_index(Scanner(data))
    for indexed in (False, True):
        with suppress(PbioError):
            FileWriter(io.BytesIO(data), indexed=indexed, append=True).close()


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_files(seed: int) -> None:
    chance = random.Random(seed)
    sound = seeds()
    for _ in range(DAMAGED // len(SEEDS)):
        read_all(damage(chance.choice(sound), chance))


@pytest.mark.parametrize("path", ffs_files("generated/*.ffs", "foreign/*.ffs", "golden/*_output.sun8.bin"))
def test_damaged_files_of_the_corpus(path: Any) -> None:
    data = path.read_bytes()[:20_000]
    chance = random.Random(path.name)
    for _ in range(500 if LONG else 5):
        read_all(damage(data, chance))


def test_damaged_files_take_little_memory() -> None:
    chance = random.Random(1)
    sound = seeds()
    read_all(sound[0])  # what is loaded or remembered once does not count
    for _ in range(DAMAGED // 20):
        data = damage(chance.choice(sound), chance)
        tracemalloc.start()
        read_all(data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4_000_000


def holds(value: Any) -> Iterator[Any]:
    """All lists and dicts that a value holds, each once."""
    seen: dict[int, Any] = {}
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict | list) and id(part) not in seen:
            seen[id(part)] = part
            waiting += part.values() if isinstance(part, dict) else part
    yield from seen.values()


@settings(
    max_examples=5_000 if LONG else 400,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data(), st.integers(0, 2**32))
def test_what_a_damaged_record_decodes_to_is_sound(data: st.DataObject, seed: int) -> None:
    form = data.draw(formats())
    record = encode(form, data.draw(values(form)))
    chance = random.Random(seed)
    for _ in range(10):
        base = bytearray(damage(record[form.header_size :], chance))
        bad = record[: form.header_size] + bytes(base[: len(record) - form.header_size])
        bad += bytes(len(record) - len(bad))
        found = outcome(form, bad)
        if isinstance(found, PbioError):
            assert found.code in {"PBIO_BAD_POINTER", "PBIO_BAD_STRING", "PBIO_RECORD_EXPANDS"}
            assert found.field is not None
        elif not any(part == [] for part in holds(found)):  # an empty array comes back as None
            assert same_values(outcome(form, encode(form, found)), found)


def outcome(form: Format, record: bytes) -> dict[str, Any] | PbioError:
    try:
        return decode(form, record, strict=False)
    except PbioError as error:
        return error
