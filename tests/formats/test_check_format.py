"""A wrong value in place of a format, a record type or a record is an error that says what was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pbio_spark as pbio

RECORD = pbio.record("r", [pbio.Field("x", pbio.INT64)])
FORM = pbio.Format.of(RECORD)
ODD = [None, 1, "r", b"r", {}, object(), RECORD]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_not_a_format(odd: Any, tmp_path: Path) -> None:
    space = pbio.ChannelSpace.create(str(tmp_path / "space"))
    channel = space.create_channel("r", RECORD)
    calls = [
        lambda: pbio.encode(odd, {"x": 1}),
        lambda: pbio.decode(odd, pbio.encode(FORM, {"x": 1})),
        lambda: pbio.evolve(odd, FORM, "{}"),
        lambda: pbio.evolve(FORM, odd, "{}"),
    ]
    if odd is not None:
        calls.append(lambda: channel.submit({"x": 1}, format=odd))
    for call in calls:
        with pytest.raises(pbio.PbioError, match="expected a Format") as caught:
            call()
        assert caught.value.code == "PBIO_BAD_TYPE"


@pytest.mark.parametrize("odd", [*ODD[:-1], FORM], ids=lambda odd: type(odd).__name__)
def test_not_a_record_type(odd: Any) -> None:
    with pytest.raises(pbio.PbioError, match="expected a record type"):
        pbio.record_to_json(odd)


def test_bytes_of_any_kind_are_a_record() -> None:
    data = pbio.encode(FORM, {"x": 1})
    for kind in (bytes, bytearray, memoryview):
        assert pbio.decode(FORM, kind(data)) == {"x": 1}  # type: ignore[arg-type]
    odd: Any
    for odd in (None, "x", 1, [1]):
        with pytest.raises(pbio.PbioError, match="expected the bytes of a record"):
            pbio.decode(FORM, odd)
