"""Readers' programs see what the table shows: random filters, compared with the same program over decoded rows."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ecode
from ecode.columns import batch
from ecode.types import (
    CHAR,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    STRING,
    UINT8,
    Array,
    Basic,
    Field,
    Kind,
    Notes,
    Pointer,
    Ref,
    Struct,
    Type,
    record,
)
from pbio_spark.columns.files.plan import FilePart, ReadPlan
from pbio_spark.columns.files.read import read_batches
from pbio_spark.columns.programs.routes import Request
from pbio_spark.columns.programs.seen import record_to_seen
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.merge import merge
from pbio_spark.formats.store import MemoryStore
from pbio_spark.testing import strategies
from pbio_spark.wire import FileWriter, decode, encode
from tests.columns.checked import CheckedKernel
from tests.columns.programs.test_binding import seen
from tests.plans import changed, plan_of

LIMITS = strategies.Limits(long_double=False, recursive=False, depth=3)
LONG = bool(os.environ.get("PBIO_LONG"))
MANY = settings(max_examples=1_200 if LONG else 20, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def _kernels_run_as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling hundreds of programs would take most of the time of these tests."""
    monkeypatch.setattr(batch, "compile_kernel", lambda source: CheckedKernel(source, [(0, 1 << 63)]))


def content(*records: tuple[Format, dict[str, Any]], described: tuple[Format, ...] = ()) -> bytes:
    file = io.BytesIO()
    with FileWriter(file) as writer:
        for form in described:
            writer.describe(form)
        for form, value in records:
            writer.data(form, value)
    return file.getvalue()


def rows(plan: ReadPlan, data: bytes) -> list[dict[str, Any]]:
    return [row for made in read_batches(plan, FilePart("a.ffs"), io.BytesIO(data)) for row in made.to_pylist()]


def filtered(keep: str, *formats: Format, columns: pa.Schema | None = None, **plan: Any) -> ReadPlan:
    union = merge([form.record for form in formats])
    schema = record_to_arrow(union) if columns is None else columns
    return plan_of(schema, formats=formats, request=Request(typed=union, keep=keep), **plan)


# Random filters


def numbers_of(type_: Type, path: str, structs: dict[str, Struct], depth: int = 0) -> Iterator[tuple[str, str]]:
    """What a program can compare below a place, each with the condition that the way there exists."""
    yield from _numbers(type_, path, [], structs, depth)


def _numbers(
    type_: Type, path: str, needs: list[str], structs: dict[str, Struct], depth: int
) -> Iterator[tuple[str, str]]:
    if depth > 4:
        return
    match type_:
        case Basic(Kind.STRING):
            yield f'({path} == "a")', " && ".join(needs)
            yield f"(!{path})", " && ".join(needs)
        case Basic():
            yield path, " && ".join(needs)
        case Ref(name):
            for field in structs[name].fields:
                yield from _numbers(field.type, f'{path}["{field.name}"]', needs, structs, depth + 1)
        case Pointer(Ref() as target):
            yield f"({path} != NULL)", " && ".join(needs)
            yield from _numbers(target, f"(*{path})", needs, structs, depth + 1)
        case Pointer(Basic() as target):
            yield from _numbers(target, f"(*{path})", needs, structs, depth + 1)
        case Array(element, dims):
            record = path[: path.rindex("[")]
            asked = [f'{record}["{dim}"] > 0' for dim in dims if isinstance(dim, str)]
            yield from _numbers(element, path + "[0]" * len(dims), [*needs, *asked], structs, depth + 1)


