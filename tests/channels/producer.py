"""A process that publishes numbered events, and may be killed at any time: `python -m tests.channels.producer`."""

from __future__ import annotations

import sys

from pbio_spark.channels import ChannelSpace, Submission


def main(root: str, producer: str, first: int, last: int, size: int) -> None:
    """Publish the events `first` to `last - 1`, `size` in each commit, to the channels `a` and `b` by turns."""
    space = ChannelSpace.open(root)
    for start in range(first, last, size):
        for name in "ab":
            numbers = range(start, min(start + size, last))
            rows = [{"n": n} for n in numbers]
            space.publish([Submission(name, rows, producer=producer, sequence=start)])
        print(start + size, flush=True)


if __name__ == "__main__":
    root, producer, *numbers = sys.argv[1:]
    main(root, producer, *map(int, numbers))
