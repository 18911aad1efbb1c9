"""`<string.h>`: the functions that read. Results of type `char *` are offsets into the first argument."""

from __future__ import annotations

from typing import Any

from ecode.environment import Function
from ecode.errors import TrapKind
from ecode.interpreter.memory import Trapped
from ecode.types import INT32, STRING, Basic


def _present(*strings: bytes | None) -> None:
    if None in strings:
        raise Trapped(TrapKind.INDEX_OUT_OF_RANGE)


def _sign(left: bytes, right: bytes) -> int:
    return (left > right) - (left < right)


def _strlen(text: bytes | None) -> int:
    _present(text)
    return len(text or b"")


def _strcmp(left: bytes | None, right: bytes | None) -> int:
    _present(left, right)
    return _sign(left or b"", right or b"")


def _strncmp(left: bytes | None, right: bytes | None, count: int) -> int:
    _present(left, right)
    count = max(count, 0)
    return _sign((left or b"")[:count], (right or b"")[:count])


def _strchr(text: bytes | None, wanted: int) -> int | None:
    _present(text)
    found = ((text or b"") + b"\0").find(bytes([wanted & 255]))
    return None if found < 0 else found


def _strrchr(text: bytes | None, wanted: int) -> int | None:
    _present(text)
    found = ((text or b"") + b"\0").rfind(bytes([wanted & 255]))
    return None if found < 0 else found


def _strstr(text: bytes | None, wanted: bytes | None) -> int | None:
    _present(text, wanted)
    found = (text or b"").find(wanted or b"")
    return None if found < 0 else found


def _strspn(text: bytes | None, accepted: bytes | None) -> int:
    _present(text, accepted)
    return len(text or b"") - len((text or b"").lstrip(accepted or b"")) if accepted else 0


def _strcspn(text: bytes | None, refused: bytes | None) -> int:
    _present(text, refused)
    return next((i for i, byte in enumerate(text or b"") if byte in (refused or b"")), len(text or b""))


def _function(call: Any, returns: Basic | str, *parameters: Basic, cost: int = 30) -> Function:
    name = call.__name__.lstrip("_")
    places = ", ".join("{}, {}" if p == STRING else "{}" for p in parameters)
    return Function(name, returns, parameters, call, f"{name}({places})", is_pure=True, cost=cost)


STRING_FUNCTIONS: tuple[Function, ...] = (
    _function(_strlen, INT32, STRING, cost=1),
    _function(_strcmp, INT32, STRING, STRING),
    _function(_strncmp, INT32, STRING, STRING, INT32),
    _function(_strchr, "char*", STRING, INT32),
    _function(_strrchr, "char*", STRING, INT32),
    _function(_strstr, "char*", STRING, STRING),
    _function(_strspn, INT32, STRING, STRING),
    _function(_strcspn, INT32, STRING, STRING),
)
