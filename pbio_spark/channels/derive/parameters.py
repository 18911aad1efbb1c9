"""Blocks of values as users give them: parameters and initial state of derivations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ecode.suggest import did_you_mean
from pbio_spark.channels.commits.derivation import NO_BLOCK, ParameterBlock
from pbio_spark.errors import PbioError


def values_to_block(values: Mapping[str, Any] | None, what: str = "parameters") -> ParameterBlock:
    """The block of some values. Raises PBIO_BAD_OPTION."""
    if values is None:
        return NO_BLOCK
    _check_mapping(values, what)
    try:
        return ParameterBlock.of(values)
    except ValueError as error:
        raise PbioError("PBIO_BAD_OPTION", f"{what}: {error}") from None


def changed_block(block: ParameterBlock, values: Mapping[str, Any]) -> ParameterBlock:
    """The block with other values for some of its names, of the types that they have. Raises PBIO_BAD_OPTION."""
    _check_mapping(values, "parameters")
    try:
        return block.changed(values)
    except KeyError as error:
        name = str(error.args[0])
        hint = did_you_mean(name, block) or (f"the parameters are {', '.join(block)}" if block else "it has none")
        raise PbioError("PBIO_BAD_OPTION", f"unknown parameter {name[:80]!r}", hint=hint) from None
    except ValueError as error:
        raise PbioError("PBIO_BAD_OPTION", f"the parameter {error}") from None


def _check_mapping(values: object, what: str) -> None:
    if not isinstance(values, Mapping):
        reason = f"not a mapping of {what}: {str(values)[:80]!r}"
        raise PbioError("PBIO_BAD_OPTION", reason, hint='example: {"least": 70.0}')
