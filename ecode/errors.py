"""Everything that can go wrong, as one family of exceptions.

`CompileError` carries all mistakes of a program at once, `Trap` ends one event, the others reject a request of the
host. `str(error)` begins with `[CODE]`; every error survives pickling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

CODES: dict[str, str] = {
    "ECODE_PARSE": "The text of a program is not E-code.",
    "ECODE_NAME": "A program uses a name that is not declared, or declares one twice.",
    "ECODE_TYPE": "An operation, a call or an assignment does not fit the types of its operands.",
    "ECODE_PARAMETER": "The host passes a record type, value, service or constant that a program cannot use.",
    "ECODE_NOT_COMPILABLE": "The program is correct but the compiler does not support it; the interpreter runs it.",
    "ECODE_COST": "A program costs more for each event than the source of events allows.",
    "ECODE_DIVISION_BY_ZERO": "The event ends: the program divides an integer by zero.",
    "ECODE_INDEX_OUT_OF_RANGE": "The event ends: an index is outside its array.",
    "ECODE_NEGATIVE_SIZE": "The event ends: the program gives an array a negative size.",
    "ECODE_SIZE_LIMIT": "The event ends: its outputs exceed the size that a program may make.",
    "ECODE_BUDGET_EXCEEDED": "The event ends: the program exceeds its budget of steps.",
    "ECODE_BAD_RECORD": "The event ends: its record contradicts its type.",
}
"""The code of every error of this package, with one line of meaning."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"[A-Za-z_0-9]+|\S")


class Category(StrEnum):
    """The kinds of mistakes in programs (ecode-language 14), in order of precedence."""

    PARSE = "parse"
    NAME = "name"
    TYPE = "type"


class TrapKind(StrEnum):
    """Why an event ends early (ecode-language 15)."""

    DIVISION_BY_ZERO = "division_by_zero"
    INDEX_OUT_OF_RANGE = "index_out_of_range"
    NEGATIVE_SIZE = "negative_size"
    SIZE_LIMIT = "size_limit"
    BUDGET_EXCEEDED = "budget_exceeded"
    BAD_RECORD = "bad_record"


def valid_text(text: str) -> str:
    r"""The text with every byte or code point that is not a character escaped.

    Names from files may hold bytes that are not UTF-8 (Python keeps them as lone surrogates). Text with one can be
    neither printed nor sent: Spark waits forever for an error whose text its worker cannot encode.

    >>> valid_text("gr\udcf6\udcdfe, größe")
    'gr\\xf6\\xdfe, größe'
    """
    if text.isascii():
        return text
    return _SURROGATE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


class EcodeError(Exception):
    """The base of all errors of this package.

    Attributes:
        code: a stable word, e.g. `ECODE_TYPE`.
        message: the reason in one sentence.
        hint: what to do about it; may be empty.
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.code, self.message, self.hint = code, message, hint
        super().__init__(f"[{code}] {message}" + (f"\n  hint: {hint}" if hint else ""))

    def __str__(self) -> str:
        return valid_text(super().__str__())

    @property
    def summary(self) -> str:
        """What is wrong, for the message of an error that this one causes; the hint passes to that error."""
        return f"{self.message} ({self.code})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, self.message, self.hint)


class ParameterError(EcodeError):
    """The host passes a record type, value, service or constant that a program cannot use."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__("ECODE_PARAMETER", message, hint)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.hint)


class BatchTooLarge(ParameterError):  # noqa: N818  (the name says what happened)
    """A batch makes more output than a column can hold; a part of it may do."""


class CostError(EcodeError):
    """A program costs more for each event than the place where it runs allows."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__("ECODE_COST", message, hint)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.hint)


class NotCompilable(EcodeError):  # noqa: N818  (what it says)
    """A correct program that the compiler does not support; the interpreter runs it."""

    def __init__(
        self, message: str, hint: str = "write it another way; outside of Spark, Program.run interprets it"
    ) -> None:
        super().__init__("ECODE_NOT_COMPILABLE", message, hint)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.hint)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake or warning in a program: where, what, and what was probably meant.

    Attributes:
        at: offset of the offending character in the source.
        line, column: the same, counted from 1.
        excerpt: the source line.
    """

    category: Category
    message: str
    at: int
    line: int
    column: int
    excerpt: str
    hint: str = ""

    @property
    def code(self) -> str:
        return f"ECODE_{self.category.upper()}"

    def __str__(self) -> str:
        """Position and message, the source line with a caret, the hint."""
        # A very long line is cut to a window around the caret.
        start = max(0, self.column - 61)
        window = self.excerpt[start : start + 120].replace("\t", " ")
        word = _WORD.match(window, self.column - 1 - start)
        caret = " " * (self.column - 1 - start) + "^" * (len(word[0]) if word else 1)
        text = f"{self.line}:{self.column}: {self.code}: {self.message}\n    {window}\n    {caret}"
        return text + (f"\n  hint: {self.hint}" if self.hint else "")


