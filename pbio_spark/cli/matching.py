"""`pbio diff`, `pbio match`, `pbio lineage`: how formats differ, which reaches which, and which descends from which.

Name a record type as FILE, if the file holds only one, or as FILE#NAME, FILE#NAME@VERSION or FILE#ID; the beginning of
an ID is enough. Formats of one record type count as one, whatever their machines.
"""

from __future__ import annotations

import math
import os
from functools import cache
from typing import Annotated

import typer

from ecode.suggest import did_you_mean
from ecode.types import NO_NOTES, Record, references
from morph import FFS, Policy, Resolution, Resolver, compare, edit_script
from morph import lineage as graph_to_lineage
from morph.evolution.edits import Edit, Move, Remove
from morph.evolution.renames import suspected_renames
from morph.explain import describe
from morph.transforms import record_to_meaning
from pbio_spark.cli.console import Files, each_file, printable, printable_lines, table
from pbio_spark.cli.formats import FoundFormats, logical
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.chosen import split_choice
from pbio_spark.formats.formats_to_graph import formats_to_graph, versions

RENAMED = "map it with fieldAliases if it means the same in the same unit, else with a transform"


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="FILE, FILE#NAME, FILE#NAME@VERSION or FILE#ID.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same.")],
) -> None:
    """Show how one record type becomes another, and how well each fits the other.

    \b
    Example:
      pbio diff old.ffs readings.ffs
    """
    old, new = one_format(a).record, one_format(b).record
    for edit in edit_script(old, new).edits:
        print(printable(f"{edit}{_logical_at(old if isinstance(edit, Remove) else new, edit)}"))
    print(f"A read as B: {describe(compare(old, new))}")
    print(f"B read as A: {describe(compare(new, old))}")


def _logical_at(record: Record, edit: Edit) -> str:
    """The logical type of the field of an edit."""
    struct, notes = record.structs[0], NO_NOTES
    for name in (edit.to if isinstance(edit, Move) else edit.path).split("."):
        found = struct.find(name)
        if found is None:  # a name that holds a dot
            return ""
        notes = found.notes
        if (inner := next(references(found.type), None)) is not None:
            struct = record.struct(inner)
    return logical(notes)


def match(
    incoming: Annotated[
        str, typer.Argument(metavar="INCOMING", help="What arrives: FILE, FILE#NAME, FILE#NAME@VERSION or FILE#ID.")
    ],
    wanted: Annotated[list[str], typer.Argument(metavar="WANTED...", help="What a reader wants, in the same form.")],
    explain: Annotated[bool, typer.Option("--explain", help="Show all candidates, and what FFS would do.")] = False,
    diff_threshold: Annotated[float, typer.Option(min=0, help="The largest accepted diff.")] = math.inf,
    mismatch_threshold: Annotated[float, typer.Option(min=0, max=1, help="The largest accepted Mr.")] = 0.5,
    any_name: Annotated[bool, typer.Option("--any-name", help="Match formats of different names too.")] = False,
) -> None:
    """Show which wanted record type each incoming one reaches, and through which transforms.

    FILE alone means all types in it. Transforms of all files count. Exit code 1: a type is rejected.

    \b
    Example:
      pbio match old.ffs readings.ffs
    """
    paths = [_split(spec)[0] for spec in (incoming, *wanted)]
    graph = formats_to_graph({f.id: f for path in paths for f in _formats(path)}.values())
    types = {f.id.hex(): f.record for spec in wanted for f in _chosen(spec)}
    resolver = Resolver(types, graph, Policy(diff_threshold, mismatch_threshold, same_name=not any_name))
    ffs = Resolver(types, graph, FFS)
    labels = {key: one.label for one in graph_to_lineage(graph).types for key in (one.key, *one.others)}
    answers = [resolver.resolve(f.id.hex()) for f in _chosen(incoming)]
    if explain:
        for answer in answers:
            by_ffs = ffs.resolve(answer.incoming)
            print(printable_lines(answer.explain()))
            print(f"  FFS itself {f'chooses {by_ffs.wanted}' if isinstance(by_ffs, Resolution) else 'skips it'}")
    else:
        rows = [
            (
                printable(labels[answer.incoming]),
                answer.incoming,
                answer.wanted if isinstance(answer, Resolution) else "rejected",
                str(len(answer.route)) if isinstance(answer, Resolution) else "",
                describe(answer.comparison) if isinstance(answer, Resolution) else printable(answer.reason),
            )
            for answer in answers
        ]
        print(table(("name", "incoming", "reaches", "transforms", "how"), rows, right="transforms"))
        for problem in dict.fromkeys(problem for answer in answers for problem in answer.problems):
            print(printable_lines(str(problem)))
    for answer in answers:
        if answer.considered:
            best = answer.considered[0]
            for new, old in suspected_renames(graph.known(best.reached), types[best.wanted]).items():
                perhaps = f"{labels[answer.incoming]}: {new} may be called {old} there"
                print(printable(f"{perhaps}; {RENAMED}"))
    if not all(isinstance(answer, Resolution) for answer in answers):
        raise typer.Exit(1)


def lineage(
    files: Files, dot: Annotated[bool, typer.Option("--dot", help="As a graph for Graphviz's `dot`.")] = False
) -> None:
    """Show which record type has transforms to which, with the IDs of their formats.

    \b
    Example:
      pbio lineage readings.ffs
    """
    found = FoundFormats()
    each_file(files, found.add)
    picture = graph_to_lineage(formats_to_graph(found.formats.values()))
    print(printable_lines(picture.to_dot() if dot else str(picture)))


def one_format(spec: str) -> Format:
    """The one format that the name fits. Raises PBIO_SEVERAL_FORMATS, PBIO_UNKNOWN_FORMAT."""
    chosen = _chosen(spec)
    if len(chosen) > 1:
        raise PbioError(
            "PBIO_SEVERAL_FORMATS",
            f"the name fits {len(chosen)} record types",
            file=_split(spec)[0],
            hint="name one after the path: " + " ".join(f"#{f.id.hex()}" for f in chosen),
        )
    return chosen[0]


def _chosen(spec: str) -> list[Format]:
    """The first formats of the record types that the name fits, at least one. Raises PBIO_UNKNOWN_FORMAT."""
    path, which = _split(spec)
    formats = _formats(path)
    chosen = [f for f in formats if not which or f.is_called((which,)) or f.id.hex().startswith(which.lower())]
    types = versions(formats)
    if not chosen:
        named = {key for one in types if one.label == which for key in (one.key, *one.others)}
        chosen = [f for f in formats if f.id.hex() in named]
    if not chosen:
        names = list(dict.fromkeys(text for one in types for text in (one.name, one.label)))
        reason = f"unknown format {which!r}" if names else "the file holds no format"
        hint = did_you_mean(which, names) or (f"there are: {', '.join(names)}" if names else None)
        raise PbioError("PBIO_UNKNOWN_FORMAT", reason, file=path, hint=hint)
    return list({record_to_meaning(f.record): f for f in reversed(chosen)}.values())[::-1]


def _split(spec: str) -> tuple[str, str]:
    return split_choice(spec, lambda path: os.path.exists(path.replace("\0", "/")))


@cache
def _formats(path: str) -> tuple[Format, ...]:
    """All formats of a file or folder, in order of appearance."""
    found = FoundFormats()
    each_file([path], found.add)
    return tuple(found.formats.values())
