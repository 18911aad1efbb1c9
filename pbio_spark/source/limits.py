"""The limits of a micro-batch: files, records or steps, and bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """The two limits of a stream's options; Spark passes one limit; if both are set, both apply.

    Attributes:
        count, size: the most items and bytes; None for any number.
        counted: Spark's class of limits on the number of items.
    """

    count: int | None
    size: int | None
    counted: Callable[[int], ReadLimit]

    def default(self) -> ReadLimit:
        """What Spark asks for, and passes to `latestOffset` unless everything available is wanted."""
        if self.count is not None:
            return self.counted(self.count)
        return ReadAllAvailable() if self.size is None else ReadMaxBytes(self.size)

    def under(self, limit: ReadLimit) -> tuple[int | None, int | None]:
        """The most items and bytes of a micro-batch, given Spark's limit."""
        return (None, None) if isinstance(limit, ReadAllAvailable) else (self.count, self.size)
