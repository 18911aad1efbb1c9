"""Readers that want record types: three generations by four machines, every reader from every sender."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from ecode.columns import run as runs_of_programs
from ecode.types import FLOAT64, INT32, INT64, STRING, Array, Field, Notes, Record, record
from morph import Policy, Transform
from pbio_spark.columns.files.compile import compile_converter
from pbio_spark.columns.files.plan import CORRUPT_TYPE, METADATA_TYPE, FilePart, ReadPlan
from pbio_spark.columns.files.read import read_batches
from pbio_spark.columns.programs.routes import RecordRoute, Request, find_route
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.merge import merge
from pbio_spark.formats.store import MemoryStore
from pbio_spark.wire import FileWriter
from tests.plans import changed, plan_of

REV0 = record("Load", [Field("total", FLOAT64), Field("host", STRING)])
REV1 = record("Load", [Field("n", INT32), Field("mean", FLOAT64), Field("host", STRING)])
REV2 = record(
    "Load", [Field("n", INT64), Field("loads", Array(FLOAT64, ("n",))), Field("machine", STRING), Field("at", INT64)]
)
TO_REV0 = "{ old.total = new.mean * new.n; old.host = new.host; }"
TO_REV1 = """{
    int i; double sum = 0;
    for (i = 0; i < new.n; i++) sum += new.loads[i];
    old.n = new.n;
    if (new.n > 0) old.mean = sum / new.n;
    old.host = new.machine;
}"""


def generations(machine: str) -> tuple[Format, Format, Format]:
    rev0 = record_to_format(REV0, machine)
    rev1 = evolve(rev0, record_to_format(REV1, machine), TO_REV0)
    return rev0, rev1, evolve(rev1, record_to_format(REV2, machine), TO_REV1)


VALUES: list[dict[str, Any]] = [
    {"total": 4.0, "host": "a"},
    {"n": 2, "mean": 1.5, "host": "b"},
    {"n": 3, "loads": [1.0, 2.0, 6.0], "machine": "c", "at": 99},
]


def content(formats: tuple[Format, ...], values: list[dict[str, Any]] = VALUES) -> bytes:
    file = io.BytesIO()
    with FileWriter(file) as writer:
        for form, value in zip(formats, values, strict=True):
            writer.data(form, value)
    return file.getvalue()


def rows(plan: ReadPlan, data: bytes) -> list[dict[str, Any]]:
    batches = list(read_batches(plan, FilePart("a.ffs"), io.BytesIO(data)))
    for batch in batches:
        assert batch.schema == plan.schema
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


def reading(target: Record, formats: tuple[Format, ...], **request: Any) -> ReadPlan:
    request = {"targets": (("mine", target),), "policy": Policy(mismatch_threshold=1.0)} | request
    return plan_of(record_to_arrow(target), store=MemoryStore(formats), request=Request(**request))


@pytest.mark.parametrize("machine", ["le64", "be64", "be32", "le32"])
def test_nine_pairs(machine: str) -> None:
    formats = generations(machine)
    data = content(formats)
    assert rows(reading(REV0, formats), data) == [
        {"total": 4.0, "host": "a"},
        {"total": 3.0, "host": "b"},
        {"total": 9.0, "host": "c"},
    ]
    assert rows(reading(REV1, formats), data) == [
        {"n": None, "mean": None, "host": "a"},
        {"n": 2, "mean": 1.5, "host": "b"},
        {"n": 3, "mean": 3.0, "host": "c"},
    ]
    assert rows(reading(REV2, formats), data) == [
        {"n": None, "loads": None, "machine": None, "at": None},
        {"n": 2, "loads": None, "machine": None, "at": None},
        {"n": 3, "loads": [1.0, 2.0, 6.0], "machine": "c", "at": 99},
    ]


def test_metadata_names_the_route() -> None:
    formats = generations("be32")
    plan = reading(REV0, formats)
    schema = plan.schema.append(pa.field("_pbio", METADATA_TYPE))
    found = rows(changed(plan, schema=schema, metadata_column="_pbio"), content(formats))
    rev0, rev1, _ = (form.id.hex() for form in formats)
    assert [row["_pbio"]["way"] for row in found] == ["direct", f"via {rev0}", f"via {rev1}, {rev0}"]
    assert {row["_pbio"]["target"] for row in found} == {"mine"}


def test_a_filter_is_typed_against_the_target() -> None:
    formats = generations("be64")
    plan = reading(REV0, formats, keep="{ return input.total > 3.5; }")
    assert rows(plan, content(formats)) == [{"total": 4.0, "host": "a"}, {"total": 9.0, "host": "c"}]
    none = reading(REV0, formats, keep="{ return 0; }")
    assert rows(none, content(formats)) == []


def test_formats_of_one_request_have_one_filter() -> None:
    first, second = Format.of(REV1, "le64"), Format.of(REV1, "be64")

    def filters(request: Request, *formats: Format) -> list[Any]:
        routes = [find_route(form, request, (), None) for form in formats]
        return [route.keep for route in routes if isinstance(route, RecordRoute)]

    many = Request(typed=REV1, keep="{ return input.n > 5; }")
    few = replace(many, keep="{ return input.n > 50; }")
    a, b, c, d = *filters(many, first, second), *filters(few, first, second)
    assert (a is b, c is d, a is c) == (True, True, False)
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_PROGRAM\].*keeps state"):
        filters(replace(many, keep="{ static int n = 0; n++; return n > 5; }"), first)


def test_a_transform_makes_the_columns() -> None:
    formats = generations("le32")
    made = record("Made", [Field("twice", INT64), Field("who", STRING)])
    source = "{ if (input.total > 8) return 0; output.twice = 2 * input.total; output.who = input.host; return 1; }"
    plan = changed(reading(REV0, formats, columns=made, make=source), schema=record_to_arrow(made))
    assert rows(plan, content(formats)) == [{"twice": 8, "who": "a"}, {"twice": 6, "who": "b"}]


def test_a_transform_need_not_return_anything() -> None:
    formats = generations("be64")
    made = record("Made", [Field("twice", INT64)])
    plan = changed(
        reading(REV0, formats, columns=made, make="{ output.twice = 2 * input.total; }"), schema=record_to_arrow(made)
    )
    assert rows(plan, content(formats)) == [{"twice": 8}, {"twice": 6}, {"twice": 18}]
    sometimes = "{ if (input.total > 4) return 0; output.twice = 2 * input.total; }"
    with pytest.raises(PbioError, match="must end in a return"):
        rows(changed(plan, request=replace(plan.selection.request, make=sometimes)), content(formats))


@pytest.mark.parametrize("end", ["return 0;", "if (new.n != 2) { old.host = new.host; return 0; } return 1;"])
def test_what_a_carried_transform_returns_drops_nothing(end: str) -> None:
    rev0 = record_to_format(REV0)
    rev1 = evolve(rev0, record_to_format(REV1), f"{{ old.total = new.mean * new.n; {end} }}")
    rev2 = evolve(rev1, record_to_format(REV2), TO_REV1.rstrip()[:-1] + "return 0; }")
    values = [VALUES[1], {**VALUES[1], "n": 5}, VALUES[2]]
    found = rows(reading(REV0, (rev0, rev1, rev2)), content((rev1, rev1, rev2), values))
    assert [row["total"] for row in found] == [3.0, 7.5, 9.0]


def test_a_schema_alone_takes_what_it_can_and_loses_no_row() -> None:
    formats = generations("be32")
    schema = pa.schema([("total", pa.float64()), ("at", pa.int64())])
    request = Request(columns=arrow_to_record(schema, "wanted"))
    plan = plan_of(schema, store=MemoryStore(formats), request=request)
    found = rows(plan, content(formats))
    assert found[:2] == [{"total": 4.0, "at": None}, {"total": 3.0, "at": None}]
    assert found[2] in ({"total": None, "at": 99}, {"total": 9.0, "at": None})


def test_without_a_target_programs_see_the_record_as_it_came() -> None:
    formats = generations("be32")
    union = merge([form.record for form in formats])
    schema = pa.schema([("total", pa.float64()), ("host", pa.string())])
    request = Request(columns=arrow_to_record(schema, "wanted"), typed=union, keep="{ return input.at == 99; }")
    plan = plan_of(schema, formats=formats, request=request)
    values = [VALUES[0], VALUES[1], VALUES[2] | {"at": 1}, VALUES[2], VALUES[2] | {"machine": "d"}]
    data = content((formats[0], formats[1], *[formats[2]] * 3), values)
    assert rows(plan, data) == [{"total": 9.0, "host": "c"}, {"total": 9.0, "host": "d"}]
    divides = replace(request, keep="{ return 1 / (input.at - 1); }")
    assert rows(changed(plan, request=divides, mode="DROPMALFORMED"), data) == [
        {"total": 4.0, "host": "a"},
        {"total": 3.0, "host": "b"},
    ]
    made = pa.schema([("host", pa.string()), ("n", pa.int64())])
    make = (
        "{ output.host = present(input.host) ? input.host : input.machine; output.n = input.n; return input.at != 1; }"
    )
    request = Request(columns=arrow_to_record(made, "made"), typed=union, make=make)
    assert rows(plan_of(made, formats=formats, request=request), data) == [
        {"host": "a", "n": 0},
        {"host": "b", "n": 2},
        {"host": "c", "n": 3},
        {"host": "d", "n": 3},
    ]


def test_what_reaches_no_target_is_refused_dropped_or_bad(caplog: pytest.LogCaptureFixture) -> None:
    formats = generations("le64")
    far = record("Load", [Field("x", INT32), Field("y", INT32)])
    plan = reading(far, formats, policy=Policy())
    with pytest.raises(PbioError, match="PBIO_REJECTED") as caught:
        rows(plan, content(formats))
    assert "Mr" in str(caught.value)
    assert rows(reading(far, formats, policy=Policy(), on_reject="drop"), content(formats)) == []
    (left_out,) = caplog.messages
    assert left_out.endswith(": 3 records that reach no wanted type left out")
    corrupt = reading(far, formats, policy=Policy(), on_reject="corrupt")
    schema = corrupt.schema.append(pa.field("bad", CORRUPT_TYPE))
    found = rows(changed(corrupt, schema=schema, mode="PERMISSIVE", corrupt_column="bad"), content(formats))
    assert [row["bad"]["reason"].partition("]")[0] for row in found] == ["[PBIO_REJECTED"] * 3


def test_a_trap_makes_a_bad_record() -> None:
    old = record_to_format(record("Msg", [Field("mean", INT32)]))
    new_type = record("Msg", [Field("sum", INT32), Field("n", INT32)])
    new = evolve(old, record_to_format(new_type), "{\n old.mean = new.sum / new.n;\n}")
    data = content((new, new, new), [{"sum": 6, "n": 2}, {"sum": 1, "n": 0}, {"sum": 8, "n": 2}])
    plan = reading(old.record, (old, new))
    with pytest.raises(PbioError, match="PBIO_TRAP") as caught:
        rows(plan, data)
    assert "division by zero at line 2" in str(caught.value)
    assert caught.value.offset is not None
    assert rows(changed(plan, mode="DROPMALFORMED"), data) == [{"mean": 3}, {"mean": 4}]


def test_elements_before_their_count_get_the_order_that_works() -> None:
    fields = [Field("n", INT32), Field("v", Array(INT32, ("n",)))]
    old, newer = record_to_format(record("Msg", fields)), record("Msg", [*fields, Field("x", INT32)])
    code = "{{ int i; {} for (i = 0; i < new.n; i++) old.v[i] = new.v[i]; old.n = new.n; }}"
    for first in ("", "old.n = new.n;"):
        new = evolve(old, record_to_format(newer), code.format(first))
        data = content((new,), [{"n": 2, "v": [1, 2], "x": 0}])
        if first:
            assert rows(reading(old.record, (old, new)), data) == [{"n": 2, "v": [1, 2]}]
        else:
            with pytest.raises(PbioError, match="set the count of an array before its elements"):
                rows(reading(old.record, (old, new)), data)


def test_defaults_of_the_target_fill_what_is_missing() -> None:
    target = record(
        "Load", [Field("host", STRING), Field("unit", STRING, Notes(default="kPa")), Field("total", FLOAT64)]
    )
    formats = generations("be32")
    found = rows(reading(target, formats), content(formats))
    assert {row["unit"] for row in found} == {"kPa"}
    kept = rows(reading(target, formats, keep="{ return present(input.unit); }"), content(formats))
    assert [row["host"] for row in kept] == ["a", "b", "c"]


def test_transforms_may_come_from_the_reader() -> None:
    old, new = record_to_format(REV0), record_to_format(REV1, "be32")
    transform = Transform(new.id.hex(), old.id.hex(), TO_REV0)
    plan = reading(REV0, (old, new), transforms=(transform,))
    assert rows(plan, content((new,), [VALUES[1]])) == [{"total": 3.0, "host": "b"}]


def test_programs_that_keep_state_or_are_wrong_are_refused() -> None:
    formats = generations("le64")
    with pytest.raises(PbioError, match="PBIO_BAD_PROGRAM"):
        rows(reading(REV0, formats, keep="{ static int n = 0; n++; return n > 1; }"), content(formats))
    with pytest.raises(PbioError, match="did you mean"):
        rows(reading(REV0, formats, keep="{ return input.totl > 1; }"), content(formats))


def test_records_that_become_much_larger_come_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_of_programs, "_MOST_BYTES", 1 << 16)
    old_type = record("Msg", [Field("n", INT32), Field("v", Array(FLOAT64, ("n",)))])
    old, new_type = record_to_format(old_type), record("Msg", [Field("k", INT32)])
    new = evolve(old, record_to_format(new_type), "{ old.n = new.k; if (new.k) old.v[new.k - 1] = new.k; }")
    sizes = [0, 3000, 1, 3000, 2999, 50_000, 0, 5]
    found = rows(reading(old_type, (old, new)), content((new,) * 8, [{"k": k} for k in sizes]))
    assert [(row["n"], len(row["v"]), row["v"][-1:]) for row in found] == [
        (k, k, [float(k)][: min(k, 1)]) for k in sizes
    ]


def test_columns_that_can_never_be_are_refused_while_planning() -> None:
    formats = generations("be32")
    plan = changed(reading(REV0, formats), schema=pa.schema([("host", pa.int32())]))
    for form in formats:
        with pytest.raises(PbioError, match="PBIO_INCOMPATIBLE_TYPE") as caught:
            compile_converter(plan, form, fused=False)
        assert caught.value.field == "$.host"