@given(st.data())
@MANY
def test_random_filters_are_those_of_plain_python_over_the_rows(data: st.DataObject) -> None:
    form = data.draw(strategies.formats(LIMITS))
    values = data.draw(st.lists(strategies.values(form), min_size=2, max_size=6))
    record = record_to_seen(form.record, {}, {})
    flat = {struct.name: struct for struct in record.flattened().structs}
    terms = list(numbers_of(Ref(record.name), "input", flat))
    if not terms:
        return
    chosen = data.draw(st.lists(st.sampled_from(terms), min_size=1, max_size=4))
    parts = []
    for path, needs in chosen:
        operator = data.draw(st.sampled_from(("==", "!=", "<", ">=")))
        test = f"{path} {operator} {data.draw(st.sampled_from((0, 1, -1, 127, 200, 65536)))}"
        parts.append(f"({needs} && {test})" if needs else f"({test})")
    fields = [f'present(input["{f.name}"])' for f in record.fields]
    parts.append(data.draw(st.sampled_from(fields)))
    keep = "{ return " + data.draw(st.sampled_from((" || ", " && "))).join(parts) + "; }"
    program = ecode.compile(keep, [ecode.Param("input", record)])
    structs = {struct.name: struct for struct in record.structs}
    whole = [decode(form, encode(form, value), text=None) for value in values]
    expected = []
    for number, value in enumerate(whole):
        plain = seen(value, Ref(record.name), {}, structs)
        plain = {f.name: None if is_null(value, f) else plain[f.name] for f in record.fields}
        if program.run({"input": plain}).returned:
            expected.append(number)
    marked = pa.schema([pa.field("_pbio", pa.struct([("ordinal", pa.int64())]))])
    plan = changed(filtered(keep, form, columns=marked), metadata_column="_pbio")
    found = [row["_pbio"]["ordinal"] for row in rows(plan, content(*((form, value) for value in values)))]
    assert found == expected, keep


def is_null(value: dict[str, Any], field: Field) -> bool:
    """Whether a field's column is null: an empty array is not."""
    dims = field.type.dims if isinstance(field.type, Array) else ()
    is_empty = 0 in [value[dim] if isinstance(dim, str) else dim for dim in dims]
    return value[field.name] is None and not is_empty


# One value of each kind


def test_elements_of_arrays_in_arrays() -> None:
    point = Struct("pt", (Field("a", INT32),))
    fields = [
        Field("n", INT32),
        Field("m", INT32),
        Field("dd", Array(Array(INT32, ("n",)), (2,))),
        Field("ds", Array(Array(INT32, (2,)), ("m",))),
        Field("ss", Array(Array(STRING, (2,)), (2,))),
        Field("ps", Array(Array(Ref("pt"), ("n",)), (2,))),
        Field("cs", Array(Array(CHAR, (4,)), (2,))),
        Field("pa", Array(Pointer(Array(INT32, (3,))), (2,))),
    ]
    value = {
        "n": 2, "m": 3, "dd": [[1, 2], [3, 4]], "ds": [[1, 2], [3, 4], [5, 6]], "ss": [["a", "b"], ["c", None]],
        "ps": [[{"a": 1}, {"a": 2}], [{"a": 3}, {"a": 4}]], "cs": [[65, 0, 0, 0], [66, 67, 0, 0]],
        "pa": [None, [7, 8, 9]],
    }  # fmt: skip
    for machine in ("le64", "be64", "be32", "le32"):
        form = record_to_format(record("r", fields, [point]), machine)
        for keep in (
            "input.dd[1][1] == 4", "input.dd[0][1] == 2", "input.ds[2][1] == 6", "input.ds[1][0] == 3",
            'input.ss[1][0] == "c"', "!input.ss[1][1]", "input.ps[1][0].a == 3", "input.cs[1][1] == 'C'",
            "(*input.pa[1])[2] == 9", "(*input.pa[0])[2] == 0", "!input.pa[0]",
        ):  # fmt: skip
            assert len(rows(filtered(f"{{ return {keep}; }}", form), content((form, value)))) == 1, (machine, keep)
    source = "{ output.n = 2; output.dd[1][1] = input.dd[1][1]; output.ds[1][0] = 5; return 1; }"
    made = record("o", [Field("n", INT32), fields[2], Field("ds", Array(Array(INT32, (2,)), (2,)))])
    request = Request(typed=form.record, columns=made, make=source)
    (row,) = rows(plan_of(record_to_arrow(made), formats=(form,), request=request), content((form, value)))
    assert row == {"n": 2, "dd": [[0, 0], [0, 4]], "ds": [[0, 0], [5, 0]]}


