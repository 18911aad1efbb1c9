"""Policies, transforms and scores: refusals, and their text."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

import ecode
from morph import (
    Criterion,
    MorphError,
    Policy,
    Transform,
    TransformGraph,
    compile_transform,
    scores,
)
from morph.errors import CODES
from tests.morph.samples import NEW, OLD, flat, monitors
from tests.test_layers import ROOT


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"diff_threshold": -1}, "diff_threshold"),
        ({"diff_threshold": math.nan}, "diff_threshold"),
        ({"mismatch_threshold": 1.5}, "mismatch_threshold"),
        ({"max_hops": -1}, "max_hops"),
        ({"max_cost": math.nan}, "max_cost"),
        ({"field_weights": (("a", -1),)}, "field_weights"),
        ({"field_weights": (("a", math.inf),)}, "field_weights"),
        ({"field_weights": (("a", 1), ("a", 2))}, "field_weights"),
        ({"prefer": (Criterion.DIFF, Criterion.DIFF)}, "prefer"),
    ],
)
def test_a_policy_that_cannot_be_followed(settings: dict[str, Any], setting: str) -> None:
    with pytest.raises(MorphError, match=r"^\[MORPH_BAD_POLICY\]") as caught:
        Policy(**settings)
    assert caught.value.at == setting


def test_scores_of_all_against_all() -> None:
    found = scores({"new": NEW, "old": OLD, "part": flat("r", "a")}, {"new": NEW, "both": flat("r", "ab")})
    assert found.mismatch_ratios == ((0, 1), (1, 1), (1, 0.5))
    assert found.rows[0][0].is_perfect
    assert found._repr_html_().count("<td") == 6


# -- transforms


def run(text: str, new: dict[str, Any]) -> Any:
    return compile_transform(text, flat("r", "ab"), flat("r", "c")).run({"new": new}).outputs["old"]


@pytest.mark.parametrize(
    "text",
    [
        "{ old.c = new.a + new.b; }",
        "old.c = new.a;\nold.c += new.b;\n",
        "{ old.c = new.a + new.b; return 1; }",
        "#include <math.h>\n{ old.c = new.a + new.b; }",
        "\n  { old.c = new.a + new.b; }",
    ],
    ids=["braces", "as FFS writes it", "with a result", "include", "blank"],
)
def test_transforms_as_people_write_them(text: str) -> None:
    assert run(text, {"a": 2, "b": 3}) == {"c": 5}


def test_a_wrong_transform_says_where() -> None:
    with pytest.raises(MorphError, match=r"^\[MORPH_BAD_TRANSFORM\]") as caught:
        run("{\n old.d = new.a;\n new.b = 1; }", {})
    assert isinstance(caught.value.__cause__, ecode.CompileError)
    assert [(d.line, d.column) for d in caught.value.__cause__.diagnostics] == [(2, 6), (3, 6)]
    assert "line 2, column 6" in str(caught.value)


def test_a_key_stands_for_one_record_type() -> None:
    graph = TransformGraph({"a": OLD})
    graph.add_format("a", OLD)
    with pytest.raises(MorphError, match=r"^\[MORPH_FORMAT_CONFLICT\]"):
        graph.add_format("a", NEW)


def test_formats_may_be_described_after_their_transforms() -> None:
    graph = TransformGraph(transforms=[Transform("new", "old", "{ }")])
    assert (graph.records, [problem.code for problem in graph.problems]) == ({}, ["MORPH_MISSING_BODY"] * 2)
    assert graph.problems[0].reason == "its description is missing"
    graph.add_format("new", NEW)
    graph.add_format("old", OLD)
    assert (graph.records, graph.problems) == ({"new": NEW, "old": OLD}, ())


def test_a_program_is_checked_once_and_stays_wrong() -> None:
    graph = monitors()
    good, bad = graph.transforms[0], Transform("old", "new", "{ old.nowhere = 1; }")
    graph.add_transform(bad)
    assert graph.program(good) is graph.program(good)
    for _ in range(2):
        with pytest.raises(MorphError, match=r"^\[MORPH_BAD_TRANSFORM\]"):
            graph.program(bad)
    assert [problem.at for problem in graph.problems] == ["old -> new"]


def test_every_code_in_the_sources_is_declared_and_every_declared_code_is_used() -> None:
    used = {
        code
        for path in (ROOT / "morph").rglob("*.py")
        for code in re.findall(r'(?:MorphError|Problem)\(\s*"(MORPH_[A-Z_]+)"', path.read_text(encoding="utf-8"))
    }
    assert used == set(CODES)
