"""Files, formats or a graph, as given -> what pictures show."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ecode.types import Record
from morph import Lineage, TransformGraph, lineage
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.formats_to_graph import formats_to_graph

Paths: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
Formats: TypeAlias = "Paths | Iterable[Format] | TransformGraph"
"""Files, folders or globs with formats; formats; or a graph of them."""

_HINT = "give a path, formats such as pbio.read_formats(path) gives, a TransformGraph, or "


def given_to_lineage(given: Lineage | Formats) -> Lineage:
    """The lineage of the given formats.

    Raises PBIO_BAD_VALUE, PBIO_NO_SCHEMA without a format in the files, and what reading them raises.
    """
    return given if isinstance(given, Lineage) else lineage(_graph_of(given, "morph.lineage(graph)"))


def given_to_versions(given: Mapping[str, Record] | Formats) -> dict[str, Record]:
    """Record types, oldest first; those of files, formats and graphs are called `name@version`.

    Raises PBIO_BAD_VALUE, PBIO_NO_SCHEMA without a format in the files, and what reading them raises.
    """
    if isinstance(given, Mapping):
        wrong = [type(one).__name__ for one in given.values() if not isinstance(one, Record)]
        if wrong:
            hint = "give each version's record type: format.record, or pbio.parse_record(...)"
            raise PbioError("PBIO_BAD_VALUE", f"a version cannot be of type {wrong[0]}", hint=hint)
        return dict(given)
    graph = _graph_of(given, "a dict of record types")
    found = ((one.label, graph.record(one.key)) for one in lineage(graph).types)
    return {label: record for label, record in found if record is not None}


def _graph_of(given: Formats, other: str) -> TransformGraph:
    from pbio_spark.tables import read_formats

    if isinstance(given, TransformGraph):
        return given
    if isinstance(given, str | os.PathLike):
        given = [given]
    several = list(given) if isinstance(given, Iterable) else []
    formats = [one for one in several if isinstance(one, Format)]
    paths = [one for one in several if isinstance(one, str | os.PathLike)]
    if not isinstance(given, Iterable) or len(formats) + len(paths) < len(several):
        reason = f"a picture of formats cannot be made from {type(given).__name__}"
        raise PbioError("PBIO_BAD_VALUE", reason, hint=_HINT + other)
    found = read_formats(paths) if paths else []
    if paths and not found:
        reason = "there is no file, or none holds a format"
        raise PbioError("PBIO_NO_SCHEMA", reason, file=os.fspath(paths[0]), hint="check the path")
    return formats_to_graph([*formats, *found])
