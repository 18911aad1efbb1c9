"""Programs that run in a row on each event, such as a filter and a transform: their names, and the state they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ecode.environment import Mode
from ecode.errors import ParameterError
from ecode.outcome import Statics, initial_statics
from ecode.types import Basic, Record

if TYPE_CHECKING:
    from ecode.program import Program


def check_shared(programs: Sequence[Program]) -> None:
    """Checks that programs agree on the type of each parameter of mode `state`.

    Raises:
        ParameterError: two of them have a state of the same name with different types.
    """
    known: dict[str, Record | Basic] = {}
    for program in programs:
        for param in program.params:
            if param.mode is Mode.STATE and known.setdefault(param.name, param.type) != param.type:
                raise ParameterError(
                    f"two programs have a state {param.name!r} of different types",
                    hint="give one of them another name",
                )


def row_names(programs: Sequence[Program]) -> tuple[str, ...]:
    """Default names of programs in a row: their numbers; "" for a single program."""
    return tuple(map(str, range(len(programs)))) if len(programs) > 1 else ("",)


def row_statics(programs: Sequence[Program], names: Sequence[str]) -> Statics:
    """The state of programs in a row before the first event."""
    found: Statics = {}
    for name, program in zip(names, programs, strict=True):
        found |= initial_statics(program.typed, name)
    return found
