"""`compile`: text to a checked program that can be run, analysed, printed and compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ecode import library
from ecode.environment import Function, Param, Vocabulary
from ecode.errors import CompileError, ParameterError
from ecode.interpreter import Interpreter
from ecode.limits import Limits
from ecode.outcome import Keep, Outcome, Statics, initial_statics
from ecode.passes import CHECKS, REWRITES
from ecode.syntax.text_to_syntax import text_to_syntax
from ecode.syntax_to_typed import syntax_to_typed
from ecode.typed import TypedProgram
from ecode.types import INT32, Basic, Record

if TYPE_CHECKING:
    from ecode.analysis.analyse import Analysis
    from ecode.columns import BatchProgram


def compile(  # noqa: A001  (ecode.compile is what it is called)
    source: str,
    params: Sequence[Param] = (),
    returns: Basic | None = INT32,
    *,
    functions: Iterable[Function] = (),
    constants: Mapping[str, int] | None = None,
    records: Iterable[Record] = (),
    limits: Limits | None = None,
) -> Program:
    """Compiles a program.

    Args:
        source: the program text: one block in braces.
        params: what it is called with, in call order.
        returns: the type of its result; None for a program that returns nothing, such as a transform.
        functions: host functions that it may call (`ecode.service`); `#include` adds library functions.
        constants: integer constants by name.
        records: more record types whose names it may use.
        limits: bounds on the program and on each call.

    Returns:
        A program without mistakes.

    Raises:
        CompileError: with every mistake of the program.
        ParameterError: `params`, `functions` or `constants` are invalid, or the source is not a string.

    >>> double = compile("{ return 2 * x; }", [Param("x", INT32)])
    >>> double.run({"x": 21}).returned
    42
    """
    return Program(source, tuple(params), returns, tuple(functions), dict(constants or {}), tuple(records), limits)


class Program:
    """A compiled program. It pickles as its text and its environment.

    Attributes:
        source: the text.
        params: the parameters.
        typed: the typed tree.
        type_names: the words that name types in it.
    """

    def __init__(
        self,
        source: str,
        params: tuple[Param, ...],
        returns: Basic | None,
        functions: tuple[Function, ...] = (),
        constants: Mapping[str, int] | None = None,
        records: tuple[Record, ...] = (),
        limits: Limits | None = None,
    ) -> None:
        if not isinstance(source, str):
            hint = 'write it in E-code, as a string: "{ return input.load > 1; }"'
            raise ParameterError(f"a program cannot be of type {type(source).__name__}", hint)
        self._made_from = (source, params, returns, functions, constants, records, limits)
        self.source, self.params, self.limits = source, params, limits or Limits()
        param_names = {param.name for param in params}
        known = [r for r in (*records, *(p.type for p in params)) if isinstance(r, Record)]
        self.type_names = {struct.name for record in known for struct in record.structs} - param_names | {"attr_list"}
        tree = text_to_syntax(source, self.type_names, self.limits)
        vocabulary = Vocabulary(
            (*library.functions(tree.includes), *functions),
            library.constants(tree.includes) | dict(constants or {}),
            records,
            library.hints(tree.includes),
        )
        typed, mistakes = syntax_to_typed(tree, params, returns, vocabulary, self.limits)
        for check in CHECKS:
            mistakes += check(typed)
        if mistakes:
            raise CompileError(mistakes)
        for rewrite in REWRITES:
            typed = rewrite(typed)
        self.typed: TypedProgram = typed

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, self._made_from

    @property
    def statics(self) -> Statics:
        """The state before the first call: a new dict each time, of static variables by name."""
        return initial_statics(self.typed)

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis of the program."""
        from ecode.analysis.analyse import analysed

        return analysed(self.typed)

    @cached_property
    def _interpreter(self) -> Interpreter:
        return Interpreter(self.typed, self.limits)

    def kernel(self, keep: Keep = Keep.PASSED) -> BatchProgram:
        """The program compiled for columns; `ecode.columns` says what these are.

        Raises:
            NotCompilable: only the interpreter can run it.
        """
        from ecode.columns import BatchProgram

        return BatchProgram.of(self, keep)

    def run(self, inputs: Mapping[str, Any], statics: Statics | None = None, budget: int | None = None) -> Outcome:
        """Runs the program once, in the interpreter.

        Args:
            inputs: a plain value for each parameter that is not an output (see `ecode.semantics.values`); a record may
                leave fields out.
            statics: the state, from `statics`; it is updated in place unless the call traps. None starts afresh.
            budget: units of work allowed.

        Raises:
            Trap: the event ended early; `statics` is as it was before.
            ParameterError: a value does not fit its parameter.
        """
        return self._interpreter.run(inputs, self.statics if statics is None else statics, budget)