NULLS = record(
    "r",
    [
        Field("x", INT32),
        Field("n", INT32),
        Field("v", Array(FLOAT64, ("n",))),
        Field("p", Pointer(Ref("pt"))),
        Field("s", STRING),
    ],
    [Struct("pt", (Field("a", INT32), Field("next", Pointer(Ref("pt")))))],
)
IN_PLACE = record(
    "r", [Field("x", INT32), Field("n", INT32), Field("p", Ref("pt"))], [Struct("pt", (Field("a", INT32),))]
)


@pytest.mark.parametrize("machine", ["le64", "be32"])
def test_null_reads_as_zero_and_present_tells(machine: str) -> None:
    form = record_to_format(NULLS, machine)
    full = {"n": 1, "v": [5.0], "p": {"a": 7, "next": None}, "s": "s"}
    data = content(
        (form, {"x": 1, **full}),
        (form, {"x": 2, "n": 2, "v": None, "p": None, "s": None}),
        (form, {"x": 3, "n": 0, "v": None, "p": {"a": 0, "next": {"a": 7, "next": None}}, "s": ""}),
    )
    columns = pa.schema([("x", pa.int32())])
    for keep, kept in (
        ("present(input.v)", [1, 3]),
        ("input.n > 0 && input.v[input.n - 1] == 0.0", [2]),
        ("present(input.p)", [1, 3]),
        ("present(input.p.a)", [1, 3]),
        ("input.p.a == 7", [1]),
        ("input.p.a == 0", [2, 3]),
        ("input.p.next.a == 7", [3]),
        ("input.p.next.next.next.a == 0", [1, 2, 3]),
        ("present(input.p.next)", [3]),
        ("!input.s", [2]),
        ('input.s == ""', [3]),
    ):
        found = rows(filtered(f"{{ return {keep}; }}", form, columns=columns), data)
        assert [row["x"] for row in found] == kept, keep
    for keep, kept in (("input.p.a == 0", [2, 3]), ("present(input.p)", [1, 3]), ("present(input.p.a)", [1, 3])):
        request = Request(targets=(("mine", IN_PLACE),), keep=f"{{ return {keep}; }}")
        assert [row["x"] for row in rows(plan_of(columns, formats=(form,), request=request), data)] == kept, keep


def test_versions_may_differ_in_the_extents_of_their_arrays() -> None:
    three, five = (record_to_format(record("r", [Field("v", Array(INT32, (k,)))])) for k in (3, 5))
    open_ = record_to_format(record("r", [Field("n", INT32), Field("v", Array(INT32, ("n",)))]), "be32")
    data = content((three, {"v": [1, 2, 3]}), (five, {"v": [1, 2, 3, 4, 5]}))
    assert len(rows(filtered("{ return input.v[2] == 3; }", three, five), data)) == 2
    assert rows(filtered("{ return input.v[4] == 0; }", three, five), data) == [{"v": [1, 2, 3]}]
    data = content((three, {"v": [1, 2, 3]}), (open_, {"n": 1, "v": [1]}), (open_, {"n": 0, "v": None}))
    total = "{ int i, sum = 0; for (i = 0; i < input.n; i++) sum += input.v[i]; return sum == 6; }"
    assert [row["v"] for row in rows(filtered(total, three, open_), data)] == [[1, 2, 3]]


def test_a_name_that_fits_two_fields_is_refused_everywhere() -> None:
    one = record_to_format(record("r", [Field("Ab", INT32), Field("x", INT32)]))
    two = record_to_format(record("r", [Field("AB", INT32), Field("ab", INT32), Field("x", INT32)]))
    data = content((two, {"AB": 1, "ab": 2, "x": 3}))
    columns = pa.schema([("x", pa.int32())])
    with pytest.raises(PbioError, match="PBIO_AMBIGUOUS_NAME"):
        rows(filtered("{ return input.Ab == 0; }", one, two, columns=columns), data)
    only = filtered("{ return input.Ab == 2; }", one, two, columns=columns, aliases={"Ab": "ab"})
    assert rows(only, data) == [{"x": 3}]
    street = record_to_format(record("r", [Field("straße", INT32)]))
    asked = plan_of(pa.schema([("strasse", pa.int32()), ("STRAßE", pa.int32())]))
    assert rows(asked, content((street, {"straße": 5}))) == [{"strasse": None, "STRAßE": 5}]


