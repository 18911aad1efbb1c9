"""Transforms pass nulls on, and write them: `unset`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ecode
import pbio_spark as pbio
from ecode.types import FLOAT64, INT32, STRING, Field, Pointer, record
from pbio_spark.channels import ChannelSpace
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.written import columns_to_record
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format

OLD = pa.schema([("a", pa.int32()), ("celsius", pa.float64()), ("name", pa.string()), ("v", pa.list_(pa.int32()))])
NEW = pa.schema(
    [("a", pa.int32()), ("kelvin", pa.float64()), ("name", pa.string()), ("v", pa.list_(pa.int32())), ("b", pa.int32())]
)
COPY = """{
    if (present(new.a)) old.a = new.a; else unset(old.a);
    if (present(new.kelvin)) old.celsius = new.kelvin - 273.0; else unset(old.celsius);
    old.name = new.name;
    int i;
    old.v_count = new.v_count;
    for (i = 0; i < new.v_count; i++) old.v[i] = new.v[i];
    if (!present(new.v)) unset(old.v);
}"""
ROWS: list[dict[str, Any]] = [
    {"a": 1, "kelvin": 274.0, "name": "x", "v": [1, 2], "b": 0},
    {"a": None, "kelvin": None, "name": None, "v": None, "b": 1},
    {"a": 0, "kelvin": 273.0, "name": "", "v": [], "b": None},
]
EXPECTED = [
    {"a": 1, "celsius": 1.0, "name": "x", "v": [1, 2]},
    {"a": None, "celsius": None, "name": None, "v": None},
    {"a": 0, "celsius": 0.0, "name": "", "v": []},
]


def masked(schema: pa.Schema, name: str = "r") -> Format:
    return record_to_format(columns_to_record(schema, name, "mask"))


def transformed(folder: Path, program: str, rows: list[dict[str, Any]] = ROWS) -> list[dict[str, Any]]:
    """Rows of the new type, read as the old one."""
    old, new = masked(OLD), masked(NEW)
    with pbio.open_writer(str(folder / "new.ffs"), evolve(old, new, program)) as writer:
        writer.write(pa.Table.from_pylist(rows, NEW))
    with pbio.open_writer(str(folder / "old.ffs"), old) as writer:
        writer.write(pa.Table.from_pylist(EXPECTED[:1], OLD))
    found = pbio.read_arrow([str(folder / "new.ffs"), str(folder / "old.ffs")], readerFormat=old.record)
    return found.to_pylist()[: len(rows)]


def test_a_transform_passes_nulls_on(tmp_path: Path) -> None:
    assert transformed(tmp_path, COPY) == EXPECTED


def test_the_interpreter_gives_the_same() -> None:
    old, new = masked(OLD).record, masked(NEW).record
    program = ecode.compile(COPY, [ecode.Param("new", new), ecode.Param("old", old, ecode.Mode.OUT)], None)
    for row, expected in zip(ROWS, EXPECTED, strict=True):
        values = {**row, "v": row["v"], "v_count": len(row["v"] or ())}
        if values["name"] is not None:
            values["name"] = values["name"].encode()
        made = program.run({"new": values}).outputs["old"]
        name = None if made["name"] is None else made["name"].decode()
        assert {"a": made["a"], "celsius": made["celsius"], "name": name, "v": made["v"]} == expected


@pytest.mark.parametrize(
    ("body", "celsius"),
    [
        ("unset(old.celsius);", None),
        ("old.celsius = 5; unset(old.celsius);", None),
        ("unset(old.celsius); old.celsius = 5;", 5.0),
        ("unset(old.celsius); old.celsius += 2;", 2.0),
        ("if (new.a == 1) unset(old.celsius); else old.celsius = 1;", None),
        ("unset(old.name); old.celsius = 4;", 4.0),
    ],
)
def test_the_last_of_unset_and_assignment_counts(tmp_path: Path, body: str, celsius: float | None) -> None:
    (row,) = transformed(tmp_path, f"{{ old.a = new.a; {body} }}", ROWS[:1])
    assert row["celsius"] == celsius


def test_the_next_transform_sees_the_null(tmp_path: Path) -> None:
    """Two transforms in a row, as one kernel."""
    oldest = masked(pa.schema([("a", pa.int32()), ("warm", pa.int32())]))
    middle, new = masked(OLD), masked(NEW)
    last = "{ old.a = new.a; if (present(new.celsius)) old.warm = new.celsius > 0; else unset(old.warm); }"
    evolved = evolve(oldest, middle, last)
    for name, form, rows in (
        ("new", evolve(evolved, new, COPY), pa.Table.from_pylist(ROWS, NEW)),
        ("middle", evolved, pa.Table.from_pylist(EXPECTED, OLD)),
        ("oldest", oldest, pa.Table.from_pylist([{"a": 5, "warm": 1}])),
    ):
        with pbio.open_writer(str(tmp_path / f"{name}.ffs"), form) as writer:
            writer.write(rows)
    files = [str(tmp_path / f"{name}.ffs") for name in ("new", "middle", "oldest")]
    found = pbio.read_arrow(files, readerFormat=oldest.record)["warm"].to_pylist()
    assert found == [1, None, 0, 1, None, 0, 1]


@pytest.mark.parametrize("engine", ["kernel", "plain"])
def test_a_derived_channel_makes_nulls(tmp_path: Path, engine: str) -> None:
    space = ChannelSpace.create(str(tmp_path / "space"))
    space.create_channel("new", NEW)
    transform = """{
        if (present(input.kelvin)) output.celsius = input.kelvin - 273.0; else unset(output.celsius);
        return 1;
    }"""
    services = []
    if engine == "plain":  # a service of the user's own runs in the interpreter
        services = ["double zero(double x)"]
        space = ChannelSpace.open(space.root, source=pbio.Source(services=[ecode.service(services[0], lambda x: 0.0)]))
        transform = transform.replace("- 273.0", "- 273.0 + zero(1.0)")
    type_ = pa.schema([("celsius", pa.float64())])
    space.derive_channel("old", "new", transform=transform, type=type_, services=services)
    space.channel("new").submit(pa.Table.from_pylist(ROWS, NEW))
    with space.channel("old").subscribe(start="earliest") as subscription:
        assert [event.values["celsius"] for event in subscription.events()] == [1.0, None, 0.0]


@pytest.mark.parametrize("engine", ["kernel", "plain"])
def test_what_is_assigned_after_a_copy_of_nulls_is_there(tmp_path: Path, engine: str) -> None:
    space = ChannelSpace.create(str(tmp_path / "space"))
    schema = pa.schema(
        [("a", pa.int32()), ("b", pa.float64()), ("v", pa.list_(pa.int32())), ("w", pa.list_(pa.int32()))]
    )
    made = "output.a += 1; output.v_count = 2; output.v[i++] = 5; output.v[i++] = 6; output.b = i;"
    services = []
    if engine == "plain":
        services = ["double zero(double x)"]
        space = ChannelSpace.open(space.root, source=pbio.Source(services=[ecode.service(services[0], lambda x: 0.0)]))
        made += " output.b += zero(1.0);"
    space.create_channel("events", schema)
    transform = f"{{ int i = 0; output = input; {made} return 1; }}"
    space.derive_channel("copies", "events", transform=transform, type=schema, services=services)
    dequeue = f"{{ int i = 0; {made} return 1; }}"
    space.derive_channel("late", "events", filter="{ return 1; }", dequeue=dequeue, services=services)
    rows = [
        {"a": None, "b": None, "v": None, "w": None},
        {"a": 3, "b": 1.0, "v": [None, 1, None], "w": [None, 7]},
        {"a": None, "b": 2.0, "v": [], "w": []},
    ]
    space.channel("events").submit(pa.Table.from_pylist(rows, schema))
    expected = [{**row, "a": (row["a"] or 0) + 1, "b": 2.0, "v": [5, 6]} for row in rows]
    for name in ("copies", "late"):
        with space.channel(name).subscribe(start="earliest") as subscription:
            assert [event.values for event in subscription.events()] == expected


@pytest.mark.parametrize("program", ["output.x = input.x + 1;", "double a[2]; output.x = &a[1] + 1;"])
def test_a_pointer_past_the_end_is_not_followed(tmp_path: Path, program: str) -> None:
    """Beyond it would be memory of the process."""
    type_ = record("r", [Field("x", Pointer(FLOAT64)), Field("y", FLOAT64)])
    space = ChannelSpace.create(str(tmp_path / "space"))
    events = space.create_channel("events", type_)
    space.derive_channel("strays", "events", transform=f"{{ {program} return 1; }}", type=type_)
    space.derive_channel("same", "events", transform="{ output.x = input.x + 1 - 1; return 1; }", type=type_)
    events.submit([{"x": 1.5, "y": 2.0}])
    with space.channel("strays").subscribe(start="earliest") as strays:
        assert not list(strays.events())
    with space.channel("same").subscribe(start="earliest") as same:
        assert [event.values["x"] for event in same.events()] == [1.5]
    trapped = {report.channel: report.trapped for report in space.derivations()}
    assert trapped == {"strays": 1, "same": 0}


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("{ unset(output.x); }", "output.x cannot be null"),
        ("{ unset(input.s); }", "'unset' takes a field of the output"),
        ("{ unset(output); }", "'unset' takes a field of the output"),
        ("{ unset(); }", "'unset' takes one field"),
        ("{ int a = unset(output.s); }", "this has no value"),
        ("{ unset(output.n); }", "has no field 'n'"),
    ],
)
def test_what_cannot_be_unset(program: str, reason: str) -> None:
    type_ = record("r", [Field("x", FLOAT64), Field("s", STRING), Field("i", INT32)])
    with pytest.raises(ecode.EcodeError, match=reason):
        ecode.compile(program, [ecode.Param("input", type_), ecode.Param("output", type_, ecode.Mode.OUT)])


def test_a_star_before_a_pointer_to_a_string_is_the_string(tmp_path: Path) -> None:
    type_ = record("r", [Field("n", INT32), Field("q", Pointer(STRING)), Field("s", STRING)])
    with pbio.open_writer(tmp_path / "r.ffs", type_) as writer:
        writer.write([{"n": n, "q": q, "s": s} for n, (q, s) in enumerate([("ab", "b"), ("", ""), (None, None)])])

    def kept(program: str) -> list[int]:
        return [row["n"] for row in pbio.read(tmp_path / "r.ffs", filter=program)]

    assert kept("{ return !(*input.q); }") == [2]
    assert kept('{ return *input.q == "ab"; }') == kept('{ return input.q == "ab"; }') == [0]
    assert kept("{ return input.s && *input.s == 98; }") == [0]
    assert kept("{ return !(*input.q) || present(input.n); }") == [0, 1, 2]
