"""Removes events beyond their channel's retention, and merges small files.

Neither changes a position or a commit, and both may run beside writers and readers. A reader that does not find a file
looks up where its events are now, or that they are no longer kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from pbio_spark.channels.commits.checked import bad, span_to_microseconds
from pbio_spark.channels.commits.commit import Commit, Compact, Data, DataFile, Drop, Trim, Trims
from pbio_spark.channels.commits.groups import Int64s
from pbio_spark.channels.footers.making import merged_footer, points_in
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.layout import DATA, FOLDERS, LOG, is_checkpoint_path, is_named_by_commits, new_data_path
from pbio_spark.channels.log.state import ChannelInfo, State
from pbio_spark.channels.position import Position
from pbio_spark.channels.presence import subscribers
from pbio_spark.channels.presence.subscribers import Subscriber
from pbio_spark.channels.presence.watch import release
from pbio_spark.channels.publish.submission import to_datetime
from pbio_spark.channels.upkeep.expiry import expired
from pbio_spark.channels.upkeep.folding import folded_files, make_folds
from pbio_spark.errors import PbioError
from pbio_spark.wire import MAGIC

log = logging.getLogger("pbio_spark.channels")

_CHECKPOINTS = 2
"""How many checkpoints are kept, since the newest might be damaged."""


@dataclass(frozen=True, slots=True)
class Removed:
    """The result of a vacuum.

    Attributes:
        channels: the names of channels whose oldest events are no longer kept.
        files: how many files it removed.
        bytes: the bytes of these files.
        subscribers: those that had expired, and are now forgotten.
    """

    channels: tuple[str, ...]
    files: int
    bytes: int
    subscribers: tuple[Subscriber, ...] = ()


def vacuum(history: History, folder: Folder, grace: timedelta, linger: timedelta) -> Removed:
    """Forget expired subscribers, expire events by the `keep` of channels, fold old commits, then remove files without
    kept events and files that were folded.

    Args:
        grace: how long to keep files that no commit names, because a writer may be about to commit them: no commit may
            take longer.
        linger: how long to keep files whose events are elsewhere, or no longer kept, and the files of folded commits,
            because a reader may be reading them (on a local disk open files remain readable).

    Raises PBIO_BAD_OPTION for an invalid or negative span.
    """
    for_writers, for_readers = span_to_microseconds(grace, "grace"), span_to_microseconds(linger, "linger")
    state = history.catch_up()
    everyone = subscribers.read_all(folder)
    gone = expired(folder, everyone, time.time_ns() // 1000)
    trims = []
    # A fast clock would expire young events.
    now = history.certain_now() if any(isinstance(one.keep, int) for one in state.channels.values()) else 0
    for info in list(state.channels.values()):
        those = [one for one in everyone if one.channel == info.id and not one.is_anonymous]
        # If all have expired, their positions still count: otherwise unseen events would be removed.
        present = [one for one in those if one not in gone] or those
        before = _before(history, info, [one.position for one in present], now)
        end = _last_end(history, info, before)
        if end is not None:
            trims.append(Trim(info.id, before, end))
    trimmed = _trim(history, trims)
    make_folds(history, folder)
    old = _unneeded(history, folder, for_writers, for_readers) + folded_files(history, folder, for_readers)
    removed = [size for path in old if (size := folder.size(path)) is not None]
    for path in old:
        folder.remove(path)
    # A subscriber that returned meanwhile is kept.
    forgotten = [one for one in gone if subscribers.read(folder, one.channel, one.name) == one]
    for one in forgotten:
        log.warning("the subscriber %r, last seen %s, has expired", one.name, to_datetime(one.seen).isoformat())
        subscribers.forget(folder, one.channel, one.name)
    for info in list(history.catch_up().channels.values()):
        if info.derivation is not None and (info.derivation.is_temporary or info.is_watched):
            release(history, folder, info.id)
    return Removed(trimmed, len(removed), sum(removed), tuple(forgotten))


def _unneeded(history: History, folder: Folder, grace: int, linger: int) -> list[str]:
    """The files that are no longer needed and whose time, in microseconds, has passed."""
    let_go = _let_go(history)
    now = time.time_ns() // 1000
    old = [path for path, since in let_go.items() if since is not None and now - since >= linger]
    strangers = folder.strangers()
    own = [path for sub in (DATA, LOG) for name in folder.names(sub) if (path := f"{sub}/{name}") not in strangers]
    unnamed = [path for path in own if is_named_by_commits(path) and path not in let_go]
    for sub in FOLDERS:
        unnamed += [f"{sub}/{name}" for name in folder.names(sub, temporary=True)]
    old += [path for path in own if is_checkpoint_path(path)][:-_CHECKPOINTS]
    # By the store's clock: if this machine's were ahead, a file about to be committed would be removed.
    store_time = folder.now()
    return old + [path for path in unnamed if _age(folder, path, store_time) >= grace / 1e6]


def compact(history: History, folder: Folder, small: int, target: int) -> int:
    """Merge data files of less than `small` bytes into files of about `target` bytes; returns how many.

    The old files stay until the next vacuum. Merged files are not merged again. Old commits are folded as well, so that
    they can be read together. Raises PBIO_BAD_OPTION for an invalid number of bytes.
    """
    for what, size in (("small", small), ("target", target)):
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise PbioError(
                "PBIO_BAD_OPTION", f"{what} cannot be {str(size)[:80]!r}", hint="a number of bytes, 1 << 20"
            )
    batch: list[_Small] = []
    size = count = 0
    moved = {
        path for _, entry in _entries(history) if isinstance(entry.change, Compact) for path, _ in entry.change.parts
    }
    state = history.state
    for version, entry in _entries(history):
        if not isinstance(entry.change, Data):
            continue
        groups = history.all_groups(entry.change)
        for number, file in enumerate(entry.change.files):
            own = groups.channels(number)
            rows = groups.rows[groups.rows["file"] == number]
            if file.bytes < small and file.path not in moved and is_alive(own, version, state):
                batch.append(_Small(version, file, rows["start"], rows["end"]))
                size += file.bytes
        if size >= target:
            count += _put_together(history, folder, batch)
            batch, size = [], 0
    count += _put_together(history, folder, batch)
    make_folds(history, folder)
    return count


class _Small(NamedTuple):
    """A data file to be merged with others: its commit, and where its groups are."""

    version: int
    file: DataFile
    starts: Int64s
    ends: Int64s


def _put_together(history: History, folder: Folder, files: Sequence[_Small]) -> int:
    if len(files) < 2:
        return 0
    data = bytearray(MAGIC)
    parts = []
    starts, ends, inner = [], [], list[int]()
    for version, file, own_starts, own_ends in files:
        old = folder.read(file.path)
        if old is None and _is_done_with(history, version, file):
            return 0  # another compaction or a vacuum was faster; the next one finds the rest
        if old is None or len(old) != file.bytes:
            bad(f"{file.path} is not the file that was committed")
        shift = len(data) - len(MAGIC)
        parts.append((file.path, shift))
        starts.append(own_starts + shift)
        ends.append(own_ends + shift)
        inner += [offset + shift for offset in points_in(old)]
        data += old[len(MAGIC) :]
    data += merged_footer(data, np.concatenate(starts), np.concatenate(ends), inner)
    path = new_data_path()
    folder.add(path, bytes(data))
    change = Compact(files[0].version, files[-1].version, DataFile(path, len(data)), tuple(parts))

    def put(_: State) -> Compact | None:
        moved = any(history.located(one.version, one.file.path) is not None for one in files)
        return None if moved else change

    if history.commit(put) is None:
        folder.remove(path)  # another one was faster, and readers may use its file
        return 0
    return len(files)


def _is_done_with(history: History, version: int, file: DataFile) -> bool:
    """Whether, according to the log, a file's events are now elsewhere or no longer kept."""
    state = history.catch_up()
    entry = history.entry(version)
    if history.located(version, file.path) is not None or entry is None or not isinstance(entry.change, Data):
        return True
    own = history.all_groups(entry.change).channels(entry.change.files.index(file))
    return not is_alive(own, version, state)


