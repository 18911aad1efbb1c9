"""A channel as callers name it: by its name, or by an object that was opened before."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from pbio_spark.errors import PbioError


class Info(Protocol):
    """What a `Channel` and a `ChannelInfo` have."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


AnyChannel: TypeAlias = "str | Info"
"""A name, a `ChannelInfo` or a `Channel`. The objects mean the channel that they were made for, whatever has its name
now."""


def name_and_id(channel: AnyChannel) -> tuple[str, int | None]:
    """The name, and the ID where an object says it. Raises PBIO_BAD_OPTION for anything else."""
    name = getattr(channel, "name", channel)
    number = getattr(channel, "id", None)
    if not isinstance(name, str) or (name is not channel and not isinstance(number, int)):
        reason = f"expected a channel or its name, not {type(channel).__name__}"
        raise PbioError("PBIO_BAD_OPTION", reason, hint="such as space.channel('stock'), or 'stock'")
    return name, number
