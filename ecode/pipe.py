"""What a command does when the reader of its output has gone, as `head` does."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

GONE = 141
"""The exit code that shells report after SIGPIPE: 128 plus the number of the signal."""


@contextmanager
def ends_with_its_reader() -> Iterator[None]:
    """End quietly with exit code `GONE` when standard output is a pipe without a reader.

    The signal itself would also end a process whose connection to a bucket breaks.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        # click turns it into an exit with code 1.
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        if not is_reader_gone():
            raise
        # Nothing may write to it any more, not even Python when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(GONE)


def is_reader_gone() -> bool:
    """Whether standard output is a pipe without a reader.

    A `BrokenPipeError` does not say which pipe broke; it may be a connection to another machine.
    """
    if not hasattr(select, "poll"):
        return True
    looked = select.poll()
    looked.register(1, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in looked.poll(0))