def _trim(history: History, trims: Sequence[Trim]) -> tuple[str, ...]:
    """Commit trims, except for channels dropped or already trimmed by another vacuum; returns the names."""
    names: tuple[str, ...] = ()

    def trim(state: State) -> Trim | Trims | None:
        nonlocal names
        channels = state.channels
        left = [one for one in trims if one.channel in channels and channels[one.channel].first < one.before]
        names = tuple(channels[one.channel].name for one in left)
        return Trims(tuple(left)) if len(left) > 1 else left[0] if left else None

    history.commit(trim)
    return names


def _before(history: History, info: ChannelInfo, acknowledged: Sequence[Position], now: int) -> int:
    """The first version from which a channel's events must be kept, at a given time."""
    if info.keep == "always" or (info.keep == "subscribed" and not acknowledged):
        return info.first
    if info.keep == "subscribed":
        return max(info.first, min(position.version for position in acknowledged))
    return history.age_ends(now - info.keep, info.first, now)


def _last_end(history: History, info: ChannelInfo, before: int) -> Position | None:
    """The position after a channel's last kept event before a version; None if there is none."""
    for version in range(min(before - 1, info.last), info.first - 1, -1):
        entry = history.entry(version)
        if entry is not None and isinstance(entry.change, Data):
            ends = [group.end_in(version) for group in history.groups(entry.change, {info.id})]
            if ends:
                return max(ends)
    return None


