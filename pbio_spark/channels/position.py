"""The position of an event in a space (DESIGN decision 23): a channel's events are read in this order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from pbio_spark.errors import PbioError


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a channel space.

    Attributes:
        version: of the commit in the log.
        file: among the data files of the commit.
        ordinal: of the event among all records of the file.

    >>> Position.parse("12.0.7") < Position(12, 1, 0)
    True
    """

    version: int
    file: int = 0
    ordinal: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """The position that a string such as `12.0.7` names. Raises PBIO_BAD_OFFSET."""
        parts = re.fullmatch(r"(\d{1,18})\.(\d{1,18})\.(\d{1,18})", text, re.ASCII)
        if parts is None:
            raise PbioError("PBIO_BAD_OFFSET", f"not a position: {text[:80]!r}", hint="example: 12.0.7")
        return cls(*map(int, parts.groups()))

    @property
    def next(self) -> Self:
        """The first position after this event."""
        return type(self)(self.version, self.file, self.ordinal + 1)

    def __str__(self) -> str:
        return f"{self.version}.{self.file}.{self.ordinal}"


NOWHERE = Position(0)
"""Before all events."""
