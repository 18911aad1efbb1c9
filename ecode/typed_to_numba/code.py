"""The state while the event function of a program is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ecode.analysis.work import Work
from ecode.errors import TrapKind
from ecode.typed import Convert, Expression, FieldOf, Local, Parameter, Place, Read, TypedProgram, Variable
from ecode.typed_to_numba.bindings import Reader, Site
from ecode.typed_to_numba.emitter import Emitter
from ecode.typed_to_numba.stored import MemoryBlock, Stored, StoredSite, plus
from ecode.types import INT64, Field

if TYPE_CHECKING:
    from ecode.typed_to_numba.fills import FillText

# The value of an expression: one piece of text for a number or handle, two for a string, three for a pointer.
Parts = tuple[str, ...]


class Literals:
    """The bytes of all string literals, each with a NUL; equal literals are stored once."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._at: dict[bytes, int] = {}

    def address(self, emitter: Emitter, text: bytes) -> str:
        if text not in self._at:
            self._at[text] = len(self.data)
            self.data += text + b"\0"
        return plus(emitter.entry("literals"), self._at[text])


@dataclass(slots=True)
class LoopText:
    """The lines that end a round, which `continue` writes."""

    end_round: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Range:
    """The known range of a loop variable: less than `bound` (text), and perhaps not negative."""

    variable: Variable
    bound: str
    is_positive: bool


@dataclass(slots=True)
class Code:
    """The state of writing one program.

    Attributes:
        roots: the reader and the site of each parameter.
        variables: where each variable is.
        sites: the fields of bound parameters that are located when the event begins, by path.
        preloaded: names of the variables with their numbers.
        ranges: of the variables of the enclosing loops.
        fills: loops that fill an array of an output, by the identity of their node.
        shown: the offset of the source line that was last written as a comment.
        charges_input: whether `input_left` limits the copies of inputs that are being written.
        finish: writes what happens when the program returns these parts (None: no value).
        work: the units of work of values.
    """

    program: TypedProgram
    emitter: Emitter
    stored: Stored
    frame: MemoryBlock
    literals: Literals
    finish: Callable[[Parts | None], None]
    roots: dict[str, tuple[Reader, Site]] = field(default_factory=dict)
    variables: dict[Variable, StoredSite] = field(default_factory=dict)
    sites: dict[tuple[str, ...], Site] = field(default_factory=dict)
    preloaded: dict[tuple[str, ...], str] = field(default_factory=dict)
    loops: list[LoopText] = field(default_factory=list)
    ranges: dict[Variable, Range] = field(default_factory=dict)
    fills: dict[int, FillText] = field(default_factory=dict)
    shown: int = -1
    charges_input: bool = False
    work: Work = field(init=False)

    def __post_init__(self) -> None:
        self.work = Work(self.program.structs)

    def field(self, struct: str, name: str) -> Field:
        found = self.program.structs[struct].find(name)
        assert found is not None
        return found

    def spend(self, units: str, at: int) -> None:
        """Charges work to the budget."""
        if units != "0":
            self.emitter.line(f"budget -= {units}")
            self.emitter.trap("budget < 0", TrapKind.BUDGET_EXCEEDED, at)

    def check_index(self, index: Expression, text: str, extent: str, at: int, array: str) -> None:
        """Traps unless 0 <= index < extent; omits checks that are known to hold.

        Args:
            array: its text, for the message.
        """
        if text.isdigit() and extent.isdigit() and int(text) < int(extent):
            return
        known = self._range(index)
        is_below = known is not None and (
            known.bound == extent or (known.bound.isdigit() and extent.isdigit() and int(known.bound) <= int(extent))
        )
        if known is None or not (known.is_positive or is_below):
            condition = f"not 0 <= {text} < {extent}"
        elif known.is_positive and is_below:
            return
        else:
            condition = f"{text} >= {extent}" if known.is_positive else f"{text} < 0"
        self.emitter.trap_index(condition, at, array, text, extent)

    def _range(self, index: Expression) -> Range | None:
        while isinstance(index, Convert) and index.type == INT64:
            index = index.value
        if isinstance(index, Read) and isinstance(index.place, Local):
            return self.ranges.get(index.place.variable)
        return None

    def show_line(self, at: int) -> None:
        """Writes the source line that the next lines implement as a comment, unless it was just written.

        The line is untrusted text: only its printable ASCII gets into the comment.
        """
        source = self.program.source
        start = source.rfind("\n", 0, at) + 1
        if start != self.shown:
            self.shown = start
            line = source[start : start + 160].partition("\n")[0].strip()
            number = source.count("\n", 0, start) + 1
            self.emitter.line(f"# {number}: " + "".join(c if " " <= c <= "~" else "?" for c in line))

    def is_stored(self, reader: Reader) -> bool:
        return reader is self.stored


def static_path(place: Place) -> tuple[str, ...] | None:
    """Parameter and field names of a place outside arrays and pointers; None for any other place."""
    names: list[str] = []
    while isinstance(place, FieldOf):
        names.append(place.name)
        place = place.record
    return (place.param.name, *reversed(names)) if isinstance(place, Parameter) else None


def in_order(code: Code, *evaluations: Callable[[], Parts]) -> Iterator[Parts]:
    """Evaluates operands from left to right.

    The value of an expression text is valid only until another line is written. So if a later operand needs lines of
    its own, temporaries before them keep the earlier operands.
    """
    emitter, results = code.emitter, list[Parts]()
    for evaluate in evaluations:
        before = emitter.position
        parts = evaluate()
        if emitter.position != before:
            for i, earlier in enumerate(results):
                kept = []
                for text in earlier:
                    if not emitter.is_settled(text):
                        name = emitter.temporary()
                        emitter.insert(before, f"{name} = {text}")
                        before += 1
                        text = name
                    kept.append(text)
                results[i] = tuple(kept)
        results.append(parts)
    return iter(results)
