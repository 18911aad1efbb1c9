"""The replacement of nulls that a format cannot represent: one number for all numbers, or a value by column.

>>> NullValue(by_column=(("place.lat", -1),)).of("place.lat"), NullValue(0).of("readings")
(-1, 0)
"""

from __future__ import annotations

from dataclasses import dataclass

from ecode.json_text import parse_json
from ecode.types import Default


@dataclass(frozen=True, slots=True)
class NullValue:
    """The replacement of nulls.

    Attributes:
        number: for numbers; a null array becomes empty. Dates, times and booleans do not count as numbers.
        by_column: by the path of the column, `place.lat`; the elements of an array have the path of the array.
        is_blank: nulls that cannot be represented become zeros.
    """

    number: float | None = None
    by_column: tuple[tuple[str, Default], ...] = ()
    is_blank: bool = False

    def of(self, path: str) -> Default:
        """The value for the column at a path; None if nulls stay nulls."""
        return dict(self.by_column).get(path, self.number)

    def is_own(self, path: str) -> bool:
        """Whether the value was given for this column."""
        return path in dict(self.by_column)


BLANK = NullValue(0, is_blank=True)
"""For events of programs: fields that a program never writes are zero, as for the program itself."""


def null_replacement(value: str) -> NullValue:
    """a number for all numbers, `0`, `-1.5` or `NaN`, or a JSON object `{"column": value}`, nested columns with dots"""
    if not value.lstrip().startswith("{"):
        try:
            return NullValue(int(value))
        except ValueError:
            return NullValue(float(value))
    parsed = parse_json(value)
    if not all(isinstance(one, bool | int | float | str) for one in parsed.values()):
        raise ValueError("a value is a number, a string, true or false")
    return NullValue(by_column=tuple(parsed.items()))