def test_programs_see_the_defaults_that_columns_have_and_no_others() -> None:
    old = record_to_format(record("t", [Field("id", INT32)]))
    new = record_to_format(record("t", [Field("id", INT32), Field("vol", INT32, Notes(default=7))]))
    data = content((old, {"id": 1}), (new, {"id": 2, "vol": 5}))
    for keep, defaults, kept in (
        ("input.vol == 7", {}, []),
        ("present(input.vol)", {}, [2]),
        ("input.vol == 42", {"vol": 42}, [1]),
        ("input.vol == 7", {"vol": 42}, []),
        ("present(input.vol)", {"vol": 42}, [1, 2]),
    ):
        found = rows(filtered(f"{{ return {keep}; }}", old, new, defaults=defaults), data)
        assert [row["id"] for row in found] == kept, (keep, defaults)


def test_characters_and_enumerations_are_the_numbers_of_their_columns() -> None:
    form = record_to_format(record("c", [Field("c", CHAR), Field("e", Basic(Kind.ENUMERATION, 4))]), "be64")
    data = content((form, {"c": 200, "e": 4_000_000_000}))
    (row,) = rows(filtered("{ return input.c == 200 && input.e == 4000000000; }", form), data)
    assert row == {"c": 200, "e": 4_000_000_000}
    assert rows(filtered("{ return input.c < 0 || input.e < 0; }", form), data) == []


@pytest.mark.parametrize(
    ("keep", "reason"), [("1 / input.x", "division by zero"), ("input.v[3]", "index out of range")]
)
def test_a_trap_does_what_mode_says_with_its_reason(keep: str, reason: str) -> None:
    form = record_to_format(record("r", [Field("x", INT32), Field("v", Array(INT32, ("x",)))]))
    data = content((form, {"x": 0, "v": None}), (form, {"x": 4, "v": [1, 1, 1, 1]}), (form, {"x": 1, "v": [1]}))
    plan = filtered(f"{{ return {keep} >= 0; }}", form, columns=pa.schema([("x", pa.int32()), ("bad", pa.binary())]))
    plan = changed(plan, corrupt_column="bad")
    with pytest.raises(PbioError, match=reason):
        rows(plan, data)
    permissive = rows(changed(plan, mode="PERMISSIVE"), data)
    dropped = rows(changed(plan, mode="DROPMALFORMED"), data)
    assert len(permissive) == 3
    assert [row for row in permissive if row["bad"] is None] == dropped
    assert 1 <= len(dropped) < 3


def test_a_value_that_the_programs_type_lacks_is_named() -> None:
    form = record_to_format(record("r", [Field("x", INT64)]))
    target = record("r", [Field("x", INT8)])
    request = Request(targets=(("mine", target),), keep="{ return input.x == 0; }")
    plan = plan_of(pa.schema([]), formats=(form,), request=request)
    with pytest.raises(PbioError, match=r"\$\.x does not fit int8"):
        rows(plan, content((form, {"x": 2**40})))


