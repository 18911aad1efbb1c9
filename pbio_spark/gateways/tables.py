"""Tables of a TOML file -> dataclasses: unknown keys and wrong values are errors that list the valid ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, field, fields
from typing import Any, TypeVar, get_type_hints

from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError

Settings = TypeVar("Settings")

_WORDS = {int: "a whole number from 0", float: "a number from 0", str: "text", bool: "true or false"}
_POSITIVE_WORDS = {int: "a whole number from 1", float: "a number above 0"}
_IS_POSITIVE = "is_positive"


def positive(default: Any) -> Any:
    """A number of a dataclass that cannot be 0, which would disable the gateway."""
    return field(default=default, metadata={_IS_POSITIVE: True})


def table_to_settings(
    cls: type[Settings], table: Any, where: str, *, beside: Sequence[str] = (), **made: Any
) -> Settings:
    """An object of a dataclass, from a table that has some of its attributes.

    Args:
        cls: a dataclass whose attributes are int, float, str or bool; numbers are not negative, and not 0 where
            they are `positive`.
        where: the name of the table, such as `limits`.
        beside: more keys that exist, for the hint; `made` is what they became.
        made: attributes that the table does not have.

    Raises PBIO_UNKNOWN_OPTION, and PBIO_BAD_OPTION for a value of another type or an attribute that is missing.
    """
    own = [one for one in fields(cls) if one.name not in made]  # type: ignore[arg-type]
    check_keys(table, [*(one.name for one in own), *beside], f"[{where}]")
    types = get_type_hints(cls)
    for one in own:
        if one.name in table:
            is_positive = _IS_POSITIVE in one.metadata
            check_value(table[one.name], types[one.name], f"[{where}] {one.name}", is_positive=is_positive)
        elif one.default is MISSING and one.default_factory is MISSING:
            raise PbioError("PBIO_BAD_OPTION", f"[{where}] lacks {one.name!r}", hint=f"add a line: {one.name} = ...")
    return cls(**table, **made)


def check_keys(table: Any, known: Iterable[str], where: str) -> None:
    """Raise PBIO_UNKNOWN_OPTION for a key that is not known, and PBIO_BAD_OPTION for what is not a table."""
    if not isinstance(table, dict):
        raise PbioError("PBIO_BAD_OPTION", f"{where} is not a table", hint="begin it with a line such as [limits]")
    names = list(known)
    for key in table:
        if key not in names:
            hint = did_you_mean(key, names) or f"there are {', '.join(names)}"
            raise PbioError("PBIO_UNKNOWN_OPTION", f"{where} of the gateway's configuration has no {key!r}", hint=hint)


def check_value(value: Any, type_: type, where: str, *, is_positive: bool = False) -> None:
    """Raise PBIO_BAD_OPTION for a value that is not of a type; a whole number will do for another one."""
    types = (int, float) if type_ is float else (type_,)
    is_right = isinstance(value, types) and (type_ is bool or not isinstance(value, bool))
    is_number = is_right and type_ in (int, float)
    if not is_right or (is_number and not 0 <= value < 2**62) or (is_positive and value == 0):
        words = _POSITIVE_WORDS if is_positive else _WORDS
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"{where} is {str(value)[:80]!r}, and must be {words[type_]}",
            hint="correct the value in the configuration",
        )
