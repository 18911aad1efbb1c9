"""A process that publishes, and may be killed.

It publishes the same numbers twice, until there is a file `stop`: as the producer `name` on the channel `a`, with
sequence numbers, from the one after the last that is there; and before that on the channel `b`, without sequence
numbers, as a producer whose name no other process has. It says `try N`, `did N` and `put N` before, between and after.
"""

from __future__ import annotations

import os
import random
import time

from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.concentrator import client


def main(root: str, name: str, use: str, seed: str, stop: str, patience: float) -> None:
    """
    Args:
        patience: seconds that the concentrator may say nothing, and until it is asked again then.
    """
    chance = random.Random(f"{name} {seed}")
    client._AGAIN = patience
    space = ChannelSpace.open(root, concentrator=use, concentrator_timeout=patience)  # type: ignore[arg-type]
    a, b = space.channel("a"), space.channel("b")
    last = a.last_sequence(name)
    at = 0 if last is None else last + 1
    own = f"{name} {os.getpid()}"
    while not os.path.exists(stop):
        end = at + chance.randint(1, 4)
        rows = [{"n": n} for n in range(at, end)]
        print("try", at, flush=True)
        done = b.submit(rows, producer=own)
        assert (done.events, done.known) == (len(rows), 0)
        print("did", at, flush=True)
        first = at if chance.randrange(4) else max(0, at - 2)
        done = a.submit([{"n": n} for n in range(first, end)], producer=name, sequence=first)
        assert (done.events, done.known) == (end - at, at - first)
        print("put", at, flush=True)
        at = end
        time.sleep(chance.uniform(0, 0.06))  # all that is published is read at the end
