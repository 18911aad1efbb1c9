"""A row for each element of arrays of equal shapes, or for each row of a table; the index in each dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from pbio_spark.bp5.data.arrays import EXPANSION, ROOM, Elements, read_arrays
from pbio_spark.bp5.data.flat import Flat, flat_array
from pbio_spark.bp5.folder import Folder
from pbio_spark.bp5.meta.blocks import Blocks
from pbio_spark.bp5.meta.index import Int64s, Step
from pbio_spark.bp5.meta.metadata import Array
from pbio_spark.bp5.meta.variables import Shape
from pbio_spark.bp5.rows.arrow.leaves import kind_of_scaled, leaf_of, scaled
from pbio_spark.bp5.rows.arrow.nested import validity_of
from pbio_spark.bp5.rows.boxes import Box, around_blocks, blocks_allow, clip, cut
from pbio_spark.bp5.rows.contents import Content, content_to_column, read_content
from pbio_spark.bp5.rows.finish import finish, narrowed, numbers_of
from pbio_spark.bp5.rows.survey import chunks, halves
from pbio_spark.bp5.rows.wanted import ColumnOf, Part, Wanted
from pbio_spark.bp5.rows.where import Given, numbers_to_column, scalars_to_column
from pbio_spark.bp5.trouble import bad, placed
from pbio_spark.errors import PbioError


def read_elements(part: Part, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The elements of a part as batches of the wanted schema. Memory holds about `max_batch_bytes` at a time, and of
    arrays that an operator made whole blocks. Damage is a row or left out if `mode` says so."""
    with Folder(part.dataset.path) as folder:
        if part.dataset.index.header.flatten:
            yield from _tolerant(part, wanted, folder, part.steps)
            return
        for steps in chunks(part.steps, wanted.max_batch_bytes):
            yield from _tolerant(part, wanted, folder, steps)


def _tolerant(part: Part, wanted: Wanted, folder: Folder, steps: Sequence[Step]) -> Iterator[pa.RecordBatch]:
    try:
        rows = _Rows(part, wanted, folder, steps)
    except PbioError as error:
        parts = halves(error, steps, flatten=part.dataset.index.header.flatten)
        if wanted.mode == "FAILFAST" and not parts:
            raise
        if parts:
            for some in parts:
                yield from _tolerant(part, wanted, folder, some)
        elif len(steps) > 1 and not part.dataset.index.header.flatten:
            for step in steps:
                yield from _tolerant(part, wanted, folder, [step])
        elif wanted.mode == "PERMISSIVE" and part.is_first_share:
            yield _damage(part, wanted, steps[0], error)
        return
    yield from rows.batches()


def _damage(part: Part, wanted: Wanted, step: Step, error: PbioError) -> pa.RecordBatch:
    columns = {column.name: pa.nulls(1, wanted.schema.field(column.name).type) for column in wanted.columns}
    columns |= {name: pa.nulls(1, wanted.schema.field(name).type) for name in wanted.index_columns}
    return finish(columns, [step], part, wanted, [error])


@dataclass
class _Unit:
    """Arrays of one shape whose elements become rows.

    Attributes:
        row: the place of the step.
        shape: of all arrays; of a table the number of its rows.
        arrays: by variable, the blocks of the array; one that this step lacks is left out.
        undone: of arrays that an operator made, the last part that was read.
        flat: by variable what is known of an array that is read in ranges; None if it cannot be.
    """

    row: int
    shape: tuple[int, ...]
    arrays: dict[str, Blocks]
    undone: dict[str, tuple[Box, Elements]] = field(default_factory=dict)
    flat: dict[str, Flat | None] = field(default_factory=dict)


