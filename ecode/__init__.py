"""E-code: a small C-like language in which receivers of events say what the source should do for them.

    >>> import ecode
    >>> from ecode.types import FLOAT64, Field, record
    >>> stock = record("stock", [Field("price", FLOAT64)])
    >>> program = ecode.compile("{ return input.price > 75.0; }", [ecode.Param("input", stock)])
    >>> program.run({"input": {"price": 76.5}}).returned
    1

How a program is processed, in order:

    types            record types: what parameters look like
    environment      what a host hands to a program: parameters, functions, constants
    library          what every program may call: mathematics, strings, attribute lists
    syntax           text -> syntax tree
    syntax_to_typed  syntax tree -> typed tree (`typed`)
    passes           checks and rewrites of the typed tree
    analysis         what can be known before a program runs: whether it ends, what it costs
    interpreter      runs the typed tree: the oracle
    typed_to_numba   typed tree -> the text of a kernel
    native           text -> machine code
    columns          programs over batches of columns
    program          `compile` and `Program`, which tie all of this together
    in_a_row         what programs that run one after another share
    cli              the `ecode` command

All of it uses `semantics` (what C does), `outcome` (what a call leaves), `limits`, `errors` and `suggest`; `json_text`
reads JSON, and `pipe` serves commands whose reader may go away.

Record types (`types`) and kernels (`native`) live here although they are not E-code: `morph` and `pbio_spark` use both,
and this package is the one below them (docs/decisions/0013).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ecode.suggest import no_attribute

if TYPE_CHECKING:
    from ecode.analysis.source import check_source
    from ecode.environment import Function, Mode, Param, service
    from ecode.errors import (
        CompileError,
        CostError,
        Diagnostic,
        EcodeError,
        NotCompilable,
        ParameterError,
        Trap,
        TrapKind,
    )
    from ecode.interpreter.row import Row, RowOutcome
    from ecode.library import PRINTF
    from ecode.limits import Limits
    from ecode.outcome import Keep, Outcome, Statics
    from ecode.program import Program, compile  # noqa: A004

__all__ = [
    "compile",
    "Program",
    "Row",
    "RowOutcome",
    "Param",
    "Mode",
    "Function",
    "service",
    "PRINTF",
    "Limits",
    "check_source",
    "Keep",
    "Outcome",
    "Statics",
    "EcodeError",
    "CompileError",
    "CostError",
    "Diagnostic",
    "Trap",
    "TrapKind",
    "ParameterError",
    "NotCompilable",
]

_HOMES = {
    "analysis.source": ("check_source",),
    "environment": ("Function", "Mode", "Param", "service"),
    "errors": (
        "CompileError",
        "CostError",
        "Diagnostic",
        "EcodeError",
        "NotCompilable",
        "ParameterError",
        "Trap",
        "TrapKind",
    ),
    "interpreter.row": ("Row", "RowOutcome"),
    "library": ("PRINTF",),
    "limits": ("Limits",),
    "outcome": ("Keep", "Outcome", "Statics"),
    "program": ("Program", "compile"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"ecode.{home}"), name)
    raise no_attribute(__name__, name, __all__)
