"""A row for each element of arrays of equal shapes, or for each row of a table; the index in each dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ecode.analysis.bounds import Bound
from pbio_spark.bp5.data.arrays import EXPANSION, ROOM, Elements, read_arrays
from pbio_spark.bp5.data.flat import flat_array
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.blocks import Blocks
from pbio_spark.bp5.meta.index import Int64s, Step
from pbio_spark.bp5.meta.metadata import Array
from pbio_spark.bp5.meta.variables import Shape
from pbio_spark.bp5.rows.arrow.leaves import kind_of_scaled, leaf_of, scaled
from pbio_spark.bp5.rows.arrow.nested import validity_of
from pbio_spark.bp5.rows.contents import Content, content_to_column, read_content
from pbio_spark.bp5.rows.elements.boxes import (
    Bools,
    Box,
    around_blocks,
    blocks_allow,
    blocks_may_hold,
    clip,
    cut,
    gaps_may_hold,
    touching,
)
from pbio_spark.bp5.rows.elements.counted import CountedColumns
from pbio_spark.bp5.rows.elements.units import Undone, Unit, as_array, part_of, slice_of
from pbio_spark.bp5.rows.finish import finish, narrowed
from pbio_spark.bp5.rows.survey import chunks, halves
from pbio_spark.bp5.rows.wanted import ColumnOf, DatasetPart, Wanted
from pbio_spark.bp5.rows.where import Given, numbers_to_column, scalars_to_column
from pbio_spark.bp5.trouble import bad, placed
from pbio_spark.errors import PbioError

Around: TypeAlias = Sequence[tuple[Box, Int64s]]
"""The parts of a box that have chosen elements, and which those are of each part."""


def read_elements(part: DatasetPart, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The elements of a part as batches of the wanted schema. Memory holds about `max_batch_bytes` at a time, and
    whole blocks of arrays that an operator made. Damage becomes a row or is left out if `mode` says so."""
    with DatasetFolder(part.dataset.path) as folder:
        counted = CountedColumns()
        if part.dataset.index.header.flatten:
            yield from _tolerant(part, wanted, folder, part.steps, counted)
            return
        for steps in chunks(part.steps, wanted.max_batch_bytes):
            yield from _tolerant(part, wanted, folder, steps, counted)


def _tolerant(
    part: DatasetPart, wanted: Wanted, folder: DatasetFolder, steps: Sequence[Step], counted: CountedColumns
) -> Iterator[pa.RecordBatch]:
    try:
        rows = _Rows(part, wanted, folder, steps, counted)
    except PbioError as error:
        parts = halves(error, steps, flatten=part.dataset.index.header.flatten)
        if wanted.mode == "FAILFAST" and not parts:
            raise
        if parts:
            for some in parts:
                yield from _tolerant(part, wanted, folder, some, counted)
        elif len(steps) > 1 and not part.dataset.index.header.flatten:
            for step in steps:
                yield from _tolerant(part, wanted, folder, [step], counted)
        elif wanted.mode == "PERMISSIVE" and part.is_first_share:
            yield _damage(part, wanted, steps[0], error)
        return
    yield from rows.batches()


def _damage(part: DatasetPart, wanted: Wanted, step: Step, error: PbioError) -> pa.RecordBatch:
    columns = {column.name: pa.nulls(1, wanted.schema.field(column.name).type) for column in wanted.columns}
    columns |= {name: pa.nulls(1, wanted.schema.field(name).type) for name in wanted.index_columns}
    return finish(columns, [step], part, wanted, [error])


