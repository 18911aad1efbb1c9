"""Options -> a follower of the log of the named channels."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Literal

from ecode.suggest import did_you_mean
from pbio_spark.channels import (
    ChannelInfo,
    ChannelSpace,
    EagerStream,
    LogFollower,
    LogOffset,
    Modulator,
    Position,
    channel_format,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.source.options.options import Options

SHOWN = 10
"""The most names of channels that an error lists."""


class ChannelLog(LogFollower):
    """The log of a space, for the channels that options name.

    Attributes:
        space: the space of the log.
        eager: with the option `modulator`, the channel that is read in place of the named one.

    Raises PBIO_UNKNOWN_CHANNEL for unknown names, and what `ChannelSpace.open` and `ChannelSpace.attach` raise.
    """

    def __init__(self, root: str, options: Options, reader: str | None = None) -> None:
        """
        Args:
            reader: the name under which sources know this reader; None for a new one.
        """
        self.space = ChannelSpace.open(root)
        self.eager: EagerStream | None = None
        self._options = options
        with self.space.history.lock:
            state = self.space.history.catch_up()
            infos = _chosen(state.channels, options, root)
        if options.modulator is not None:
            (parent,), name, fail = infos, options.subscriber or reader, options.fail_on_data_loss
            self.eager = EagerStream(self.space, parent, options_to_modulator(options), name, fail_on_loss=fail)
            infos = [self.eager.info]
        with self.space.history.lock:
            super().__init__(
                self.space.folder,
                self.space.history,
                infos,
                pattern=options.channel_pattern,
                fail_on_loss=options.fail_on_data_loss,
                known=state.version if self.eager is None else self.eager.info.id,
            )

    def first(self, default: Literal["earliest", "latest"]) -> LogOffset:
        """Where reading begins, by the options."""
        if self._options.starting_timestamp is not None:
            return self.start(self._options.starting_timestamp)
        said = self._options.starting_offsets
        if isinstance(said, tuple):
            return self.start(Position(*said))
        return self.start("latest" if (said or default) == "latest" else "earliest")


def options_to_modulator(options: Options) -> Modulator:
    """The code for the sources, by the options."""
    assert options.modulator is not None
    return replace(options.modulator, parameters=options.parameters)


def read_formats(root: str, options: Options) -> tuple[ChannelSpace, list[Format]]:
    """The space, and the types of the named channels, or of what the code makes from one.

    Raises PBIO_UNKNOWN_CHANNEL, what `ChannelSpace.open` raises, and for code what `ChannelSpace.attach` raises.
    """
    space = ChannelSpace.open(root)
    with space.history.lock:
        infos = _chosen(space.history.catch_up().channels, options, root)
    if options.modulator is not None:
        return space, [space.derived_format(infos[0], options_to_modulator(options))]
    return space, [channel_format(info, space.formats) for info in infos]


def _chosen(channels: Mapping[int, ChannelInfo], options: Options, root: str) -> list[ChannelInfo]:
    """The channels that options name."""
    by_name = {info.name: info for info in channels.values()}
    if options.channel_pattern is not None:
        names = [name for name in by_name if re.fullmatch(options.channel_pattern, name)]
    else:
        names = list(dict.fromkeys(options.channels or (options.channel or "",)))
    for name in names:
        if name not in by_name:
            raise PbioError(
                "PBIO_UNKNOWN_CHANNEL",
                f"unknown channel {name!r}",
                file=root,
                hint="to read several channels, use the option channels"
                if name == options.channel and "," in name
                else did_you_mean(name, by_name) or channels_hint(by_name),
            )
    return [by_name[name] for name in names]


def channels_hint(names: Collection[str]) -> str:
    """
    >>> channels_hint(["stocks"])
    'the channels are stocks'
    """
    shown = ", ".join(sorted(names)[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"the channels are {shown}{more}" if names else "the space does not have channels yet"
