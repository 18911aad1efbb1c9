"""What bytes are taken for that are no record of a known format: never for what they are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecode.types import FLOAT64, STRING, Field, record
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import decode, encode
from pbio_spark.wire.foreign import unknown_format

LOAD = record("Load", [Field("host", STRING), Field("load", FLOAT64)])
FORMATS = [record_to_format(LOAD, machine) for machine in ("le64", "be32", "sparc")]
FORMATS += [Format.from_structs(FORMATS[0].structs, "be32", body_version=version) for version in (0, 1)]
WIDE = record_to_format(record("Wide", [Field(f"field_{number}", FLOAT64) for number in range(40)]))


def said(data: bytes) -> str:
    return unknown_format(data, "store it").reason


@pytest.mark.parametrize("form", [*FORMATS, WIDE], ids=str)
def test_a_body_is_named_as_one(form: Format) -> None:
    assert f"it is the body of the format '{form.name}', ID {form.id.hex()}" in said(form.body)
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_RECORD\](.|\n)*hint: it is the body of the format 'Load'"):
        decode(WIDE, FORMATS[0].body)
    for cut in range(1, len(form.body)):
        assert "Confluent" not in said(form.body[:cut])
    assert "Confluent" not in said(form.body + b"more")
    if form.body[0] == 0:
        for other in (form.body[:-4], form.body + b"more"):
            assert f"says that it has {len(form.body)} bytes, but it has {len(other)}" in said(other)


def test_an_id_alone_is_named_as_one() -> None:
    for form in FORMATS:
        assert f"it is the ID {form.id.hex()} alone" in said(form.id)
        assert f"it would be {form.id.hex()}" in said(encode(form, {"host": "a", "load": 1.0}))


@given(st.binary(min_size=3, max_size=3), st.binary(max_size=40))
def test_an_id_of_version_0_is_no_number_of_a_schema(number: bytes, rest: bytes) -> None:
    data = b"\0" + number + bytes(4) + b"." + rest
    assert f"it would be {data[:12].hex()}" in said(data)


@given(st.integers(1, 400_000), st.binary(min_size=1, max_size=40).filter(lambda data: any(data[:3])))
def test_frames_of_confluent_are_named(number: int, rest: bytes) -> None:
    assert f"Confluent's serialisers, schema ID {number}" in said(b"\0" + number.to_bytes(4) + rest)


@given(st.integers(1 << 24, (1 << 32) - 1), st.binary(max_size=40))
def test_no_registry_has_so_many_schemas(number: int, rest: bytes) -> None:
    assert "Confluent" not in said(b"\0" + number.to_bytes(4) + rest)
