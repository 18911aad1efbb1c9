"""Values as elements: two decoders and two encoders agree, and a misfit is refused with its place."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ecode.types import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    STRING,
    UINT64,
    Array,
    Field,
    Notes,
    record,
)
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.protocol.messages import EVENTS
from pbio_spark.gateways.grid.protocol.nodes import XmlElement, node_to_xml, parse
from pbio_spark.gateways.grid.values.compiled import EventWriter
from pbio_spark.gateways.grid.values.plan import record_to_plan
from pbio_spark.gateways.grid.values.reading import ReadEvent, read_event
from pbio_spark.gateways.grid.values.shapes import EventError, ReceivedEvent, ShapeReader
from pbio_spark.gateways.grid.values.times import text_to_microseconds, text_to_time
from pbio_spark.gateways.grid.values.units import UNITS, convert
from pbio_spark.gateways.grid.values.writing import event_to_node
from tests.gateways.grid.samples import EVENT, NAME, PLAN, TIME, VALUES, event_xml, xml
from tests.gateways.grid.values import oracle
from tests.gateways.grid.values.types import FOREIGN, record_types, values

MANY = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def alike(one: Any, other: Any) -> bool:
    """Whether values are the same, with NaN like NaN, and -0.0 unlike 0.0."""
    return repr(in_order(one)) == repr(in_order(other))


def in_order(value: Any) -> Any:
    """The same value with the fields of structures in one order."""
    if isinstance(value, ReceivedEvent):
        return tuple(map(in_order, value))
    if isinstance(value, dict):
        return {name: in_order(value[name]) for name in sorted(value)}
    return type(value)(map(in_order, value)) if isinstance(value, list | tuple) else value


@MANY
@given(st.data())
def test_encoders_and_decoders_agree_on_random_events_of_random_types(data: st.DataObject) -> None:
    type_ = data.draw(record_types())
    plan = record_to_plan(type_, "event", EVENTS)
    writer, reader = EventWriter(plan), ShapeReader({"7": plan})
    for _ in range(3):
        given_ = data.draw(values(type_))
        text = writer.write(given_)
        assert parse(text.encode()) == event_to_node(plan, given_)
        assert alike(oracle.read(text, type_), with_accuracy_aside(given_, text))
        read = read_event(plan, parse(text.encode()))
        assert alike(read.values, given_)
        message = xml(f"<SubscriptionID>7</SubscriptionID>{text}")
        expected = ReceivedEvent("7", read.values, read.time, None, 0, None, len(message))
        assert alike(reader.read(message), expected)
        assert alike(reader.read(message), expected)  # by a shape, if it has one


def with_accuracy_aside(given_: dict[str, Any], text: str) -> dict[str, Any]:
    """What the oracle sees: the accuracy of `own` is an attribute."""
    return {**given_, "own_accuracy": None} if "own_accuracy" in given_ else given_


def test_the_papers_event() -> None:
    writer = EventWriter(PLAN)
    assert parse(writer.write(VALUES).encode()) == EVENT
    assert "return f" in writer.source
    reader = ShapeReader({"12": PLAN})
    message = xml(f"<SubscriptionID>12</SubscriptionID>{writer.write(VALUES)}")
    first = reader.read(message)
    assert first == ReceivedEvent("12", VALUES, VALUES["TimeStamp"], None, 0, None, len(message))
    (shape,) = reader.shapes
    assert shape.read(message) == first
    assert shape.read(message.replace(b"1.6", b"1_6")) is None
    assert shape.read(message.replace(b"<Load5>1.6</Load5>", b"1.6<Load5></Load5>")) is None
    assert shape.read(message.replace(b"foo.gov", b"&lt;foo")) is None
    assert shape.read(message.replace(b"foo.gov", b"<![CDATA[x]]>")) is None
    assert shape.read(b"<!DOCTYPE Event>" + message) is None
    assert shape.read(message.replace(b"</Event>", b"")) is None
    # each of them is read carefully, or refused
    assert reader.read(message.replace(b"foo.gov", b"&lt;foo")).values["HostName"] == "<foo"  # type: ignore[union-attr]
    with pytest.raises(EventError, match="not a number"):
        reader.read(message.replace(b"1.6", b"1_6"))
    with pytest.raises(EventError, match="text where elements are expected"):
        reader.read(message.replace(b"<Load5>1.6</Load5>", b"1.6<Load5></Load5>"))


def test_a_shape_is_of_one_subscription_and_its_plan() -> None:
    other = record_to_plan(record(NAME, [Field("Load1", STRING), TIME]), NAME, EVENTS)
    reader = ShapeReader({"12": PLAN, "13": other})
    text = EventWriter(PLAN).write(VALUES)
    for _ in range(2):
        read = [reader.read(xml(f"<SubscriptionID>{n}</SubscriptionID>{text}")) for n in (12, 13, 14)]
        assert isinstance(read[0], ReceivedEvent)
        assert isinstance(read[1], ReceivedEvent)
        assert (read[0].values["Load1"], read[1].values["Load1"], read[1].dropped) == (1.5, "1.5", 3)
        assert not isinstance(read[2], ReceivedEvent)


TYPED = record(
    "t",
    [
        Field("f", FLOAT64, Notes(units="sec")),
        Field("f4", FLOAT32),
        Field("b", INT8, Notes(units="bytes")),
        Field("u", UINT64),
        Field("ok", BOOLEAN),
        Field("s", STRING),
        Field("v", Array(INT32, (2,))),
        TIME,
    ],
)
T = record_to_plan(TYPED, "t", "urn:t")
GOOD = {"f": "1", "f4": "0.5", "b": "1", "u": "1", "ok": "true", "s": "x", "TimeStamp": "2000-11-09T21:51:45Z"}


def element(attributes: str = "", **texts: str | None) -> XmlElement:
    """An event of TYPED, with other strings for some fields; None leaves one out."""
    said = {**GOOD, **texts}
    name = next(iter(texts), "")
    inside = "".join(
        f"<{key}{attributes if key == name else ''}>{text}</{key}>" for key, text in said.items() if text is not None
    )
    return parse(f'<t xmlns="urn:t"><v>1</v><v>2</v>{inside}</t>'.encode())


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("f", "INF", math.inf),
        ("f", "-INF", -math.inf),
        ("f", " 1.5e3 ", 1500.0),
        ("f", ".5", 0.5),
        ("f", "0.1", 0.1),
        ("f4", "0.1", 0.10000000149011612),
        ("b", "-128", -128),
        ("b", "+7", 7),
        ("u", "18446744073709551615", Decimal(2**64 - 1)),
        ("ok", "0", False),
        ("s", "", ""),
        ("s", None, None),
        ("s", "<![CDATA[<&]]>", "<&"),
    ],
)
def test_strings_are_values(field: str, text: str | None, value: Any) -> None:
    assert alike(read_event(T, element(**{field: text})).values[field], value)


@pytest.mark.parametrize(
    ("field", "text", "reason"),
    [
        ("f", "1_0", "not a number"),
        ("f", "\u0661", "not a number"),
        ("f", "inf", "not a number"),
        ("f", "", "not a number"),
        ("f", "0x10", "not a number"),
        ("f", "1e400", "too large for a float of 8 bytes"),
        ("f4", "1e39", "too large for a float of 4 bytes"),
        ("b", "128", "a whole number from -128 to 127"),
        ("b", "1.5", "not a whole number"),
        ("b", "1e2", "not a whole number"),
        ("u", "-1", "not a whole number from 0"),
        ("ok", "yes", "not true or false"),
        ("f", None, "missing"),
        ("f", "<f/>", "elements where a number is expected"),
        ("f", "1</f><f>2", "occurs 2 times"),
        ("TimeStamp", "2000-11-09", "not a time"),
        ("TimeStamp", "2000-11-09T21:51:45", "not a time"),
        ("TimeStamp", "2000-02-30T21:51:45Z", "day"),
        ("TimeStamp", "2000-W45-4T21:51:45Z", "not a time"),
        ("TimeStamp", "2000-11-09T21:51:45.0000001Z", "finer than a microsecond"),
        ("TimeStamp", "0001-01-01T00:00:00+14:00", "before the year 1"),
        ("TimeStamp", None, "must have one TimeStamp"),
    ],
)
def test_an_invalid_value_is_an_error_with_its_place(field: str, text: str | None, reason: str) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_VALUE") as caught:
        read_event(T, element(**{field: text}))
    assert reason in caught.value.reason
    assert caught.value.field == f"$.{field}"


def test_fixed_arrays_have_their_length() -> None:
    with pytest.raises(PbioError, match="expected 2 elements, not 3"):
        read_event(T, parse(node_to_xml(element()).replace("<v>1</v>", "<v>1</v><v>1</v>").encode()))
    with pytest.raises(PbioError) as caught:
        read_event(T, parse(node_to_xml(element()).replace("<v>2</v>", "<v>x</v>").encode()))
    assert caught.value.field == "$.v[1]"


def test_units_are_converted_within_a_dimension() -> None:
    assert read_event(T, element(' units="min"', f="1.5")).values["f"] == 90.0
    assert read_event(T, element(' units="sec"', f="1.5")).values["f"] == 1.5
    assert read_event(T, element(' units="bits"', b="16")).values["b"] == 2
    for field, text, units, reason in (
        ("f", "1", "kg", "'kg' (mass) cannot become 'sec' (time)"),
        ("f", "1", "mni", "unknown units 'mni'; did you mean 'min'?"),
        ("f", "x", "min", "not a number"),
        ("b", "12", "bits", "not whole in the units of the field"),
        ("b", "1", "KiB", "not a whole number from -128"),
    ):
        with pytest.raises(PbioError) as caught:
            read_event(T, element(f' units="{units}"', **{field: text}))
        assert reason in caught.value.reason


@given(st.sampled_from(sorted(UNITS)), st.sampled_from(sorted(UNITS)), st.decimals(-1000, 1000, places=3))
def test_units_there_and_back(one: str, other: str, number: Decimal) -> None:
    if UNITS[one][0] != UNITS[other][0]:
        with pytest.raises(ValueError, match="cannot become"):
            convert(str(number), one, other)
        return
    back = convert(str(convert(str(number), one, other)), other, one)
    assert abs(back - number) <= Decimal("1e-6")


def test_elements_without_a_field_are_counted() -> None:
    read = read_event(T, parse(node_to_xml(element()).replace("</t>", "<x/><f xmlns='urn:u'>9</f></t>").encode()))
    assert (read.dropped, read.values["f"]) == (2, 1.0)


def test_an_element_of_another_name_space_is_missing_and_that_is_said() -> None:
    with pytest.raises(PbioError) as caught:
        read_event(T, parse(node_to_xml(element()).replace("<f>1</f>", "<f xmlns='urn:u'>1</f>").encode()))
    assert caught.value.hint == "{urn:u}f is of another name space"


def test_times_and_numbers_of_events_whose_type_has_none() -> None:
    bare = record_to_plan(record("t", [Field("f", FLOAT64)]), "t", "urn:t")
    when = datetime(2000, 1, 1, 12, 30, 0, 5, UTC)
    text = EventWriter(bare).write({"f": 1.0}, when, 7)
    assert read_event(bare, parse(text.encode())) == ReadEvent({"f": 1.0}, when, 7)
    with pytest.raises(PbioError, match="the event has no time"):
        EventWriter(bare).write({"f": 1.0})
    as_text = record_to_plan(record("t", [Field("TimeStamp", STRING), Field("Sequence", INT64)]), "t", "urn:t")
    values_ = {"TimeStamp": "2000-01-01T13:30:00.000005123+01:00", "Sequence": 3}
    read = read_event(as_text, parse(EventWriter(as_text).write(values_).encode()))
    assert read == ReadEvent(values_, when, 3)
    with pytest.raises(PbioError, match="not a time"):
        EventWriter(as_text).write({"TimeStamp": "now", "Sequence": 3})
    assert "2000-01-01T12:30:00.000005Z" in EventWriter(as_text).write({"Sequence": 3}, when)


@pytest.mark.parametrize(
    ("changed", "code", "where"),
    [
        ({"f": "1"}, "PBIO_BAD_VALUE", "$.f"),
        ({"f": True}, "PBIO_BAD_VALUE", "$.f"),
        ({"f": 2**53 + 1}, "PBIO_BAD_VALUE", "$.f"),
        ({"f": None}, "PBIO_CANNOT_BE_NULL", "$.f"),
        ({"f4": 0.1}, "PBIO_BAD_VALUE", "$.f4"),
        ({"b": 128}, "PBIO_BAD_VALUE", "$.b"),
        ({"b": 1.5}, "PBIO_BAD_VALUE", "$.b"),
        ({"u": -1}, "PBIO_BAD_VALUE", "$.u"),
        ({"ok": 1}, "PBIO_BAD_VALUE", "$.ok"),
        ({"s": b"x"}, "PBIO_BAD_VALUE", "$.s"),
        ({"s": "a\0"}, "PBIO_BAD_VALUE", "$.s"),
        ({"s": "\ufffe"}, "PBIO_BAD_VALUE", "$.s"),
        ({"v": [1]}, "PBIO_BAD_VALUE", "$.v"),
        ({"v": [1, None]}, "PBIO_CANNOT_BE_NULL", "$.v[1]"),
        ({"v": 3}, "PBIO_BAD_VALUE", "$.v"),
        ({"sx": 3}, "PBIO_UNKNOWN_COLUMN", "$.sx"),
        ({"TimeStamp": datetime(2000, 1, 1)}, "PBIO_BAD_VALUE", "$.TimeStamp"),
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_refused_with_their_place(changed: dict[str, Any], code: str, where: str) -> None:
    good: dict[str, Any] = {"f": 1.0, "f4": 0.5, "b": 1, "u": Decimal(1), "ok": True, "s": "x", "v": [1, 2]}
    good["TimeStamp"] = VALUES["TimeStamp"]
    EventWriter(T).write(good)
    with pytest.raises(PbioError) as caught:
        EventWriter(T).write({**good, **changed})
    assert (caught.value.code, caught.value.field) == (code, where)


def test_what_xml_cannot_name_is_refused() -> None:
    for fields, name, where in (
        ([Field("a b", FLOAT64)], "t", '$["a b"]'),
        ([Field("a", FLOAT64)], "a:b", "$"),
        ([Field("TimeStamp", FLOAT64)], "t", "$.TimeStamp"),
    ):
        with pytest.raises(PbioError, match="PBIO_UNSUPPORTED_TYPE") as caught:
            record_to_plan(record("t", fields), name, EVENTS)
        assert caught.value.field == where
    with pytest.raises(PbioError, match="no value 'b' for b_accuracy"):
        record_to_plan(record("t", [Field("b_accuracy", STRING, Notes(logical="accuracy"))]), "t", EVENTS)


def test_accuracy_and_units_are_attributes() -> None:
    plan = record_to_plan(FOREIGN, "foreign", "urn:f")
    given_ = {
        "small": 1, "huge": Decimal(2), "short": 1.0, "own": 2.0, "own_accuracy": "+/-\"3\"",
        "chars": "é", "rows": ["", "a"],
        "fixed": [[1.0, 2.0, 3.0]] * 2, "colour": "red", "many": [], "maybe": None, "TimeStamp": VALUES["TimeStamp"],
    }  # fmt: skip
    text = EventWriter(plan).write(given_)
    assert '<short units="sec" accuracy="+/-0.5">1.0</short>' in text
    assert '<own units="m" accuracy="+/-&quot;3&quot;">2.0</own>' in text
    assert "<maybe" not in text
    assert read_event(plan, parse(text.encode())).values == given_
    bad = {**given_, "colour": "green"}
    with pytest.raises(PbioError, match="not one of dark blue, red"):
        EventWriter(plan).write(bad)


def test_times() -> None:
    assert text_to_time("2000-11-09T21:51:45.123456000-02:30") == datetime(2000, 11, 10, 0, 21, 45, 123456, UTC)
    assert text_to_microseconds("2000-11-09T21:51:45.123456789Z").microsecond == 123456
    for text in (
        "2000-11-09T21:51:45+24:00",
        "2000-11-09T21:51:45+01:60",
        "2000-11-09T24:00:00Z",
        "2000-11-09T21:51:60Z",
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - whatever says it
            text_to_time(text)


def test_a_producer_whose_tags_always_differ_is_read_all_the_same() -> None:
    reader = ShapeReader({"12": PLAN})
    text = EventWriter(PLAN).write(VALUES)
    for number in range(100):
        odd = text.replace("<Load1>", f'<Load1 accuracy="{number}">')
        assert isinstance(reader.read(xml(f"<SubscriptionID>12</SubscriptionID>{odd}")), ReceivedEvent)
    assert len(reader.shapes) == 64


def test_pretty_printed_events_have_shapes_too() -> None:
    reader = ShapeReader({"12": PLAN})
    inside = "".join(f"\n  <{c.name}>{c.text}</{c.name}>" for c in EVENT.children)
    message = b'<?xml version="1.0"?>\n' + event_xml(inside + "\n")
    first = reader.read(message)
    assert isinstance(first, ReceivedEvent)
    (shape,) = reader.shapes
    assert shape.read(message) == first
    assert shape.read(message.replace(b"\n  <Load5>", b"\n <Load5>")) is None


@pytest.mark.parametrize(
    ("declaration", "host", "shapes"),
    [
        ('<?xml version="1.0" encoding="iso-8859-1"?>', "Ã©", 0),
        ("<?xml version='1.0' encoding = 'latin1' standalone='no' ?>", "Ã©", 0),
        ("\ufeff<?xml version='1.0' encoding='utf-8'?>", "é", 1),
        ('<?xml version="1.0" encoding="UTF-8"?>', "é", 1),
        ("<?xml version='1.0'?>", "é", 1),
    ],
)
def test_bytes_that_mean_something_else_have_no_shape(declaration: str, host: str, shapes: int) -> None:
    reader = ShapeReader({"12": PLAN})
    inside = "".join(f"<{c.name}>{c.text}</{c.name}>" for c in EVENT.children)
    for _ in range(2):
        plain = reader.read(declaration.encode() + event_xml(inside))
        arrived = reader.read(declaration.encode() + event_xml(inside).replace(b"foo.gov", b"\xc3\xa9"))
        assert isinstance(plain, ReceivedEvent)
        assert isinstance(arrived, ReceivedEvent)
        assert (plain.values["HostName"], arrived.values["HostName"]) == ("foo.gov", host)
    assert len(reader.shapes) == shapes


@pytest.mark.parametrize(
    "text", ["a]]>", "a\x01", "a\ufffe", "a&", "a<", "\x7f", "a\tb", "a\nb", "a\rb", "a>b", " a ", "𝄞"]
)
def test_strings_of_a_shape_equal_those_of_expat(text: str) -> None:
    inside = "".join(f"<{c.name}>{c.text}</{c.name}>" for c in EVENT.children)
    reader = ShapeReader({"12": PLAN})
    reader.read(event_xml(inside))
    found = []
    for one in (reader, ShapeReader({"12": PLAN})):
        try:
            found.append(repr(one.read(event_xml(inside.replace("foo.gov", text)))))
        except PbioError as error:
            found.append(str(error))
    assert found[0] == found[1]
