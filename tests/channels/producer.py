"""A process that publishes numbered events, and may be killed at any time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pbio_spark.channels import ChannelSpace, Submission
from pbio_spark.channels.log.files import Folder
from pbio_spark.errors import PbioError

STEPS = ("create", "read", "replace")
"""The calls by which a commit touches a store of any kind."""


def break_steps(failures: int, chance: random.Random) -> None:
    """Let so many of 10,000 steps fail, before they are done, or after they are done, without a reply."""

    def breaking(original: Callable[..., Any], code: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            fails = chance.randrange(10_000) < failures
            if fails and chance.randrange(2):
                raise PbioError(code, "broken")
            result = original(*args)
            if fails:
                raise PbioError(code, "broken")
            return result

        return call

    for name in STEPS:
        code = "PBIO_FILE_SYSTEM" if name == "read" else "PBIO_OUTCOME_UNKNOWN"
        setattr(Folder, name, breaking(getattr(Folder, name), code))


def main(root: str, producer: str, first: int, last: int, size: int, failures: int) -> None:
    """Publish the events `first` to `last - 1`, `size` in each commit, to the channels `a` and `b` by turns.

    What fails is published again until it does not.
    """
    space = ChannelSpace.open(root)
    break_steps(failures, random.Random(producer))
    for start in range(first, last, size):
        for name in "ab":
            numbers = range(start, min(start + size, last))
            submission = Submission(name, [{"n": n} for n in numbers], producer=producer, sequence=start)
            while not is_published(space, submission):
                pass
        print(start + size, flush=True)


def is_published(space: ChannelSpace, submission: Submission) -> bool:
    try:
        space.publish([submission])
    except PbioError as error:
        if not error.reason.endswith("broken"):
            raise
        return False
    return True
