"""Encoded events -> data files that wait for their commit, and back."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from pbio_spark.channels.commits.checked import bad
from pbio_spark.channels.commits.commit import DataFile, Made
from pbio_spark.channels.commits.contents import Contents, contents_of
from pbio_spark.channels.commits.groups import Groups
from pbio_spark.channels.derive.deriver import Derivatives, Deriver
from pbio_spark.channels.footers.making import placed_to_footer
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.layout import new_data_path
from pbio_spark.channels.log.state import State
from pbio_spark.channels.publish.prepare import Prepared
from pbio_spark.channels.publish.submission import stored_format
from pbio_spark.columns import BatchLimits, Chunker, Encoded
from pbio_spark.formats.store import FormatStore
from pbio_spark.wire import MAGIC
from pbio_spark.wire.writer import format_to_item

if TYPE_CHECKING:
    from ecode.native import Kernel


@dataclass(frozen=True, slots=True)
class Packed:
    """A data file that waits for its commit.

    Attributes:
        own: the groups of the events that were submitted.
        derived: the groups of the events that were derived from them.
        refused: derived channels whose events could not be derived, with the reasons.
        descendants: the derived channels: see `State.descendants`.
        contents: the contents of what was submitted, if the batch has a number.
        made, traps: reports on derived channels; see `Derivatives`.
        task: the number of the task that wrote it; None if no others wrote concurrently.
        events: its events, own and then derived, while the writer has them in memory. Not pickled.
    """

    file: DataFile
    own: Groups
    derived: Groups
    refused: tuple[tuple[int, str], ...]
    descendants: tuple[tuple[int, int], ...]
    contents: Contents = Contents()  # noqa: RUF009 - it never changes
    made: tuple[Made, ...] = ()
    traps: tuple[tuple[int, str], ...] = ()
    task: int | None = None
    events: tuple[Prepared, ...] = field(default=(), compare=False, repr=False)


class Store(Protocol):
    """Stores data files; `Folder` implements it."""

    def add(self, name: str, data: bytes | Sequence[Any]) -> None:
        """Create a file that is used only once another names it."""


def pack(
    folder: Store, deriver: Deriver, events: Sequence[Prepared], state: State, ranging: Kernel | None = None
) -> Packed:
    """Write events, and the events derived from them in any order, to one data file.

    Args:
        ranging: for `RangeMaker`; without one, each process gets its own.
    """
    return pack_derived(folder, events, deriver.derive(events, state), state, ranging)


def pack_derived(
    folder: Store, events: Sequence[Prepared], derived: Derivatives, state: State, ranging: Kernel | None = None
) -> Packed:
    """Write events and derived events to one data file."""
    pieces: list[object] = [MAGIC]
    size, ordinal = len(MAGIC), 0
    described = set()
    placed: list[tuple[Groups, int, int]] = []
    places: dict[int, tuple[int, int]] = {}
    written = []
    for one in (*events, *derived.events):
        if id(one.encoded) in places:  # shared by channels
            placed.append((one.groups, *places[id(one.encoded)]))
            continue
        if one.format not in described:
            pieces.append(item := format_to_item(one.format))
            described.add(one.format)
            size += len(item)
        places[id(one.encoded)] = size, ordinal
        placed.append((one.groups, size, ordinal))
        pieces.append(one.encoded.buffer)
        written.append((one.format, one.encoded, size, one.groups.rows))
        size += one.encoded.buffer.size
        ordinal += len(one.encoded.offsets) - 1
    footer = placed_to_footer(written, size, ranging)
    path = new_data_path()
    folder.add(path, [*pieces, footer])
    own, made = (_placed(part) for part in (placed[: len(events)], placed[len(events) :]))
    descendants = state.descendants(own.rows["channel"].tolist())
    return Packed(
        DataFile(path, size + len(footer)),
        own,
        made,
        derived.refused,
        descendants,
        made=derived.made,
        traps=derived.traps,
        events=(*events, *derived.events),
    )


def _placed(parts: Sequence[tuple[Groups, int, int]]) -> Groups:
    """Groups in one file, each shifted by a number of bytes and records."""
    made = Groups.concat(groups for groups, _, _ in parts)
    shifts = np.array([shifts for _, *shifts in parts], np.int64).reshape(-1, 2)
    further, ordinals = shifts.repeat([len(groups) for groups, _, _ in parts], 0).T
    made.rows["file"] = 0
    made.rows["start"] += further
    made.rows["end"] += further
    made.rows["ordinal"] += ordinals
    return made


def contents_of_all(events: Iterable[Prepared], kernel: Kernel | None = None) -> Contents:
    """What identifies a retried batch of events; `kernel` is for `record_checksums`."""
    return sum((contents_of(one.encoded, one.groups, kernel) for one in events), Contents())


def events_of(folder: Folder, formats: FormatStore, packed: Packed, channels: Collection[int]) -> list[Prepared]:
    """The events of some channels in a data file: from memory, else read back. Raises as `unpack` does."""
    wanted = sorted(channels)
    if packed.events:
        parts = ((one, np.isin(one.groups.rows["channel"], wanted)) for one in packed.events)
        return [replace(one, groups=one.groups.take(np.flatnonzero(which))) for one, which in parts if which.any()]
    parts_of = (
        # A channel's groups are contiguous.
        Groups.concat(groups.take(np.flatnonzero(groups.rows["channel"] == channel)) for channel in wanted)
        for groups in (packed.own, packed.derived)
    )
    return [events for groups in parts_of for events in unpack(folder, formats, packed, groups)]


def unpack(folder: Folder, formats: FormatStore, packed: Packed, groups: Groups) -> list[Prepared]:
    """Some events of a data file, read back from it, in order. Raises PBIO_BAD_LOG if it has changed.

    Args:
        groups: those of the events: submitted ones, or those of a derived channel.
    """
    if not len(groups):
        return []
    data = folder.read(packed.file.path)
    if data is None or len(data) != packed.file.bytes:
        bad(f"the data file {packed.file.path} is not the one that was written")
    made = []
    # Groups of one format and one submission are contiguous.
    changes = (groups.rows["start"][1:] != groups.rows["end"][:-1]) | (np.diff(groups.rows["format"]) != 0)
    for run in np.split(np.arange(len(groups)), np.flatnonzero(changes) + 1):
        rows = groups.rows[run]
        start, end, ordinal = int(rows["start"][0]), int(rows["end"][-1]), int(rows["ordinal"][0])
        form = stored_format(groups.formats[rows["format"][0]], formats)
        chunks = Chunker(io.BytesIO(data), packed.file.path, [form], formats, BatchLimits(1 << 20, 1 << 26))
        offsets = [chunk.offset + chunk.positions for chunk in chunks.chunks(start, end, ordinal)]
        encoded = Encoded(pa.py_buffer(data).slice(start, end - start), np.concatenate([*offsets, [end]]) - start)
        own = replace(groups.take(run).moved(0, -start, -ordinal), formats=groups.formats)
        made.append(Prepared(form, encoded, own))
    return made
