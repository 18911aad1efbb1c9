"""Several filters over the same records, and programs with several states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ecode.columns import BatchResult, OutputMemory, run_apart, run_together
from ecode.columns import runs_apart as programs_run_apart
from ecode.outcome import Statics
from pbio_spark.columns.decode.converter import Decoded
from pbio_spark.columns.programs.converter import FilterConverter, ProgramConverter, Programs
from pbio_spark.columns.programs.gathered import GatherableFilter, GatheredFilter, Gathering
from pbio_spark.errors import PbioError

Int64s: TypeAlias = "npt.NDArray[np.int64]"
Selected: TypeAlias = "tuple[npt.NDArray[np.int64], Mapping[int, PbioError | None]]"
"""The numbers of the records that pass a filter, and those on which it ended in a trap, with the reasons."""

TILE = 2048
"""How many records all filters see before the next ones: as many as stay in a processor's cache."""

FEW = 3
"""For so many filters, it does not pay to gather the numbers that they read."""


def gather(filters: Sequence[GatherableFilter]) -> list[GatheredFilter | None]:
    """Filters that see the same records, as `select_together` takes them: compiled if there are enough of them."""
    return [one.gathered() for one in filters] if len(filters) > FEW else [None] * len(filters)


def select_together(
    filters: Sequence[FilterConverter],
    starts: Int64s,
    ends: Int64s,
    gathered: Sequence[GatheredFilter | None] = (),
) -> list[Selected]:
    """What each of some filters that keep no state selects of records.

    Args:
        starts, ends: int64, addresses: of the first byte of each record, and of the byte after it.
        gathered: the same filters, or None, for numbers that are gathered from all records at first.
    """
    if not filters:
        return []
    if sum(one is not None for one in gathered) <= FEW:
        gathered = [None] * len(filters)
    numbers, count = Gathering(starts), len(starts)
    runs = [
        one.programs.begin(starts, ends) if other is None else other.begin(one.programs.blocks, numbers, count)
        for one, other in zip(filters, gathered, strict=True)
    ]
    results = run_together(runs, TILE)
    every = np.arange(len(starts))
    selected: list[Selected] = []
    for one, result in zip(filters, results, strict=True):
        passed = np.asarray(result.passed).view(np.bool_)
        # Filters that keep everything share the numbers: 64 of them would fill the memory.
        kept = every if passed.all() else np.flatnonzero(passed)
        selected.append((kept, one.programs.traps(result)))
    return selected


def runs_apart(converter: FilterConverter | ProgramConverter) -> bool:
    """Whether the next two take it; otherwise its state or what it makes is too much for memory that does not grow."""
    return programs_run_apart(converter.programs.program)


def select_apart(
    converter: FilterConverter, starts: Int64s, ends: Int64s, stops: Int64s, states: Sequence[Statics]
) -> Selected:
    """What a filter selects of records, with a state for those of each producer.

    Args:
        starts, ends: int64, addresses, as of `select_together`.
        stops: int64, for each state the number of the record after its last.
        states: updated in place.
    """
    result = _run_apart(converter.programs, starts, ends, stops, states)
    return np.flatnonzero(np.asarray(result.passed).view(np.bool_)), converter.programs.traps(result)


def decode_apart(
    converter: ProgramConverter, starts: Int64s, ends: Int64s, stops: Int64s, states: Sequence[Statics]
) -> Decoded:
    """The same for programs that make something of records: all at once."""
    return converter.decoded(_run_apart(converter.programs, starts, ends, stops, states))


def _run_apart(
    programs: Programs, starts: Int64s, ends: Int64s, stops: Int64s, states: Sequence[Statics]
) -> BatchResult:
    outputs = OutputMemory(allocate=pa.allocate_buffer)
    return run_apart(programs.program, programs.blocks, stops, states, programs.memory(starts, ends), outputs)
