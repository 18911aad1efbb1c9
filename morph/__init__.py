"""MaxMatch: which record type a record can reach, by which transforms, and why.

    >>> from ecode.types import FLOAT64, INT32, Field, record
    >>> from morph import Transform, TransformGraph, resolve
    >>> old = record("reading", [Field("id", INT32), Field("celsius", FLOAT64)])
    >>> new = record("reading", [Field("id", INT32), Field("kelvin", FLOAT64)])
    >>> back = Transform("v2", "v1", "{ old.id = new.id; old.celsius = new.kelvin - 273.15; }")
    >>> answer = resolve("v2", {"wanted": old}, TransformGraph({"v1": old, "v2": new}, [back]))
    >>> answer.reached, answer.comparison.is_perfect
    ('v1', True)

From the smallest question to the largest:

    comparison  how well one record type can replace another: Algorithm 1
    policy      thresholds, weights, limits; those of the paper and of FFS
    matcher     MaxMatch: the best pair of two sets of record types
    transforms  E-code between formats, as a graph
    in_place    numbers in place of pointers to them, for programs
    field_map   which field fills which, defaults, dropped fields
    resolver    Algorithm 2: the route from a format to a wanted type
    resolution  the answer, as a value
    explain     an answer in a few lines
    evolution   how record types change: edits, renames, lineages, scores
    errors      errors and problems

The package knows record types and E-code, but no bytes, no Arrow and no Spark. This module imports its exports at first
use, and networkx only for a graph, so that policies and answers stay light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ecode.suggest import no_attribute

if TYPE_CHECKING:
    from morph.comparison.convertible import field_fits
    from morph.comparison.differences import Comparison, compare, diff, mismatch_ratio, weight
    from morph.errors import MorphError, Problem
    from morph.evolution.edits import EditScript, edit_script
    from morph.evolution.lineages import Lineage, lineage
    from morph.evolution.renames import suspected_renames
    from morph.evolution.score_matrix import Scores, scores
    from morph.field_map import FieldSource, StructMap, map_fields
    from morph.matcher import maxmatch
    from morph.policy import FFS, PAPER, Criterion, Policy, Rule
    from morph.resolution import Candidate, Rejection, Resolution
    from morph.resolver import Resolver, resolve
    from morph.transforms import Key, Route, Transform, TransformGraph, compile_transform

__all__ = [
    "resolve",
    "Resolver",
    "Resolution",
    "Rejection",
    "Candidate",
    "Policy",
    "PAPER",
    "FFS",
    "Criterion",
    "Rule",
    "Transform",
    "TransformGraph",
    "compile_transform",
    "Key",
    "Route",
    "diff",
    "weight",
    "mismatch_ratio",
    "compare",
    "Comparison",
    "maxmatch",
    "field_fits",
    "suspected_renames",
    "map_fields",
    "StructMap",
    "FieldSource",
    "edit_script",
    "EditScript",
    "lineage",
    "Lineage",
    "scores",
    "Scores",
    "MorphError",
    "Problem",
]

_HOMES = {
    "comparison.convertible": ("field_fits",),
    "comparison.differences": ("Comparison", "compare", "diff", "mismatch_ratio", "weight"),
    "evolution.edits": ("EditScript", "edit_script"),
    "errors": ("MorphError", "Problem"),
    "field_map": ("FieldSource", "StructMap", "map_fields"),
    "evolution.lineages": ("Lineage", "lineage"),
    "matcher": ("maxmatch",),
    "policy": ("FFS", "PAPER", "Criterion", "Policy", "Rule"),
    "resolution": ("Candidate", "Rejection", "Resolution"),
    "resolver": ("Resolver", "resolve"),
    "evolution.renames": ("suspected_renames",),
    "evolution.score_matrix": ("Scores", "scores"),
    "transforms": ("Key", "Route", "Transform", "TransformGraph", "compile_transform"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"morph.{home}"), name)
    raise no_attribute(__name__, name, __all__)
