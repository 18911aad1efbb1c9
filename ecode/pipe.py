"""What a command does when whoever reads its output has gone, such as `head`."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

GONE = 141
"""What a shell says of a program that SIGPIPE ended: 128 and the signal's number."""


@contextmanager
def ends_with_its_reader() -> Iterator[None]:
    """End quietly with exit code `GONE` when standard output is a pipe that nobody reads any more.

    The signal itself would also end a process whose connection to a bucket breaks.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        # click makes an exit with code 1 of it.
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        if not is_reader_gone():
            raise
        # Nothing may be written to it any more, not even by Python at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(GONE)


def is_reader_gone() -> bool:
    """Whether standard output is a pipe that nobody reads any more.

    A `BrokenPipeError` does not say which pipe broke; it may be a connection to another machine.
    """
    if not hasattr(select, "poll"):
        return True
    looked = select.poll()
    looked.register(1, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in looked.poll(0))
