"""The values of options: a string given by the user -> its value.

The docstring of each function describes valid strings; docs/reference/options.md and error messages show it. An invalid
string raises ValueError (`NotAValue` with a reason), KeyError, OverflowError, RecursionError or an error of the
package.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from ecode.json_text import parse_json
from ecode.suggest import did_you_mean
from ecode.types import Default, Record
from pbio_spark.formats.body.lookup3 import id_length
from pbio_spark.formats.record_json import json_to_record
from pbio_spark.globs import compile_glob
from pbio_spark.paths import find_entry, folder_entries, full_path, locate, opened

if TYPE_CHECKING:
    from ecode import Function
    from pbio_spark.channels import Modulator


class NotAValue(ValueError):  # noqa: N818 - what it says
    """A string is not a valid value of its option; the message is the reason, if known."""


_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MODULATOR = {
    name: re.sub("[A-Z]", lambda found: "_" + found[0].lower(), name)
    for name in (
        *("filter", "transform", "type", "state", "dequeue", "period", "every", "services"),
        *("maxCost", "maxTraps", "frozen"),
    )
}
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def text(value: str) -> str:
    """any string"""
    return value


def prefix(value: str) -> str:
    """the rest of the name: this is only a prefix"""
    raise NotAValue(f"{value[:80]!r} lacks the name of a setting")


def names(value: str) -> tuple[str, ...]:
    """a name, several with commas between, or a JSON list of names"""
    if value.lstrip().startswith("["):
        listed = parse_json(value)
        if not all(isinstance(name, str) for name in listed):
            raise NotAValue("expected a JSON list of strings")
        return tuple(listed)
    return tuple(name.strip() for name in value.split(",") if name.strip())


def services(value: str) -> tuple[Function | str, ...]:
    """names of services with commas between: `clock`, `load`, `process`, and as `module:name` those that a module has \
