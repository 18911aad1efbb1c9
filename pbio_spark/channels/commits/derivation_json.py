"""Derivations and parameter blocks <-> JSON, checked, since anyone may have written a commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ecode.limits import SOURCE_WORK
from pbio_spark.channels.commits.checked import a_list, a_number, a_text, an_object, bad
from pbio_spark.channels.commits.derivation import MOST_TRAPS, NO_BLOCK, Derivation, ParameterBlock

_TEXTS = ("filter", "transform", "dequeue", "period")
_LATER = {
    "shared": 0,
    "every": 0,
    "services": [],
    "is_ordered": False,
    "when": "always",
    "is_temporary": False,
    "max_traps": MOST_TRAPS,
}
"""The optional keys of a derivation and their defaults."""


def derivation_to_json(derivation: Derivation) -> dict[str, Any]:
    """A derivation as JSON values."""
    made: dict[str, Any] = {"parent": derivation.parent, "max_cost": derivation.max_cost}
    made |= {name: getattr(derivation, name) for name in _TEXTS}
    made |= block_to_json("parameters", derivation.parameters)
    if derivation.state:
        made |= block_to_json("state", derivation.state)
    later = {name: getattr(derivation, name) for name in _LATER} | {"services": list(derivation.services)}
    return made | {name: value for name, value in later.items() if value != _LATER[name]}


def json_to_derivation(said: Any, version: int) -> Derivation:
    """The derivation of a channel that is created at a version. Raises PBIO_BAD_LOG."""
    made = _LATER | an_object(said)
    filter_, transform, dequeue, period = (None if made.get(name) is None else a_text(made[name]) for name in _TEXTS)
    if made["when"] not in ("always", "subscribed"):
        bad("a derivation is made neither always nor while it has subscribers")
    return Derivation(
        a_number(made.get("parent"), most=version),
        filter_,
        transform,
        json_to_block("parameters", made),
        a_number(made.get("max_cost", SOURCE_WORK)),
        a_number(made["shared"], most=version),
        json_to_block("state", made) if "state" in made else NO_BLOCK,
        dequeue,
        period,
        a_number(made["every"]),
        tuple(a_text(one) for one in a_list(made["services"])),
        made["is_ordered"] is True,
        made["when"],
        made["is_temporary"] is True,
        a_number(made["max_traps"]),
    )


def block_to_json(name: str, block: ParameterBlock) -> dict[str, Any]:
    """A block as JSON values: its values under a name, and its first values, which define the types."""
    made: dict[str, Any] = {name: block.values}
    return made if block.shape == block.text else made | {f"{name}_shape": block.first_values}


def json_to_block(name: str, said: Mapping[str, Any]) -> ParameterBlock:
    """The block under a name. Raises PBIO_BAD_LOG."""
    values = an_object(said.get(name))
    try:
        return ParameterBlock.of(an_object(said.get(f"{name}_shape", values))).changed(values)
    except (KeyError, ValueError) as error:
        bad(f"the {name} of a derivation are invalid: {error}")
