"""Which channels are read, and from where: options -> a follower of the log."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal

from ecode.suggest import did_you_mean
from pbio_spark.channels import ChannelInfo, ChannelSpace, LogFollower, LogOffset, Position
from pbio_spark.errors import PbioError
from pbio_spark.source.options.options import Options

SHOWN = 10
"""How many names of channels an error lists."""


class ChannelLog(LogFollower):
    """The log of a space, for the channels that options name.

    Attributes:
        space: whose log it is.

    Raises PBIO_UNKNOWN_CHANNEL for unknown names, and what `ChannelSpace.open` raises.
    """

    def __init__(self, root: str, options: Options) -> None:
        self.space = ChannelSpace.open(root)
        self._options = options
        with self.space.history.lock:
            state = self.space.history.catch_up()
            infos = _chosen(state.channels, options, root)
            super().__init__(
                self.space.folder,
                self.space.history,
                infos,
                pattern=options.channel_pattern,
                fail_on_loss=options.fail_on_data_loss,
                known=state.version,
            )

    def first(self, default: Literal["earliest", "latest"]) -> LogOffset:
        """Where reading begins according to the options; `default` is `earliest` or `latest`."""
        if self._options.starting_timestamp is not None:
            return self.start(self._options.starting_timestamp)
        said = self._options.starting_offsets
        if isinstance(said, tuple):
            return self.start(Position(*said))
        return self.start("latest" if (said or default) == "latest" else "earliest")


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
