"""Everything that is wrong with a space: its log from the first commit on, and every event in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os import SEEK_END
from typing import BinaryIO

from pbio_spark.channels.commits.checked import COPY, PUT_BACK, VERIFY, bad
from pbio_spark.channels.commits.commit import Compact, Create, Data
from pbio_spark.channels.commits.groups import Group
from pbio_spark.channels.footers.footer import DamagedFooterError, read_footer
from pbio_spark.channels.footers.making import file_to_footer
from pbio_spark.channels.log.layout import DATA, commit_path
from pbio_spark.channels.log.log import FolderLog
from pbio_spark.channels.log.state import State
from pbio_spark.channels.log.state_json import is_checkpoint
from pbio_spark.channels.position import Position
from pbio_spark.channels.presence import subscribers
from pbio_spark.channels.publish.submission import stored_format
from pbio_spark.channels.space import ChannelSpace
from pbio_spark.channels.upkeep.retention import is_alive
from pbio_spark.errors import PbioError
from pbio_spark.wire import MAGIC, Item, ItemKind, Scanner, decode


def problems(space: ChannelSpace) -> Iterator[PbioError]:
    """Problems of the log, then of the files of sound commits, then of the rest. Each file is fetched once.

    Nothing is reported after an invalid commit, since nothing can be known there.
    """
    for problem in _problems(space):
        problem.hint = {VERIFY: None, PUT_BACK: COPY}.get(problem.hint or "", problem.hint)  # verify is running
        yield problem


def _problems(space: ChannelSpace) -> Iterator[PbioError]:
    checkpoints = dict(FolderLog(space.folder).checkpoints())
    state = State(space.id)
    places: dict[str, tuple[str, int]] = {}
    named: set[str] = set()
    is_whole = False
    with suppress(PbioError):
        space.history.check_end(1)  # without a checkpoint, only this discovers that the log begins with a fold
    try:
        while (entry := space.history.entry(state.version + 1)) is not None:
            state.apply(space.history.filled(entry))
            if isinstance(entry.change, Data):
                paths = {file.path for file in entry.change.files}
                for path in sorted(paths & named):
                    yield PbioError("PBIO_BAD_LOG", f"commit {state.version} names a file of another commit", file=path)
                named |= paths
            if isinstance(entry.change, Compact):
                places |= {path: (entry.change.file.path, shift) for path, shift in entry.change.parts}
            kept = checkpoints.pop(state.version, None)
            if kept is not None and not is_checkpoint(kept, state):
                reason = f"the checkpoint of version {state.version} differs from the state after its commits"
                yield PbioError("PBIO_BAD_LOG", reason)
    except PbioError as error:
        yield error.at(file=commit_path(state.version + 1))
    else:
        is_whole = True
        lost = [first for first, _ in FolderLog(space.folder).spans() if first > state.version]
        if lost:
            reason = f"commit {state.version + 1} is missing, but commit {lost[0]} exists"
            yield PbioError("PBIO_BAD_LOG", reason, hint=COPY)
        for version in checkpoints:
            reason = f"commit {version} is missing, but a checkpoint of it exists"
            yield PbioError("PBIO_BAD_LOG", reason, hint=COPY)
    parts: dict[str, list[tuple[int, int]]] = {}
    for version in range(1, state.version + 1):
        entry = space.history.entry(version)
        match None if entry is None else entry.change:
            case Create(_, format_id):
                try:
                    stored_format(format_id, space.formats)
                except PbioError as error:
                    yield error
            case Data(_, files):
                for number, file in enumerate(files):
                    parts.setdefault(places.get(file.path, (file.path, 0))[0], []).append((version, number))
    for path in sorted({places.get(path, (path, 0))[0] for path in named}):
        parts.setdefault(path, [])
    for path, own in parts.items():
        try:
            yield from _file_problems(space, path, _parts(space, own, state, places))
        except PbioError as error:
            yield error.at(file=path)
    for path in subscribers.files(space.folder):
        try:
            found = subscribers.read_file(space.folder, path)
            if is_whole and found is not None and found.position > Position(state.version + 1):
                bad(f"subscriber {found.name!r} is at {found.position}, which is after the last commit")
        except PbioError as error:
            yield error.at(file=path)


def leftovers(space: ChannelSpace) -> list[str]:
    """The data files that no commit names, left by active or dead writers."""
    found = {f"{DATA}/{name}" for name in space.folder.names(DATA)}.difference(space.folder.strangers())
    for version in range(1, space.history.catch_up().version + 1):
        entry = space.history.entry(version)
        match None if entry is None else entry.change:
            case Data(_, files):
                found -= {file.path for file in files}
            case Compact(_, _, file):
                found -= {file.path}
    return sorted(found)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one commit says of a data file.

    Attributes:
        length: of the file as it was committed.
        shift: of its items, if it is a part of another file.
        groups: of its events.
    """

    length: int
    shift: int | None
    groups: list[Group]


