"""One program over events from many origins, with a state for each: one per producer, for instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ecode.columns.batch import BatchProgram
from ecode.columns.column import Column
from ecode.columns.run import IN_TURN, BatchResult, OutputMemory
from ecode.columns.state import checked, pack, unpack
from ecode.native import Kernel, Table, compile_kernel, loads
from ecode.native.table import TableEntry
from ecode.outcome import Statics
from ecode.typed import Structs, ValueType
from ecode.types import STRING, Array, Basic, Ref

_APART = f"""
def kernel(count, table):
{loads(("entry", "own", "statics", "size", "states", "ends"))}
    i = 0
    while i < count:
        copy(statics, states + size * i, size)
        if call_kernel(entry, load_int64(ends + 8 * i), own) != 0:
            return 1
        copy(states + size * i, statics, size)
        i += 1
    return 0
"""


def loop_kernels() -> tuple[Kernel, ...]:
    """The kernels that `run_together` and `run_apart` need besides those of programs. Processes that never compile
    `adopt` them."""
    return compile_kernel(IN_TURN), compile_kernel(_APART)


def runs_apart(program: BatchProgram) -> bool:
    """Whether `run_apart` takes a program: its state has no strings, and it needs no memory that grows."""
    event = program.event
    return not event.growable and all(_is_flat(one.type, one.structs) for one in event.statics)


def run_apart(
    program: BatchProgram,
    inputs: Mapping[str, Column],
    ends: npt.NDArray[np.int64],
    states: Sequence[Statics],
    memory: Mapping[str, TableEntry],
    outputs: OutputMemory | None = None,
) -> BatchResult:
    """Run a program on a batch in which the events of each state are adjacent.

    Args:
        inputs, memory, outputs: as for `BatchProgram.run`, without a limit of bytes.
        ends: int64, for each state the index after its last event.
        states: updated in place.

    Raises:
        ParameterError: a state does not fit the program.
    """
    run = program.begin(inputs, int(ends[-1]), memory=memory, outputs=outputs)
    size = len(run.memory["statics"])
    blocks = np.zeros((len(states), size), np.int64)
    statics = program.event.statics
    whole = memoryview(blocks.data).cast("B")
    views = [whole[start : start + 8 * size] for start in range(0, 8 * size * len(states), 8 * size)]
    for state, view in zip(states, views, strict=True):
        for one in statics:
            pack(checked(state[one.key], one.type, one.structs, one.key), one.type, one.structs, view, one.offset, _no)
    table = Table([program.kernel.address, run.table.address, run.memory["statics"], 8 * size, blocks, ends])
    if compile_kernel(_APART)(len(states), table):
        raise AssertionError("a program that needs no more memory asks for some")
    for state, view in zip(states, views, strict=True):
        state.update({one.key: unpack(one.type, one.structs, view, one.offset, _no) for one in statics})
    return run.result()


def _is_flat(type_: ValueType, structs: Structs) -> bool:
    match type_:
        case Basic():
            return type_ != STRING
        case Array():
            return not type_.is_dynamic and _is_flat(type_.element, structs)
        case Ref():
            return all(_is_flat(field.type, structs) for field in structs[type_.name].fields)
    return False


def _no(*_: object) -> Any:
    raise AssertionError("the state has no strings")
