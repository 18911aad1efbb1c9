"""Formats of equal shape share what encodes them, and no others do; the bytes are those of each format alone."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ecode.types import FLOAT32, FLOAT64, INT32, INT64, STRING, Array, Field, Notes, Pointer, Record, Ref, Struct
from pbio_spark.columns import Encoders, format_to_encoder
from pbio_spark.columns import encoders as module
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.body.layouts import layouts_to_body
from pbio_spark.formats.shape import format_to_shape

POINT = Struct("point", (Field("x", FLOAT64), Field("y", FLOAT64)))
SHAPES: dict[str, tuple[Field, ...]] = {
    "numbers": (Field("n", INT32), Field("v", INT64)),
    "texts": (Field("n", INT32), Field("s", STRING), Field("t", STRING)),
    "a counted array": (Field("n", INT32), Field("v", Array(FLOAT64, ("n",)))),
    "structures": (Field("n", INT32), Field("p", Array(Ref("point"), (2,))), Field("q", Pointer(Ref("point")))),
    "defaults": (Field("n", INT32), Field("d", STRING, Notes(default="0")), Field("e", INT32, Notes(default=7))),
}
COLUMNS: dict[str, dict[str, list[Any]]] = {
    "numbers": {"n": [1, 2, 3], "v": [4, 5, 6]},
    "texts": {"n": [1, 2, 3], "s": ["a", None, ""], "t": ["long " * 9, "b", None]},
    "a counted array": {"v": [[1.0], [], [2.0, 3.0]]},
    "structures": {
        "n": [1, 2, 3],
        "p": [[{"x": k, "y": 0.5}] * 2 for k in (1.0, 2.0, 3.0)],
        "q": [None, {"x": 8.0, "y": 9.0}, {"x": 1.0, "y": 2.0}],
    },
    "defaults": {"n": [1, 2, 3]},
}


def form_of(name: str, shape: str, machine: str = "native") -> Format:
    others = (POINT,) if shape == "structures" else ()
    return Format.of(Record((Struct(name, SHAPES[shape]), *others)), machine)


def batch_of(shape: str) -> pa.RecordBatch:
    types: dict[str, Any] = {"n": pa.int32()}
    return pa.RecordBatch.from_pydict(
        {name: pa.array(values, types.get(name)) for name, values in COLUMNS[shape].items()}
    )


@pytest.mark.parametrize("machine", ["native", "be32"])
@pytest.mark.parametrize("shape", list(SHAPES))
def test_formats_of_equal_shape_are_encoded_together_as_alone(shape: str, machine: str) -> None:
    formats = [form_of(name, shape, machine) for name in ("apple", "a longer name", "é")]
    batch = batch_of(shape)
    encoders = Encoders()
    assert len({encoders.shape(form) for form in formats}) == 1
    counts = np.array([1, 0, 2])
    together = encoders.encode(batch, formats, counts, None).to_array().to_pylist()
    alone = [format_to_encoder(form, batch.schema, wrap=True).encode(batch).to_array().to_pylist() for form in formats]
    assert together == [alone[0][0], *alone[2][1:]]
    for again in (encoders, pickle.loads(pickle.dumps(encoders))):
        for form, expected in zip(formats, alone, strict=True):
            assert again.find(form, batch.schema, None).encode(batch).to_array().to_pylist() == expected


def test_one_encoder_is_compiled_for_formats_of_equal_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def counted(form: Format, *rest: Any, **more: Any) -> Any:
        compiled.append(form.name)
        return format_to_encoder(form, *rest, **more)

    monkeypatch.setattr(module, "format_to_encoder", counted)
    encoders = Encoders()
    for name in "abc":
        encoders.find(form_of(name, "texts"), batch_of("texts").schema, None)
    assert compiled == ["a"]


def test_a_constant_is_not_taken_from_the_id_of_one_format() -> None:
    """The default is a text that the ID of the first format, which is no hash, happens to contain."""
    form = form_of("a", "defaults")
    body = layouts_to_body(replace(form.layouts, version=1))
    first, second = (Format.from_body(body, b"\1\0\0\0" + own) for own in (b"0\0\0\0\0\0", b"111111"))
    batch = batch_of("defaults")
    encoders = Encoders()
    for one in (first, second):
        expected = format_to_encoder(one, batch.schema, wrap=True).encode(batch)
        assert encoders.find(one, batch.schema, None).encode(batch).to_array() == expected.to_array()


def one(type_: Any, machine: str = "le64", name: str = "v", **notes: Any) -> Format:
    fields = Field(name, type_, Notes(**notes)), Field("w", INT64)
    return Format.of(Record((Struct("r", fields),)), machine)


@pytest.mark.parametrize(
    "other",
    [
        one(INT64, "be64"),
        one(INT64, "le32"),
        one(INT32),
        one(FLOAT64),
        one(FLOAT32),
        one(INT64, default=1),
        one(INT64, default=2),
        one(INT64, logical="decimal(10,2)"),
        one(INT64, name="u"),
        one(Pointer(INT64)),
        one(Array(INT64, (1,))),
        one(Array(INT64, ("w",))),
        Format.from_structs(one(INT64).structs, "le64", column_major=True),
        Format.from_structs(one(INT64).structs, "le64", body_version=1),
        Format.from_body(layouts_to_body(replace(one(INT64).layouts, float_format=1))),
    ],
    ids=lambda form: str(form).replace("\n", " "),
)
def test_formats_that_differ_in_anything_but_the_name_share_nothing(other: Format) -> None:
    encoders = Encoders()
    assert encoders.shape(other) != encoders.shape(one(INT64))


def test_names_that_types_refer_to_are_part_of_the_shape() -> None:
    def node(name: str, target: str) -> Format:
        return Format.of(Record((Struct(name, (Field("next", Pointer(Ref(target))),)),)))

    assert format_to_shape(node("a", "a")) != format_to_shape(node("b", "b"))
    for name in ("a", "b"):
        assert Format.from_body(node(name, name).body) == node(name, name)
        assert node(name, name).is_recursive(name)


def test_what_a_body_says_of_its_record_has_its_own_name() -> None:
    for name in ("a", "b", "float", "integer"):
        form = Format.from_body(form_of(name, "texts").body)
        assert form.record.name == form.name == name
        assert form.is_variant_struct(name)
        assert not form.is_recursive(name)
        assert form.record == form_of(name, "texts").record


def test_an_error_names_the_format_that_it_concerns() -> None:
    encoders = Encoders()
    schema = pa.schema([("n", pa.int32()), ("v", pa.int64())])
    encoders.find(form_of("a", "numbers"), schema, None)
    batch = pa.RecordBatch.from_pydict({"n": pa.array([None], pa.int32()), "v": pa.array([1])})
    with pytest.raises(PbioError, match="PBIO_CANNOT_BE_NULL") as caught:
        encoders.find(form_of("b", "numbers"), schema, None).encode(batch)
    assert caught.value.format == "b"
