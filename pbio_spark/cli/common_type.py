"""Why values of JSON have no common type: the first line and field that does not fit the lines before it.

>>> print(first_misfit([("a.jsonl", 1, {"x": {"n": 1}}), ("a.jsonl", 3, {"x": {"n": "b"}})], TypeError()))
[PBIO_CANNOT_MERGE] line 3: 'b' does not have the type of the values before it, int64
  at: a.jsonl, field $.x.n
  hint: give the types of the fields with --type
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from pbio_spark.errors import PbioError, step_to_text

NOT_ARROW = (pa.ArrowException, OverflowError, TypeError, ValueError, ArithmeticError)
"""The errors of pyarrow for values that it refuses."""
Placed: TypeAlias = tuple[str, int, Any]
"""The file, the line and a value in it."""


def first_misfit(rows: Sequence[Placed], error: Exception) -> PbioError:
    """PBIO_CANNOT_MERGE or PBIO_BAD_VALUE about the first value for which no column can be found.

    Args:
        rows: the objects, each with its file and line.
        error: pyarrow's, for all rows; it is quoted if every field by itself has a type.
    """
    found = _in_objects(rows, "$")
    if found is None:
        return PbioError("PBIO_CANNOT_MERGE", f"the rows have no common columns: {str(error)[:200]}", hint=_HINT)
    return found


_HINT = "give the types of the fields with --type"


def _in_objects(values: Sequence[Placed], where: str) -> PbioError | None:
    for key in dict.fromkeys(key for _, _, value in values if value is not None for key in value):
        inner = [(path, line, value.get(key)) for path, line, value in values if value is not None]
        if (found := _in_values(inner, where + step_to_text(key))) is not None:
            return found
    return None


def _in_values(values: Sequence[Placed], where: str) -> PbioError | None:
    if _type([value for _, _, value in values]) is not None:
        return None
    there = [placed for placed in values if placed[2] is not None]
    if all(isinstance(value, dict) for _, _, value in there):
        return _in_objects(there, where)
    if all(isinstance(value, list) for _, _, value in there):
        return _in_values([(path, line, one) for path, line, value in there for one in value], f"{where}[]")
    good, bad = 0, len(there)  # numbers of values with and without a type
    while bad - good > 1:
        middle = (good + bad) // 2
        if _type([value for _, _, value in there[:middle]]) is None:
            bad = middle
        else:
            good = middle
    return _misfit(there[:good], there[good], where)


def _misfit(before: Sequence[Placed], placed: Placed, where: str) -> PbioError:
    path, line, value = placed
    hint: str | None = _HINT
    code, said = "PBIO_CANNOT_MERGE", repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."
    if isinstance(value, int) and _type([value]) is None:
        code, reason = "PBIO_BAD_VALUE", f"{said} is beyond a whole number of 64 bits"
        wide = '"uint64"' if 0 <= value < 1 << 64 else '"decimal(38,0)"'
        hint = f"{_HINT}, such as {wide}" if abs(value) < 10**38 else "put it in quotes, as a string"
    elif _type([value]) is None:
        code, reason, hint = "PBIO_BAD_VALUE", f"{said} cannot be a value of a column", None
    else:
        kind = _type([one for _, _, one in before])
        reason = f"{said} does not have the type of the values before it, {kind}"
        numbers = [one for _, _, one in (*before, placed) if type(one) is int and abs(one) > 1 << 53]
        if numbers and any(isinstance(one, float) for _, _, one in (*before, placed)):
            reason = f"{said} and {numbers[0]} have no common type: a float64 would change {numbers[0]}"
            if value == numbers[0]:
                reason = f"{said} cannot be combined with the fractions in earlier lines: a float64 would change it"
            hint = f'{_HINT}, such as "decimal(38,6)"'
    return PbioError(code, f"line {line}: {reason}", file=path, field=where, hint=hint)


def _type(values: Sequence[Any]) -> pa.DataType | None:
    """The type that pyarrow finds for values; None if it finds none."""
    try:
        return pa.array(values).type
    except NOT_ARROW:
        return None
