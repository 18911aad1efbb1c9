"""A space with a channel of counts."""

from __future__ import annotations

import pytest

from pbio_spark.channels import ChannelSpace
from tests.channels.spaces import COUNT


@pytest.fixture
def space(space: ChannelSpace) -> ChannelSpace:
    space.create_channel("counts", COUNT)
    return space
