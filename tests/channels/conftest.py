from __future__ import annotations

from pathlib import Path

import pytest

from pbio_spark.channels import ChannelSpace
from tests.channels.clock import Clock


@pytest.fixture
def space(tmp_path: Path) -> ChannelSpace:
    return ChannelSpace.create(str(tmp_path / "space"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)
