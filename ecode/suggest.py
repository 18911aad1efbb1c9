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


def no_attribute(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error of a name that a module does not have, with the one that may be meant.

    >>> no_attribute("pbio_spark", "read_arow", ["read", "read_arrow"])
    AttributeError("module 'pbio_spark' has no attribute 'read_arow'; did you mean 'read_arrow'?")
    """
    # Others ask for names such as __wrapped__ to see whether they are there.
    hint = "" if name.startswith("_") else did_you_mean(name, known)
    return AttributeError(f"module {module!r} has no attribute {name!r}{'; ' if hint else ''}{hint}")
