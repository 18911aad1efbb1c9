"""The option `where` -> a compiled program: it may use scalars, and with elements all columns."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ecode.suggest import did_you_mean
from pbio_spark.bp5.meta.variables import STRING, STRUCTURE, Shape
from pbio_spark.errors import PbioError
from pbio_spark.source.bp5.scan import DatasetScan

if TYPE_CHECKING:
    from pbio_spark.bp5.rows.where import Given, Where

log = logging.getLogger("pbio_spark.source")

_NO_NUMBERS = (11, 12, 13, STRUCTURE)


def scan_to_where(scan: DatasetScan, index: Sequence[str], parts: Sequence[str], *, is_stream: bool) -> Where | None:
    """The program, if any. Raises PBIO_BAD_PROGRAM.

    A name that no dataset has is absent if `onUnfilled` allows it. Streams allow it by default, since they know only
    the formats that writers have used so far, but not if the name is close to an existing one.

    Args:
        index, parts: for elements, the names of the index columns and of a table's columns.
    """
    source, options = scan.options.where, scan.options
    if source is None:
        return None
    from pbio_spark.bp5.rows.where import compile_where, unknown_names

    given = list(_given(scan, index, parts))
    try:
        return compile_where(source, given, options.step_column)
    except PbioError:
        missing, known = unknown_names(source, given, options.step_column)
        if not missing:
            raise
    for name in missing:
        _refuse(name, known, scan, is_stream=is_stream)
    return compile_where(source, given, options.step_column, missing)


def _refuse(name: str, known: Sequence[str], scan: DatasetScan, *, is_stream: bool) -> None:
    """Refuse an unknown name in a program, unless it may appear later. Raises PBIO_BAD_PROGRAM."""
    options = scan.options
    variable = next((ways[0] for one in scan.found for ways in [one.dataset.formats.variables.get(name)] if ways), None)
    if variable is not None:
        shown = f"a {variable.shape} of {variable.type_name}"
        reason = f"where: {name!r} is {shown}, which a program for rows={options.rows} cannot ask about"
        hint = "it sees scalars that are numbers or strings; for rows=elements also the named variables"
        if variable.is_array and options.rows == "steps":
            hint = (
                f"with the options rows=elements and variables={name} rows are its elements, and the program sees them"
            )
        raise PbioError("PBIO_BAD_PROGRAM", reason, hint=hint)
    near = did_you_mean(name, known)
    said = options.on_unfilled or ("fail" if near or not is_stream else "warn")
    if said == "fail":
        later = "onUnfilled=warn or ignore takes it as absent, since it may appear later"
        hint = f"{near} {later}" if near else f"rows=variables lists the variables; {later}"
        raise PbioError("PBIO_BAD_PROGRAM", f"where: no dataset has a variable {name!r}", hint=hint)
    if said == "warn":
        log.warning("where: no dataset has a variable %r yet", name)


def _given(scan: DatasetScan, index: Sequence[str], parts: Sequence[str]) -> Iterator[Given]:
    from pbio_spark.bp5.rows.where import Given, common_kind

    kinds = _kinds(scan)
    scaled = {name for one in scan.surveys for name in one.units} if scan.options.apply_unit_si else set()

    def kind_of(variable: str) -> str | None:
        numbers = [kind for kind in kinds[variable] if kind is not None]
        if not numbers:
            return None
        return "f8" if variable in scaled else common_kind(numbers)

    def is_mixed(variable: str) -> bool:
        return len({kind is None for kind in kinds[variable]}) > 1

    yield from (Given(name, "i8") for name in index)
    for name in parts:
        if (table := scan.options.variables[0]) in kinds:
            yield Given(name, kind_of(table))
    for name in kinds:
        yield Given(name, kind_of(name), is_mixed=is_mixed(name))


def _kinds(scan: DatasetScan) -> dict[str, list[np.dtype[Any] | None]]:
    """By variable, the numpy type of its values in each format; None for strings."""
    kinds: dict[str, list[np.dtype[Any] | None]] = {}
    for one in scan.found:
        for name, variables in one.dataset.formats.variables.items():
            for variable in variables:
                is_asked = variable.shape is Shape.VALUE or (scan.options.rows == "elements" and variable.is_array)
                if is_asked and variable.type not in _NO_NUMBERS:
                    kind = None if variable.type == STRING else one.dataset.kind(variable)
                    kinds.setdefault(name, []).append(kind)
    return kinds
