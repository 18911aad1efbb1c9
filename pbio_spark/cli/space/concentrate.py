"""`pbio space concentrate`: one committer for the processes of a machine."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Annotated

import typer

from pbio_spark.cli.console import printable
from pbio_spark.cli.space.derive import Root

if TYPE_CHECKING:
    from pbio_spark.channels import Concentrator

_REPORT = 10.0
"""Seconds between two lines."""
_LOOK = 0.1


def concentrate(
    root: Root,
    linger: Annotated[
        float, typer.Option(metavar="MS", min=0, max=10_000, help="How long a publication may wait for others.")
    ] = 3,
    waiting: Annotated[
        int, typer.Option(metavar="BYTES", min=1, help="The most that waits for a commit; further senders wait.")
    ] = 64 << 20,
    publication: Annotated[
        int, typer.Option(metavar="BYTES", min=1, help="Writers commit larger publications themselves.")
    ] = 4 << 20,
    seconds: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0, help="Stop after so long, instead of at SIGTERM.")
    ] = None,
) -> None:
    """Commit for the writers of this machine and user, many publications at once, until SIGINT or SIGTERM. They find
    it by themselves, and publish on their own without it.

    \b
    Example:
      pbio space concentrate space --for 0.1
    """
    from pbio_spark.channels import ChannelSpace, Concentrator, ConcentratorLimits

    signals: list[int] = []

    def stop(number: int, _: object) -> None:
        signals.append(number)
        signal.signal(number, signal.SIG_DFL)  # a second signal ends a process whose disk does not answer

    limits = ConcentratorLimits(linger / 1000, publication, waiting)
    made = Concentrator(ChannelSpace.open(root, concentrator="off"), limits)
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    end = None if seconds is None else time.monotonic() + seconds
    with made:
        print(f"{printable(root)}: process {made.process} commits for the writers at {made.place.socket}", flush=True)
        reported, due = 0, time.monotonic() + _REPORT
        while not signals and made.failure is None and (end is None or time.monotonic() < end):
            time.sleep(_LOOK if end is None else max(0, min(_LOOK, end - time.monotonic())))
            if time.monotonic() >= due:
                if made.totals.publications != reported:
                    print(f"{printable(root)}: {_said(made)}, writers: {made.writers}", flush=True)
                reported, due = made.totals.publications, time.monotonic() + _REPORT
    for number, handler in before.items():
        signal.signal(number, handler)
    print(f"{printable(root)}: {_said(made)}")
    if made.failure is not None:
        raise made.failure


def _said(made: Concentrator) -> str:
    totals = made.totals
    return f"publications: {totals.publications}, events: {totals.events}, commits: {totals.commits}"
