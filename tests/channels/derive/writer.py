"""A process that publishes numbered ticks, and may be killed at any time: `python -m tests.channels.derive.writer`."""

from __future__ import annotations

import sys

from pbio_spark.channels import ChannelSpace


def main(root: str, producer: str, last: int, size: int) -> None:
    """Publish the ticks up to a number, `size` in each commit; what is known is left out."""
    ticks = ChannelSpace.open(root).channel("ticks")
    for start in range(0, last, size):
        numbers = range(start, min(start + size, last))
        events = [{"n": n, "x": float(n * 7919 % 101), "name": f"{producer}{n % 5}"} for n in numbers]
        ticks.submit(events, producer=producer, sequence=start)
        print(start + size, flush=True)


if __name__ == "__main__":
    root, producer, *numbers = sys.argv[1:]
    main(root, producer, *map(int, numbers))
