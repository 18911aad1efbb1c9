"""The request of a consumer: the parameters that every channel knows, and those of its derivation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import ecode
from ecode.limits import Limits
from ecode.suggest import did_you_mean
from ecode.types import Record
from pbio_spark.channels import Channel, Position
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.peers.asking import count_of, seconds_of, single
from pbio_spark.gateways.grid.protocol.nodes import XmlElement
from pbio_spark.gateways.grid.settings import GridSettings
from pbio_spark.gateways.grid.values.times import text_to_microseconds

NOW: Final = "latest"
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Wish:
    """The request of a consumer.

    Attributes:
        period: seconds in which at most one event is sent, the last one; 0 for all.
        after: where to start; None: with new events.
        filter: E-code over `input`.
        fields: to be sent; empty for all.
        count: after so many events the subscription ends; None for no end.
        subscriber: the name under which the consumer resumes where it left off; None if it does not.
        others: parameters of the derived channel, by name.
    """

    period: float = 0.0
    after: str | Position | datetime | None = None
    filter: str | None = None
    fields: tuple[str, ...] = ()
    count: int | None = None
    subscriber: str | None = None
    others: dict[str, Any] = field(default_factory=dict)


KNOWN: Final[dict[str, Callable[[XmlElement], Any]]] = {
    "Period": seconds_of,
    "After": lambda node: text_to_start(node.text),
    "Filter": lambda node: node.text,
    "Fields": lambda node: tuple(dict.fromkeys(node.text.replace(",", " ").split())),
    "Count": count_of,
    "Subscriber": lambda node: text_to_subscriber(node.text),
}
"""The parameters that every channel knows, with their parsers."""


def node_to_wish(parameters: XmlElement, channel: Channel) -> Wish:
    """The request in an element of parameters.

    Raises:
        PbioError: PBIO_REFUSED for an unknown parameter, with the known ones; PBIO_BAD_VALUE for an invalid value
            or unit.
    """
    given = single(parameters)
    own = channel.space.parameters(channel.name) if channel.info.derivation is not None else {}
    made: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, node in given.items():
        if name in own:
            others[name] = _parameter(node, own[name])
        elif name in KNOWN:
            made[name.lower()] = KNOWN[name](node)
        else:
            raise unknown(name, [*KNOWN, *own])
    return Wish(**made, others=others)


def unknown(name: str, known: Iterable[str]) -> PbioError:
    """PBIO_REFUSED for an unknown parameter."""
    names = list(known)
    near = did_you_mean(name, names)
    hint = f"{near} " if near else ""
    return PbioError("PBIO_REFUSED", f"unknown parameter {name[:80]!r}", hint=f"{hint}there are {', '.join(names)}")


def _parameter(node: XmlElement, now: Any) -> Any:
    """The value of a derivation's parameter, converted to its current type."""
    if node.get("units"):
        reason = f"the parameter {node.name} has no units, but {node.get('units')!r} are given"
        raise PbioError("PBIO_BAD_VALUE", reason, hint="give the number without units")
    text = node.text.strip()
    try:
        if isinstance(now, bool):
            if text not in ("true", "false", "1", "0"):
                raise ValueError
            return text in ("true", "1")
        if isinstance(now, int | float) and ("_" in text or not text.isascii()):
            raise ValueError
        if isinstance(now, int):
            return int(text)
        if isinstance(now, float):
            return float(text)
    except ValueError:
        what = {bool: "true or false", int: "a whole number", float: "a number"}[type(now)]
        raise PbioError("PBIO_BAD_VALUE", f"the parameter {node.name} takes {what}, not {text[:40]!r}") from None
    if isinstance(now, str):
        return node.text
    raise PbioError(
        "PBIO_BAD_VALUE",
        f"the parameter {node.name} holds more than one value, and cannot be set from here",
        hint="set it in the space: pbio space set",
    )


def text_to_start(text: str) -> str | Position | datetime:
    """Where to start: `earliest`, `latest`, a position, or a time of publication. Raises PBIO_BAD_VALUE."""
    said = text.strip()
    if said in ("earliest", NOW):
        return said
    try:
        return Position.parse(said).next if "T" not in said else text_to_microseconds(said).astimezone(UTC)
    except (ValueError, PbioError):
        hint = "give earliest, latest, the position of the last received event, such as 12.0.7, or a time"
        raise PbioError("PBIO_BAD_VALUE", f"After cannot be {said[:40]!r}", hint=hint) from None


def text_to_subscriber(text: str) -> str:
    """The name of a subscriber. Raises PBIO_BAD_VALUE."""
    name = text.strip()
    if not name or not name.isprintable() or len(name) > _LONGEST_NAME:
        reason = f"Subscriber cannot be {text[:40]!r}"
        raise PbioError("PBIO_BAD_VALUE", reason, hint=f"a name of 1 to {_LONGEST_NAME} characters, such as viewer")
    return name


def check_filter(source: str, record: Record, settings: GridSettings) -> None:
    """Raise PBIO_BAD_PROGRAM for a `Filter` that does not compile or costs too much."""
    try:
        program = ecode.compile(source, [ecode.Param("input", record)], limits=Limits(budget=settings.filter_cost))
        ecode.check_source({"Filter": program}, settings.filter_cost, raise_by="[grid] filter_cost =")
    except ecode.EcodeError as error:
        reason = f"the Filter does not compile: {error.summary}"
        raise PbioError("PBIO_BAD_PROGRAM", reason, hint=error.hint or None) from None
