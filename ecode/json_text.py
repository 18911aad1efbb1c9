"""JSON without duplicate keys: `json.loads` silently takes the last one."""

from __future__ import annotations

import json
from typing import Any


class DuplicateKeyError(ValueError):
    """An object in a JSON text has a duplicate key.

    Attributes:
        key: the duplicate.
        place: of the object, such as `$.Load`, or `$[0].from`.
    """

    def __init__(self, key: str, place: str) -> None:
        self.key = key
        self.place = place
        where = "" if place == "$" else f" in {place}"
        super().__init__(f"duplicate key {key!r}{where}")


def parse_json(text: str | bytes) -> Any:
    """Parses JSON. Raises DuplicateKeyError, and what `json.loads` raises.

    >>> parse_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse_json('{"Load": {"x": "int32", "x": "string"}}')
    Traceback (most recent call last):
    ecode.json_text.DuplicateKeyError: duplicate key 'x' in $.Load
    """
    twice: list[tuple[dict[str, Any], str]] = []

    def an_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            keys = [key for key, _ in pairs]
            twice.append((made, next(key for key in keys if keys.count(key) > 1)))
        return made

    if isinstance(text, str):
        text = text.removeprefix("\ufeff")  # editors put it there, and it says nothing; of bytes, json takes it
    said = json.loads(text, object_pairs_hook=an_object)
    if twice:  # the outermost comes last; an inner one may itself be a lost duplicate
        made, key = twice[-1]
        raise DuplicateKeyError(key, _place(said, made))
    return said


def _place(said: Any, wanted: dict[str, Any]) -> str:
    """The place of an object in the parsed text."""
    left = [("$", said)]
    while left:
        place, one = left.pop()
        if one is wanted:
            return place
        if isinstance(one, dict):
            left += [(f"{place}.{key}", inner) for key, inner in one.items()]
        elif isinstance(one, list):
            left += [(f"{place}[{index}]", inner) for index, inner in enumerate(one)]
    return "$"
