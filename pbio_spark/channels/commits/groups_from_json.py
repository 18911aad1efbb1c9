"""The groups of a commit from JSON, checked, since anyone may have written it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pbio_spark.channels.commits.checked import LARGEST, MOST, a_format, a_list, a_number, a_text, an_object, bad
from pbio_spark.channels.commits.groups import (
    ABSENT,
    NO_NUMBER,
    NO_TIME,
    PLACES,
    ROW,
    Beside,
    Groups,
    Int64s,
    are_dates,
    check_values,
)


def json_to_groups(said: Any, sizes: Sequence[int], version: int) -> Groups:
    """The groups of a commit at a version, whose files have these sizes. Raises PBIO_BAD_LOG."""
    made = an_object(said)
    formats = tuple(a_format(one) for one in a_list(made.get("formats")))
    producers = tuple(a_text(one) for one in a_list(made.get("producers", [])))
    count = len(a_list(made.get("count")))
    rows = np.empty(count, ROW)
    for name in (*PLACES, "format"):
        rows[name] = _numbers(made.get(name), count)
    for name, absent in ABSENT.items():
        column = made.get(name)
        rows[name] = absent
        if column is not None:
            filled = [absent if value is None else value for value in a_list(column, count)]
            rows[name] = _numbers(filled, count, least=absent)
    check_rows(rows, formats, producers, np.array(sizes, np.int64), version)
    sequences = _of_events(made.get("sequences", []), rows, "sequence")
    times = _of_events(made.get("event_times", []), rows, "event_time")
    return Groups(rows, formats, producers, sequences, times)


def check_rows(
    rows: npt.NDArray[np.void], formats: Sequence[str], producers: Sequence[str], sizes: Int64s, version: int | Int64s
) -> None:
    """Raise PBIO_BAD_LOG if the groups of one commit, or of several with files of their own, are not valid.

    Args:
        sizes: of the files.
        version: of the commit, or of each group's.
    """
    if any((rows[name] > LARGEST).any() for name in PLACES):
        bad("a group has a value that is too large")
    count, file = rows["count"], rows["file"]
    if (rows["format"] >= len(formats)).any() or (rows["producer"] >= len(producers)).any():
        bad("a group has a format or a producer that the commit does not list")
    if (rows["derivation"] > version).any():
        bad("events were derived in a way that the channel does not have yet")
    if (rows["channel"] > version).any():
        bad("a group belongs to a channel that does not exist yet")
    if (file >= len(sizes)).any() or (np.diff(file) < 0).any():
        bad("the groups of a file are not contiguous, or name a file that the commit does not")
    is_first = np.diff(file, prepend=-1) > 0
    # Equally derived channels share their events.
    places = [name for name in (*PLACES, "format") if name != "channel"]
    is_shared = np.logical_and.reduce([np.diff(rows[name], prepend=-1) == 0 for name in places])
    is_shared &= np.diff(rows["channel"], prepend=-1) > 0
    # Between the groups of a file are descriptions of formats, and abandoned events.
    free = np.where(is_first, 4, np.roll(rows["end"], 1))
    if not (is_shared | (free <= rows["start"]) & (rows["start"] < rows["end"]) & (rows["end"] <= sizes[file])).all():
        bad("the bytes of a group overlap others or exceed the file")
    ordinals = np.where(is_first, 0, np.roll(rows["ordinal"] + count, 1))
    is_counted = (is_shared | (rows["ordinal"] >= ordinals)) & (count > 0) & (count <= rows["end"] - rows["start"])
    if not (is_counted & (rows["ordinal"] <= rows["end"])).all():
        bad("the events of a group contradict their ordinals")
    has_numbers = rows["sequence"] != NO_NUMBER
    times = rows["event_time"]
    if ((times != NO_TIME) & ~are_dates(times)).any():
        bad("events have a time outside the years 1 to 9999")
    if (has_numbers & ((rows["producer"] == NO_NUMBER) | (rows["sequence"] >= MOST - count))).any():
        bad("events have impossible sequence numbers")


def _of_events(said: Any, rows: npt.NDArray[np.void], name: str) -> Mapping[int, Int64s]:
    """Values of single events, the first of which is in the group: all in the commit, or all beside it."""
    made: dict[int, Int64s] = {}
    places: dict[int, tuple[int, int]] = {}
    for one in a_list(said):
        index = one[0] if isinstance(one, list) and len(one) in (2, 3) else None
        if type(index) is not int or not 0 <= index < len(rows) or index in made or index in places:
            bad("values of events do not belong to a group")
        row = rows[index]
        if len(one) == 2:
            made[index] = check_values(_numbers(one[1], int(row["count"]), least=ABSENT[name]), name, row)
            continue
        first, last = a_number(one[1], most=LARGEST), a_number(one[2], least=ABSENT[name] + 1)
        if row[name] == ABSENT[name] or (name == "sequence" and last - row[name] < row["count"] - 1):
            bad(f"the {name} of events contradicts their group's")
        places[index] = first, last
    if made and places:
        bad("values of events are both in the commit and beside it")
    return Beside(places, rows, name) if places else made


def _numbers(said: Any, length: int, least: int = 0) -> Int64s:
    """A list of whole numbers."""
    listed = a_list(said, length)
    # An array of anything else, such as a long string, might not fit into memory.
    is_right = {int}.issuperset(map(type, listed))
    if not is_right or min(listed, default=least) < least or max(listed, default=0) > MOST:
        bad("expected a list of whole numbers")
    return np.array(listed, np.int64)
