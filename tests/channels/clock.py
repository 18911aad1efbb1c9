"""A clock for tests, which runs and jumps on command."""

from __future__ import annotations

from datetime import timedelta

import pytest

NOW = 1_700_000_000_000_000
DAY = 86_400_000_000


class Clock:
    """The machine's clock, as all that asks `time.time_ns` sees it.

    Attributes:
        now: in microseconds since 1970 UTC.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = NOW
        monkeypatch.setattr("time.time_ns", lambda: self.now * 1000)

    def go(self, **span: float) -> None:
        self.now += timedelta(**span) // timedelta(microseconds=1)
