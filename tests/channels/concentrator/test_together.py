"""Publications that a concentrator checks in one pass are judged as each is alone, and only those at fault fail."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ecode.types import FLOAT64, STRING, Field, record
from pbio_spark.channels import Channel, ChannelSpace, Columns, Concentrator, ConcentratorLimits, Prepared, Submission
from pbio_spark.channels.commits.groups import ROW, groups_to_json
from pbio_spark.channels.concentrator.frames import frame
from pbio_spark.channels.concentrator.parcel import (
    Part,
    message_to_parts,
    parts_to_prepared,
    prepared_to_message,
)
from pbio_spark.channels.publish.prepare import Preparer
from pbio_spark.channels.publish.submission import stored_format
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.errors import PbioError
from tests.channels.concentrator.test_hostile import answer, connected, lie, message
from tests.channels.spaces import COUNT, again, values

pytestmark = pytest.mark.usefixtures("sockets")


@pytest.fixture
def counts(space: ChannelSpace) -> Channel:
    space.create_channel("quotes", record("quote", [Field("name", STRING), Field("price", FLOAT64)]))
    return space.create_channel("counts", COUNT)


@pytest.fixture
def concentrator(counts: Channel) -> Iterator[Concentrator]:
    """One that waits so long that all who are expected come into one commit."""
    with Concentrator(again(counts.space), ConcentratorLimits(linger=1)) as made:
        yield made


def events_of(counts: Channel, chance: random.Random) -> list[Prepared]:
    """A publication of one or two formats, and of groups with and without numbers of their own."""
    space = counts.space
    numbers = sorted(chance.sample(range(50), chance.randint(1, 6)))
    who = [chance.choice("ab") for _ in numbers]
    table = pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int32()), "k": numbers, "who": who})
    submissions = [
        Submission("counts", table, columns=Columns(producer="who", sequence="k")),
        Submission("quotes", [{"name": "x" * n, "price": n / 8} for n in numbers], producer="p", sequence=numbers[0]),
    ]
    chosen = chance.sample(submissions, chance.randint(1, 2))
    return Preparer(space.formats).prepare_all(chosen, space.find)


def look(said: Any, body: bytes, counts: Channel) -> list[Part] | None:
    formats = counts.space.formats
    try:
        return message_to_parts(said["parts"], memoryview(body), lambda name: stored_format(name, formats))
    except PbioError:
        return None


def plain(found: list[Prepared] | PbioError) -> object:
    """What can be compared."""
    if isinstance(found, PbioError):
        return found.reason
    return [
        (one.format, one.encoded.buffer.to_pybytes(), one.encoded.offsets.tolist(), groups_to_json(one.groups))
        for one in found
    ]


@pytest.mark.parametrize("seed", range(60))
def test_one_pass_over_all_judges_each_as_if_it_were_alone(counts: Channel, seed: int) -> None:
    chance = random.Random(seed)
    messages = []
    for _ in range(5):
        said, buffers = prepared_to_message(events_of(counts, chance))
        whole: tuple[dict[str, Any], bytes] = {"kind": "publish", "parts": said}, b"".join(buffers)
        parts = look(*(lie(*whole, chance) if chance.random() < seed % 3 / 10 else whole), counts)
        messages += [] if parts is None else [parts]
    together = [plain(one) for one in parts_to_prepared(messages)]
    assert together == [plain(one) for parts in messages for one in parts_to_prepared([parts])]
    assert len(together) == len(messages)


def test_events_that_borrow_from_the_next_publication_are_refused(counts: Channel) -> None:
    """Their sum is right, and together with the next one all would be contiguous."""
    events = Preparer(counts.space.formats).prepare_all([Submission("counts", [{"n": 1}, {"n": 2}])], counts.space.find)
    (parts,) = [look({"parts": said}, b"".join(buffers), counts) for said, buffers in [prepared_to_message(events)]]
    assert parts is not None
    (part,) = parts
    rows = [np.frombuffer(part.rows, ROW).copy() for _ in range(2)]
    rows[0]["count"], rows[1]["count"], rows[1]["ordinal"] = 3, 1, 1
    size = len(part.items) // 2
    rows[0]["end"], rows[1]["start"] = 3 * size, size
    made = parts_to_prepared([[replace(part, rows=memoryview(one.tobytes()))] for one in rows])
    assert [type(one) for one in made] == [PbioError, PbioError]


def test_one_that_lies_fails_alone(counts: Channel, concentrator: Concentrator) -> None:
    """Eight wait for the same commit; the lies of four leave what the others published."""
    said, body = message(counts)
    bad = bytes([body[0] ^ 1]) + body[1:]
    answers: list[Any] = [None] * 8

    def publish(i: int) -> None:
        connection = connected(concentrator, counts.space.id)
        start.wait()
        connection.sendall(b"".join(frame(said, [bad if i % 2 else body])))
        answers[i] = answer(connection)
        connection.close()

    start = threading.Barrier(8)
    threads = [threading.Thread(target=publish, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one["kind"] for one in answers] == ["done", "failed"] * 4
    assert sum(one["events"] for one in answers[::2]) == 4
    assert len(values(counts)) == 4
    assert list(problems(again(counts.space))) == []
