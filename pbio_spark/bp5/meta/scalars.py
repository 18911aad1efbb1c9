"""Metadata blocks -> the values of a scalar variable, over a range of steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pbio_spark.bp5.meta.formats import VariablePlace
from pbio_spark.bp5.meta.index import Int64s
from pbio_spark.bp5.meta.metadata import Array, FormatBlocks, Located
from pbio_spark.bp5.meta.variables import STRING, Variable
from pbio_spark.bp5.trouble import bad


@dataclass
class Scalars:
    """The values of a scalar variable.

    Attributes:
        row, writer: of each value, in order.
        values: numbers in the writer's byte order, 16-byte voids of long doubles, or bytes of strings; None is null.
    """

    variable: Variable
    row: Int64s
    writer: Int64s
    values: Array

    def take(self, rows: Int64s | npt.NDArray[np.bool_]) -> Scalars:
        return Scalars(self.variable, self.row[rows], self.writer[rows], self.values[rows])

    def of_rows(self, rows: Int64s) -> Scalars:
        """The values of some rows, in ascending order; these become all the rows."""
        taken = self.take(np.isin(self.row, rows))
        return Scalars(self.variable, np.searchsorted(rows, taken.row).astype(np.int64), taken.writer, taken.values)


def read_scalars(located: Located, name: str) -> Scalars | None:
    """All values of a scalar, whichever writers set it; None if no step has it.

    Raises PBIO_BAD_BP5, and PBIO_CANNOT_MERGE if its type changes within these steps.
    """
    parts: list[tuple[Int64s, Int64s, Array]] = []
    variable: Variable | None = None
    for group in located.groups:
        place = group.form.places.get(name)
        if place is None:
            continue
        rows = np.flatnonzero(group.present(place))
        if not len(rows):
            continue
        if place.variable.is_array or (variable is not None and variable != place.variable):
            number = located.steps[int(group.step[rows[0]])].number
            reason = "the type of the variable differs from earlier steps or other writers"
            raise bad(reason, file=located.file, step=number, variable=name, code="PBIO_CANNOT_MERGE")
        variable = place.variable
        parts.append((group.step[rows], group.writer[rows], _values(group, place, rows)))
    if variable is None or not parts:
        return None
    step, writer = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    values = np.concatenate([part[2] for part in parts])
    # Where several steps are one row, the last one wins.
    order = np.lexsort((writer, -step if located.flatten else step))
    return Scalars(variable, located.rows_of(step)[order], writer[order], values[order])


def _values(group: FormatBlocks, place: VariablePlace, rows: Int64s) -> Array:
    assert place.value is not None
    if place.variable.type != STRING:
        return group.numbers(place.value, rows)
    values = np.empty(len(rows), object)
    targets = group.pointers(place.value, rows)
    wrong = (targets < 0) | (targets >= group.room[rows])
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        reason = f"a string is at {targets[row]} of {group.room[rows][row]} bytes"
        raise group.fail(int(rows[row]), reason, place.variable.name)
    for i, (row, target) in enumerate(zip(rows.tolist(), targets.tolist(), strict=True)):
        if target:
            start = int(group.start[row])
            raw = group.buffer[start + target : start + int(group.room[row])].tobytes()
            end = raw.find(0)
            if end < 0:
                raise group.fail(row, "a string has no end", place.variable.name)
            values[i] = raw[:end]
    return values


def lowest(scalars: Scalars) -> Scalars:
    """For each row, the value of its lowest writer."""
    _, first = np.unique(scalars.row, return_index=True)
    return scalars.take(first)
