"""Formats of one record type share the transforms from it and to it."""

from __future__ import annotations

from morph import (
    Transform,
    TransformGraph,
)
from tests.morph.samples import flat
from tests.morph.test_resolve import rejected, resolved, way


def test_a_transform_serves_all_formats_of_its_record_types_at_both_ends() -> None:
    """v2 -> v1 was written for one machine, v1 -> v0 for another; records come from a third."""
    v0, v1, v2 = (flat("r", letter) for letter in "abc")
    machines = {f"{name} on {m}": type_ for m in "xyz" for name, type_ in (("v0", v0), ("v1", v1), ("v2", v2))}
    links = [
        Transform("v2 on x", "v1 on y", "{ old.b = new.c; }"),
        Transform("v1 on z", "v0 on x", "{ old.a = new.b; }"),
    ]
    for machine in "xyz":
        answer = resolved(f"v2 on {machine}", {"w": v0}, TransformGraph(machines, links))
        assert (way(answer), answer.problems) == (["v1 on y", "v0 on x"], ())


def test_bodies_that_come_after_their_transforms_are_of_their_record_types() -> None:
    graph = TransformGraph({"v2": flat("r", "b")}, [Transform("v2 too", "v1 too", "{ old.a = new.b; }")])
    assert rejected("v2", {"w": flat("r", "a")}, graph)
    graph.add_format("v1", flat("r", "a"))
    graph.add_format("v1 too", flat("r", "a"))
    assert rejected("v2", {"w": flat("r", "a")}, graph)
    graph.add_format("v2 too", flat("r", "b"))
    assert way(resolved("v2", {"w": flat("r", "a")}, graph)) == ["v1 too"]


def test_a_format_goes_by_what_it_carries_itself_and_a_reader_has_the_word() -> None:
    """Formats of one record type that carry other programs to one other: each takes its own, and it is told."""
    formats = {"v1": flat("r", "a"), "v2 here": flat("r", "b"), "v2 there": flat("r", "b"), "v2 else": flat("r", "b")}
    carried = [Transform("v2 here", "v1", "{ old.a = new.b; }"), Transform("v2 there", "v1", "{ old.a = -new.b; }")]
    graph = TransformGraph(formats, carried)
    for key, transform in (("v2 here", carried[0]), ("v2 there", carried[1]), ("v2 else", carried[0])):
        answer = resolved(key, {"w": flat("r", "a")}, graph)
        assert answer.route == (transform,)
        assert {problem.code for problem in answer.problems} == {"MORPH_TRANSFORMS_DISAGREE"}
    own = Transform("v2 else", "v1", "{ to.a = from.b * 2; }", is_own=True)
    graph.add_transform(own)
    assert all(resolved(key, {"w": flat("r", "a")}, graph).route == (own,) for key in formats if key != "v1")


def test_a_transform_from_a_record_type_to_itself_is_reported_and_never_taken() -> None:
    graph = TransformGraph({"in": flat("r", "ab"), "too": flat("r", "ab")}, [Transform("in", "too", "{ }")])
    answer = resolved("in", {"w": flat("r", "a")}, graph)
    assert (way(answer), [problem.code for problem in answer.problems]) == ([], ["MORPH_BAD_TRANSFORM"])
