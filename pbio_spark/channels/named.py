"""A channel as callers name it: by name, or as an open object."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from pbio_spark.errors import PbioError


class Info(Protocol):
    """The common attributes of `Channel` and `ChannelInfo`."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


AnyChannel: TypeAlias = "str | Info"
"""A name, a `ChannelInfo` or a `Channel`. An object means the channel that it was made for, even if its name is in use
again."""


def name_and_id(channel: AnyChannel) -> tuple[str, int | None]:
    """The name, and the ID if given as an object. Raises PBIO_BAD_OPTION for anything else."""
    name = getattr(channel, "name", channel)
    number = getattr(channel, "id", None)
    if not isinstance(name, str) or (name is not channel and not isinstance(number, int)):
        reason = f"expected a channel or its name, not {type(channel).__name__}"
        raise PbioError("PBIO_BAD_OPTION", reason, hint="example: space.channel('stock'), or 'stock'")
    return name, number
