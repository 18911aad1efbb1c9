"""`Handed`: what an archive says at the end of a subscription, in words that people read and programs can."""

from __future__ import annotations

import re
from dataclasses import dataclass

_REFUSED = re.compile(r"([0-9]+) events? (?:was|were) refused,(?: the first)? because: (.*)", re.DOTALL)
_KNOWN = re.compile(r"([0-9]+) events? of (.*) (?:was|were) known already", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Handed:
    """The outcome of a producer's events, besides the published ones.

    Attributes:
        refused: how many events could not be taken.
        reason: why the first of them could not.
        known: how many had been published before, by their numbers.
        producer: whose numbers those are: the name that the archive has for the producer.
        dropped: how many elements had no field, and were left out.
    """

    refused: int = 0
    reason: str = ""
    known: int = 0
    producer: str = ""
    dropped: int = 0

    def to_text(self) -> str | None:
        """As text; None if empty.

        >>> Handed(refused=1, reason="no time").to_text(), Handed(known=2, producer="a/1").to_text()
        ('1 event was refused, because: no time', '2 events of a/1 were known already')
        """
        parts = []
        if self.known:
            parts.append(f"{self.known} {_were('event', self.known, f' of {self.producer}')} known already")
        if self.dropped:
            parts.append(f"{self.dropped} {_were('element', self.dropped, ' without a field')} left out")
        if self.refused:
            which = "because" if self.refused == 1 else "the first because"
            parts.append(f"{self.refused} {_were('event', self.refused)} refused, {which}: {self.reason}")
        return "; ".join(parts) or None


def text_to_handed(text: str | None) -> Handed:
    """Parses such text; empty for another archive's text.

    >>> text_to_handed("1 event of a/1 was known already; 2 events were refused, the first because: x; y")
    Handed(refused=2, reason='x; y', known=1, producer='a/1', dropped=0)
    """
    found = Handed()
    rest = text or ""
    while rest:
        if (refused := _REFUSED.fullmatch(rest)) is not None:
            return Handed(int(refused[1]), refused[2], found.known, found.producer)
        part, _, rest = rest.partition("; ")
        if (known := _KNOWN.fullmatch(part)) is not None:
            found = Handed(known=int(known[1]), producer=known[2])
    return found


def _were(what: str, count: int, more: str = "") -> str:
    return f"{what}{more} was" if count == 1 else f"{what}s{more} were"
