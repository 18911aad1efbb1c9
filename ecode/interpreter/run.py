"""One call of a program: values in, values out, or a trap."""

from __future__ import annotations

from collections.abc import Mapping
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
from ecode.typed import TypedProgram
from ecode.types import STRING, Record


class Interpreter:
    """A program as closures. One instance serves any number of calls; it keeps no state between them."""

    def __init__(self, program: TypedProgram, limits: Limits) -> None:
        self.program, self.types, self.limits = program, program.param_types, limits
        self.code = Expressions(program, limits.output_bytes)
        self.body = runner(self.code, program.body)
        self.names = static_names(program)
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
        program, structs = self.program, self.program.structs
        if not isinstance(inputs, Mapping):
            raise ParameterError(
                f"expected a mapping of parameters, not {str(inputs)[:80]!r}", "example: {'input': {...}}"
            )
        unknown = inputs.keys() - {param.name for param in program.params if param.mode is not Mode.OUT}
        if unknown:
            raise ParameterError(f"unknown input parameter {sorted(unknown)[0]!r}")
        try:
            slots = self._slots(inputs, statics)
        except RecursionError:
            raise ParameterError("a value is nested too deeply") from None
        given = self.limits.budget if budget is None else budget
        frame = Frame(slots, given, self.limits.output_bytes, [])
        try:
            spend(frame, program.work, program.body.at)
            self.body(frame)
            outputs = {
                param.name: to_plain(slots[self.code.param_slots[param.name]], self.types[param.name], structs, 0)
                for param in program.params
                if param.mode is Mode.OUT
            }
            after = {v: to_plain(slots[v.index], v.type, structs, 0) for v in program.statics}
            if self.stores_strings:
                size = sum(text_bytes(value, v.type, structs) for v, value in after.items())
                spend(frame, size // BYTES, 0)
                take(frame, size, 0)
        except Trapped as trapped:
            raise trap(program.source, trapped) from None
        for variable, value in after.items():
            statics[self.names[variable]] = value
        return Outcome(self._returned(frame), outputs, tuple(frame.log), given - frame.budget)

    def _slots(self, inputs: Mapping[str, Any], statics: Statics) -> list[Any]:
        """Variables and parameters as the call begins."""
        program, structs = self.program, self.program.structs
        slots = [
            to_memory(statics[self.names[v]], v.type, structs, v.name) if v.is_static else fresh(v.type, structs)
            for v in program.variables
        ]
        for param in program.params:
            type_ = self.types[param.name]
            if param.mode is Mode.OUT:
                slots.append(fresh(type_, structs))
            elif param.name not in inputs and not isinstance(param.type, Record):
                raise ParameterError(f"the parameter {param.name!r} is missing")
            else:
                slots.append(to_memory(inputs.get(param.name, {}), type_, structs, param.name))
        return slots

    def _returned(self, frame: Frame) -> Any:
        returns = self.program.returns
        if returns is None:
            return None
        if frame.result is None:
            return None if returns == STRING else fresh(returns, {})
        return to_plain(frame.result, returns, {}, 0)


def trap(source: str, trapped: Trapped) -> Trap:
    """The trap with its line and column."""
    return trap_at(source, trapped.at, trapped.kind, detail=trapped.detail)
