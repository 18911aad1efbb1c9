"""Functions that programs may call without a grant from the host (ecode-language 12 and 13).

    mathematics.py  `#include <math.h>`
    strings.py      `#include <string.h>`, the functions that only read
    attributes.py   attribute lists, always available

`printf` is not one of them: a host grants it (`PRINTF`), and its text goes to the log of the call.
"""

from __future__ import annotations

from collections.abc import Iterable

from ecode.environment import Function, service
from ecode.library.attributes import ATTRIBUTES
from ecode.library.mathematics import MATH
from ecode.library.strings import STRING_FUNCTIONS

PRINTF = service("int printf(string format, ...)", lambda form, *values: 0, "0", is_logged=True)

LIMITS: dict[str, int] = {
    "SCHAR_MAX": 127,
    "SCHAR_MIN": -128,
    "UCHAR_MAX": 255,
    "CHAR_MAX": 127,
    "CHAR_MIN": -128,
    "USHRT_MAX": 65535,
    "SHRT_MAX": 32767,
    "SHRT_MIN": -32768,
    "UINT_MAX": 4294967295,
    "INT_MAX": 2147483647,
    "INT_MIN": -2147483648,
    "LONG_MAX": 9223372036854775807,
    "LONG_MIN": -9223372036854775808,
    "ULONG_MAX": 18446744073709551615,
}
_INCLUDED: dict[str, tuple[Function, ...]] = {"math.h": MATH, "string.h": STRING_FUNCTIONS}


def functions(includes: Iterable[str]) -> tuple[Function, ...]:
    """The functions that a program with these includes has."""
    return ATTRIBUTES + tuple(function for name in includes for function in _INCLUDED.get(name, ()))


def constants(includes: Iterable[str]) -> dict[str, int]:
    return LIMITS if "limits.h" in includes else {}


def hints(includes: Iterable[str]) -> dict[str, str]:
    """For each library name that the program lacks, how to get it."""
    missing = {
        function.name: f"add '#include <{name}>' before the '{{'"
        for name, group in _INCLUDED.items()
        if name not in includes
        for function in group
    }
    if "limits.h" not in includes:
        missing |= dict.fromkeys(LIMITS, "add '#include <limits.h>' before the '{'")
    return missing | {"printf": "the host does not provide it"}


__all__ = ["ATTRIBUTES", "LIMITS", "MATH", "PRINTF", "STRING_FUNCTIONS", "constants", "functions", "hints"]
