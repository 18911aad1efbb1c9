"""JSON in which no key is there twice: `json.loads` takes the last one without a word."""

from __future__ import annotations

import json
from typing import Any


class KeyTwiceError(ValueError):
    """An object of a JSON text has a key twice.

    Attributes:
        key: that is there twice.
        place: of the object, such as `$.Load`, or `$[0].from`.
    """

    def __init__(self, key: str, place: str) -> None:
        self.key = key
        self.place = place
        where = "" if place == "$" else f" in {place}"
        super().__init__(f"the key {key!r} is there twice{where}")


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says. Raises KeyTwiceError, and what `json.loads` raises.

    >>> parse_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse_json('{"Load": {"x": "int32", "x": "string"}}')
    Traceback (most recent call last):
    ecode.json_text.KeyTwiceError: the key 'x' is there twice in $.Load
    """
    twice: list[tuple[dict[str, Any], str]] = []

    def an_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            keys = [key for key, _ in pairs]
            twice.append((made, next(key for key in keys if keys.count(key) > 1)))
        return made

    said = json.loads(text, object_pairs_hook=an_object)
    if twice:  # the outermost comes last, and it is the one that cannot have been lost by being twice itself
        made, key = twice[-1]
        raise KeyTwiceError(key, _place(said, made))
    return said


def _place(said: Any, wanted: dict[str, Any]) -> str:
    """The place of an object in what a text says."""
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