def _let_go(history: History) -> dict[str, int | None]:
    """The files that commits name, and since when they are unneeded, in microseconds; None if needed."""
    state = history.catch_up()
    channels: dict[int, int] = {}
    needed: dict[str, int | None] = {}
    files: dict[str, tuple[bool, set[int]]] = {}
    places: dict[str, tuple[str, int]] = {}
    replaced: dict[str, int] = {}
    for version, entry in _entries(history):
        match entry.change:
            case Trim(channel) | Drop(channel):
                channels[channel] = entry.time
            case Trims(trims):
                channels |= {one.channel: entry.time for one in trims}
            case Compact(_, _, file, parts):
                files[file.path] = False, set()
                # Old programs could merge a file twice, and a reader may know only the first merge.
                replaced |= {places[path][0]: entry.time for path, _ in parts if path in places}
                places |= {path: (file.path, entry.time) for path, _ in parts}
            case Data() as data:
                for beside in filter(None, (data.directory, data.states_file)):
                    needed[beside.path] = None  # reading the log from its start needs it
                groups = history.all_groups(data)
                if data.numbers is not None:
                    files[data.numbers.path] = _whose(set(groups.rows["channel"].tolist()), version, state)
                for n, file in enumerate(data.files):
                    files[file.path] = _whose(groups.channels(n), version, state)
    let_go = needed
    for path, (alive, own) in files.items():
        place, moved = places.get(path, (path, 0))
        let_go[path] = None if alive and place == path else max(moved, *(channels.get(one, 0) for one in own), 0)
    for path, (place, _) in places.items():
        since, so_far = let_go.get(path), let_go.get(place)
        # The file of a compaction is needed as long as one of its parts is.
        alive = path in files and files[path][0]
        let_go[place] = None if alive or so_far is None or since is None else max(since, so_far)
    for place, since in replaced.items():
        so_far = let_go.get(place)
        let_go[place] = None if so_far is None else max(since, so_far)
    return let_go


def _whose(channels: set[int], version: int, state: State) -> tuple[bool, set[int]]:
    return is_alive(channels, version, state), channels


def is_alive(channels: Iterable[int], version: int, state: State) -> bool:
    """Whether the events of some channels in a commit are kept."""
    return any(channel in state.channels and version >= state.channels[channel].first for channel in channels)


def _entries(history: History) -> Iterator[tuple[int, Commit]]:
    for version in range(1, history.catch_up().version + 1):
        entry = history.entry(version)
        if entry is None:
            bad(f"commit {version} is missing")
        yield version, entry


def _age(folder: Folder, name: str, now: float) -> float:
    """The age of a file in seconds; less than any grace if the file is already gone."""
    try:
        return now - folder.modified(name)
    except FileNotFoundError:
        return -1
