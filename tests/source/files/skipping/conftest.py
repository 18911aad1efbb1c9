"""Small blocks, so that small files have many."""

from __future__ import annotations

import pytest

from ecode.columns import batch
from pbio_spark.source.files import outlines
from tests.columns.checked import CheckedKernel


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of some kilobytes have blocks like those of gigabytes; filters run as Python."""
    monkeypatch.setattr(outlines, "STEP", 400)
    monkeypatch.setattr(batch, "compile_kernel", lambda source: CheckedKernel(source, [(0, 1 << 63)]))