def diagnostic(source: str, at: int, category: Category, message: str, hint: str = "") -> Diagnostic:
    """A diagnostic at an offset of a source text.

    >>> print(diagnostic("{ return y; }", 9, Category.NAME, "unknown name 'y'"))
    1:10: ECODE_NAME: unknown name 'y'
        { return y; }
                 ^
    """
    at = min(at, len(source))
    line = source.count("\n", 0, at) + 1
    start = source.rfind("\n", 0, at) + 1
    end = source.find("\n", at)
    excerpt = "".join(c if c.isprintable() or c == "\t" else "?" for c in source[start : None if end < 0 else end])
    return Diagnostic(category, message, at, line, at - start + 1, excerpt, hint)


class CompileError(EcodeError):
    """A program with mistakes. `diagnostics` has every mistake, in order of position.

    `category` is the first that applies of parse, name, type; `line`, `column` and `message` are those of the first
    mistake of that category.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(sorted(diagnostics, key=lambda d: d.at))
        self.category = min((d.category for d in self.diagnostics), key=list(Category).index)
        first = next(d for d in self.diagnostics if d.category is self.category)
        self.line, self.column = first.line, first.column
        EcodeError.__init__(self, first.code, first.message, first.hint)
        count = len(self.diagnostics)
        self.args = (f"[{self.code}] {count} mistake{'s' * (count > 1)}\n" + "\n".join(map(str, self.diagnostics)),)

    @property
    def summary(self) -> str:
        """The first mistake in one line and its source line below, then the others; the hint is `hint`."""
        first = next(d for d in self.diagnostics if d.category is self.category)
        shown = str(replace(first, hint="")).partition("\n")[2]
        others = "".join(f"\n  {replace(other, hint='')}" for other in self.diagnostics if other is not first)
        return f"{self.message} ({self.code}, line {self.line}, column {self.column})\n{shown}{others}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.diagnostics,)


class Trap(EcodeError):  # noqa: N818  (the word of ecode-language 15)
    """The program ended an event early: its outputs are discarded, and the statics are as before the event.

    `program` is the number of the program, if several run in a row. `reason` says more about a record whose bytes are
    intact but hold a value that does not suit the program's types. `detail` has the wrong values, and `excerpt` the
    source line with a caret.
    """

    def __init__(
        self,
        kind: TrapKind,
        line: int,
        column: int,
        program: int = 0,
        reason: str = "",
        detail: str = "",
        excerpt: str = "",
    ) -> None:
        self.kind, self.line, self.column, self.program, self.reason = kind, line, column, program, reason
        self.detail, self.excerpt = detail, excerpt
        place = f"{kind.replace('_', ' ')} at line {line}, column {column}"
        super().__init__(f"ECODE_{kind.upper()}", f"{place}: {detail}" if detail else place)

    def __reduce__(self) -> tuple[object, ...]:
        facts = self.kind, self.line, self.column, self.program, self.reason, self.detail, self.excerpt
        return type(self), facts


def trap_at(source: str, at: int, kind: TrapKind, program: int = 0, reason: str = "", detail: str = "") -> Trap:
    """The trap at an offset of a program's text."""
    where = diagnostic(source, at, Category.TYPE, "")
    return Trap(kind, where.line, where.column, program, reason, detail, str(where).partition("\n")[2])


def index_detail(array: str, index: int, length: int) -> str:
    """What is wrong with an index; a negative length means a null string.

    >>> index_detail("input.readings", 7, 3)
    "index 7, but 'input.readings' has length 3"
    """
    return f"index {index}, but {array!r} has length {length}" if length >= 0 else f"{array!r} is null"
