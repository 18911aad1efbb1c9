"""The format of a file that a user names: `FILE`, `FILE#NAME` or `FILE#ID`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError
from pbio_spark.formats.format import Format


def split_choice(text: str, is_there: Callable[[str], bool]) -> tuple[str, str]:
    """The path of a file, and the name of one of its formats; the path itself may contain `#`.

    >>> split_choice("a#b.ffs#reading", {"a#b.ffs"}.__contains__), split_choice("a#b.ffs", {"a#b.ffs"}.__contains__)
    (('a#b.ffs', 'reading'), ('a#b.ffs', ''))
    """
    if is_there(text):
        return text, ""
    path, sign, which = text.rpartition("#")
    return (path, which) if sign else (text, "")


def chosen_formats(formats: Iterable[Format], which: str, path: str) -> list[Format]:
    """The formats of a name, an ID or the beginning of an ID; at least one. Raises PBIO_UNKNOWN_FORMAT."""
    known = list(formats)
    chosen = [f for f in known if not which or f.name == which or f.id.hex().startswith(which.lower())]
    if not chosen:
        names = sorted({f.name for f in known})
        reason = f"unknown format {which!r}" if names else "the file holds no format"
        hint = did_you_mean(which, names) or (f"there are: {', '.join(names)}" if names else None)
        raise PbioError("PBIO_UNKNOWN_FORMAT", reason, file=path, hint=hint)
    return chosen


def chosen_format(formats: Iterable[Format], which: str, path: str) -> Format:
    """The one format that the name fits. Raises PBIO_SEVERAL_FORMATS, PBIO_UNKNOWN_FORMAT."""
    chosen = chosen_formats(formats, which, path)
    if len(chosen) > 1:
        raise PbioError(
            "PBIO_SEVERAL_FORMATS",
            f"the name fits {len(chosen)} formats",
            file=path,
            hint="name one after the path: " + " ".join(f"#{f.id.hex()}" for f in chosen),
        )
    return chosen[0]
