"""`period`: a program that may make events of its own, at the first commit after its time has passed.

The interpreter runs it once per producer, at most once per commit. It returns 0 for no event, 1 for the event in
`output`, and 2 for that event and another call, with `emitted` one higher.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import ecode
from pbio_spark.channels.commits.derivation import block_to_inputs
from pbio_spark.channels.derive.check import EMITTED
from pbio_spark.channels.derive.step import Statics
from pbio_spark.columns import PARAMETERS

MOST_EMITTED = 1000
"""The most events that one run may make."""


@dataclass(frozen=True, slots=True)
class Due:
    """Whether `period` is due.

    Attributes:
        runs: whether it is.
        ran: the time to record as its last run, in microseconds since 1970 UTC.
    """

    runs: bool
    ran: int


def due(ran: int, every: int, now: int) -> Due:
    """Whether `period` is due at a time, after it ran at another (0: it never did).

    The first event only starts the clock. A clock that jumps ahead causes one run; a clock that goes back by more than
    a period starts again.

    >>> due(0, 60, 1000), due(1000, 60, 1059), due(1000, 60, 1060), due(1000, 60, 9999), due(1000, 60, 900)
    (Due(runs=False, ran=1000), Due(runs=False, ran=1000), Due(runs=True, ran=1060), Due(runs=True, ran=9999), \
Due(runs=False, ran=900))
    """
    if ran == 0 or now < ran - every:
        return Due(False, now)
    return Due(True, now) if now - ran >= every else Due(False, ran)


def run_period(program: ecode.Program, values: Mapping[str, Any], statics: Statics) -> list[dict[str, Any]]:
    """The events that one run makes, as plain values; `statics` is updated.

    Raises ecode.Trap, with `statics` as it was, for a program that traps or makes events without end.
    """
    given = {PARAMETERS: block_to_inputs(values)} if values else {}
    before = deepcopy(statics)
    made: list[dict[str, Any]] = []
    try:
        while True:
            outcome = program.run({EMITTED: len(made), **given}, statics)
            if outcome.returned:
                made.append(outcome.outputs["output"])
            if outcome.returned != 2:
                return made
            if len(made) == MOST_EMITTED:
                raise ecode.CostError(
                    f"period has made {MOST_EMITTED} events in one run", "return 1 for the last event of a run"
                )
    except BaseException:
        statics.clear()
        statics.update(before)
        raise
