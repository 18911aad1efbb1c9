"""Writes the text of one event: lines, temporaries, traps, and the names of what the host passes in."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ecode.errors import NotCompilable, TrapKind
from ecode.types import Basic

# Python refuses deeper indentation, and more than twenty nested loops.
_DEEPEST = 80
# Names that generated text uses itself: intrinsics, helpers, table entries. A program may declare the same names.
_WORDS = """
    range copy copy_present zero heap log wanted literals statics saved samples strings passed traps progress
    one_event kernel inline status trapped event row table count state budget frame bytes_left input_left
    columns_left max_int64 min_int64 compare_bytes same_text same_bytes character strncmp strchr strrchr strstr
    suffix_start strspn strcspn length_of attribute trap_values
"""
_PREFIXED = (
    r"(load|store|as|saturated|quotient|remainder|add|subtract|multiply|c|find|strings|log|heap|budget)_\w+|t\d+|_*\d.*"
)
_TAKEN = re.compile("|".join((_PREFIXED, *_WORDS.split())))
_SETTLED = re.compile(r"t\d+|-?\d+(\.\d+(e[-+]?\d+)?)?")


@dataclass(frozen=True, slots=True)
class TrapSite:
    """A place where an event can end; `at` is its offset in the source of the `program` with that number.

    `reason` says what is wrong with a record that is not damaged. `array` is the array as the program writes it, if an
    index is out of its range; `trap_values` has the index and the length.
    """

    kind: TrapKind
    at: int
    program: int = 0
    reason: str = ""
    array: str = ""


# What an event returns: dropped, passed, or `FIRST_TRAP` plus the number of the trap site. A negative number names the
# memory that ran out: the event then runs again with more.
DROPPED, PASSED, FIRST_TRAP = 0, 1, 2


class Emitter:
    """The text of an event function as it grows.

    Attributes:
        entries: names of addresses and parameters that the host passes in, in order.
        growable: names of memory blocks that can run out, by their (negative) status.
        sites: where the event can trap.
        program: the number of the program that is being written.
        functions: functions of all programs, by their number in the log.
        samples: the sampled functions, by their place in the block `samples`.
    """

    def __init__(self) -> None:
        self.program = 0
        self.entries: dict[str, None] = {}
        self.growable: dict[str, int] = {}
        self.sites: list[TrapSite] = []
        self.functions: dict[str, int] = {}
        self.samples: dict[str, Basic] = {}
        self.names: set[str] = set()
        self._lines: list[str] = []
        self._depth = 1
        self._temps = 0

    # Lines

    def line(self, *lines: str) -> None:
        self._lines += ["    " * self._depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines under a head; an empty block, or one with only comments, gets a `pass`."""
        self.line(head)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise NotCompilable(
                f"statements are nested more than {_DEEPEST} levels deep",
                hint="the interpreter runs it; to have it compiled, nest less",
            )
        before = len(self._lines)
        yield
        if all(line.lstrip().startswith("#") for line in self._lines[before:]):
            self.line("pass")
        self._depth -= 1

    @contextmanager
    def captured(self) -> Iterator[list[str]]:
        """Collects lines instead of adding them; `replay` adds them later, at whatever indent."""
        outer, depth = self._lines, self._depth
        self._lines, self._depth = [], 0
        try:
            yield self._lines
        finally:
            self._lines, self._depth = outer, depth

    def replay(self, lines: list[str]) -> None:
        self.line(*lines)

    @property
    def position(self) -> int:
        return len(self._lines)

    def insert(self, position: int, text: str) -> None:
        """Adds a line before those written since `position`."""
        self._lines.insert(position, "    " * self._depth + text)

    def text(self) -> str:
        return "\n".join(self._lines)

    # Names

    def name(self, wanted: str) -> str:
        """An unused Python name like `wanted`."""
        plain = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "_"
        if keyword.iskeyword(plain) or _TAKEN.fullmatch(plain):
            plain = "x_" + plain
        unique, count = plain, 1
        while unique in self.names:
            count += 1
            unique = f"{plain}_{count}"
        self.names.add(unique)
        return unique

    def entry(self, name: str) -> str:
        """The name of something that the host passes in."""
        self.entries.setdefault(name)
        return name

    def temporary(self) -> str:
        self._temps += 1
        return f"t{self._temps}"

    def temp(self, text: str) -> str:
        """A name for the value that `text` has at this point; literals and temporaries are their own names."""
        if _SETTLED.fullmatch(text):
            return text
        name = self.temporary()
        self.line(f"{name} = {text}")
        return name

    def named(self, text: str) -> str:
        """Text short enough to be repeated; unlike `temp` it may be a variable that changes later."""
        return text if text.isidentifier() else self.temp(text)

    def is_settled(self, text: str) -> bool:
        """Whether a text has the same value everywhere in the event."""
        return bool(_SETTLED.fullmatch(text))

    # Leaving

    def trap(self, condition: str, kind: TrapKind, at: int, reason: str = "") -> None:
        """Ends the event if the condition holds."""
        self.line(f"if {condition}:", f"    return {self._answer(TrapSite(kind, at, self.program, reason))}")

    def trap_index(self, condition: str, at: int, array: str, index: str, length: str) -> None:
        """Ends the event if the condition holds, and keeps the index and the length of the array."""
        answer = self._answer(TrapSite(TrapKind.INDEX_OUT_OF_RANGE, at, self.program, array=array))
        values = self.entry("trap_values")
        with self.block(f"if {condition}:"):
            self.line(f"store_int64({values} + 16 * event, {index})")
            self.line(f"store_int64({values} + 16 * event + 8, {length})")
            self.line(f"return {answer}")

    def _answer(self, site: TrapSite) -> int:
        """The status of an event that ends there."""
        if site not in self.sites:
            self.sites.append(site)
        return FIRST_TRAP + self.sites.index(site)

    def out_of(self, name: str, condition: str, wanted: str) -> None:
        """If the condition holds, asks for more memory in block `name`: `wanted` bytes or elements."""
        number = self.growable.setdefault(name, -1 - len(self.growable))
        with self.block(f"if {condition}:"):
            self.line(f"store_int64({self.entry('wanted')}, {wanted})", f"return {number}")
