"""FFS's own rule for which formats a reader takes, as one of the policies."""

from __future__ import annotations

from ecode.types import FLOAT64, INT32, Field, Ref, Struct, record
from morph import (
    FFS,
    Transform,
    TransformGraph,
)
from tests.morph.samples import flat
from tests.morph.test_resolve import REV0, REV1, rejected, resolved, revisions, way


def test_ffs_skips_a_record_for_one_added_field() -> None:
    graph = TransformGraph({"in": flat("r", "ab")})
    assert resolved("in", {"w": flat("r", "a")}, graph)
    assert rejected("in", {"w": flat("r", "a")}, graph, FFS).reason.startswith("the rule of FFS finds no match")
    assert resolved("in", {"w": flat("r", "ba")}, graph, FFS).comparison.is_perfect


def test_ffs_follows_one_transform_up_to_the_first_unknown_format() -> None:
    graph = revisions()
    assert way(resolved("rev2", {"rev1": REV1}, graph, FFS)) == ["rev1"]
    assert rejected("rev2", {"rev0": REV0}, graph, FFS)
    late = TransformGraph({"in": flat("r", "x"), "out": flat("r", "y")})
    late.add_transform(Transform("in", "lost", "{ }"))
    late.add_transform(Transform("in", "out", "{ old.y = new.x; }"))
    assert rejected("in", {"w": flat("r", "y")}, late, FFS)
    assert resolved("in", {"w": flat("r", "y")}, late)


def test_ffs_takes_an_imperfect_match_below_a_fifth_if_the_format_carries_transforms() -> None:
    six, five = flat("r", "abcdefg"), flat("r", "abcde")
    graph = TransformGraph({"in": flat("r", "abcdeg"), "in4": flat("r", "abcd"), "other": flat("r", "xyz")})
    for key in ("in", "in4"):
        graph.add_transform(Transform(key, "other", "{ }"))
    answer = resolved("in", {"w": six}, graph, FFS)
    assert (answer.route, answer.comparison.missing, answer.comparison.weight) == ((), 1, 7)
    assert rejected("in4", {"w": five}, graph, FFS)  # exactly a fifth


def test_ffs_counts_a_structure_and_what_is_in_it() -> None:
    """One of six is missing, and not one of five: the library says so (tests/ffs)."""
    inner = Struct("s", tuple(Field(name, INT32) for name in "xyz"))
    inside = Field("p", Ref("s"))
    incoming = record("r", [Field("a", INT32), inside], [inner])
    wanted = record("r", [Field("a", INT32), Field("b", INT32), inside], [inner])
    graph = TransformGraph({"in": incoming, "other": flat("r", "q")}, [Transform("in", "other", "{ }")])
    answer = resolved("in", {"w": wanted}, graph, FFS)
    assert (answer.comparison.missing, answer.comparison.weight) == (1, 6)


def test_ffs_changes_no_kind() -> None:
    graph = TransformGraph({"in": record("r", [Field("v", INT32)])})
    wanted = {"w": record("r", [Field("v", FLOAT64)])}
    assert resolved("in", wanted, graph)
    assert rejected("in", wanted, graph, FFS)
