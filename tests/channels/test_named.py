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
        with pytest.raises(pbio.PbioError, match="has been dropped, and another channel has its name"):
            use(old)
    assert space.find(new).events == 0


def test_the_facts_of_a_channel_are_renewed(space: pbio.ChannelSpace) -> None:
    stock, other = space.create_channel("stock", STOCK), pbio.ChannelSpace.open(space.root)
    assert stock.info.events == 0
    other.channel("stock").submit({"price": 1.0})
    assert stock.info.events == 1
    other.drop_channel("stock")
    assert (stock.info.events, stock.info.id, stock.name) == (1, stock.id, "stock")


@pytest.mark.parametrize("said", [{"stock": {"price": "float64"}}, ' {"stock": {"price": "double"}}'])
def test_a_type_may_be_json(space: pbio.ChannelSpace, said: Any) -> None:
    assert space.create_channel("stock", said).format == space.create_channel("same", STOCK).format


@pytest.mark.parametrize(
    ("said", "code", "hint"),
    [
        ("price DOUBLE", "PBIO_BAD_OPTION", "StructType.fromDDL"),
        ("", "PBIO_BAD_OPTION", "JSON"),
        ("{", "PBIO_BAD_TYPE", ""),
        ({}, "PBIO_BAD_TYPE", ""),
        ({"stock": {"price": "dubble"}}, "PBIO_BAD_TYPE", "double"),
        (None, "PBIO_BAD_OPTION", "JSON"),
    ],
)
def test_a_wrong_type_names_the_right_ones(space: pbio.ChannelSpace, said: Any, code: str, hint: str) -> None:
    with pytest.raises(pbio.PbioError) as caught:
        space.create_channel("stock", said)
    assert caught.value.code == code
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("odd", [None, 7, b"stock", ["stock"], object(), STOCK], ids=lambda odd: type(odd).__name__)
def test_anything_else_is_an_error(space: pbio.ChannelSpace, odd: Any) -> None:
    space.create_channel("stock", STOCK)
    calls = (space.channel, space.find, space.drop_channel, space.parameters, lambda c: space.derive_channel("x", c))
    for call in calls:
        with pytest.raises(pbio.PbioError) as caught:
            call(odd)
        assert caught.value.code == "PBIO_BAD_OPTION"
