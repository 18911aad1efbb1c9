"""`<string.h>`: the functions that read. Results of type `char *` are offsets into the first argument."""

from __future__ import annotations

from collections.abc import Callable

from ecode.environment import Charge, Function
from ecode.types import INT32, STRING, Basic


def _sign(left: bytes, right: bytes) -> int:
    return (left > right) - (left < right)


def _found(at: int) -> int | None:
    return None if at < 0 else at


def _strncmp(left: bytes, right: bytes, count: int) -> int:
    return _sign(left[: max(count, 0)], right[: max(count, 0)])


def _first(text: bytes, ends: Callable[[int], bool]) -> int:
    return next((i for i, byte in enumerate(text) if ends(byte)), len(text))


def _strspn(text: bytes, accepted: bytes) -> int:
    among = frozenset(accepted)
    return _first(text, lambda byte: byte not in among)


def _strcspn(text: bytes, refused: bytes) -> int:
    return _first(text, frozenset(refused).__contains__)


_SHORTER = Charge(lambda left, right: (min(len(left), len(right)), 0), "min_int64({1}, {3})", is_shortest=True)
_FIRST_COUNT = Charge(
    lambda left, right, count: (min(len(left), len(right), max(count, 0)), 0),
    "min_int64(min_int64({1}, {3}), max_int64({4}, 0))",
    is_shortest=True,
)
_ONE = Charge(lambda text, wanted: (len(text), 0), "{1}")
_BOTH = Charge(lambda left, right: (len(left) + len(right), 0), "{1} + {3}")


def _function(
    name: str,
    native: str,
    call: Callable[..., int | None],
    returns: Basic | str,
    *parameters: Basic,
    cost: int = 5,
    charge: Charge | None = None,
) -> Function:
    return Function(name, returns, parameters, call, native, is_pure=True, needs_strings=True, cost=cost, charge=charge)


STRING_FUNCTIONS: tuple[Function, ...] = (
    _function("strlen", "{1}", len, INT32, STRING, cost=1),
    _function("strcmp", "compare_bytes({}, {}, {}, {})", _sign, INT32, STRING, STRING, charge=_SHORTER),
    _function("strncmp", "strncmp({}, {}, {}, {}, {})", _strncmp, INT32, STRING, STRING, INT32, charge=_FIRST_COUNT),
    _function(
        "strchr",
        "strchr({}, {}, {})",
        lambda text, wanted: _found((text + b"\0").find(bytes([wanted & 255]))),
        "char*",
        STRING,
        INT32,
        charge=_ONE,
    ),
    _function(
        "strrchr",
        "strrchr({}, {}, {})",
        lambda text, wanted: _found((text + b"\0").rfind(bytes([wanted & 255]))),
        "char*",
        STRING,
        INT32,
        charge=_ONE,
    ),
    _function(
        "strstr",
        "strstr({}, {}, {}, {})",
        lambda text, wanted: _found(text.find(wanted)),
        "char*",
        STRING,
        STRING,
        cost=20,
        charge=_BOTH,
    ),
    _function("strspn", "strspn({}, {}, {}, {})", _strspn, INT32, STRING, STRING, charge=_BOTH),
    _function("strcspn", "strcspn({}, {}, {}, {})", _strcspn, INT32, STRING, STRING, charge=_BOTH),
)