from `ecode.service`"""
    from pbio_spark.channels import SERVICES

    found: list[Function | str] = []
    for name in names(value):
        if name not in SERVICES and ":" not in name:
            raise NotAValue(did_you_mean(name, SERVICES) or f"unknown service {name[:80]!r}")
        found.append(name if name in SERVICES else _own_service(name))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _OfModule:
    """Calls a service of a module by name, so that tasks can import it."""

    place: str
    attribute: str

    def __call__(self, *given: Any) -> Any:
        return getattr(import_module(self.place), self.attribute).call(*given)


def _own_service(name: str) -> Function:
    """A service of a module, which tasks import, too."""
    from ecode import Function

    place, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in place.split(".")):
        raise NotAValue(f"{place[:80]!r} is not a module")
    try:
        module = import_module(place)
    except ImportError as error:
        raise NotAValue(f"{error}; install it, or send it to all workers with addPyFile") from None
    found = getattr(module, attribute, None)
    if not isinstance(found, Function):
        own = [known for known, one in vars(module).items() if isinstance(one, Function)]
        raise NotAValue(did_you_mean(attribute, own) or f"{place} has no service {attribute[:80]!r}")
    return replace(found, call=_OfModule(place, attribute))


def modulator(value: str) -> Modulator:
    """E-code of a filter, `{ return input.price > 75; }`, or a JSON object of programs and more, `{"transform": \
program, "type": {"name": {"field": "type"}}}`, with the names `filter`, `transform`, `type`, `state`, `dequeue`, \
`period`, `every`, `services`, `maxCost`, `maxTraps`, `frozen`"""
    from pbio_spark.channels import Modulator

    if not re.match(r"\s*\{\s*(\"|\}\s*$)", value):
        return Modulator(filter=value)
    said = parse_json(value)
    if not said:
        raise NotAValue("it is empty")
    for key in said:
        if key == "parameters":
            raise NotAValue("the values have an option of their own, parameters")
        if key not in _MODULATOR:
            raise NotAValue(did_you_mean(key, _MODULATOR) or f"unknown key {key[:80]!r} of a modulator")
    made = {_MODULATOR[key]: one for key, one in said.items() if one is not None}
    if "type" in made:
        made["type"] = json_to_record(made["type"])
    if isinstance(made.get("every"), str):
        made["every"] = seconds(made["every"])
    if not isinstance(made.get("frozen", False), bool):
        raise NotAValue("frozen is true or false")
    if not isinstance(listed := made.get("services", []), list) or not all(isinstance(one, str) for one in listed):
        raise NotAValue("services is a JSON list of strings")
    return Modulator(**made)


def parameters(value: str) -> Mapping[str, Any] | str:
    """a JSON object `{"least": 70.0}`, or the name of a block of parameters that the space has"""
    if not value.strip():
        raise NotAValue("it is empty")
    return parse_json(value) if value.lstrip().startswith("{") else value


def format_ids(value: str) -> tuple[bytes, ...]:
    """hexadecimal format IDs with commas between"""
    ids = tuple(bytes.fromhex(name) for name in names(value))
    for format_id in ids:
        if id_length(format_id) != len(format_id):
            raise NotAValue(f"not a format ID: {format_id.hex()}")
    return ids


def boolean(value: str) -> bool:
    """`true` or `false`"""
    return {"true": True, "false": False}[value.lower()]


def positive(value: str) -> int:
    """a positive whole number"""
    if (number := int(value)) < 1:
        raise NotAValue(f"{number} is not positive")
    return number


def whole(value: str) -> int:
    """a whole number from 0"""
    if not 0 <= (number := int(value)) < 1 << 63:
        raise NotAValue(f"{number} is negative, or too large")
    return number


def depth(value: str) -> int:
    """a whole number up to 15"""
    if (number := int(value)) > 15:
        raise NotAValue(f"{number} is more than 15")
    return number


def size(value: str) -> int:
    """a positive number of bytes, `67108864`, `64m` or `64 MB`"""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)i?b?", value.strip().lower())
    if match is None:
        raise NotAValue("")
    return positive(str(int(match[1]) * _UNITS[match[2]]))


def seconds(value: str) -> float:
    """a time, `30s`, `15m`, `12h`, `7d` or `1w`"""
    match = re.fullmatch(r"(\d+)\s*(ms|[smhdw])", value.strip().lower())
    if match is None:
        raise NotAValue("")
    return int(match[1]) * _SECONDS[match[2]]


def instant(value: str) -> float:
    """a time such as `2026-01-31T12:00:00`, in UTC if it names no offset"""
    moment = datetime.fromisoformat(value)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def aliases(value: str) -> dict[str, str]:
    """a JSON object `{"column": "field"}`, nested columns with dots between"""
    parsed = parse_json(value)
    if not isinstance(parsed, dict) or not all(isinstance(name, str) for name in parsed.values()):
        raise NotAValue("expected a JSON object of strings")
    return parsed


def scalars(value: str) -> dict[str, Default]:
    """a JSON object `{"column": number, string, true or false}`, nested columns with dots between"""
    parsed = parse_json(value)
    if not isinstance(parsed, dict):
        raise NotAValue("expected a JSON object")
    if not all(isinstance(default, bool | int | float | str) for default in parsed.values()):
        raise NotAValue("a default is a number, a string, true or false")
    return parsed


def one_of(*words: str) -> Callable[[str], str]:
    """One of a few words, in any case."""
    folded = {word.casefold(): word for word in words}

    def parse(value: str) -> str:
        if value.casefold() not in folded:
            raise NotAValue(did_you_mean(value, words))
        return folded[value.casefold()]

    quoted = [f"`{word}`" for word in words]
    parse.__doc__ = " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))
    return parse


def pattern(value: str) -> str:
    """a regular expression, for whole names"""
    try:
        re.compile(value)
    except re.error as error:
        raise NotAValue(error) from None
    return value


def glob(value: str) -> str:
    r"""a Hadoop glob, `*.ffs`, `[^a]*` or `{a,b}*`; `\` makes the next character literal"""
    if not value:
        raise NotAValue("it matches nothing")
    try:
        compile_glob(value)
    except ValueError as error:
        raise NotAValue(error) from None
    return value


def starting_place(value: str) -> str | tuple[int, ...]:
    """`earliest`, `latest`, a position such as `12.0.7`, or a version of the log such as `12`"""
    return "earliest" if value.casefold() == "earliest" else ending_place(value)


def starting_step(value: str) -> int | str:
    """`earliest`, `latest` (only new steps), or the number of a step"""
    return value.casefold() if value.casefold() in ("earliest", "latest") else whole(value)


def ending_place(value: str) -> str | tuple[int, ...]:
    """`latest`, a position such as `12.0.7`, or a version of the log such as `12`"""
    if value.casefold() == "latest":
        return "latest"
    if value.lstrip().startswith("{"):
        raise NotAValue("give one position for all channels: a space has one order")
    if not re.fullmatch(r"\d{1,18}(\.\d{1,18}){2}|\d{1,18}", value, re.ASCII):
        raise NotAValue("not a position")
    return tuple(map(int, value.split(".")))


def published_since(value: str) -> int:
    """a time such as `2026-01-31T12:00:00`, in UTC if it names no offset, or milliseconds since 1970"""
    if not re.fullmatch(r"-?\d{1,15}", value.strip(), re.ASCII):
        return round(1e6 * instant(value))
    if 10**7 <= (number := int(value)) < 10**11:  # seconds since 1970, or a date such as 20260131
        meant = datetime.fromtimestamp(number / 1000, UTC).date()
        raise NotAValue(f"as milliseconds since 1970, that is {meant}, before any channel existed")
    return 1000 * number


TransformText: TypeAlias = tuple[str, str, str]
"""The source (empty: the written format) and the target of a transform, by ID or name, and its program."""


def reader_formats(value: str) -> tuple[str | Record, ...]:
    """an ID, a name, `name@version`, a record type as JSON `{"name": {"field": "type"}}`, or a JSON list of these"""
    stripped = value.strip()
    if stripped.startswith("["):
        return tuple(one if isinstance(one, str) else json_to_record(one) for one in parse_json(stripped))
    return (json_to_record(stripped),) if stripped.startswith("{") else names(value)


def written_format(value: str) -> str | Record:
    """a file, `FILE#NAME`, an ID that the store or the folder knows, or a type as JSON `{"name": {"field": "type"}}`"""
    return json_to_record(value) if value.lstrip().startswith("{") else value


