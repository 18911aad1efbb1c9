"""Spaces of random events."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from ecode.types import INT64, STRING, Field, record
from pbio_spark.channels import ChannelSpace, Columns, RecordPreparer, Records, Submission
from pbio_spark.formats import Format
from pbio_spark.wire import FileWriter, ItemKind, Scanner
from tests.channels.spaces import NEW, OLD
from tests.source.files.skipping.made import FORMATS, values_for

COMMON = record("r", [Field("a", INT64), Field("s", STRING)])
"""What all formats of the one channel have; the other one has those of loads."""
OF_CHANNEL = {"r": FORMATS, "loads": [OLD, NEW]}


def new_space(root: str) -> ChannelSpace:
    space = ChannelSpace.create(root)
    space.create_channel("r", COMMON)
    space.create_channel("loads", OLD)
    space.derive_channel("above", "r", filter="{ return input.a > 30; }")
    space.derive_channel(
        "twice", "r", transform="{ output.a = 2 * input.a; output.s = input.s; return 1; }", type=COMMON
    )
    return space


def publish_records(
    space: ChannelSpace, channel: str, chance: random.Random, formats: Sequence[Format], first: int, count: int
) -> None:
    """Records of some formats as they are, whose values grow, with odd ones between."""
    file, numbers = io.BytesIO(), []
    with FileWriter(file) as writer:
        for row in range(count):
            number = row * len(formats) // count if chance.random() < 0.95 else chance.randrange(len(formats))
            value = values_for(chance, formats[number], first + row)
            if "cpus" in value:
                value["cpus"] = chance.choice((1, 2, 4))
            writer.data(formats[number], value)
            numbers.append(number)
    data = file.getvalue()
    items = [data[item.offset : item.end] for item in Scanner(data).items() if item.kind is ItemKind.DATA]
    offsets = np.cumsum([0, *map(len, items)])
    who = chance.choice((None, "p"))
    made = Records(channel, b"".join(items), offsets, tuple(formats), np.array(numbers, np.int32), who)
    space.publisher.publish([RecordPreparer(space.formats).prepare(made, space.find)])


def publish_rows(space: ChannelSpace, chance: random.Random, first: int, count: int) -> None:
    """Rows in the channel's own format, of some producers, with numbers and times of their own."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "a": first + row,
            "s": "x" * chance.randrange(30),
            "who": chance.choice("pqr"),
            "number": 1000 * first + row * chance.choice((1, 2)),
            "when": start + timedelta(seconds=row),
        }
        for row in range(count)
    ]
    if chance.random() < 0.3:
        chance.shuffle(rows)
    numbered = Columns(producer="who", sequence="number", event_time="when")
    columns = chance.choice((Columns(producer="who"), numbered, Columns(event_time="when"), Columns()))
    kept = [{name: row[name] for name in ("a", "s", *columns.names)} for row in rows]
    more = {} if columns.names or chance.random() < 0.5 else {"producer": "only", "sequence": 1000 * first}
    space.publish([Submission("r", pa.Table.from_pylist(kept), columns=columns, **more)])  # type: ignore[arg-type]
