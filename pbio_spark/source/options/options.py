"""Every option of the data source, in one table: `Options`. docs/reference/options.md is generated from it."""

from __future__ import annotations

from dataclasses import dataclass

from pbio_spark.source.options.writing import WriteOptions


@dataclass(frozen=True, slots=True)
class Options(WriteOptions):
    """All options, parsed. The name of an option is the attribute's name in camelCase."""

    @property
    def reads_channels(self) -> bool:
        """Whether the path is a channel space whose channels are to be read."""
        return bool(self.channel or self.channels or self.channel_pattern)

    @property
    def writes_channels(self) -> bool:
        """Whether the path is a channel space to whose channels the rows are published."""
        return bool(self.channel or self.channel_column)