def test_damage_is_damage_to_programs_too() -> None:
    """A slot near 2^63 or beyond the record: plain reading, filters, transforms and readers in place agree."""
    form = record_to_format(record("r", [Field("x", INT32), Field("p", Pointer(INT32)), Field("s", STRING)]))
    good = content((form, {"x": 1, "p": 5, "s": "s"}))
    target = record("r", [Field("x", INT32), Field("p", INT32)])
    made = record("o", [Field("y", INT32)])
    at = good.rindex((24).to_bytes(8, "little"))
    for slot in (2**63 - 1, 2**63, 2**64 - 1, 2**63 - 4, 2**32, len(good), 25, 8):
        bad = good[:at] + slot.to_bytes(8, "little") + good[at + 8 :]
        ways = (
            plan_of(record_to_arrow(form.record)),
            filtered("{ return input.p && *input.p > 0; }", form),
            plan_of(
                record_to_arrow(made),
                formats=(form,),
                request=Request(typed=form.record, columns=made, make="{ if (input.p) output.y = *input.p; }"),
            ),
            plan_of(
                record_to_arrow(target),
                formats=(form,),
                request=Request(targets=(("mine", target),), keep="{ return input.p > 0; }"),
            ),
        )
        found = [rows(changed(way, mode="DROPMALFORMED"), bad) for way in ways]
        plain, kept, made_of, in_place = ([next(iter(row.values())) for row in rows_] for rows_ in found)
        assert len(made_of) == len(plain), (slot, found)
        assert kept == in_place, (slot, found)
        assert len(kept) <= len(plain), (slot, found)


# Transforms of formats

OLD = record_to_format(record("m", [Field("id", INT32)]))
NEW_TYPE = record("m", [Field("key", INT32)])


def reader(*formats: Format) -> ReadPlan:
    request = Request(targets=(("mine", OLD.record),))
    return plan_of(record_to_arrow(OLD.record), store=MemoryStore(formats), request=request)


def test_what_a_transform_of_a_format_returns_is_ignored() -> None:
    new = evolve(OLD, record_to_format(NEW_TYPE), "{ old.id = new.key; if (new.key == 1) return 1; return 0; }")
    data = content(*((new, {"key": k}) for k in range(3)), described=(OLD,))
    assert rows(reader(OLD, new), data) == [{"id": k} for k in range(3)]


@pytest.mark.parametrize(
    "program",
    ["{ static int n = 0; n++; old.id = n; }", "{ " + "while (old.id < 1) { " * 25 + "old.id = 1; " + "}" * 25 + " }"],
)
def test_a_transform_that_cannot_be_compiled_gives_way_to_the_next_best(
    program: str, caplog: pytest.LogCaptureFixture
) -> None:
    both = record("m", [Field("key", INT32), Field("id", INT32)])
    closer = record_to_format(record("m", [Field("id", INT32), Field("note", INT32)]))
    new = evolve(closer, record_to_format(both), program)
    target = closer.record
    request = Request(targets=(("mine", target),))
    plan = plan_of(record_to_arrow(target), store=MemoryStore((closer, new)), request=request)
    assert rows(plan, content((new, {"key": 1, "id": 9}), described=(closer,))) == [{"id": 9, "note": None}]
    assert any("MORPH_BAD_TRANSFORM" in message for message in caplog.messages)


def test_batches_of_what_programs_make_keep_to_their_size() -> None:
    old_type = record("m", [Field("n", INT32), Field("v", Array(UINT8, ("n",)))])
    old = record_to_format(old_type)
    new = evolve(old, record_to_format(record("m", [Field("k", INT32)])), "{ old.n = new.k; }")
    plain = record_to_format(record("m", [Field("n", INT64)]))
    sizes = [100_000] * 40 + [900_000] + [5] * 20
    records: list[tuple[Format, dict[str, Any]]] = []
    for size in sizes:
        records += [(new, {"k": size}), (plain, {"n": -size})]
    plan = plan_of(
        record_to_arrow(old_type),
        store=MemoryStore((old, new, plain)),
        most_bytes=1 << 19,
        request=Request(targets=(("mine", old_type),)),
    )
    batches = list(read_batches(plan, FilePart("a.ffs"), io.BytesIO(content(*records, described=(old,)))))
    assert [n for batch in batches for n in batch["n"].to_pylist()] == [n for k in sizes for n in (k, -k)]
    assert all(batch.nbytes <= 1 << 20 or batch.num_rows <= 3 for batch in batches)
    assert len(batches) > 8
