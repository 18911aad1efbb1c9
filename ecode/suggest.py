"""Near misses: the known word that is closest to an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping


def did_you_mean(word: str, known: Iterable[str], written: Mapping[str, str] | None = None) -> str:
    """A hint such as `did you mean 'formatName'?`, or an empty string when no word is close.

    `written` maps known words to their preferred spelling.

    >>> did_you_mean("formatname", ["formatName", "formatId"])
    "did you mean 'formatName'?"
    """
    by_folded = {candidate.casefold(): candidate for candidate in known}
    near = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    if not near:
        return ""
    found = by_folded[near[0]]
    return f"did you mean {found if written is None else written[found]!r}?"
