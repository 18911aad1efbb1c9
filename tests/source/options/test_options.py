"""The table of options: accepted values, refused ones, and errors."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from docs.reference.generate import PAGES
from pbio_spark.errors import PbioError
from pbio_spark.source.bp5.options import Bp5Options
from pbio_spark.source.options.derived import options_to_key
from pbio_spark.source.options.from_python import options_of, options_to_strings
from pbio_spark.source.options.options import Options
from pbio_spark.source.options.parse import MAY_BE_EMPTY, OF_KAFKA, parse_options, parse_table, paths_of
from pbio_spark.source.options.scopes import Scope, option_name


@pytest.mark.parametrize(
    ("name", "value", "parsed"),
    [
        ("formatName", "a, b", ("a", "b")),
        ("formatName", '["a, b"]', ("a, b",)),
        ("formatId", "0200001b54f71865393441e7", (bytes.fromhex("0200001b54f71865393441e7"),)),
        ("mode", "permissive", "PERMISSIVE"),
        ("mergeSchema", "FALSE", False),
        ("modifiedAfter", "1970-01-01T00:01:00", 60.0),
        ("modifiedAfter", "1970-01-01T01:00:00+01:00", 0.0),
        ("maxPartitionBytes", "4096", 4096),
        ("maxPartitionBytes", "2 MiB", 2 << 20),
        ("maxBatchBytes", "1g", 1 << 30),
        ("recursiveFieldMaxDepth", "3", 3),
        ("encoding", "utf-8", "UTF-8"),
        ("fieldAliases", '{"a": "A"}', {"a": "A"}),
        ("defaults", '{"a.b": 1.5}', {"a.b": 1.5}),
    ],
)
def test_values(name: str, value: str, parsed: object) -> None:
    options = parse_options({name.lower(): value}, Scope.READ)
    attribute = next(f.name for f in fields(Options) if option_name(f.name) == name)
    assert getattr(options, attribute) == parsed


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("mode", "permisive", "did you mean 'PERMISSIVE'?"),
        ("formatId", "00", "format IDs"),
        ("mergeSchema", "1", "true"),
        ("maxPartitionBytes", "0", "positive"),
        ("maxPartitionBytes", "-1", "bytes"),
        ("maxPartitionBytes", "many", "bytes"),
        ("modifiedAfter", "yesterday", "a time"),
        ("recursiveFieldMaxDepth", "16", "15"),
        ("fieldAliases", "a=b", "JSON"),
        ("fieldAliases", '{"a": 1}', "strings"),
        ("defaults", '{"a": [1]}', "number"),
        ("defaults", "[]", "object"),
        ("transforms", "[1]", "objects of strings"),
        ("transforms", '[{"from": 1, "to": "a", "ecode": "b"}]', "objects of strings"),
        ("startingOffsets", '{"counts": {"0": 7}}', "one position for all channels"),
        ("channelPattern", "(", "regular expression"),
        ("channelPattern", "a{99999999999999999999}", "regular expression"),
        ("channels", "[" * 100_000, "JSON list"),
        ("startingOffsets", "-1", "position"),
        ("startingOffsets", "1.2", "position"),
        ("maxRecordsPerTrigger", "0", "positive"),
        ("fieldWeights", '{"a": -1}', "a weight is a number from 0 to 1e9"),
        ("fieldWeights", '{"a": NaN}', "a weight is a number from 0 to 1e9"),
        ("fieldWeights", '{"a": true}', "expected a JSON object of numbers"),
    ],
)
def test_bad_values(name: str, value: str, hint: str) -> None:
    with pytest.raises(PbioError) as caught:
        parse_options({name: value}, Scope.READ, Scope.STREAM)
    assert caught.value.code == "PBIO_BAD_OPTION"
    assert f"{name!r} cannot be {value[:200]!r}" in caught.value.reason
    assert hint in str(caught.value).replace(value[:200], "")


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("defaults", '{"a": 1, "b": 2, "a": 3}', "duplicate key 'a'"),
        ("fieldAliases", '{"a": "x", "a": "y"}', "duplicate key 'a'"),
        ("fieldWeights", '{"a": 1, "a": 1}', "duplicate key 'a'"),
        ("nullValue", '{"a": 1, "a": 2}', "duplicate key 'a'"),
        ("transforms", '[{"from": "a", "to": "b", "ecode": "{}", "to": "c"}]', "duplicate key 'to' in $[0]"),
        ("readerFormat", '{"r": {"x": "int32", "x": "string"}}', "duplicate field 'x'"),
        ("readerFormat", '[{"r": {"x": "int32"}}, {"s": {"x": "int32", "x": "int8"}}]', "'x' in $[1].s"),
        ("readerFormat", '{"r": {"x": "s"}, "r": {}}', "duplicate structure 'r'"),
        ("writeFormat", '{"r": {"x": "int32", "x": "string"}}', "duplicate field 'x'"),
        ("modulator", '{"filter": "{ return 1; }", "filter": "{ return 0; }"}', "duplicate key 'filter'"),
        ("parameters", '{"least": 1, "least": 2}', "duplicate key 'least'"),
        ("formatName", '[{"a": 1, "a": 2}]', "'a' in $[0]"),
    ],
)
def test_a_key_twice_is_refused_with_its_place(name: str, value: str, place: str) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_OPTION") as caught:
        parse_options({name: value}, *Scope)
    assert place in caught.value.reason
    assert caught.value.hint


def test_what_is_not_a_number_is_not_called_negative() -> None:
    with pytest.raises(PbioError) as caught:
        parse_options({"diffThreshold": "nan"}, Scope.READ)
    assert caught.value.reason == "option 'diffThreshold' cannot be 'nan'"


def test_an_option_that_is_none_is_not_given() -> None:
    assert options_to_strings({"mode": None, "MODE": "FAILFAST", "limit": None}) == {"MODE": "FAILFAST"}
    with pytest.raises(PbioError, match="are one option"):
        options_to_strings({"mode": "FAILFAST", "MODE": "FAILFAST"})
    with pytest.raises(PbioError, match="did you mean 'mode'"):
        options_of({"moed": None}, Scope.READ, ())


def test_a_list_of_nothing_is_refused() -> None:
    for name, value in (("formatName", "[]"), ("formatName", ","), ("readerFormat", "[]"), ("channels", " , ")):
        with pytest.raises(PbioError, match=rf"PBIO_BAD_OPTION.*'{name}' names nothing"):
            parse_options({name: value}, Scope.READ)


def test_what_replaces_nulls_keeps_its_digits() -> None:
    for value in ("9007199254740993", " 9007199254740993", "+9007199254740993"):
        replacement = parse_options({"nullValue": value}, Scope.WRITE).null_value
        assert replacement is not None
        assert replacement.number == 9007199254740993


def test_seconds_and_dates_are_not_taken_for_milliseconds() -> None:
    for value in ("20260131", "1769817600"):
        with pytest.raises(PbioError, match="milliseconds since 1970, that is 1970-01-"):
            parse_options({"channel": "c", "startingTimestamp": value}, Scope.READ)
    for value, moment in (("1769817600000", 1769817600000000), ("0", 0), ("-5", -5000)):
        assert parse_options({"channel": "c", "startingTimestamp": value}, Scope.READ).starting_timestamp == moment


def test_unknown_options_suggest_a_near_one() -> None:
    with pytest.raises(PbioError, match=r"^\[PBIO_UNKNOWN_OPTION\].*'formatnames'.*\n.*did you mean 'formatName'"):
        parse_options({"formatnames": "a"}, Scope.READ)
    with pytest.raises(PbioError, match="the options are formatStore, "):
        parse_options({"xyzzy": "a"}, Scope.READ)


def test_an_option_of_another_scope_says_so() -> None:
    for name, scope, places in (
        ("maxRecordsPerFile", Scope.READ, "write"),
        ("maxRecordsPerTrigger", Scope.READ, "readStream"),
        ("endingOffsets", Scope.STREAM, "read"),
        ("channel", Scope.FROM, "read and readStream and write and writeStream"),
    ):
        with pytest.raises(
            PbioError, match=f"'{name}' does not apply to {scope}\n  hint: it is an option of {places}$"
        ):
            parse_options({name.lower(): "3"}, scope)


@pytest.mark.parametrize(
    ("name", "scope", "hint"),
    [
        ("subscribe", Scope.STREAM, "it is called 'channel' here"),
        ("assign", Scope.READ, "it is called 'channel' here"),
        ("topic", Scope.WRITE, "it is called 'channel' here"),
        ("subscribePattern", Scope.READ, "it is called 'channelPattern' here"),
        ("maxOffsetsPerTrigger", Scope.STREAM, "it is called 'maxRecordsPerTrigger' here"),
        ("maxOffsetsPerTrigger", Scope.READ, "it is called 'maxRecordsPerTrigger' here, an option of readStream"),
    ],
)
def test_options_of_kafka_are_told_what_they_are_called_here(name: str, scope: Scope, hint: str) -> None:
    with pytest.raises(PbioError, match=f"unknown option '{name}' for {scope}\n  hint: {hint}$"):
        parse_options({name.lower(): "3"}, scope)


def test_what_options_of_kafka_are_called_are_options() -> None:
    assert set(OF_KAFKA.values()) <= {option_name(field.name) for field in fields(Options)}


def test_what_spark_adds_is_tolerated() -> None:
    assert parse_options({"path": "/x", "checkpointLocation": "/y"}, Scope.READ, Scope.STREAM) == Options()


@pytest.mark.parametrize(
    ("given", "paths"),
    [({"path": "/a"}, ("/a",)), ({"paths": '["/a", "/b"]'}, ("/a", "/b")), ({"PATH": "a,b"}, ("a,b",))],
)
def test_paths(given: dict[str, str], paths: Any) -> None:
    assert paths_of(given) == paths


def test_no_path_names_the_trap_of_tables() -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_NO_PATH\](.|\n)*CREATE TEMPORARY VIEW"):
        paths_of({})


def test_the_page_has_every_option_with_its_meaning() -> None:
    page = PAGES["options.md"]()
    for entry in fields(Options):
        assert f"| `{option_name(entry.name)}` |" in page
        assert entry.metadata["doc"] in page


def test_options_are_a_key_by_their_values() -> None:
    given = {"fieldAliases": '{"a": "b"}', "readerFormat": '{"r": {"x": "double"}}', "transforms": "[]"}
    one, same, other = (
        parse_options(said, Scope.READ) for said in (given, dict(given), {**given, "fieldAliases": '{"a": "c"}'})
    )
    assert one is not same
    assert hash(options_to_key(one)) == hash(options_to_key(same))
    assert options_to_key(one) == options_to_key(same) != options_to_key(other)


def test_settings_of_kafkas_clients_belong_to_a_store_in_kafka() -> None:
    given = {"FormatStore": "kafka://a:9092/formats", "kafka.Security.Protocol": "SSL", "KAFKA.acks": "all"}
    options = parse_options({**given, "formatWait": "10s"}, Scope.FROM)
    assert (options.kafka, options.format_wait) == ({"security.protocol": "SSL", "acks": "all"}, 10.0)
    assert "security" not in repr(options), "a setting may be a password"
    for refused, reason in (
        ({"kafka.acks": "all"}, "'kafka.acks' is for a format store in Kafka, but none is given"),
        ({"kafka.acks": "all", "formatStore": "/formats"}, "'kafka.acks' is for a format store in Kafka"),
        ({"formatWait": "10s"}, "'formatWait' needs formatStore"),
        ({"kafka": "all"}, "'all' lacks the name of a setting"),
        ({"formatStore": "kafka://a/formats"}, "not the address of a topic"),
    ):
        with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\]") as caught:
            parse_options(refused, Scope.FROM)
        assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("alone", "with_it", "scope"),
    [
        ({"diffThreshold": "3"}, {"readerFormat": "a"}, Scope.READ),
        ({"mismatchThreshold": "0"}, {"readerFormat": "a"}, Scope.STREAM),
        ({"fieldWeights": '{"a": 2}'}, {"channel": "a"}, Scope.READ),
        ({"onReject": "drop"}, {"readerFormat": "a"}, Scope.FROM),
        ({"onReject": "drop"}, {"channelPattern": "a.*"}, Scope.STREAM),
        ({"channel": "a", "syncTimeout": "9s"}, {"delivery": "sync"}, Scope.WRITE),
        ({"channel": "a", "syncTimeout": "9s", "delivery": "async"}, {"delivery": "sync"}, Scope.WRITE_STREAM),
        ({"channel": "a", "parameters": '{"m": 1}'}, {"modulator": "{ return 1; }"}, Scope.READ),
    ],
)
def test_an_option_that_changes_nothing_without_another_is_refused(
    alone: dict[str, str], with_it: dict[str, str], scope: Scope
) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\] option '\w+' needs ") as caught:
        parse_options(alone, scope)
    assert caught.value.hint
    if "readerFormat" in with_it or "channel" in with_it:
        assert "needs readerFormat or a channel" in caught.value.reason
    parse_options({**alone, **with_it}, scope)


@pytest.mark.parametrize("table", [Options, Bp5Options])
def test_an_empty_value_is_refused(table: type[Any]) -> None:
    for entry in fields(table):
        if entry.name in MAY_BE_EMPTY:
            continue
        scope, name = entry.metadata["scopes"][0], option_name(entry.name)
        for value in ("", " "):
            with pytest.raises(PbioError, match=f"option '{name}' is empty") as caught:
                parse_table(table, {name: value}, scope)
            assert caught.value.code == "PBIO_BAD_OPTION"
