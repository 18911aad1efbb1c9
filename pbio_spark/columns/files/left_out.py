"""What reading a file leaves out, which is logged at its end."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from pbio_spark.wire.resync import damage_to_text, numbered

log = logging.getLogger("pbio_spark.columns")


@dataclass(slots=True)
class LeftOut:
    """What has been left out of a file so far.

    Attributes:
        bad: how many bad records `DROPMALFORMED` dropped.
        rejected: how many records reach no wanted type.
        tail: the bytes of an incomplete item at the end; None if the file ends with an item.
        damages: for each damaged place, the skipped bytes, and the number of records if known.
    """

    bad: int = 0
    rejected: int = 0
    tail: int | None = None
    damages: list[tuple[int, int | None]] = field(default_factory=list)

    def log(self, name: str) -> None:
        """Log what a file leaves out."""
        if self.bad:
            log.warning("%s: %s dropped", name, numbered(self.bad, "bad record"))
        if self.tail is not None:
            log.warning(
                "%s ends inside an item: truncatedTail leaves out its last %s",
                name,
                numbered(self.tail, "byte"),
            )
        if self.damages:
            log.warning("%s: %s", name, damage_to_text(self.damages))
        if self.rejected:
            count = "1 record that reaches" if self.rejected == 1 else f"{self.rejected} records that reach"
            log.warning("%s: %s no wanted type left out", name, count)
