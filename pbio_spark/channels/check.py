"""All that is wrong with a space: its log from the first commit on, and every event that a commit names."""

from __future__ import annotations

from collections.abc import Iterator

from pbio_spark.channels.entries import Create, Data, DataFile, Entry, Group, bad
from pbio_spark.channels.log import FolderLog, entry_name
from pbio_spark.channels.space import ChannelSpace
from pbio_spark.channels.state import State, state_to_json
from pbio_spark.channels.submission import stored_format
from pbio_spark.channels.subscription import json_to_subscriber
from pbio_spark.errors import PbioError
from pbio_spark.wire import Item, Kind, Scanner, decode


def problems(space: ChannelSpace) -> Iterator[PbioError]:
    """What is wrong, in the order of the log. Behind a commit that cannot be, nothing is known, and nothing is told."""
    checkpoints = dict(FolderLog(space.folder).checkpoints())
    state = State(space.id)
    while True:
        version = state.version + 1
        try:
            entry = space.history.entry(version)
            if entry is None:
                break
            state.apply(entry)
        except PbioError as error:
            yield error.at(file=entry_name(version))
            return
        yield from _entry_problems(space, entry)
        if checkpoints.pop(version, None) not in (None, state_to_json(state)):
            yield PbioError("PBIO_BAD_LOG", f"the checkpoint of version {version} is not what the commits add up to")
    lost = [found for found in FolderLog(space.folder).versions() if found > state.version]
    if lost:
        yield PbioError("PBIO_BAD_LOG", f"the commit {state.version + 1} is missing, but there is {lost[0]}")
    for version in checkpoints:
        yield PbioError("PBIO_BAD_LOG", f"there is a checkpoint of version {version}, but no such commit")
    for name in space.folder.names("_subscribers"):
        path = f"_subscribers/{name}"
        try:
            json_to_subscriber(space.folder.read(path) or b"")
        except PbioError as error:
            yield error.at(file=path)


def leftovers(space: ChannelSpace) -> list[str]:
    """The data files that no commit names: of writers that are still at work, or that died."""
    found = {f"data/{name}" for name in space.folder.names("data")}
    for version in range(1, space.history.catch_up().version + 1):
        entry = space.history.entry(version)
        if entry is not None and isinstance(entry.change, Data):
            found -= {file.path for file in entry.change.files}
    return sorted(found)


def _entry_problems(space: ChannelSpace, entry: Entry) -> Iterator[PbioError]:
    match entry.change:
        case Create(_, format_id):
            try:
                stored_format(format_id, space.formats)
            except PbioError as error:
                yield error
        case Data() as data:
            for number, file in enumerate(data.files):
                try:
                    _check_file(space, file, [group for group in data.groups if group.file == number])
                except PbioError as error:
                    yield error.at(file=file.path)


def _check_file(space: ChannelSpace, file: DataFile, groups: list[Group]) -> None:
    """Raise the first thing that is wrong with a data file, or with what a commit says of it."""
    size = space.folder.size(file.path)
    if size is None:
        bad("a data file is missing that the log names")
    if size != file.bytes:
        bad(f"the data file has {size} bytes, and the log says {file.bytes}")
    with space.folder.open(file.path) as source:
        scanner = Scanner(source, file.path)
        records = [item for item in scanner.items() if item.kind is Kind.DATA]
        for group in groups:
            _check_group(space, scanner, group, records[group.ordinal : group.ordinal + group.count])


def _check_group(space: ChannelSpace, scanner: Scanner, group: Group, records: list[Item]) -> None:
    form = stored_format(group.format, space.formats)
    if len(records) < group.count or (records[0].offset, records[-1].end) != (group.start, group.end):
        bad(f"the {group.count} events from byte {group.start} to {group.end} are not there")
    for item in records:
        if item.format_id != form.id:
            bad(f"an event is of format {item.format_id.hex()}, and the log says {group.format}")
        decode(form, scanner.read(item), strict=False, file=scanner.window.name, offset=item.payload)
