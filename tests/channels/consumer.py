"""A process that keeps its events in a file, and may be killed at any time: `python -m tests.channels.consumer`.

It keeps an event before it acknowledges it, and leaves out those whose positions it has already.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pbio_spark.channels import ChannelSpace, Event, Position


def main(root: str, channel: str, kept: str) -> None:
    """Keep the events of a channel as lines of position, producer, sequence and number."""
    path = Path(kept)
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith("\n")]  # a last line may be torn
    path.write_text("".join(whole))
    last = Position.parse(whole[-1].split()[0]) if whole else Position(0)
    with path.open("a") as file:

        def keep(event: Event) -> None:
            if event.position > last:
                print(event.position, event.producer, event.sequence, event.values["n"], file=file, flush=True)

        ChannelSpace.open(root).channel(channel).subscribe(keep, start="earliest", name="keeper").run(timeout=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
