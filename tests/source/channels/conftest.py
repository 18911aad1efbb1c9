"""A channel of stocks, as the tests of writing and of modulators have it."""

from __future__ import annotations

import pytest

from ecode.types import FLOAT64, STRING, Field, record
from pbio_spark.channels import Channel, ChannelSpace

STOCK = record("stock", [Field("name", STRING), Field("price", FLOAT64)])


@pytest.fixture
def stocks(space: ChannelSpace) -> Channel:
    return space.create_channel("stocks", STOCK)