def ratio(value: str) -> float:
    """a number from 0 to 1"""
    if not 0 <= (parsed := float(value)) <= 1:
        raise NotAValue(f"{value} is not between 0 and 1")
    return parsed


def count(value: str) -> float:
    """a number from 0"""
    if not (parsed := float(value)) >= 0:
        raise NotAValue("" if math.isnan(parsed) else f"{value} is negative")
    return parsed


def weights(value: str) -> dict[str, float]:
    """a JSON object `{"field": weight}`, nested fields with dots between"""
    parsed = parse_json(value)
    numbers = parsed.values() if isinstance(parsed, dict) else ()
    if not isinstance(parsed, dict) or not all(type(weight) in (int, float) for weight in numbers):
        raise NotAValue("expected a JSON object of numbers")
    if not all(0 <= weight <= 1e9 for weight in numbers):
        raise NotAValue("a weight is a number from 0 to 1e9")
    return {path: float(weight) for path, weight in parsed.items()}


def transforms(value: str) -> tuple[TransformText, ...]:
    """a JSON list `[{"from": type, "to": type, "ecode": program}]` of types as in `readerFormat`, or a folder of \
files `<to>.ecode`"""
    if value.lstrip().startswith("["):
        return tuple(_transform(one) for one in parse_json(value))
    fs, folder = locate(value)
    found = find_entry(fs, folder)
    if found is None or found.kind != "folder":
        raise NotAValue(f"{value} is neither a JSON list nor a folder")
    programs: list[TransformText] = []
    for name, entry in sorted(folder_entries(fs, folder).items()):
        if entry.kind == "file" and name.endswith(".ecode"):
            with opened(full_path(fs, entry.path)) as source:
                programs.append(("", name.removesuffix(".ecode"), source.read().decode()))
    return tuple(programs)


def _transform(said: object) -> TransformText:
    if not isinstance(said, dict):
        raise NotAValue("expected a JSON list of objects of strings")
    for key in said:
        if key not in ("from", "to", "ecode"):
            raise NotAValue(did_you_mean(key, ("from", "to", "ecode")) or f"unknown key {key!r} of a transform")
    source, target = (one if isinstance(one, str) else _type_text(one) for one in (said.get("from", ""), said["to"]))
    if not isinstance(said["ecode"], str):
        raise NotAValue("expected a JSON list of objects of strings")
    return source, target, said["ecode"]


def _type_text(said: object) -> str:
    """A record type as JSON within JSON. Raises PBIO_BAD_TYPE."""
    if not isinstance(said, dict):
        raise NotAValue("expected a JSON list of objects of strings")
    json_to_record(said)
    return json.dumps(said)
