"""`<string.h>`: the functions that read. Results of type `char *` are offsets into the first argument."""

from __future__ import annotations

from collections.abc import Callable

from ecode.environment import Function
from ecode.types import INT32, STRING, Basic


def _sign(left: bytes, right: bytes) -> int:
    return (left > right) - (left < right)


def _found(at: int) -> int | None:
    return None if at < 0 else at


def _strncmp(left: bytes, right: bytes, count: int) -> int:
    return _sign(left[: max(count, 0)], right[: max(count, 0)])


def _strspn(text: bytes, accepted: bytes) -> int:
    return next((i for i, byte in enumerate(text) if byte not in accepted), len(text))


def _strcspn(text: bytes, refused: bytes) -> int:
    return next((i for i, byte in enumerate(text) if byte in refused), len(text))


def _function(
    name: str, native: str, call: Callable[..., int | None], returns: Basic | str, *parameters: Basic, cost: int = 30
) -> Function:
    return Function(name, returns, parameters, call, native, is_pure=True, needs_strings=True, cost=cost)


STRING_FUNCTIONS: tuple[Function, ...] = (
    _function("strlen", "{1}", len, INT32, STRING, cost=1),
    _function("strcmp", "compare_bytes({}, {}, {}, {})", _sign, INT32, STRING, STRING),
    _function("strncmp", "strncmp({}, {}, {}, {}, {})", _strncmp, INT32, STRING, STRING, INT32),
    _function(
        "strchr",
        "strchr({}, {}, {})",
        lambda text, wanted: _found((text + b"\0").find(bytes([wanted & 255]))),
        "char*",
        STRING,
        INT32,
    ),
    _function(
        "strrchr",
        "strrchr({}, {}, {})",
        lambda text, wanted: _found((text + b"\0").rfind(bytes([wanted & 255]))),
        "char*",
        STRING,
        INT32,
    ),
    _function(
        "strstr", "strstr({}, {}, {}, {})", lambda text, wanted: _found(text.find(wanted)), "char*", STRING, STRING
    ),
    _function("strspn", "strspn({}, {}, {}, {})", _strspn, INT32, STRING, STRING),
    _function("strcspn", "strcspn({}, {}, {}, {})", _strcspn, INT32, STRING, STRING),
)
