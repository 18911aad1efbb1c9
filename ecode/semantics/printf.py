"""The formats of `printf`: the values that they take, and the text that they produce."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ecode.semantics.arithmetic import convert
from ecode.types import Basic, Kind

_DIRECTIVE = re.compile(r"%(%|([-+ #0]*)(\d{0,3})(?:\.(\d{0,3}))?(hh|h|ll|l|z|L)?([a-zA-Z]?))")

_NARROW = {"hh": 1, "h": 2}


@dataclass(frozen=True, slots=True)
class Directive:
    """One `%...` of a format; `takes` is integer, float or string."""

    text: str
    takes: str


def directives(form: bytes) -> list[Directive]:
    """The directives of a format that take a value.

    Raises:
        ValueError: a directive that C or E-code lacks (`%n`, `%p`, `*`).

    >>> [d.takes for d in directives(b"%5d of %s: %.2f%%")]
    ['integer', 'string', 'float']
    """
    found = []
    for match in _DIRECTIVE.finditer(_text(form)):
        if match[1] == "%":
            continue
        letter = match[6]
        if letter not in tuple("diouxXcsfFeEgG"):
            raise ValueError(f"printf does not support the format {match[0]!r}")
        takes = "string" if letter == "s" else "integer" if letter in "diouxXc" else "float"
        found.append(Directive(match[0], takes))
    return found


def formatted(form: bytes, values: Iterable[int | float | bytes | None]) -> str:
    """The text that C's printf produces.

    >>> formatted(b"%hhd %hu %hhx", [300, -1, -1])
    '44 65535 ff'
    >>> formatted(b"%3d|%-4s|%04x|%.1f%%", [7, b"ab", 255, 2.25])
    '  7|ab  |00ff|2.2%'
    """
    waiting = iter(values)

    def replace(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        flags, width, precision, size, letter = match.group(2, 3, 4, 5, 6)
        value = next(waiting)
        point = "" if precision is None else "." + precision
        if value is None or isinstance(value, bytes):
            return ("%" + flags + width + point + "s") % ("(null)" if value is None else _text(value))
        if letter == "c":
            return ("%" + flags + width + "s") % chr(int(value) & 255)
        if size in _NARROW and letter in "diuoxX":
            value = convert(int(value), Basic(Kind.INTEGER if letter in "di" else Kind.UNSIGNED, _NARROW[size]))
        if letter in "uoxX" and int(value) < 0:
            value += 1 << (64 if "l" in match[0] or value < -(1 << 31) else 32)
        return ("%" + flags + width + point + letter.replace("u", "d")) % value

    return _DIRECTIVE.sub(replace, _text(form))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
