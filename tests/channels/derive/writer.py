"""A process that publishes numbered ticks until a file is there, and may be killed at any time."""

from __future__ import annotations

import time
from pathlib import Path

from pbio_spark.channels import ChannelSpace

SIZE = 3
"""How many ticks a commit has."""


def main(root: str, producer: str, stop: str) -> None:
    """Continue after the known ticks, and submit the last of these again."""
    ticks = ChannelSpace.open(root).channel("ticks")
    last = ticks.last_sequence(producer)
    start = 0 if last is None else max(0, last - SIZE)
    while not Path(stop).exists():
        events = [
            {"n": n, "x": float(n * 7919 % 101), "name": f"{producer}{n % 5}"} for n in range(start, start + SIZE)
        ]
        ticks.submit(events, producer=producer, sequence=start)
        start += SIZE
        print(start, flush=True)
        time.sleep(0.01)
