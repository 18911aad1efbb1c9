"""Programs in a row, in the interpreter: the plain twin of `ecode.columns.BatchProgram.in_row`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ecode.environment import Mode
from ecode.in_a_row import check_shared, row_names, row_statics
from ecode.interpreter.memory import Frame, Trapped
from ecode.interpreter.run import Interpreter, store_strings, trap
from ecode.outcome import Statics
from ecode.types import Record, Ref, Struct

if TYPE_CHECKING:
    from ecode.program import Program


@dataclass(frozen=True, slots=True)
class RowOutcome:
    """The result of an event that did not trap.

    Attributes:
        passed: whether all programs passed it.
        output: the last program's output, or its input if it has none; None if it was not passed.
        log: the calls of logged functions by all programs.
    """

    passed: bool
    output: Any
    log: tuple[tuple[str, tuple[Any, ...]], ...] = ()


class Row:
    """Programs in a row: each reads the output of the one before it, or that program's input if it has no output.

    They share their parameters of mode `state`; static variables belong to one program. The output of one program and
    the input of the next may differ only in fields that one of them lacks.

    Args:
        programs, names, morphs: as for `BatchProgram.in_row`.

    Raises:
        ParameterError: the programs give one state different types.
    """

    def __init__(self, programs: Sequence[Program], names: Sequence[str] = (), morphs: int = 0) -> None:
        check_shared(programs)
        self.programs, self.names, self.morphs = tuple(programs), tuple(names) or row_names(programs), morphs
        self._runs = [Interpreter(p.typed, p.limits, n) for p, n in zip(programs, self.names, strict=True)]

    @property
    def statics(self) -> Statics:
        """The state before the first event: a new dict each time."""
        return row_statics(self.programs, self.names)

    def run(self, inputs: Mapping[str, Any], statics: Statics | None = None, budget: int | None = None) -> RowOutcome:
        """Runs the programs on an event.

        Args:
            inputs: the first program's input and all parameter blocks, as plain values.
            statics: the state; it is updated in place unless the event traps. None starts afresh.
            budget: units of work allowed to all programs together.

        Raises:
            Trap: the event ended early; `statics` is as it was before.
            ParameterError: a value does not fit its parameter.
        """
        state = self.statics if statics is None else statics
        least = min(program.limits.budget for program in self.programs)
        frame = Frame([], least if budget is None else budget, self.programs[0].limits.output_bytes, [])
        after, passed = dict(state), True
        value = inputs.get(_input(self.programs[0]), {})
        for number, (program, run) in enumerate(zip(self.programs, self._runs, strict=True)):
            blocks = {p.name: inputs[p.name] for p in program.params if p.mode is Mode.PARAM and p.name in inputs}
            try:
                outcome = run.attempt({_input(program): value, **blocks}, after, frame)
                is_void = program.typed.returns is None or number < self.morphs
                passed = is_void or bool(outcome.returned)
                is_end = not passed or number == len(self.programs) - 1
                if is_end and any(run.stores_strings for run in self._runs):
                    store_strings(frame, [(run, after) for run in self._runs])
            except Trapped as trapped:
                raise trap(program.source, trapped, number) from None
            if not passed:
                break
            value = next(iter(outcome.outputs.values()), value)
            if number < len(self.programs) - 1:
                value = _as_read(value, self.programs[number + 1])
        state.update(after)
        return RowOutcome(passed, value if passed else None, tuple(frame.log))


def _input(program: Program) -> str:
    return next(param.name for param in program.params if param.mode is Mode.IN)


def _as_read(value: Any, program: Program) -> Any:
    """The record without the fields that the next program does not know."""
    (record,) = (param.type for param in program.params if param.mode is Mode.IN)
    assert isinstance(record, Record)
    return _known(value, record.structs[0], record)


def _known(value: Any, struct: Struct, record: Record) -> Any:
    if not isinstance(value, Mapping):
        return value
    found = {}
    for field in struct.fields:
        if field.name in value:
            inner = value[field.name]
            found[field.name] = (
                _known(inner, record.struct(field.type.name), record) if isinstance(field.type, Ref) else inner
            )
    return found
