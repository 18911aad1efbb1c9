"""Edit scripts and lineages: how versions differ and descend, as text."""

from __future__ import annotations

from hypothesis import given

from ecode.types import FLOAT32, FLOAT64, INT32, STRING, Array, Field, Notes, Pointer, Record, Ref, Struct, record
from morph import Transform, TransformGraph, edit_script, lineage
from morph.evolution.edits import Insert, Move, Remove, Unchanged, Update
from tests.morph.samples import flat, version_pairs

POINT = Struct("point", (Field("x", FLOAT64), Field("y", FLOAT64)))


def test_every_kind_of_edit() -> None:
    old = record(
        "r",
        [
            Field("id", INT32),
            Field("t", FLOAT32),
            Field("gone", INT32),
            Field("p", Ref("point")),
            Field("unit", STRING),
        ],
        [POINT],
    )
    new = record(
        "r",
        [
            Field("id", INT32),
            Field("t", FLOAT64, Notes(units="K")),
            Field("p", Ref("place")),
            Field("n", INT32),
            Field("come", Array(INT32, ("n",))),
        ],
        [Struct("place", (Field("x", FLOAT64), Field("unit", STRING)))],
    )
    assert str(edit_script(old, new)).splitlines() == [
        "  id: int32",
        "~ t: float32 -> float64 (units)",
        "~ p: point -> place",
        "  p.x: float64",
        "> unit -> p.unit: string",
        "- p.y: float64",
        "+ n: int32",
        "+ come: int32[n]",
        "- gone: int32",
    ]
    kinds = [type(edit) for edit in edit_script(old, new).changes]
    assert kinds == [Update, Update, Move, Remove, Insert, Insert, Remove]


def test_reordering_is_not_an_edit_and_a_field_with_two_possible_moves_has_not_moved() -> None:
    assert edit_script(flat("r", "abc"), flat("r", "cab")).changes == ()
    old = record("r", [Field("v", INT32), Field("p", Ref("s")), Field("q", Ref("s"))], [Struct("s", ())])
    new = record(
        "r",
        [Field("p", Ref("s")), Field("q", Ref("t"))],
        [Struct("s", (Field("v", INT32),)), Struct("t", (Field("v", INT32),))],
    )
    kinds = [type(edit) for edit in edit_script(old, new).changes]
    assert kinds == [Insert, Update, Insert, Remove]


def test_recursive_types_end() -> None:
    one = record("list", [Field("v", INT32), Field("next", Pointer(Ref("list")))])
    other = record("list", [Field("next", Pointer(Ref("list"))), Field("w", INT32)])
    assert [str(edit) for edit in edit_script(one, other).edits] == [
        "  next: *list",
        "+ w: int32",
        "- v: int32",
    ]


@given(version_pairs())
def test_nothing_changes_between_a_type_and_itself(pair: tuple[Record, Record]) -> None:
    old, new = pair
    assert all(isinstance(edit, Unchanged) for edit in edit_script(old, old).edits)
    assert (edit_script(old, new).changes == ()) == (edit_script(new, old).changes == ())


def test_a_family_of_formats() -> None:
    r1, r2, r3, s = flat("r", "a"), flat("r", "b"), flat("r", "c"), flat("s", "a")
    graph = TransformGraph(
        {"r3": r3, "r2": r2, "other": s, "r1": r1, "r2 elsewhere": r2},
        [Transform("r3", "r2", "{ }"), Transform("r3", "r1", "{ }"), Transform("r2", "r1", "{ }")],
    )
    graph.add_transform(Transform("r1", "lost", "{ }"))
    found = lineage(graph)
    assert [(f.key, f.name, f.version) for f in found.types if f.name] == [
        ("other", "s", 1),
        ("r1", "r", 1),
        ("r2", "r", 2),
        ("r3", "r", 3),
    ]
    assert str(found).splitlines() == [
        "r@3 (r3)",
        "  r@2 (r2, r2 elsewhere)",
        "    r@1 (r1)",
        "      ? (lost)",
        "  r@1 (r1) ...",
        "s@1 (other)",
    ]
    dot = found.to_dot()
    assert '"r3" -> "r1";' in dot
    assert '"lost" [label="?\\nlost", style=dashed];' in dot


def test_dots_only_stand_for_something() -> None:
    types = {letter: flat("r", letter) for letter in "abc"}
    graph = TransformGraph(types, [Transform("b", "a", "{ }"), Transform("c", "a", "{ }")])
    assert str(lineage(graph)).splitlines() == ["r@3 (c)", "  r@1 (a)", "r@2 (b)", "  r@1 (a)"]


def test_a_family_that_goes_round_in_circles() -> None:
    types = {letter: flat("r", letter) for letter in "abc"}
    links = [Transform(a, b, "{ }") for a, b in ("ab", "bc", "ca", "cc")]
    assert str(lineage(TransformGraph(types, links))).splitlines() == [
        "r@3 (c)",
        "  r@1 (a)",
        "    r@2 (b)",
        "      r@3 (c) ...",
        "  r@3 (c) ...",
    ]


def test_names_cannot_break_out_of_a_picture() -> None:
    graph = TransformGraph({'a"\\': flat('x" [', "a")})
    assert '"a\\"\\\\" [label="x\\" [@1\\na\\"\\\\"];' in lineage(graph).to_dot()
    assert "<b>" not in lineage(TransformGraph({"<b>": flat("r", "")}))._repr_html_()
