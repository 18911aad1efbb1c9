"""Programs at the ends of their numbers, where a stray access would end the process: see `programs`."""

import os

from tests.guarded.memory import run_guarded

# 10^6 pairs of a program and an event in the long form.
SEED, PROGRAMS, EVENTS = (1000, 120, 8400) if os.environ.get("PBIO_LONG") == "1" else (20, 4, 200)


def test_engines_agree_at_the_ends_and_touch_nothing_else() -> None:
    assert f"{PROGRAMS * EVENTS} pairs agree" in run_guarded(
        "tests.ecode.engines.guarded.programs", SEED, PROGRAMS, EVENTS
    )
