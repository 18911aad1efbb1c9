"""What reading a file leaves out, which is logged at its end."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

log = logging.getLogger("pbio_spark.columns")


@dataclass(slots=True)
class LeftOut:
    """What has been left out of a file so far.

    Attributes:
        bad: how many bad records `DROPMALFORMED` dropped.
        rejected: how many records reach no wanted type.
        tail: how many bytes at the end are not a whole item; None if the file ends with one.
        damages: of each damaged place, how many bytes were passed over, and how many records, if that is known.
    """

    bad: int = 0
    rejected: int = 0
    tail: int | None = None
    damages: list[tuple[int, int | None]] = field(default_factory=list)

    def log(self, name: str) -> None:
        """Log what a file leaves out."""
        if self.bad:
            log.warning("%s: %s dropped", name, _number(self.bad, "bad record"))
        if self.tail is not None:
            log.warning(
                "%s ends inside an item: truncatedTail leaves out its last %s",
                name,
                _number(self.tail, "byte"),
            )
        if self.damages:
            left_out, records = zip(*self.damages, strict=True)
            known = sum(count for count in records if count is not None)
            log.warning(
                "%s: damage in %s leaves out %s, with %s",
                name,
                _number(len(self.damages), "place"),
                _number(sum(left_out), "byte"),
                _records(known, is_all=None not in records),
            )
        if self.rejected:
            count = "1 record that reaches" if self.rejected == 1 else f"{self.rejected} records that reach"
            log.warning("%s: %s no wanted type left out", name, count)


def _number(count: int, noun: str) -> str:
    """
    >>> _number(1, "place"), _number(1204, "byte")
    ('1 place', '1204 bytes')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _records(known: int, *, is_all: bool) -> str:
    """How many records damage leaves out."""
    if is_all:
        return _number(known, "record")
    return f"at least {_number(known, 'record')}" if known else "an unknown number of records"
