"""Where reading resumes after damage between the records of a file.

Nothing in the container says where the next item begins (see `wire.container`). Two things help: a boundary that an
index or an outline names, and the format IDs that every format item and every record starts with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.wire.container import Item, ItemKind, Scanner
from pbio_spark.wire.window import Source, Window

if TYPE_CHECKING:
    from pbio_spark.wire.hints.sidecar import Point

SOUND = 3
"""How many sound items must follow each other for a place to be believed."""

FIRST_STEP, LONGEST_STEP = 1 << 12, 1 << 20
"""How many bytes are searched at once. A file that is damaged everywhere must not be read over and over."""

MOST_PLACES = 100_000
"""How many places are tried after one damage."""

HEADS = tuple(bytes((ItemKind.FORMAT, 0, 0, length)) for length in (8, 10, 12))
RECORD = bytes((ItemKind.DATA, 0))
"""How items begin: those of formats, and those of records."""


def resume(
    source: Source,
    formats: Mapping[bytes, Format],
    damage: int,
    end: int,
    anchors: Sequence[Point],
    *,
    search: bool,
) -> tuple[int, int | None] | None:
    """The first sound item after damage and before `end`: its offset and, if known, the ordinal of the next record.

    Args:
        formats: known so far, by ID.
        damage: the offset of the item that is damaged.
        anchors: item boundaries that an index or outline names, ascending; they are tried before they are believed.
        search: whether to look for a place between those, too.
    """
    known = next(
        ((a.offset, a.ordinal) for a in anchors if damage < a.offset < end and is_sound(source, formats, a.offset)),
        None,
    )
    if search:
        last = end if known is None else known[0]
        if (place := next_sound(source, formats, damage + 1, last)) is not None:
            return place, None
    return known


def next_sound(source: Source, formats: Mapping[bytes, Format], start: int, end: int) -> int | None:
    """The offset of the first sound item from `start` on and before `end`; None if there is none."""
    places = islice(candidates(source, formats, start, end), MOST_PLACES)
    return next((place for place in places if is_sound(source, formats, place)), None)


def items_resumed(scanner: Scanner, on_damage: Callable[[PbioError], None]) -> Iterator[Item]:
    """The items of a file, those after damage too. `on_damage` receives the damage; if nothing sound follows, it is
    raised."""
    while True:
        try:
            yield from scanner.items()
            return
        except PbioError as error:
            if error.code != "PBIO_BAD_ITEM":
                raise
            place = next_sound(scanner.window.source, scanner.formats, scanner.offset + 1, scanner.window.size())
            if place is None:
                raise
            error.hint = f"reading resumes at offset {place}"
            on_damage(error)
            scanner.offset = place


def damage_to_text(damages: Sequence[tuple[int, int | None]]) -> str:
    """What damage leaves out, from the bytes and records (None if unknown) of each place.

    >>> print(damage_to_text([(80, 2), (40, 1)]))
    damage in 2 places leaves out 120 bytes, with 3 records
    >>> print(damage_to_text([(80, None)]))
    damage in 1 place leaves out 80 bytes, with an unknown number of records
    """
    left_out, records = zip(*damages, strict=True)
    known = sum(count for count in records if count is not None)
    with_ = numbered(known, "record")
    if None in records:
        with_ = f"at least {with_}" if known else "an unknown number of records"
    return f"damage in {numbered(len(damages), 'place')} leaves out {numbered(sum(left_out), 'byte')}, with {with_}"


def numbered(count: int, noun: str) -> str:
    """
    >>> numbered(1, "place"), numbered(1204, "byte")
    ('1 place', '1204 bytes')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def is_sound(source: Source, formats: Mapping[bytes, Format], place: int) -> bool:
    """Whether three sound items of known formats follow each other here, or fewer up to the very end of the file."""
    scanner = Scanner(source, offset=place, formats=formats, chunk=FIRST_STEP, search=False)
    found = 0
    try:
        for item in islice(scanner.items(), SOUND):
            if item.kind is ItemKind.DATA and item.format_id not in scanner.formats:
                return False
            found += 1
    except PbioError:
        return False
    return found == SOUND or (found > 0 and scanner.offset == scanner.window.size())


def candidates(source: Source, ids: Iterable[bytes], start: int, end: int) -> Iterator[int]:
    """The places from `start` on and before `end` where a format item or a record with one of the IDs may begin."""
    reach, step = 32, FIRST_STEP
    window = Window(source, chunk=1)
    end = min(end, window.size())
    while start < end:
        stop = min(start + step, end)
        data = window.read(start, stop - start + reach)
        heads = {at for mark in HEADS for at in _all(data, mark)}
        records = {at - 8 for mark in ids for at in _all(data, mark) if data[max(at - 8, 0) : at - 6] == RECORD}
        yield from (start + at for at in sorted(heads | records) if start + at < stop)
        start, step = stop, min(2 * step, LONGEST_STEP)


def _all(data: bytes, mark: bytes) -> Iterator[int]:
    at = data.find(mark)
    while at >= 0:
        yield at
        at = data.find(mark, at + 1)
