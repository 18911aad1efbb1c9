"""Public calls with one odd argument: each ends in an error of the package, with a code, or in a right result.

`PBIO_LONG=1` tries every odd value in every place.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest

import pbio_spark as pbio
from ecode import EcodeError
from morph import MorphError

ODD: list[Any] = [
    *(None, True, 0, -1, 2**31, 2**63, -(2**63), 2**64, 1.5, math.nan, math.inf, np.int64(3), Decimal("1.5")),
    *("", " ", "x", "\ud800", "a\0b", "é" * 300, "{", "{}", '{"a": {"b": "int32"}}', "( *", b"", b"\xff\0"),
    *([], [None], {}, {"": ""}, {1: 2}, (), object(), len, pa.table({"x": [1]}), Path("nowhere")),
    *(datetime(1, 1, 1), datetime(2026, 1, 31, tzinfo=UTC), timedelta(-1), timedelta.max),
]
TRIED = len(ODD) if os.environ.get("PBIO_LONG") else 5
Found: TypeAlias = "tuple[Any, Any] | None"
"""What a call gave, and what is right; None if only errors are looked at."""

LOAD = pbio.parse_record({"Load": {"host": "string", "load": "float64"}})
FORMAT = pbio.Format.of(LOAD)
ROW: dict[str, Any] = {"host": "a", "load": 0.5}
DATA = pbio.encode(FORMAT, ROW)


def shown(row: Mapping[str, Any]) -> tuple[Any, Any]:
    """The values of a row; NaN, which is not equal to itself, as None."""
    return row["host"], row["load"] if row["load"] == row["load"] else None


class Calls:
    """Calls by name, with arguments that are right."""

    def __init__(self) -> None:
        with pbio.open_writer("a.ffs", LOAD) as writer:
            writer.write([ROW, {"host": "b", "load": 2.0}])
        self.space = pbio.ChannelSpace.create("space")
        self.channel = self.space.create_channel("c", LOAD)
        self.channel.submit(ROW, producer="p", sequence=0)
        self.space.derive_channel("d", "c", filter="{ return input.load > param.m; }", parameters={"m": 0.0})

    def parse_record(self, text: Any = {"L": {"a": "int32"}}) -> Found:  # noqa: B006 - it never changes
        record = pbio.parse_record(text)
        return pbio.parse_record(pbio.record_to_json(record)), record

    def record_to_json(self, record: Any = LOAD) -> None:
        pbio.record_to_json(record)

    def format_of(self, record: Any = LOAD, machine: Any = "native") -> Found:
        return pbio.Format.of(record, machine=machine).record, record

    def encode(self, form: Any = FORMAT, values: Any = ROW) -> Found:
        return pbio.decode(form, pbio.encode(form, values)), values

    def decode(self, form: Any = FORMAT, data: Any = DATA) -> Found:
        return pbio.decode(form, data), ROW

    def values(self, host: Any = "a", load: Any = 1.0) -> Found:
        values = {"host": host, "load": load}
        with pbio.open_writer("values.ffs", LOAD) as writer:
            writer.write(values)
        self.channel.submit(values)
        (*_, event) = self.channel.subscribe(start="earliest").events()
        (row,) = pbio.read("values.ffs")
        wanted = host.decode() if isinstance(host, bytes) else host, float(load)
        return [shown(event.values), shown(row)], [wanted] * 2 if load == load else [(wanted[0], None)] * 2

    def read_arrow(self, paths: Any = "a.ffs", columns: Any = None, **options: Any) -> Found:
        table = pbio.read_arrow(paths, columns=columns, **options)
        wanted = ["host", "load"] if columns is None else list(dict.fromkeys(columns))
        return (table.column_names, table.num_rows), (wanted, 2)

    def options(
        self,
        filter: Any = None,  # noqa: A002
        mode: Any = None,
        recordsPerBatch: Any = None,  # noqa: N803
        readerFormat: Any = None,  # noqa: N803
    ) -> Found:
        given = {"filter": filter, "mode": mode, "recordsPerBatch": recordsPerBatch, "readerFormat": readerFormat}
        return pbio.read_arrow("a.ffs", **given).to_pylist(), [ROW, {"host": "b", "load": 2.0}]

    def read(self, paths: Any = "a.ffs", columns: Any = None) -> Found:
        rows = list(pbio.read(paths, columns=columns))
        return len(rows), 2

    def read_formats(self, paths: Any = "a.ffs") -> Found:
        return list(pbio.read_formats(paths)), [FORMAT]

    def open_writer(
        self, path: Any = "w.ffs", type_: Any = LOAD, beside: Any = (), rows: Any = ROW, machine: Any = None
    ) -> None:
        with pbio.open_writer(path, type_, beside=beside, machine=machine) as writer:
            writer.write(rows)

    def file_writer(self, path: Any = "f.ffs", form: Any = FORMAT, values: Any = ROW, comment: Any = "c") -> None:
        with pbio.FileWriter(path) as writer:
            writer.data(form, values)
            writer.comment(comment)

    def evolve(self, old: Any = FORMAT, new: Any = FORMAT, ecode: Any = "{ old.load = 1; }") -> None:
        pbio.evolve(old, new, ecode)

    def store(self, root: Any = "space", format_id: Any = FORMAT.id, form: Any = FORMAT) -> None:
        store = pbio.FolderStore(root)
        store.put(form)
        store.get(format_id)

    def open_space(self, root: Any = "space", concentrator: Any = "auto") -> None:
        pbio.ChannelSpace.open(root, concentrator=concentrator)

    def create_space(self, root: Any = "other") -> None:
        pbio.ChannelSpace.create(root, exist_ok=True)

    def create_channel(self, name: Any = "new", type_: Any = LOAD, keep: Any = "always") -> None:
        self.space.create_channel(name, type_, keep=keep, exist_ok=True)

    def derive_channel(self, name: Any = "e", parent: Any = "c", filter: Any = "{ return 1; }") -> None:  # noqa: A002
        self.space.derive_channel(name, parent, filter=filter, exist_ok=True)

    def set_parameters(self, channel: Any = "d", values: Any = {"m": 1.0}) -> Found:  # noqa: B006
        before = self.space.parameters("d")
        self.space.set_parameters(channel, values)
        return self.space.parameters("d"), {**before, **values}

    def find(self, channel: Any = "c", producer: Any = "p") -> None:
        self.space.channel(channel).last_sequence(producer)

    def submit(
        self, events: Any = ROW, form: Any = None, producer: Any = None, sequence: Any = None, event_time: Any = None
    ) -> None:
        self.channel.submit(events, format=form, producer=producer, sequence=sequence, event_time=event_time)

    def publish(self, channel: Any = "c", events: Any = [ROW], transaction: Any = None, columns: Any = None) -> None:  # noqa: B006
        columns = pbio.Columns() if columns is None else columns
        self.space.publish([pbio.Submission(channel, events, columns=columns)], transaction=transaction)

    def publish_many(self, submissions: Any = [], delivery: Any = "async", sync_timeout: Any = 0) -> None:  # noqa: B006
        self.space.publish(submissions, delivery=delivery, sync_timeout=sync_timeout)

    def columns(self, channel: Any = None, producer: Any = None, sequence: Any = None, event_time: Any = None) -> None:
        columns = pbio.Columns(channel, producer, sequence, event_time)
        self.space.publish([pbio.Submission("c", pa.table({"host": ["a"], "load": [1.0]}), columns=columns)])

    def subscribe(
        self,
        start: Any = "earliest",
        name: Any = None,
        filter: Any = None,  # noqa: A002
        mode: Any = "FAILFAST",
        on_reject: Any = "fail",
        expire_after: Any = timedelta(1),
    ) -> None:
        given = {"filter": filter, "mode": mode, "on_reject": on_reject, "expire_after": expire_after}
        list(self.channel.subscribe(start=start, name=name, **given).events())

    def handlers(self, handlers: Any = None) -> None:
        self.channel.subscribe(handlers)

    def timeout(self, timeout: Any = 0) -> None:
        next(self.channel.subscribe(start="earliest").events(timeout))

    def upkeep(self, small: Any = 1, target: Any = 1, grace: Any = timedelta(1), linger: Any = timedelta(1)) -> None:
        self.space.compact(small=small, target=target)
        self.space.vacuum(grace=grace, linger=linger)


NAMES = sorted(name for name in vars(Calls) if not name.startswith("_"))


@pytest.mark.parametrize("name", NAMES)
def test_one_odd_argument(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call: Callable[..., Found] = getattr(Calls(), name)
    call()
    code = getattr(Calls, name).__code__
    for argument in code.co_varnames[1 : code.co_argcount]:
        for odd in Random(f"{name} {argument}").sample(ODD, TRIED):
            said = "["
            found: Found = None
            try:
                found = call(**{argument: odd})
            except (pbio.PbioError, MorphError, EcodeError) as error:
                said = str(error)
            except Exception as error:
                raise AssertionError(f"{name}({argument}={str(odd)[:40]!r}) ended in {error!r}") from error
            assert said.startswith("["), (argument, odd, said)
            said.encode()
            assert found is None or found[0] == found[1], (argument, odd, found)
