"""What the tests of streams publish."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pbio_spark.channels import ChannelSpace

NOW = timedelta(0)
EARLIEST = {"startingOffsets": "earliest"}


def publish(space: ChannelSpace, *numbers: int, channel: str = "counts", **more: Any) -> None:
    space.channel(channel).submit([{"n": n} for n in numbers], **more)
