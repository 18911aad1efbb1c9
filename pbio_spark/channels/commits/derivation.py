"""How the events of one channel are derived from another's, as recorded in commits."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NoReturn, TypeAlias

from ecode.limits import SOURCE_WORK
from ecode.types import FLOAT64, INT64, STRING, Array, Field, Record, Ref, Struct, Type
from pbio_spark.channels.commits.checked import is_text

When: TypeAlias = "Literal['always', 'subscribed']"
"""When sources derive a channel: always, or only while it has subscribers."""

MOST_TRAPS = 1000
"""The number of traps in a row after which a source suspends a derivation."""

_DEEPEST = 8
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class ParameterBlock:
    """Named values: the parameters of a derivation, or its initial state.

    Kept as JSON text, in which 2 and 2.0 differ, as they do for a program.

    Attributes:
        text: a JSON object of numbers, strings, lists of similar values, and objects.
        shape: the JSON of the first values that the block had, which define the types.

    >>> block = ParameterBlock.of({"least": 70.0, "names": ["a"]})
    >>> block.values["least"], block["names"], list(block)
    (70.0, ['a'], ['least', 'names'])
    """

    text: str = "{}"
    shape: str = "{}"

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ParameterBlock:
        """The block of some values, which fix the types for good. Raises ValueError, with the reason."""
        plain = _plain(values)
        _check(plain, "")
        text = json.dumps(plain)
        if len(text) > _LONGEST:
            raise ValueError(f"the values take {len(text)} bytes, and at most {_LONGEST} are allowed")
        return cls(text, text)

    @property
    def values(self) -> dict[str, Any]:
        """The values, each time as new objects."""
        return json.loads(self.text)  # type: ignore[no-any-return]

    @property
    def first_values(self) -> dict[str, Any]:
        """The first values that the block had."""
        return json.loads(self.shape)  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        return self.shape != "{}"

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def changed(self, values: Mapping[str, Any]) -> ParameterBlock:
        """The block with new values of the same types for some names.

        Raises KeyError for an unknown name, and ValueError, with the reason, for a value that does not fit.
        """
        first, made = self.first_values, self.values
        for name, value in values.items():
            if name not in first:
                raise KeyError(name)
            made[name] = _fitted(_plain(value), first[name], name)
        _check(made, "", may_be_empty=True)
        return ParameterBlock(json.dumps(made), self.shape)


NO_BLOCK = ParameterBlock()


@dataclass(frozen=True, slots=True)
class Derivation:
    """How a channel's events are derived from another channel's.

    Attributes:
        parent: the ID of the other channel.
        filter: E-code that selects events, from `input` and `param`; None for all.
        transform: E-code that makes `output` from `input` and `param`; None if events stay unchanged.
        parameters: the fields of `param` and their values.
        max_cost: units of work that an event may take.
        shared: the ID of the shared block that is `param`; 0 if the derivation has its own parameters.
        state: the fields of `state`, which the programs share, and their initial values.
        dequeue: E-code that sees each event as it is committed to the log, and may drop or alter it.
        period: E-code that may make events of its own at commits, at most once in `every` microseconds.
        services: prototypes of the functions that the source must grant.
        is_ordered: whether each producer's events must be derived in order, because the programs keep state or
            `dequeue` or `period` exists.
        when: see `When`.
        is_temporary: whether the channel goes with its last subscriber.
        max_traps: the number of traps in a row after which a source suspends it.
    """

    parent: int
    filter: str | None = None
    transform: str | None = None
    parameters: ParameterBlock = NO_BLOCK
    max_cost: int = SOURCE_WORK
    shared: int = 0
    state: ParameterBlock = NO_BLOCK
    dequeue: str | None = None
    period: str | None = None
    every: int = 0
    services: tuple[str, ...] = ()
    is_ordered: bool = False
    when: When = "always"
    is_temporary: bool = False
    max_traps: int = MOST_TRAPS


@lru_cache(maxsize=256)
def block_to_record(block: ParameterBlock, name: str, *, is_fixed: bool = False) -> Record:
    """The record type of a block: int64, float64, strings, structures, and arrays.

    Args:
        name: of the type.
        is_fixed: whether arrays have the length of their first values, as state must; otherwise a field `..._count`
            before each holds its length.

    >>> print(block_to_record(ParameterBlock.of({"n": 2, "bounds": [1.0, 2.0]}), "params"))
    params {
      n: int64
      bounds_count: int64
      bounds: float64[bounds_count]
    }
    """
    structs: list[Struct] = []

    def of(value: Any, path: str) -> Type:
        match value:
            case int():
                return INT64
            case float():
                return FLOAT64
            case str():
                return STRING
            case dict():
                add(path, value)
                return Ref(path)
        raise AssertionError(value)

    def add(path: str, values: Mapping[str, Any]) -> None:
        at = len(structs)
        fields = []
        for key, value in values.items():
            if not isinstance(value, list):
                fields.append(Field(key, of(value, f"{path}_{key}")))
                continue
            dim: int | str = len(value)
            if not is_fixed:
                fields.append(Field(dim := f"{key}_count", INT64))
            fields.append(Field(key, Array(of(value[0], f"{path}_{key}"), (dim,))))
        structs.insert(at, Struct(path, tuple(fields)))

    add(name, block.first_values)
    return Record(tuple(structs))


def block_to_inputs(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a parameter block in the form of its record type: with the lengths of lists."""
    made: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, list):
            made[f"{name}_count"] = len(value)
            made[name] = [block_to_inputs(one) if isinstance(one, dict) else one for one in value]
        else:
            made[name] = block_to_inputs(value) if isinstance(value, dict) else value
    return made


