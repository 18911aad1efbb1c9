"""Bad input on the socket: garbage, false claims, silence, and a sudden end. Other writers do not notice."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pbio_spark.channels import Channel, ChannelSpace, Columns, Concentrator, ConcentratorLimits, Prepared, Submission
from pbio_spark.channels.commits.groups import ROW
from pbio_spark.channels.concentrator import server, visitor
from pbio_spark.channels.concentrator.frames import PREFIX, PROTOCOL, frame, word
from pbio_spark.channels.concentrator.joint import Announce, Publication
from pbio_spark.channels.concentrator.parcel import (
    Lookup,
    message_to_parts,
    parts_to_prepared,
    prepared_to_message,
    size_of,
)
from pbio_spark.channels.concentrator.place import is_own_peer
from pbio_spark.channels.concentrator.visitor import Allowance
from pbio_spark.channels.publish.prepare import Preparer
from pbio_spark.channels.publish.publisher import Publisher
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from tests.channels.spaces import COUNT, again, values

pytestmark = pytest.mark.usefixtures("sockets")

TIMES = 20_000 if os.environ.get("PBIO_LONG") else 300


@pytest.fixture
def counts(space: ChannelSpace) -> Channel:
    return space.create_channel("counts", COUNT)


@pytest.fixture
def concentrator(counts: Channel) -> Iterator[Concentrator]:
    limits = ConcentratorLimits(publication=100_000, waiting=300_000)
    with Concentrator(again(counts.space), limits) as made:
        yield made


def connected(concentrator: Concentrator, space: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(60)
    made.connect(concentrator.place.socket)
    made.sendall(frame({"kind": "hello", "protocol": PROTOCOL, "space": space})[0])
    assert (word(made) or {})["kind"] == "welcome"
    return made


def prepared(counts: Channel) -> list[Prepared]:
    rows = pa.RecordBatch.from_pydict(
        {"n": pa.array([5, 6, 7, 8], pa.int32()), "k": [1, 4, 5, 9], "who": ["x", "x", "y", "y"]}
    )
    submission = Submission("counts", rows, columns=Columns(producer="who", sequence="k"))
    return Preparer(counts.space.formats).prepare(submission, counts.space.find)


def message(counts: Channel) -> tuple[dict[str, Any], bytes]:
    said, buffers = prepared_to_message(prepared(counts))
    return {"kind": "publish", "control": None, "parts": said}, b"".join(buffers)


def opened(said: Any, buffers: list[Any], lookup: Lookup) -> list[Prepared]:
    """The events of a message. Raises PBIO_BAD_VALUE."""
    body = memoryview(bytearray(b"".join(buffers)))
    (made,) = parts_to_prepared([message_to_parts(said, body, lookup)])
    if isinstance(made, PbioError):
        raise made
    return made


def answer(connection: socket.socket) -> dict[str, Any] | None:
    """The last message; None if the connection ends."""
    try:
        while (said := word(connection)) is not None and said["kind"] == "trying":
            pass
    except OSError:
        return None
    return said


def test_events_come_back_as_they_were(counts: Channel) -> None:
    events = prepared(counts)
    said, buffers = prepared_to_message(events)
    body = b"".join(buffers)
    assert len(body) + len(json.dumps(said)) <= size_of(events) + 200
    (one,) = opened(json.loads(json.dumps(said)), buffers, lambda _: counts.format)
    (other,) = events
    assert one.groups == other.groups
    assert one.format == other.format
    assert one.encoded.buffer.to_pybytes() == other.encoded.buffer.to_pybytes()
    assert one.encoded.offsets.tolist() == other.encoded.offsets.tolist()
    assert {i: own.tolist() for i, own in one.groups.sequences.items()} == {0: [1, 4], 1: [5, 9]}


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 3,
        PREFIX.pack(b"pbc\x01", 2**32 - 1, 0),
        PREFIX.pack(b"pbc\x01", 10, 2**63),
        PREFIX.pack(b"pbc\x01", 10, 100_000),
        PREFIX.pack(b"pbc\x01", 4, 0) + b"\xff\x00[]",
        PREFIX.pack(b"pbc\x01", 2, 0) + b"[]",
        frame({"kind": "hello"})[0],
        b"",
    ],
)
def test_what_is_not_a_publication_ends_the_connection(
    counts: Channel, concentrator: Concentrator, sent: bytes
) -> None:
    with connected(concentrator, counts.space.id) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        assert answer(connection) is None
    assert counts.submit([{"n": 1}]).events == 1
    assert concentrator.totals.publications == 1


def test_a_writer_that_ends_in_the_middle_has_published_nothing(counts: Channel, concentrator: Concentrator) -> None:
    said, body = message(counts)
    whole = b"".join(frame(said, [body]))
    for end in (1, PREFIX.size - 1, PREFIX.size, PREFIX.size + 5, len(whole) - len(body), len(whole) - 1):
        with connected(concentrator, counts.space.id) as connection:
            connection.sendall(whole[:end])
    with connected(concentrator, counts.space.id) as connection:
        connection.sendall(whole)
        assert answer(connection) == {"kind": "done", "version": 2, "events": 4, "known": 0}
    assert counts.submit([{"n": 1}]).version == 3
    assert len(values(counts)) == 5


def test_a_writer_that_falls_silent_in_the_middle_is_given_up(
    counts: Channel, concentrator: Concentrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitor, "_PATIENCE", 0.05)
    said, body = message(counts)
    whole = b"".join(frame(said, [body]))
    with connected(concentrator, counts.space.id) as connection:
        connection.sendall(whole[:-1])
        assert answer(connection) is None
    assert counts.submit([{"n": 1}]).events == 1


def lie(said: dict[str, Any], body: bytes, chance: random.Random) -> tuple[dict[str, Any], bytes]:
    """The same message with something else in it."""
    made = json.loads(json.dumps(said))
    part = made["parts"][0]
    match chance.randrange(5):
        case 0:
            name = chance.choice(["groups", "events", "bytes"])
            part[name] = chance.choice([0, -1, 2**62, 2**63, "3", None, part[name] + 1, part[name] - 1, 1.5])
        case 1:
            name = chance.choice([*part, "sequences", "event_times"])
            part[name] = chance.choice([[], {}, "x", None, 7, [[0, 1]], [[0, 2**40]], [["a", 1]], ["\0"], [[0, 2]] * 2])
        case 2:
            made["parts"] = chance.choice([[], None, {}, [None], [part, part], "parts"])
        case 3:
            at = chance.randrange(len(body) // 8) * 8
            number = chance.choice([-1, 0, 1, 2**31, 2**61, 2**62, 2**63 - 1, -(2**63), chance.randrange(300)])
            body = body[:at] + struct.pack("<q", number) + body[at + 8 :]
        case _:
            at = chance.randrange(len(body))
            body = body[:at] + bytes([body[at] ^ (1 << chance.randrange(8))]) + body[at + 1 :]
    return made, body[: chance.choice([len(body)] * 9 + [len(body) - 1, 0])]


def test_lies_are_refused_or_sound(counts: Channel, concentrator: Concentrator) -> None:
    chance = random.Random(7)
    said, body = message(counts)
    refused = 0
    connection = connected(concentrator, counts.space.id)
    for _ in range(TIMES):
        connection.sendall(b"".join(frame(*_framed(lie(said, body, chance)))))
        got = answer(connection)
        assert got is not None
        assert got["kind"] in ("done", "failed")
        refused += got["kind"] == "failed"
    connection.close()
    assert refused > TIMES / 2
    assert counts.submit([{"n": 1}]).events == 1
    assert list(problems(again(counts.space))) == []
    values(counts)


def _framed(message: tuple[dict[str, Any], bytes]) -> tuple[dict[str, Any], list[bytes]]:
    return message[0], [message[1]] if message[1] else []


def test_offsets_that_wrap_around_are_refused(counts: Channel) -> None:
    said, buffers = prepared_to_message(prepared(counts))
    for offsets in ([0, 2**63 - 1, -(2**63) + 30, 56, 112], [0, -28, 28, 84, 112], [28, 0, 56, 84, 112]):
        buffers[1] = np.array(offsets, np.int64).tobytes()
        with pytest.raises(PbioError, match="contradicts itself"):
            opened(said, buffers, lambda _: counts.format)


def test_an_event_that_lacks_fields_is_refused(counts: Channel) -> None:
    """Filters and the values at a file's end read fields in place without looking where the record ends."""
    said, buffers = prepared_to_message(prepared(counts))
    form = counts.format
    record = b"".join((form.id, bytes(form.header_size - len(form.id) + form.structs[0].record_length - 1)))
    item = (3 << 56 | len(record)).to_bytes(8) + record
    rows = np.frombuffer(buffers[0], ROW).copy()
    offsets = np.arange(len(buffers[1]) // 8) * len(item)
    rows["start"], rows["end"] = offsets[rows["ordinal"]], offsets[rows["ordinal"] + rows["count"]]
    said[0]["bytes"] = int(offsets[-1])
    buffers[:2], buffers[2] = [rows.tobytes(), offsets.tobytes()], item * (len(offsets) - 1)
    with pytest.raises(PbioError, match="too short"):
        opened(said, buffers, lambda _: form)


def test_what_waits_has_a_limit_and_all_is_published(
    counts: Channel, concentrator: Concentrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is slow, and 8 writers hand over 1.6 MB at once, of which 300 kB may wait."""
    publish, taken, most = server.publish_each, [0], [0]
    take, give = Allowance.take, Allowance.give

    def counting(self: Allowance, size: int, sign: int = 1) -> bool:
        result = take(self, size)
        taken[0] += size
        most[0] = max(most[0], taken[0])
        return result

    def giving(self: Allowance, size: int) -> None:
        taken[0] -= size
        give(self, size)

    def slow(*args: Any) -> Any:
        time.sleep(0.02)
        return publish(*args)

    monkeypatch.setattr(Allowance, "take", counting)
    monkeypatch.setattr(Allowance, "give", giving)
    monkeypatch.setattr(server, "publish_each", slow)
    rows = pa.table({"n": pa.array(range(1500), pa.int32())})  # 42 kB, and 36 kB of offsets
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: counts.submit(rows).events, range(24))) == 24 * 1500
    assert concentrator.totals.publications == 24
    assert 100_000 < most[0] <= 300_000
    assert counts.submit(pa.table({"n": pa.array(range(5000), pa.int32())})).events == 5000
    assert concentrator.totals.publications == 24  # that was too large for it
    assert len(values(counts)) == 24 * 1500 + 5000


def test_room_is_given_to_the_first_who_asks() -> None:
    room, order = Allowance(10), []

    def ask(size: int) -> None:
        assert room.take(size)
        order.append(size)

    assert room.take(8)
    threads = []
    for size in (9, 1, 2):
        threads.append(threading.Thread(target=ask, args=(size,)))
        threads[-1].start()
        while len(room._asking) < len(threads):
            time.sleep(0.001)
    room.give(8)
    threads[0].join()
    assert order[0] == 9
    room.give(9)
    for thread in threads:
        thread.join()
    room.close()
    assert not room.take(1)


def test_a_process_of_another_user_is_not_served(
    counts: Channel, concentrator: Concentrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = socket.socketpair()
    assert is_own_peer(ends[0])
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 4_000_000)
        assert not is_own_peer(ends[0])
    for end in ends:
        end.close()
    monkeypatch.setattr(server, "is_own_peer", lambda _: False)
    assert counts.submit([{"n": 1}]).events == 1  # on its own
    assert concentrator.totals.publications == 0


def test_one_that_does_not_answer_is_not_waited_for(
    counts: Channel, concentrator: Concentrator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from pbio_spark.channels.concentrator import client

    monkeypatch.setattr(client, "_GREETING", 0.05)
    monkeypatch.setattr(visitor.Visitor, "greet", lambda *_: time.sleep(1) or False)
    assert counts.submit([{"n": 1}]).events == 1
    assert "does not answer" in caplog.text


def test_a_defect_sends_writers_to_the_log(
    counts: Channel, concentrator: Concentrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = server.publish_each

    def fails(*args: Any) -> Any:
        publish(*args)
        raise ZeroDivisionError

    monkeypatch.setattr(server, "publish_each", fails)
    assert counts.submit([{"n": 1}]).version == 2
    assert counts.submit([{"n": 2}]).version == 3
    assert len(values(counts)) == 2


def test_an_error_of_a_whole_commit_hits_only_the_publication_whose_it_is(
    counts: Channel, concentrator: Concentrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = server.publish_each

    def fails(publisher: Publisher, handed: Sequence[Publication], announce: Announce) -> Any:
        if any(one.events[0].groups.producers == ("bad",) for one in handed):
            raise PbioError("PBIO_BAD_VALUE", "bad", offset=np.int64(7))  # type: ignore[arg-type]
        return publish(publisher, handed, announce)

    def submit(name: str) -> object:
        try:
            return counts.submit([{"n": 1}], producer=name).events
        except PbioError as error:
            return error.code, error.offset

    monkeypatch.setattr(server, "publish_each", fails)
    names = ["good", "bad", *"abcdef"] * 3
    with ThreadPoolExecutor(len(names)) as pool:
        found = list(pool.map(submit, names))
    assert found == [("PBIO_BAD_VALUE", 7) if name == "bad" else 1 for name in names]
    assert len(values(counts)) == 21


def test_a_format_that_the_space_lacks_is_an_error_of_one_writer(
    counts: Channel, concentrator: Concentrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Preparer, "store", lambda *_: None)
    rows = pa.table({"n": pa.array([1], pa.int32()), "more": [1.5]})
    with pytest.raises(PbioError) as caught:
        counts.submit(rows)
    assert caught.value.code == "PBIO_UNKNOWN_FORMAT"
    assert counts.submit([{"n": 1}]).events == 1


def test_a_stopped_concentrator_leaves_no_file(counts: Channel) -> None:
    with Concentrator(again(counts.space)) as made:
        folder = Path(made.place.folder)
        assert len(list(folder.iterdir())) == 2
        made.stop()
        assert list(folder.iterdir()) == []
    assert isinstance(counts.format, Format)


def test_a_writer_that_does_not_wait_or_hangs_up_harms_only_itself(counts: Channel, concentrator: Concentrator) -> None:
    said, body = message(counts)
    whole = b"".join(frame(said, [body]))
    with connected(concentrator, counts.space.id) as connection:
        connection.sendall(whole * 2)
        assert (answer(connection) or {})["kind"] == "done"
        got = answer(connection)  # if the second one came before the answer to the first, that was the end
        assert got is None or (got["kind"], got["known"]) == ("done", 4)
    with connected(concentrator, counts.space.id) as connection:
        connection.sendall(b"".join(frame({**said, "control": -1}, [body])))
        connection.shutdown(socket.SHUT_WR)
        assert answer(connection) == {"kind": "stale"}  # the connection stays until then
        assert answer(connection) is None
    assert counts.submit([{"n": 1}]).version == 3
    assert len(values(counts)) == 5
    while concentrator.writers > 1:
        time.sleep(0.001)
