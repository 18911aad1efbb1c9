"""Frozen values to JSON and back: a dataclass is an object, a tuple or set an array, a number that JSON lacks a text.

>>> from morph.policy import PAPER, Policy
>>> to_json(Policy(max_hops=3))["max_hops"], to_json(PAPER)["diff_threshold"]
(3, {'number': 'inf'})
>>> from_json(Policy, to_json(PAPER)) == PAPER
True
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from ecode.suggest import did_you_mean
from morph.errors import MorphError

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """What `json.dumps` takes, of a frozen value of this package. Sets are sorted, so that equal values look alike."""
    if is_dataclass(value):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(to_json(item) for item in value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    return value


def from_json(kind: type[T], data: Any) -> T:
    """The value of a dataclass of this package from what `to_json` made. Raises MORPH_BAD_JSON with the path."""
    value: T = _read(kind, data, "$")
    return value


def _read(kind: Any, data: Any, path: str) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        return _read_object(kind, data, path)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (tuple, frozenset):
        if not isinstance(data, list):
            raise _bad(path, "an array", data)
        if inner[-1] is Ellipsis or origin is frozenset:
            inner = (inner[0],) * len(data)
        if len(inner) != len(data):
            raise _bad(path, f"an array of {len(inner)}", data)
        return origin(_read(k, item, f"{path}[{i}]") for i, (k, item) in enumerate(zip(inner, data, strict=True)))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if data not in list(kind):
            raise _bad(path, f"one of {', '.join(kind)}", data)
        return kind(data)
    if isinstance(data, dict) and set(data) == {"number"} and data["number"] in ("inf", "-inf", "nan"):
        data = float(data["number"])
    allowed = inner if origin is types.UnionType else (kind,)
    # Every whole number is a number, but true and false are none.
    if type(data) in allowed or (type(data) is int and float in allowed):
        return data
    raise _bad(path, " or ".join(a.__name__ for a in allowed), data)


def _read_object(kind: Any, data: Any, path: str) -> Any:
    if not isinstance(data, Mapping):
        raise _bad(path, "an object", data)
    hints = _hints(kind)
    values = {}
    for name, item in data.items():
        if name not in hints:
            raise MorphError("MORPH_BAD_JSON", f"{name!r} is not known there", path, did_you_mean(name, hints))
        values[name] = _read(hints[name], item, f"{path}.{name}")
    try:
        return kind(**values)
    except TypeError:
        absent = ", ".join(repr(name) for name in hints if name not in values)
        raise MorphError("MORPH_BAD_JSON", f"something is not said of {absent}", path) from None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _bad(path: str, wanted: str, data: Any) -> MorphError:
    return MorphError("MORPH_BAD_JSON", f"there should be {wanted}, not {data!r:.60}", path)
