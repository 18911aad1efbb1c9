"""Shared by the tests of channels: types, and a look at the content of a channel."""

from __future__ import annotations

from typing import Any

from ecode.types import FLOAT64, INT32, INT64, STRING, Array, Field, record
from pbio_spark.channels import Channel, ChannelSpace, Event
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format

COUNT = record("count", [Field("n", INT32)])
READING = record(
    "reading", [Field("id", INT64), Field("name", STRING), Field("k", INT32), Field("v", Array(FLOAT64, ("k",)))]
)

OLD = record_to_format(record("load", [Field("average", FLOAT64)]))
NEW = evolve(
    OLD,
    record_to_format(record("load", [Field("total", FLOAT64), Field("cpus", INT32)]), "be32"),
    "{ old.average = new.total / new.cpus; }",
)
"""Two versions of a format, the new one with the way to the old one, and of another machine."""


def reading(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": f"reading {number}", "k": number % 3, "v": [0.5] * (number % 3), **more}


def everything(channel: Channel) -> list[Event]:
    return list(channel.subscribe(start="earliest").events())


def values(channel: Channel) -> list[dict[str, Any]]:
    return [event.values for event in everything(channel)]


def again(space: ChannelSpace) -> ChannelSpace:
    """The same space as another process sees it."""
    return ChannelSpace.open(space.root)