def _parts(
    space: ChannelSpace, own: Iterable[tuple[int, int]], state: State, places: Mapping[str, tuple[str, int]]
) -> Iterator[_Part]:
    """What commits say of a data file: those with events of channels that still exist.

    Args:
        own: the commits, and the number of the file in each.
    """
    groups: list[Group] = []
    last = 0
    for version, number in own:
        entry = space.history.entry(version)
        if entry is None or not isinstance(entry.change, Data):
            continue
        if version != last:
            groups, last = list(space.history.groups(entry.change)), version
        here = [group for group in groups if group.file == number]
        if is_alive({group.channel for group in here}, version, state):
            file = entry.change.files[number]
            yield _Part(file.bytes, places.get(file.path, (file.path, None))[1], here)


def _file_problems(space: ChannelSpace, path: str, parts: Iterable[_Part]) -> Iterator[PbioError]:
    """Errors of a data file, which is fetched once: of the events that commits say it has, then of its footer."""
    with space.folder.fetched(path) as source:
        for part in parts:
            try:
                _check_part(space, path, source, part)
            except PbioError as error:
                yield error.at(file=path)
        if source is not None:
            yield from _footer_problems(space.folder.path(path), source)


def _check_part(space: ChannelSpace, path: str, source: BinaryIO | None, part: _Part) -> None:
    """Raise the first problem of a data file, or of its description in a commit."""
    if source is None:
        bad("a data file that the log names is missing", COPY)
    size, length, shift = source.seek(0, SEEK_END), part.length, part.shift
    if (size != length) if shift is None else (size < length + shift):
        bad(f"the data file has {size} bytes instead of {length}", COPY)
    scanner = Scanner(source, path, offset=0 if shift is None else shift + len(MAGIC))
    records = [item for item in scanner.items(length + (shift or 0)) if item.kind is ItemKind.DATA]
    for group in part.groups:
        group.resolved()
        items = records[group.ordinal : group.ordinal + group.count]
        _check_group(space, scanner, group, shift or 0, items)


def _footer_problems(where: str, source: BinaryIO) -> Iterator[PbioError]:
    """Errors in the footer of a data file. Files with bad events, which are problems of their own, are skipped."""
    size = source.seek(0, SEEK_END)

    def read(start: int, length: int) -> bytes:
        source.seek(start)
        return source.read(length)

    try:
        footer = read_footer(read, size)
    except DamagedFooterError as error:
        hint = "no event is lost, but filters skip nothing of the file; restore it from a copy of the space"
        reason = f"the footer of the file {error}"
        yield PbioError("PBIO_BAD_INDEX", reason, file=where, offset=size, hint=hint)
        return
    if footer is None:
        return
    found = file_to_footer(source, where, int(footer.offsets[-1]), footer.offsets[:-1].tolist())
    if found is None:
        return
    hint = "filters may miss events: read with skipBlocks=false, and restore the file from a copy of the space"
    if footer.ordinals.tolist() != found.ordinals.tolist() or not set(footer.formats) <= set(found.formats):
        reason = "the footer and the file disagree on its events"
        yield PbioError("PBIO_BAD_INDEX", reason, file=where, hint=hint)
        return
    for format_id, said in zip(footer.formats, footer.ranges, strict=True):
        true = found.of(format_id)
        for what, block in () if true is None else said.unlike(true):
            start = int(footer.offsets[block])
            reason = f"the footer is wrong about {what} of the events of format {format_id} from offset {start} on"
            yield PbioError("PBIO_BAD_INDEX", reason, file=where, offset=start, hint=hint)


def _check_group(space: ChannelSpace, scanner: Scanner, group: Group, shift: int, records: list[Item]) -> None:
    form = stored_format(group.format, space.formats)
    place = group.start + shift, group.end + shift
    if len(records) < group.count or (records[0].offset, records[-1].end) != place:
        bad(f"the {group.count} events from byte {place[0]} to {place[1]} are missing", COPY)
    for item in records:
        if item.format_id != form.id:
            bad(f"an event has format {item.format_id.hex()} instead of {group.format}", COPY)
        decode(form, scanner.read(item), strict=False, file=scanner.window.name, offset=item.payload)
