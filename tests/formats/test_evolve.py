"""Transforms that formats carry: written, read back, and put into a graph."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecode.types import INT32, Field, Notes, record
from morph import MorphError, Resolution, resolve
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.body.opt_info import EVOL, NOTES
from pbio_spark.formats.body.struct_layout import OptInfo
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.formats_to_graph import formats_to_graph
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.store import MemoryStore
from pbio_spark.testing.strategies import MACHINE_NAMES, formats
from tests.morph.samples import NEW, OLD, TO_OLD, flat


@given(MACHINE_NAMES, MACHINE_NAMES, st.integers(0, 2))
def test_the_papers_transform_on_any_machine(here: str, there: str, body_version: int) -> None:
    old, plain = record_to_format(OLD, here), record_to_format(NEW, there, body_version=body_version)
    new = evolve(old, plain, TO_OLD)
    assert [(t.prior, t.ecode) for t in new.transforms] == [(old.id, TO_OLD)]
    assert (new.record, new.layouts.structs[0].fields) == (plain.record, plain.layouts.structs[0].fields)
    assert new.id != plain.id
    assert Format.from_body(new.body) == new
    answer = resolve(new.id.hex(), {"mine": OLD}, formats_to_graph([old, new]))
    assert isinstance(answer, Resolution)
    assert answer.comparison.is_perfect
    assert answer.reached == old.id.hex()


@given(formats())
def test_any_format_can_be_evolved_into(form: Format) -> None:
    evolved = evolve(form, form, "{ }")
    assert evolved.record == form.record
    assert evolved.body_version == form.body_version
    assert [t.prior for t in evolved.transforms] == [form.id]


def test_several_transforms_stand_in_their_order_and_before_our_notes() -> None:
    noted = record("r", [Field("x", INT32, Notes(units="m"))])
    oldest, older = (record_to_format(flat("r", letter)) for letter in "ab")
    new = evolve(older, evolve(oldest, record_to_format(noted), "{ old.a = new.x; }"), "{ old.b = new.x; }")
    assert [block.type for block in new.structs[0].opt_info] == [EVOL, EVOL, NOTES]
    assert [t.prior for t in new.transforms] == [oldest.id, older.id]
    assert new.record == noted


def test_a_program_is_checked_against_both_types() -> None:
    old, new = record_to_format(OLD), record_to_format(NEW)
    with pytest.raises(MorphError, match=r"^\[MORPH_BAD_TRANSFORM\]"):
        evolve(old, new, "{ old.rx_bytes = new.rx_bytes; }")
    with pytest.raises(MorphError, match=r"^\[MORPH_BAD_TRANSFORM\]"):
        evolve(old, new, "{ new.rx_bytes = 1; }")
    with pytest.raises(PbioError, match=r"^\[PBIO_BAD_OPT_INFO\]"):
        evolve(old, new, "{ } /* \0 */")
    with pytest.raises(MorphError, match=r"^\[MORPH_TRANSFORMS_DISAGREE\]"):
        evolve(old, evolve(old, new, TO_OLD), "{ }")


def chain() -> list[Format]:
    """Four versions, each of which carries the way to the one before."""
    versions = [record_to_format(flat("r", "a"))]
    for before, name in zip("abc", "bcd", strict=True):
        versions.append(evolve(versions[-1], record_to_format(flat("r", name)), f"{{ old.{before} = new.{name}; }}"))
    return versions


def test_a_store_supplies_the_bodies_of_older_formats() -> None:
    versions = chain()
    newest, oldest = versions[-1].id.hex(), versions[0].id.hex()
    alone = formats_to_graph(versions[-1:])
    assert [problem.code for problem in alone.problems] == ["MORPH_MISSING_BODY"]
    graph = formats_to_graph(versions[-1:], MemoryStore(versions))
    assert graph.problems == ()
    assert len(graph.routes(newest)[oldest]) == 3
    gap = formats_to_graph(versions[-1:], MemoryStore([versions[0], versions[2]]))
    assert [problem.at for problem in gap.problems] == [versions[1].id.hex()]


def test_a_damaged_transform_stops_nothing() -> None:
    broken = record_to_format(flat("r", "a"), opt_info=[OptInfo(EVOL, b"\2\0\0\1abcdefgh no end")])
    key = broken.id.hex()
    answer = resolve(key, {"w": flat("r", "ab")}, formats_to_graph([broken]))
    assert isinstance(answer, Resolution)
    assert [(problem.code, problem.at) for problem in answer.problems] == [("PBIO_BAD_OPT_INFO", key)]


def test_a_transform_that_is_not_a_program_is_refused() -> None:
    form = record_to_format(record("load", [Field("average", INT32)]))
    with pytest.raises(PbioError, match="a transform cannot be of type function"):
        evolve(form, form, lambda old: old)  # type: ignore[arg-type]
