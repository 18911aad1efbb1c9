"""The option `where` -> a compiled program: what it may ask about are scalars, and of elements all columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pbio_spark.bp5.meta.variables import STRING, STRUCTURE, Shape
from pbio_spark.source.bp5.scan import Scan

if TYPE_CHECKING:
    from pbio_spark.bp5.rows.where import Given, Where

_NO_NUMBERS = (11, 12, 13, STRUCTURE)


def scan_to_where(scan: Scan, index: Sequence[str], parts: Sequence[str]) -> Where | None:
    """The program, if there is one. Raises PBIO_BAD_PROGRAM.

    Args:
        index, parts: of elements, the names of the index columns and of a table's columns.
    """
    if scan.options.where is None:
        return None
    from pbio_spark.bp5.rows.where import compile_where

    return compile_where(scan.options.where, _given(scan, index, parts), scan.options.step_column)


def _given(scan: Scan, index: Sequence[str], parts: Sequence[str]) -> Iterator[Given]:
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


def _kinds(scan: Scan) -> dict[str, list[np.dtype[Any] | None]]:
    """By variable, numpy's type of its values in each format; None for strings."""
    kinds: dict[str, list[np.dtype[Any] | None]] = {}
    for one in scan.found:
        for name, variables in one.dataset.formats.variables.items():
            for variable in variables:
                is_asked = variable.shape is Shape.VALUE or (scan.options.rows == "elements" and variable.is_array)
                if is_asked and variable.type not in _NO_NUMBERS:
                    kind = None if variable.type == STRING else one.dataset.kind(variable)
                    kinds.setdefault(name, []).append(kind)
    return kinds
