"""Several filters over the same records, and one filter with several states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ecode.columns import run_apart, run_together, runs_apart
from ecode.outcome import Statics
from pbio_spark.columns.programs.converter import FilterConverter
from pbio_spark.errors import PbioError

Selected: TypeAlias = "tuple[npt.NDArray[np.int64], Mapping[int, PbioError | None]]"
"""The numbers of the records that pass a filter, and those on which it ended in a trap, with the reasons."""

TILE = 2048
"""How many records all filters see before the next ones: as many as stay in a processor's cache."""


def select_together(
    filters: Sequence[FilterConverter], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> list[Selected]:
    """What each of some filters that keep no state selects of records.

    Args:
        starts, ends: int64, addresses: of the first byte of each record, and of the byte after it.
    """
    if not filters:
        return []
    results = run_together([one.programs.begin(starts, ends) for one in filters], TILE)
    every = np.arange(len(starts))
    selected: list[Selected] = []
    for one, result in zip(filters, results, strict=True):
        passed = np.asarray(result.passed).view(np.bool_)
        # Filters that keep everything share the numbers: 64 of them would fill the memory.
        numbers = every if passed.all() else np.flatnonzero(passed)
        selected.append((numbers, one.programs.traps(result)))
    return selected


def selects_apart(converter: FilterConverter) -> bool:
    """Whether `select_apart` takes a filter; otherwise its state is too much for memory that does not grow."""
    return runs_apart(converter.programs.program)


def select_apart(
    converter: FilterConverter,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    states: Sequence[Statics],
) -> Selected:
    """What a filter selects of records, with a state for those of each producer.

    Args:
        starts, ends: int64, addresses, as of `select_together`.
        stops: int64, for each state the number of the record after its last.
        states: updated in place.
    """
    programs = converter.programs
    result = run_apart(programs.program, programs.blocks, stops, states, programs.memory(starts, ends))
    return np.flatnonzero(np.asarray(result.passed).view(np.bool_)), programs.traps(result)
