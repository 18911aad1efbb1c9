"""Arrays that one loop fills (`ecode.passes.fills`): they are not zeroed first. Where the next program in a row reads
each element once, they are not built at all.

Such an array is *deferred*: its size, budget and memory are charged and checked where the program does so, but each
element is computed where the next program reads it. Ten transforms in a row become one loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from ecode.passes.fills import Fill, find_fills
from ecode.semantics.arithmetic import plain
from ecode.semantics.layout import MEMORY_LAYOUT
from ecode.typed_to_numba.code import Code, Range
from ecode.typed_to_numba.emitter import Emitter
from ecode.typed_to_numba.stored import Scattered, cast
from ecode.types import Array, Basic, Kind

Takes: TypeAlias = Callable[[str], bool]
"""Whether the next program reads each element of an array at most once."""

_LEAVES = ("return", "budget", "heap")
"""Lines with these words may end the event or charge it, so they cannot be deferred."""


@dataclass(frozen=True, slots=True)
class FillText:
    """A fill whose loop is about to be written.

    Attributes:
        array: where the array is.
        count: the variable of its size.
        is_deferred: no loop is written.
    """

    fill: Fill
    array: Scattered
    count: str
    is_deferred: bool

    def instead(self, code: Code, bound: str) -> None:
        """What remains of the loop if it fills nothing."""
        site = code.variables[self.fill.counted.variable]
        assert isinstance(site, Scattered)
        number = plain(site.type) if isinstance(site.type, Basic) else None
        code.emitter.line(f"{site.names[0]} = {cast(number, f'max_int64({bound}, 0)')}")

    def rest(self, code: Code, bound: str) -> None:
        """Zeros for the elements that the loop does not reach."""
        if self.fill.is_whole:
            return
        assert isinstance(self.array.type, Array)
        emitter, size = code.emitter, MEMORY_LAYOUT.size(self.array.type.element, code.program.structs)
        first = emitter.temp(f"max_int64({bound}, 0)")
        with emitter.block(f"if {first} < {self.count}:"):
            emitter.line(f"zero({self.array.names[0]} + {size} * {first}, {size} * ({self.count} - {first}))")


def place_fills(code: Code, param: str, site: Scattered, takes: Takes | None) -> None:
    """Finds the fills of an output that is kept in variables, before the program is written."""
    fields = dict(site.fields)
    for fill in find_fills(code.program, param):
        array, count = fields[fill.array], fields[fill.size]
        if not (isinstance(array, Scattered) and isinstance(count, Scattered) and isinstance(array.type, Array)):
            continue
        element = array.type.element
        if not isinstance(element, Basic) or plain(element) is None or not isinstance(count.type, Basic):
            continue
        if count.type.size == 8 and count.type.kind is not Kind.INTEGER:
            continue
        is_deferred = fill.can_wait and takes is not None and takes(fill.array) and _is_pure(code, fill)
        if is_deferred:
            code.stored.deferred[array.names[0]] = partial(_element, code, fill)
        code.stored.filled.add(array.names[0])
        code.fills[id(fill.loop)] = FillText(fill, array, count.names[0], is_deferred)


def _is_pure(code: Code, fill: Fill) -> bool:
    """Whether the value of an element can be computed without a line that could end the event."""
    with code.emitter.captured() as lines:
        _element(code, fill, code.emitter, "event")  # any name: of a literal it would be known what it lies in
    return not any(word in line for line in lines for word in _LEAVES)


def _element(code: Code, fill: Fill, emitter: Emitter, index: str) -> str:
    """The value of an element at an index that is in range."""
    from ecode.typed_to_numba.nodes.expressions import single

    variable = fill.counted.variable
    before, known = code.variables[variable], code.ranges.get(variable)
    code.variables[variable] = Scattered(variable.type, (emitter.temp(index),))
    code.ranges[variable] = Range(variable, emitter.named(single(code, fill.counted.bound)), is_positive=True)
    value = emitter.temp(single(code, fill.value))
    code.variables[variable] = before
    if known is None:
        del code.ranges[variable]
    else:
        code.ranges[variable] = known
    return value
