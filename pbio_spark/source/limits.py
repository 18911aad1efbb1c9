"""What one micro-batch may take: so many files, records or steps, and so many bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes


@dataclass(frozen=True, slots=True)
class TriggerLimits:
    """The two limits of a stream's options; Spark passes one limit, and if both are set, both hold.

    Attributes:
        count, size: the most things, and bytes; None for any number.
        counted: Spark's limit for so many things.
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
        """The most things and bytes of a micro-batch, for which Spark has passed a limit."""
        return (None, None) if isinstance(limit, ReadAllAvailable) else (self.count, self.size)
