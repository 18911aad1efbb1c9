from __future__ import annotations

from pathlib import Path

import pytest

from pbio_spark.channels import ChannelSpace


@pytest.fixture
def space(tmp_path: Path) -> ChannelSpace:
    return ChannelSpace.create(str(tmp_path / "space"))