def _plain(value: Any) -> Any:
    """A value as a JSON value: lists for tuples and arrays, Python numbers for NumPy's."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _check(value: Any, path: str, depth: int = 0, *, may_be_empty: bool = False) -> None:
    """Raise ValueError unless a value can be part of a block."""
    if depth > _DEEPEST:
        _wrong(path, "is nested too deeply")
    match value:
        case bool():
            _wrong(path, f"is {value}; use 0 or 1")
        case int():
            if not -(2**63) <= value < 2**63:
                _wrong(path, f"is {value}, which int64 cannot hold")
        case float():
            if not math.isfinite(value):
                _wrong(path, f"is {value}; use a finite number")
        case str():
            if not is_text(value) or "\0" in value:
                _wrong(path, "is not a string that E-code can hold")
        case list():
            if not value and not may_be_empty:
                _wrong(path, "is an empty list, whose elements have no type; begin with at least one")
            for one in value:
                if isinstance(one, list):
                    _wrong(path, "is a list of lists")
                _check(one, f"{path}[]", depth + 1, may_be_empty=may_be_empty)
                if not may_be_empty and _kind(one) != _kind(value[0]):
                    _wrong(path, "is a list of values that are not alike")
        case dict():
            for name, one in value.items():
                if not isinstance(name, str) or not (name.isidentifier() and name.isascii()):
                    _wrong(path, f"has a field {str(name)[:80]!r}, which is not a name in E-code")
                if f"{name}_count" in value and isinstance(one, list):
                    _wrong(path, f"has both a list {name!r} and {name}_count, which is its length")
                _check(one, f"{path}.{name}" if path else name, depth + 1, may_be_empty=may_be_empty)
        case _:
            _wrong(path, f"is a {type(value).__name__}; use numbers, strings, lists and mappings")


def _kind(value: Any) -> Any:
    """A key that two values share if they have the same type."""
    if isinstance(value, dict):
        return tuple((name, _kind(one)) for name, one in value.items())
    return (list, _kind(value[0])) if isinstance(value, list) else type(value)


def _fitted(value: Any, first: Any, path: str) -> Any:
    """A new value converted to the type of another; an integer becomes a float if needed."""
    if isinstance(value, bool):
        _wrong(path, f"is {value}; use 0 or 1")
    if isinstance(first, float) and isinstance(value, int):
        return float(value)
    if isinstance(first, int) and isinstance(value, float):
        _wrong(path, f"takes whole numbers, not {value}")
    if isinstance(first, list) and isinstance(value, list):
        return [_fitted(one, first[0], f"{path}[]") for one in value]
    if isinstance(first, dict) and isinstance(value, Mapping):
        if unknown := [name for name in value if name not in first]:
            _wrong(path, f"has no field {str(unknown[0])[:80]!r}")
        if missing := [name for name in first if name not in value]:
            _wrong(path, f"lacks the field {missing[0]!r}")
        return {name: _fitted(value[name], of, f"{path}.{name}") for name, of in first.items()}
    if type(value) is not type(first):
        kinds: dict[type, str] = {str: "a string", list: "a list", dict: "a mapping"}
        wanted = kinds.get(type(first), "a number")
        _wrong(path, f"takes {wanted}, not {value!r:.80}")
    return value


def _wrong(path: str, reason: str) -> NoReturn:
    raise ValueError(f"{path or 'the block'} {reason}")
