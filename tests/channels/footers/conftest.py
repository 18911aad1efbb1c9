"""Small blocks, so that small commits have many."""

from __future__ import annotations

import pytest

from pbio_spark.channels.footers import making, skipping


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of some kilobytes have blocks like those of megabytes."""
    monkeypatch.setattr(making, "BLOCK", 400)
    monkeypatch.setattr(making, "LEAST", 500)
    monkeypatch.setattr(making, "_OF_FORMAT", 0)
    monkeypatch.setattr(skipping, "LEAST", 0)
