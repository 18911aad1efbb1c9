"""Wherever a space takes the name of a channel, it takes the channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pbio_spark as pbio

STOCK = pbio.record("stock", [pbio.Field("price", pbio.FLOAT64)])


@pytest.fixture
def space(tmp_path: Path) -> pbio.ChannelSpace:
    return pbio.ChannelSpace.create(str(tmp_path / "space"))


def test_an_object_is_as_good_as_a_name(space: pbio.ChannelSpace) -> None:
    stock = space.create_channel("stock", STOCK)
    dear = space.derive_channel("dear", stock, filter="{ return input.price > param.low; }", parameters={"low": 10.0})
    assert space.channel(stock).info.id == stock.info.id == space.find(stock.info).id
    space.publish([pbio.Submission(stock, [{"price": 5.0}, {"price": 50.0}])])
    assert space.find("dear").events == 1
    space.set_parameters(dear, {"low": 1.0})
    assert space.parameters(dear) == {"low": 1.0}
    space.replace_channel(dear, filter="{ return input.price < 10; }")
    space.drop_channel(dear)
    assert [info.name for info in space.channels()] == ["stock"]


def test_an_object_means_the_channel_that_it_was_opened_for(space: pbio.ChannelSpace) -> None:
    old = space.create_channel("stock", STOCK)
    space.drop_channel(old)
    new = space.create_channel("stock", STOCK)
    for use in (space.channel, space.drop_channel, lambda c: space.publish([pbio.Submission(c, [{"price": 1.0}])])):
        with pytest.raises(pbio.PbioError, match="has been dropped, and another one has its name"):
            use(old)
    assert space.find(new).events == 0


@pytest.mark.parametrize("odd", [None, 7, b"stock", ["stock"], object(), STOCK], ids=lambda odd: type(odd).__name__)
def test_anything_else_is_an_error(space: pbio.ChannelSpace, odd: Any) -> None:
    space.create_channel("stock", STOCK)
    calls = (space.channel, space.find, space.drop_channel, space.parameters, lambda c: space.derive_channel("x", c))
    for call in calls:
        with pytest.raises(pbio.PbioError) as caught:
            call(odd)
        assert caught.value.code == "PBIO_BAD_OPTION"
