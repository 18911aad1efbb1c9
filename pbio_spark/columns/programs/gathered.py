"""Filters over numbers that are gathered from records once, for all filters that read them.

A filter that reads a record where it lies takes as long for an address as for its own work; over a column of numbers,
several events are one machine instruction. Gathering a column costs as much as one filter does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

import ecode
from ecode.columns import BatchProgram, Column, ColumnBinding, ColumnSite, Run
from ecode.native import Kernel, Table, compile_kernel, loads
from ecode.typed import ValueType
from ecode.typed_to_numba.emitter import Emitter
from ecode.types import Array, Basic, Field, Kind, Record, Ref
from pbio_spark.columns.decode.plan import number_at
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.names import Names, Path, walk_path

Int64s: TypeAlias = "npt.NDArray[np.int64]"

_NAMES = Names()
_NUMBERS = (Kind.INTEGER, Kind.UNSIGNED, Kind.FLOAT)


@dataclass(frozen=True, slots=True)
class Place:
    """Where records have a number.

    Attributes:
        offset: from the record's first byte after its header.
        size: in bytes.
        order: `_swapped`, or "" where it is this machine's.
    """

    offset: int
    size: int
    order: str


class Gathering:
    """Records of one format, and the numbers that were gathered from them.

    Args:
        starts: int64, the address of each record's first byte after its header. Each is as long as its format says.
    """

    def __init__(self, starts: Int64s) -> None:
        self._starts = starts
        self._found: dict[Place, npt.NDArray[np.uint8]] = {}

    def column(self, place: Place) -> npt.NDArray[np.uint8]:
        """The numbers at a place, in this machine's order; the bytes of them."""
        if place not in self._found:
            made = np.empty(len(self._starts) * place.size, np.uint8)
            _gather(place.size, place.order)(len(self._starts), Table([self._starts, made, place.offset]))
            self._found[place] = made
        return self._found[place]


@dataclass(frozen=True, slots=True)
class GatheredFilter:
    """A filter that reads nothing but numbers in place, compiled for columns of them. Pickles with its machine code.

    Attributes:
        places: what each table entry of the program is a column of.
    """

    program: BatchProgram
    places: Mapping[str, Place]

    def begin(self, blocks: Mapping[str, Column], gathering: Gathering, count: int) -> Run:
        """A run over so many records; see `BatchProgram.begin`."""
        memory = {entry: gathering.column(place) for entry, place in self.places.items()}
        return self.program.begin(blocks, count, memory=memory)


class GatherableFilter:
    """A filter that is compiled for gathered numbers when it is first asked for: few channels have so many filters that
    it pays. Pickles with its machine code."""

    def __init__(self, form: Format, filter_: ecode.Program | None) -> None:
        self._format = form
        self._filter = filter_
        self._gathered: GatheredFilter | None = None

    def gathered(self) -> GatheredFilter | None:
        """None if it is not a filter, keeps state, or reads anything but the format's own numbers."""
        filter_, self._filter = self._filter, None
        if filter_ is not None:
            self._gathered = _filter_to_gathered(self._format, filter_)
        return self._gathered


def _filter_to_gathered(form: Format, filter_: ecode.Program) -> GatheredFilter | None:
    if filter_.statics or any(param.mode is ecode.Mode.STATE for param in filter_.params):
        return None
    (given,) = (param for param in filter_.params if param.mode is ecode.Mode.IN)
    assert isinstance(given.type, Record)
    binding = _GatheredBinding(form, given.type, given.name, filter_.typed.param_types[given.name])
    try:
        program = BatchProgram.in_row([filter_], binding, has_output=False, names=[""])
    except (_NotInPlaceError, ecode.NotCompilable):
        return None
    if program.event.samples:
        return None
    return GatheredFilter(program, {entry: binding.places[path] for entry, (_, path, _) in binding.sources.items()})


class _NotInPlaceError(Exception):
    """The filter reads something that is not a number in place."""


class _GatheredBinding(ColumnBinding):
    """Reads a parameter from columns of numbers, and notes which they are.

    Attributes:
        places: of the numbers, by path.
    """

    def __init__(self, form: Format, record: Record, param: str, type_: ValueType) -> None:
        super().__init__(param, type_)
        self.places: dict[Path, Place] = {}
        self._form, self._record = form, record
        self._offsets = {s.name: {f.name: f.offset for f in s.fields} for s in form.structs}

    def number(self, emitter: Emitter, site: ColumnSite, type_: Basic) -> str:
        self.places[site.path] = self._place(site.path, type_)
        return super().number(emitter, site, type_)

    def field(self, emitter: Emitter, site: ColumnSite, field: Field) -> ColumnSite:
        if not isinstance(field.type, Basic | Ref):
            raise _NotInPlaceError
        return super().field(emitter, site, field)

    def element(self, emitter: Emitter, site: ColumnSite, array: Array, index: str) -> NoReturn:
        raise _NotInPlaceError

    def elements(self, emitter: Emitter, site: ColumnSite) -> NoReturn:
        raise _NotInPlaceError

    def target(self, emitter: Emitter, site: ColumnSite) -> NoReturn:
        raise _NotInPlaceError

    def present(self, emitter: Emitter, site: ColumnSite) -> NoReturn:
        raise _NotInPlaceError

    def string(self, emitter: Emitter, site: ColumnSite) -> NoReturn:
        raise _NotInPlaceError

    def _place(self, path: Path, type_: Basic) -> Place:
        offset, found = 0, None
        steps = walk_path(path, self._record, self._form.record, _NAMES)
        for step in steps:
            found = step.found
            if found is None or found.notes.null_bit is not None or step.is_count:
                raise _NotInPlaceError
            offset += self._offsets[step.found_inside.name][found.name]
        if len(steps) < len(path) or found is None or found.type != type_ or type_.kind not in _NUMBERS:
            raise _NotInPlaceError
        load = number_at(self._form, type_, offset)
        if load.order not in ("", "_swapped"):
            raise _NotInPlaceError
        return Place(offset, type_.size, load.order)


@cache
def _gather(size: int, order: str) -> Kernel:
    """Copies numbers of a size from records to a column."""
    type_ = f"int{8 * size}"
    return compile_kernel(f"""
def kernel(count, table):
{loads(("starts", "column", "offset"))}
    i = 0
    while i < count:
        store_{type_}(column + {size} * i, load_{type_}{order}(load_int64(starts + 8 * i) + offset))
        i += 1
    return 0
""")
