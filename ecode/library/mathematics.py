"""`<math.h>` without pointer arguments. Both engines call the C library, so they agree with each other and with C."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ecode.environment import Function
from ecode.types import FLOAT64, INT32, INT64, Basic

# Python itself links to it; `find_library` would start other programs.
_LIBRARY = ctypes.CDLL(None)
_ONE = """
    acos asin atan cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 log log10 log2 log1p logb
    fabs cbrt sqrt erf erfc lgamma tgamma ceil floor nearbyint rint round trunc
"""
_TWO = "atan2 hypot pow fmod remainder copysign"
_CTYPES = {FLOAT64: ctypes.c_double, INT32: ctypes.c_int32, INT64: ctypes.c_int64}


def _function(name: str, returns: Basic, parameters: tuple[Basic, ...], cost: int = 20) -> Function:
    call: Callable[..., Any] = getattr(_LIBRARY, name)
    call.restype, call.argtypes = _CTYPES[returns], [_CTYPES[p] for p in parameters]  # type: ignore[attr-defined]
    native = f"c_{name}({', '.join('{}' for _ in parameters)})"
    return Function(name, returns, parameters, call, native, is_pure=True, cost=cost)


MATH: tuple[Function, ...] = (
    *(_function(name, FLOAT64, (FLOAT64,)) for name in _ONE.split()),
    *(_function(name, FLOAT64, (FLOAT64, FLOAT64)) for name in _TWO.split()),
    *(_function(name, INT64, (FLOAT64,)) for name in ("lrint", "lround")),
    _function("ilogb", INT32, (FLOAT64,)),
    _function("ldexp", FLOAT64, (FLOAT64, INT32)),
    _function("scalbn", FLOAT64, (FLOAT64, INT32)),
    _function("scalbln", FLOAT64, (FLOAT64, INT64)),
)