class _Rows:
    """The rows of some steps, whose metadata is held at once."""

    def __init__(
        self, part: DatasetPart, wanted: Wanted, folder: DatasetFolder, steps: Sequence[Step], counted: CountedColumns
    ) -> None:
        self.part, self.wanted, self.folder, self.steps = part, wanted, folder, steps
        located = part.dataset.locate(folder, steps)
        asked = dict.fromkeys(column.variable for column in wanted.columns)
        where = () if wanted.where is None else wanted.where.reads
        asked |= dict.fromkeys(
            wanted.variable_of(given.name)
            for given in where
            if not given.is_step and given.name not in wanted.index_names
        )
        asked |= dict.fromkeys(wanted.variables)
        contents = {name: read_content(part.dataset, located, name) for name in asked}
        self.rows = located.rows
        self.arrays = {n: c.found for n, c in contents.items() if isinstance(c.found, Blocks)}
        self.scalars = {n: c for n, c in contents.items() if not isinstance(c.found, Blocks)}
        self.is_table = wanted.is_table
        self.counted = counted

    def batches(self) -> Iterator[pa.RecordBatch]:
        for row in range(self.rows):
            try:
                units = list(self._units(row))
            except PbioError as error:
                if self.wanted.mode == "FAILFAST":
                    raise
                if self.wanted.mode == "PERMISSIVE" and self.part.is_first_share:
                    yield _damage(self.part, self.wanted, self.steps[row], error)
                continue
            boxes = [(unit, box) for unit in units for box in cut(unit.shape, self._most(unit))]
            share, shares = self.part.share
            for unit, box in boxes[len(boxes) * share // shares : len(boxes) * (share + 1) // shares]:
                for some in self._narrowed(unit, box):
                    yield from self._box(unit, some)

    def _narrowed(self, unit: Unit, box: Box) -> Iterator[Box]:
        """The parts of a box in which the least and greatest values of blocks allow a row to pass `where`."""
        where = self.wanted.where
        if where is None or not where.bounds:
            yield box
            return
        along = box.along
        may_pass = np.ones(box.shape[along], np.bool_)
        for given, bound in where.bounds:
            if given.name in self.wanted.index_names and not given.is_step:
                if self.wanted.index_names.index(given.name) == along:
                    index = np.arange(box.low[along], box.high[along])
                    may_pass &= bound.may_hold(index, index)
                continue
            variable = self.wanted.variable_of(given.name)
            blocks = None if given.is_step else unit.arrays.get(variable)
            if blocks is not None:
                if not self._trusts(blocks):
                    continue
                may_hold, gaps = self._allowed(unit, given, bound, blocks)
                if may_hold is None:
                    continue
                whole = self._whole(box, blocks)
                touch = touching(blocks, whole)
                if not gaps and not may_hold[touch].any():
                    return
                some, kept = clip(blocks.take(touch), whole), may_hold[touch]
                may_pass &= blocks_allow(some, kept, along, gaps=gaps)
                continue
            one = self._given(given, unit, Box((0,) * len(box.low), (1,) * len(box.low)), {})
            if not bound.may_hold(one.data, one.data).all():
                return
        yield from box.runs(may_pass)

    def _allowed(self, unit: Unit, given: Given, bound: Bound, blocks: Blocks) -> tuple[Bools | None, bool]:
        """In which blocks of an array a bound can hold, and whether it can between them."""
        if (given, bound) not in unit.allowed:
            scale = self.part.scales.get(blocks.variable.name)
            unit.allowed[given, bound] = (
                blocks_may_hold(blocks, given, bound, scale),
                gaps_may_hold(blocks, given, bound),
            )
        return unit.allowed[given, bound]

    def _units(self, row: int) -> Iterator[Unit]:
        """The arrays of a step that have elements. Raises PBIO_BAD_BP5 if their shapes differ."""
        own = {name: blocks.of_rows(np.array([row])) for name, blocks in self.arrays.items() if blocks.present[row]}
        if not own:
            return
        local = {name: one.variable.shape is Shape.LOCAL_ARRAY for name, one in own.items()}
        if all(local.values()):
            places = {
                name: list(zip(one.writer.tolist(), one.number.tolist(), strict=True)) for name, one in own.items()
            }
            self._same(row, places)
            for block in range(len(next(iter(places.values())))):
                yield self._unit(row, {name: as_array(one.take(np.array([block]))) for name, one in own.items()})
            return
        self._same(row, local)
        yield self._unit(row, own)

    def _unit(self, row: int, arrays: dict[str, Blocks]) -> Unit:
        shapes = {name: tuple(blocks.shape[0].tolist()) for name, blocks in arrays.items()}
        self._same(row, shapes)
        shape = next(iter(shapes.values()))
        if self.is_table and len(shape) != 2:
            raise self._fail(row, f"a table has two dimensions, not {len(shape)}")
        if self.is_table and shape[1] != len(self.wanted.parts):
            reason = f"the table has {shape[1]} columns, but {len(self.wanted.parts)} are named"
            error = self._fail(row, reason).at(field=next(iter(arrays)))
            error.hint = f"steps differ: with {shape[1]} names in the option columns this one can be read"
            raise error
        for blocks in arrays.values():
            claimed = float(np.prod(np.array(shape, np.float64))) * blocks.variable.size
            if claimed > max(ROOM, EXPANSION * int(blocks.elements.sum()) * blocks.variable.size):
                error = self._fail(
                    row, f"an array of {list(shape)} elements is nearly empty: blocks cover little of it"
                )
                error.code, error.hint = "PBIO_ARRAY_TOO_LARGE", "read it with rows=blocks"
                raise error.at(field=blocks.variable.name)
        dimensions = 1 if self.is_table else len(shape)
        if dimensions != len(self.wanted.index_names):
            reason = f"arrays have {dimensions} dimensions, but {len(self.wanted.index_names)} index columns"
            raise self._fail(row, reason)
        return Unit(row, shape[:1] if self.is_table else shape, arrays)

    def _same(self, row: int, facts: Mapping[str, object]) -> None:
        (first, fact), *others = facts.items()
        for name, other in others:
            if other != fact:
                raise self._fail(row, f"{first!r} and {name!r} differ in shape: {fact} and {other}")

    def _fail(self, row: int, reason: str) -> PbioError:
        error = bad(reason, file=self.folder.path, step=self.steps[row].number, code="PBIO_INCOMPATIBLE_TYPE")
        error.hint = "read variables of other shapes by themselves"
        return error

    def _most(self, unit: Unit) -> int:
        """The most rows of one box."""
        wide = [blocks.variable.size * (blocks.shape[0, 1] if self.is_table else 1) for blocks in unit.arrays.values()]
        most = self.wanted.max_batch_bytes // max(1, int(sum(wide)))
        return max(1, min(most, -(-math.prod(unit.shape) // self.part.share[1])))

    def _box(self, unit: Unit, box: Box) -> Iterator[pa.RecordBatch]:
        try:
            columns = self._columns(unit, box)
        except PbioError as error:
            if not error.reason.startswith("step "):
                error.reason = placed(error.reason, self.steps[unit.row].number, None)
            if self.wanted.mode == "FAILFAST":
                raise error.at(file=self.folder.path) from None
            if self.wanted.mode == "PERMISSIVE":
                yield _damage(self.part, self.wanted, self.steps[unit.row], error)
            return
        if columns is None:
            return
        made, count = columns
        step = self.steps[unit.row]
        if self.wanted.step_column is not None:
            steps, field = self.counted.step(step.number, count), self.wanted.schema.field(self.wanted.step_column)
            made[self.wanted.step_column] = narrowed(steps, field)
        batch = finish(made, [step] if made else [step] * count, self.part, self.wanted)
        for begin in range(0, count, self.wanted.records_per_batch):
            yield batch.slice(begin, self.wanted.records_per_batch)

    def _trusts(self, blocks: Blocks) -> bool:
        """Whether rows may be skipped by the statistics of an array's blocks.

        After a NaN, ADIOS2 starts again: for 2.5, NaN, 0 it stores 0 as the greatest value.
        """
        if self.wanted.trust_statistics == "integers":
            return self.part.dataset.kind(blocks.variable).kind in "iu"
        return self.wanted.trust_statistics == "all"

    def _columns(self, unit: Unit, box: Box) -> tuple[dict[str, pa.Array], int] | None:
        """The columns of a box, and how many rows; None if no element is wanted."""
        count = math.prod(box.shape)
        read: dict[str, Elements] = {}
        chosen: Int64s | None = None
        around: Around | None = None
        where = self.wanted.where
        if where is not None:
            given = {one: self._given(one, unit, box, read) for one in where.reads}
            mask = where.mask(given, count)
            rows = int(np.count_nonzero(mask))
            if not rows:
                return None
            if rows < count:
                chosen = np.flatnonzero(mask)
                around = list(box.around(chosen))
                if 2 * sum(math.prod(some.shape) for some, _ in around) > count:
                    around = None
        rows = count if chosen is None else len(chosen)
        columns = {c.name: self._column(c, unit, box, read, (chosen, around), rows) for c in self.wanted.columns}
        for name, dimension in self.wanted.index_columns.items():
            columns[name] = narrowed(self.counted.index(box, dimension, chosen), self.wanted.schema.field(name))
        return columns, rows

    def _given(self, given: Given, unit: Unit, box: Box, read: dict[str, Elements]) -> Any:
        """The inputs of a program, one value for each element."""
        count, name, kind = int(np.prod(box.shape)), given.name, given.kind
        if given.is_step:
            return numbers_to_column(np.full(count, self.steps[unit.row].number), "i8")
        if name in self.wanted.index_names:
            return numbers_to_column(self.counted.indexes(box, self.wanted.index_names.index(name)), "i8")
        variable = self.wanted.variable_of(name)
        part = self.wanted.part_of(name)
        if variable in unit.arrays:
            elements = self._elements(variable, unit, box, read)
            values, covered = part_of(elements, part, unit.arrays[variable])
            values = scaled(values, self.part.scales.get(variable))
            return numbers_to_column(values, kind, None if covered is None else covered.astype(np.bool_))
        content = self.scalars.get(variable, Content(None, self.rows)).of_rows(np.array([unit.row]))
        one = scalars_to_column(content.found, 1, kind, self.part.scales.get(variable))  # type: ignore[arg-type]
        if kind is None:
            raw = one.data.tobytes() if one.data is not None else b""
            return numbers_to_column(np.array([raw] * count, object), None)
        assert one.data is not None
        there = one.present is None or bool(one.present[0])
        return numbers_to_column(np.repeat(one.data, count), kind, np.full(count, there))

    def _whole(self, box: Box, blocks: Blocks) -> Box:
        """The box in the array itself, which has the columns of a table as well."""
        return Box((*box.low, 0), (*box.high, int(blocks.shape[0, 1]))) if self.is_table else box

    def _elements(self, variable: str, unit: Unit, box: Box, read: dict[str, Elements]) -> Elements:
        if variable not in read:
            blocks = unit.arrays[variable]
            kind, marks = self.part.dataset.kind(blocks.variable), self.wanted.uncovered == "null"
            order = self.part.dataset.order
            whole = self._whole(box, blocks)
            if blocks.has_operator.any():
                touch = touching(blocks, whole)
                undone = unit.undone.get(variable)
                if undone is None or not undone.box.holds(whole) or not np.isin(touch, undone.blocks).all():
                    around, some = around_blocks(blocks, touch, whole)
                    elements = read_arrays(self.folder, some, self.steps, kind, order, marks=marks)
                    undone = unit.undone[variable] = Undone(around, touch, elements)
                read[variable] = slice_of(undone.elements, undone.box, whole)
            else:
                read[variable] = self._range(variable, unit, whole, kind) or read_arrays(
                    self.folder, clip(blocks, whole), self.steps, kind, order, marks=marks
                )
        return read[variable]

    def _range(self, variable: str, unit: Unit, box: Box, kind: np.dtype[Any]) -> Elements | None:
        """The elements of a box that are read as one range; None if that is not possible, or something is wrong."""
        if variable not in unit.flat:
            unit.flat[variable] = flat_array(unit.arrays[variable], self.steps, self.folder, kind)
        flat = unit.flat[variable]
        if flat is None:
            return None
        first = 0
        for low, length in zip(box.low, unit.arrays[variable].shape[0].tolist(), strict=True):
            first = first * length + low
        found = flat.read(self.folder, first, first + math.prod(box.shape))
        return None if found is None else Elements(found, np.zeros(1, np.int64))

    def _column(
        self,
        column: ColumnOf,
        unit: Unit,
        box: Box,
        read: dict[str, Elements],
        selection: tuple[Int64s | None, Around | None],
        rows: int,
    ) -> pa.Array:
        want = self.wanted.schema.field(column.name).type
        if column.variable not in unit.arrays:
            content = self.scalars.get(column.variable)
            if content is None:
                return pa.nulls(rows, want)
            one = content.of_rows(np.array([unit.row]))
            value = content_to_column(one, column, self.wanted, self.part, self.folder, self.steps)
            return pa.repeat(value[0], rows)
        blocks = unit.arrays[column.variable]
        values, covered = self._selected(column, unit, box, read, *selection)
        scale = self.part.scales.get(column.variable)
        kind = kind_of_scaled(self.part.dataset.kind(blocks.variable), scale)
        leaf = leaf_of(kind, blocks.variable, want, self.wanted.unsigned_long_as)
        validity = validity_of(None if covered is None else covered.astype(np.bool_))
        try:
            return leaf(scaled(np.ascontiguousarray(values), scale), validity)
        except PbioError as error:
            raise error.at(field=column.variable) from None

    def _selected(
        self,
        column: ColumnOf,
        unit: Unit,
        box: Box,
        read: dict[str, Elements],
        chosen: Int64s | None,
        around: Around | None,
    ) -> tuple[Array, Array | None]:
        """The elements of a column in a box; or the chosen ones, of which only the surroundings are read."""
        blocks = unit.arrays[column.variable]
        if chosen is None or around is None or column.variable in read:
            parts = [(part_of(self._elements(column.variable, unit, box, read), column.part, blocks), chosen)]
        else:
            parts = [
                (part_of(self._elements(column.variable, unit, some, {}), column.part, blocks), wanted)
                for some, wanted in around
            ]
        if chosen is None:
            return parts[0][0]
        values = np.concatenate([values[wanted] for (values, _), wanted in parts])
        if parts[0][0][1] is None:
            return values, None
        return values, np.concatenate([covered[wanted] for (_, covered), wanted in parts if covered is not None])