class _Rows:
    """The rows of some steps, whose metadata is held at once."""

    def __init__(self, part: Part, wanted: Wanted, folder: Folder, steps: Sequence[Step]) -> None:
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
        self.same_step: tuple[int, pa.Array] | None = None

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

    def _narrowed(self, unit: _Unit, box: Box) -> Iterator[Box]:
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
                whole = self._whole(box, blocks)
                may_pass &= blocks_allow(clip(blocks, whole), given, bound, self.part.scales.get(variable), along)
                continue
            one = self._given(given, unit, Box((0,) * len(box.low), (1,) * len(box.low)), {})
            if not bound.may_hold(one.data, one.data).all():
                return
        yield from box.runs(may_pass)

    def _units(self, row: int) -> Iterator[_Unit]:
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
                yield self._unit(row, {name: _as_array(one.take(np.array([block]))) for name, one in own.items()})
            return
        self._same(row, local)
        yield self._unit(row, own)

    def _unit(self, row: int, arrays: dict[str, Blocks]) -> _Unit:
        shapes = {name: tuple(blocks.shape[0].tolist()) for name, blocks in arrays.items()}
        self._same(row, shapes)
        shape = next(iter(shapes.values()))
        if self.is_table and len(shape) != 2:
            raise self._fail(row, f"a table has two dimensions, not {len(shape)}")
        if self.is_table and shape[1] != len(self.wanted.parts):
            reason = f"the table has {shape[1]} columns, but {len(self.wanted.parts)} are named"
            raise self._fail(row, reason).at(field=next(iter(arrays)))
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
        return _Unit(row, shape[:1] if self.is_table else shape, arrays)

    def _same(self, row: int, facts: Mapping[str, object]) -> None:
        (first, fact), *others = facts.items()
        for name, other in others:
            if other != fact:
                raise self._fail(row, f"{first!r} and {name!r} differ in shape: {fact} and {other}")

    def _fail(self, row: int, reason: str) -> PbioError:
        error = bad(reason, file=self.folder.path, step=self.steps[row].number, code="PBIO_INCOMPATIBLE_TYPE")
        error.hint = "read variables of other shapes by themselves"
        return error

    def _most(self, unit: _Unit) -> int:
        """How many rows one box may have."""
        wide = [blocks.variable.size * (blocks.shape[0, 1] if self.is_table else 1) for blocks in unit.arrays.values()]
        most = self.wanted.max_batch_bytes // max(1, int(sum(wide)))
        return max(1, min(most, -(-math.prod(unit.shape) // self.part.share[1])))

    def _box(self, unit: _Unit, box: Box) -> Iterator[pa.RecordBatch]:
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
            made[self.wanted.step_column] = self._step(step.number, count)
        batch = finish(made, [step] if made else [step] * count, self.part, self.wanted)
        for begin in range(0, count, self.wanted.records_per_batch):
            yield batch.slice(begin, self.wanted.records_per_batch)

    def _step(self, number: int, count: int) -> pa.Array:
        """The number of a step for each row. The boxes of a step share it."""
        if self.same_step is None or self.same_step[0] != number or len(self.same_step[1]) < count:
            field = self.wanted.schema.field(self.wanted.step_column)
            self.same_step = number, narrowed(numbers_of([number], count), field)
        return self.same_step[1].slice(0, count)

    def _trusts(self, blocks: Blocks) -> bool:
        """Whether rows may be skipped by the statistics of an array's blocks.

        A NaN makes ADIOS2 begin anew: of 2.5, NaN, 0 it notes 0 as the greatest value.
        """
        if self.wanted.trust_statistics == "integers":
            return self.part.dataset.kind(blocks.variable).kind in "iu"
        return self.wanted.trust_statistics == "all"

    def _columns(self, unit: _Unit, box: Box) -> tuple[dict[str, pa.Array], int] | None:
        """The columns of a box, and how many rows; None if no element is wanted."""
        count = int(np.prod(box.shape))
        read: dict[str, Elements] = {}
        chosen: Int64s | None = None
        where = self.wanted.where
        if where is not None:
            given = {one: self._given(one, unit, box, read) for one in where.reads}
            mask = where.mask(given, count)
            if not mask.any():
                return None
            chosen = None if mask.all() else np.flatnonzero(mask)
        rows = count if chosen is None else len(chosen)
        columns = {column.name: self._column(column, unit, box, read, chosen, rows) for column in self.wanted.columns}
        for name, dimension in self.wanted.index_columns.items():
            index = self._index(box, dimension)
            values = pa.array(index if chosen is None else index[chosen])
            columns[name] = narrowed(values, self.wanted.schema.field(name))
        return columns, rows

    def _index(self, box: Box, dimension: int) -> Int64s:
        before, after = int(np.prod(box.shape[:dimension])), int(np.prod(box.shape[dimension + 1 :]))
        index = np.arange(box.low[dimension], box.high[dimension])
        if after > 1:
            index = np.repeat(index, after)
        return index if before == 1 else np.tile(index, before)

    def _given(self, given: Given, unit: _Unit, box: Box, read: dict[str, Elements]) -> Any:
        """What a program asks about, one value for each element."""
        count, name, kind = int(np.prod(box.shape)), given.name, given.kind
        if given.is_step:
            return numbers_to_column(np.full(count, self.steps[unit.row].number), "i8")
        if name in self.wanted.index_names:
            return numbers_to_column(self._index(box, self.wanted.index_names.index(name)), "i8")
        variable = self.wanted.variable_of(name)
        part = self.wanted.part_of(name)
        if variable in unit.arrays:
            elements = self._elements(variable, unit, box, read)
            values, covered = _part(elements, part, unit.arrays[variable])
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

    def _elements(self, variable: str, unit: _Unit, box: Box, read: dict[str, Elements]) -> Elements:
        if variable not in read:
            blocks = unit.arrays[variable]
            kind, marks = self.part.dataset.kind(blocks.variable), self.wanted.uncovered == "null"
            order = self.part.dataset.order
            whole = self._whole(box, blocks)
            if blocks.has_operator.any():
                around, found = unit.undone.get(variable, (None, None))
                if around is None or found is None or not around.holds(whole):
                    around, some = around_blocks(blocks, whole)
                    found = read_arrays(self.folder, some, self.steps, kind, order, marks=marks)
                    unit.undone[variable] = around, found
                read[variable] = _slice(found, around, whole)
            else:
                read[variable] = self._range(variable, unit, whole, kind) or read_arrays(
                    self.folder, clip(blocks, whole), self.steps, kind, order, marks=marks
                )
        return read[variable]

    def _range(self, variable: str, unit: _Unit, box: Box, kind: np.dtype[Any]) -> Elements | None:
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
        self, column: ColumnOf, unit: _Unit, box: Box, read: dict[str, Elements], chosen: Int64s | None, rows: int
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
        values, covered = _part(self._elements(column.variable, unit, box, read), column.part, blocks)
        if chosen is not None:
            values, covered = values[chosen], None if covered is None else covered[chosen]
        scale = self.part.scales.get(column.variable)
        kind = kind_of_scaled(self.part.dataset.kind(blocks.variable), scale)
        leaf = leaf_of(kind, blocks.variable, want, self.wanted.unsigned_long_as)
        validity = validity_of(None if covered is None else covered.astype(np.bool_))
        try:
            return leaf(scaled(np.ascontiguousarray(values), scale), validity)
        except PbioError as error:
            raise error.at(field=column.variable) from None


def _part(elements: Elements, part: int | None, blocks: Blocks) -> tuple[Array, Array | None]:
    """The elements, or one column of a table; and which are covered."""
    if part is None:
        return elements.data, elements.covered
    width = int(blocks.shape[0, 1])
    covered = None if elements.covered is None else elements.covered.reshape(-1, width)[:, part]
    return elements.data.reshape(-1, width)[:, part], covered


def _slice(found: Elements, around: Box, box: Box) -> Elements:
    """A box of a larger one, which is held."""
    where = tuple(
        slice(low - begin, high - begin) for low, high, begin in zip(box.low, box.high, around.low, strict=True)
    )
    covered = None if found.covered is None else found.covered.reshape(around.shape)[where].reshape(-1)
    return Elements(found.data.reshape(around.shape)[where].reshape(-1), np.zeros(1, np.int64), covered)


def _as_array(block: Blocks) -> Blocks:
    """A block of a local array as an array of its own."""
    return replace(
        block, variable=replace(block.variable, shape=Shape.ARRAY), shape=block.count, start=np.zeros_like(block.count)
    )
