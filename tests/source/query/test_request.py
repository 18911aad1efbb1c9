"""Options as requests to MaxMatch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import json_to_record
from pbio_spark.source.options.parse import parse_options
from pbio_spark.source.options.scopes import Scope
from pbio_spark.source.query.request import options_to_request

TEXT = '{"M": {"a": "int32"}}'
FORMAT = record_to_format(json_to_record(TEXT))


def test_a_transform_can_fill_every_structure_of_its_columns() -> None:
    point = pa.struct([pa.field("x", pa.int32()), pa.field("inner", pa.struct([pa.field("y", pa.string())]))])
    pairs = pa.map_(pa.string(), point)
    schema = pa.schema([("at", point), ("all", pa.list_(pa.field("element", point))), ("by_name", pairs)])
    options = parse_options({"transform": "{ output.at.x = 1; }"}, Scope.READ)
    request = options_to_request(options, schema, [FORMAT])
    assert request is not None
    assert request.columns is not None
    assert "*" not in str(request.columns)
    projection = options_to_request(parse_options({"filter": "{ return 1; }"}, Scope.READ), schema, [FORMAT])
    assert projection is not None
    assert "*" in str(projection.columns)


def test_a_transform_of_a_stream_needs_a_type_to_be_written_for() -> None:
    schema = pa.schema([("b", pa.int32())])
    said = {"transform": "{ output.b = input.a; }"}
    with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION(.|\n)*readerFormat"):
        options_to_request(parse_options(said, Scope.STREAM), schema, [FORMAT], is_stream=True)
    said["readerFormat"] = TEXT
    assert options_to_request(parse_options(said, Scope.STREAM), schema, [FORMAT], is_stream=True) is not None


def test_weights_are_of_fields_that_some_type_has() -> None:
    said = {"readerFormat": '{"W": {"b": "int32"}}', "fieldWeights": '{"a": 2, "b": 3}'}
    assert options_to_request(parse_options(said, Scope.READ), None, [FORMAT]) is not None
    said["fieldWeights"] = '{"aa": 2}'
    with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION(.|\n)*did you mean 'a'"):
        options_to_request(parse_options(said, Scope.READ), None, [FORMAT])
    assert options_to_request(parse_options(said, Scope.STREAM), None, [FORMAT], is_stream=True) is not None
