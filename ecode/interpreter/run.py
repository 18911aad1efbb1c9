"""One call of a program: values in, values out, or a trap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ecode.analysis.work import BYTES
from ecode.environment import Mode
from ecode.errors import ParameterError, Trap, trap_at
from ecode.interpreter.convert import to_memory, to_plain
from ecode.interpreter.expressions import Expressions
from ecode.interpreter.memory import Frame, Trapped, fresh, spend, take
from ecode.interpreter.statements import runner
from ecode.limits import Limits
from ecode.outcome import Outcome, Statics, static_names, stores_strings, text_bytes
from ecode.typed import TypedProgram, Variable
from ecode.types import STRING, Record


class Interpreter:
    """A program as closures. One instance serves any number of calls; it keeps no state between calls."""

    def __init__(self, program: TypedProgram, limits: Limits, name: str = "") -> None:
        self.program, self.types, self.limits = program, program.param_types, limits
        self.code = Expressions(program, limits.output_bytes)
        self.body = runner(self.code, program.body)
        self.names = static_names(program, name)
        self.stores_strings = stores_strings(program)

    def run(self, inputs: Mapping[str, Any], statics: Statics, budget: int | None = None) -> Outcome:
        """Runs the program once.

        Args:
            inputs: a plain value for each parameter that is not an output.
            statics: the state; it is changed in place, and stays as it was when the call traps.
            budget: units of work allowed; the program's limit by default.

        Raises:
            ParameterError: a value does not fit its parameter.
            Trap: the event ended early.
        """
        given = self.limits.budget if budget is None else budget
        frame, after = Frame([], given, self.limits.output_bytes, []), dict(statics)
        try:
            outcome = self.attempt(inputs, after, frame)
            if self.stores_strings:
                store_strings(frame, [(self, after)])
        except Trapped as trapped:
            raise trap(self.program.source, trapped) from None
        statics.update(after)
        return replace(outcome, log=tuple(frame.log), work=given - frame.budget)

    def attempt(self, inputs: Mapping[str, Any], statics: Statics, frame: Frame) -> Outcome:
        """Runs the program with what a frame has left, up to where the strings of the state are stored.

        Raises:
            ParameterError: a value does not fit its parameter.
            Trapped: the event ended early; `statics` is as it was before.
        """
        program, structs = self.program, self.program.structs
        if not isinstance(inputs, Mapping):
            raise ParameterError(
                f"expected a mapping of parameters, not {str(inputs)[:80]!r}", "example: {'input': {...}}"
            )
        known = {param.name for param in program.params if param.mode is not Mode.OUT}
        unknown = inputs.keys() - known
        if unknown:
            raise ParameterError(
                f"unknown input parameter {min(unknown, key=str)!r}",
                hint=f"the program's inputs: {', '.join(sorted(known)) or 'none'}",
            )
        try:
            slots = frame.slots = self._slots(inputs, statics)
        except RecursionError:
            hint = "pass a long chain of records as an array of them"
            raise ParameterError("a value is nested too deeply", hint) from None
        frame.result = None
        spend(frame, program.work, program.body.at)
        self.body(frame)
        outputs = {
            param.name: to_plain(slots[self.code.param_slots[param.name]], self.types[param.name], structs, 0)
            for param in program.params
            if param.mode is Mode.OUT
        }
        statics |= {self.names[v]: to_plain(slots[v.index], v.type, structs, 0) for v in program.statics}
        return Outcome(self._returned(frame), outputs)

    def _slots(self, inputs: Mapping[str, Any], statics: Statics) -> list[Any]:
        """Variables and parameters as the call begins."""
        program, structs = self.program, self.program.structs
        slots = [
            to_memory(self._static(statics, v), v.type, structs, v.name) if v.is_static else fresh(v.type, structs)
            for v in program.variables
        ]
        for param in program.params:
            type_ = self.types[param.name]
            if param.mode is Mode.OUT:
                slots.append(fresh(type_, structs))
            elif param.name not in inputs and not isinstance(param.type, Record):
                raise ParameterError(
                    f"the parameter {param.name!r} is missing", hint="give a value for each input parameter"
                )
            else:
                slots.append(to_memory(inputs.get(param.name, {}), type_, structs, param.name))
        return slots

    def _static(self, statics: Statics, variable: Variable) -> Any:
        name = self.names[variable]
        if name not in statics:
            raise ParameterError(f"the state has no {name!r}", "take the first one from 'statics'")
        return statics[name]

    def _returned(self, frame: Frame) -> Any:
        returns = self.program.returns
        if returns is None:
            return None
        if frame.result is None:
            return None if returns == STRING else fresh(returns, {})
        return to_plain(frame.result, returns, {}, 0)


def store_strings(frame: Frame, programs: Iterable[tuple[Interpreter, Statics]]) -> None:
    """Charges what it costs to store all strings of a state."""
    values = {
        name: text_bytes(statics[name], variable.type, run.program.structs)
        for run, statics in programs
        for variable, name in run.names.items()
    }
    spend(frame, sum(values.values()) // BYTES, 0)
    take(frame, sum(values.values()), 0)


def trap(source: str, trapped: Trapped, program: int = 0) -> Trap:
    """The trap with its line and column."""
    return trap_at(source, trapped.at, trapped.kind, program, detail=trapped.detail)
