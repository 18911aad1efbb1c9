"""Submissions -> one data file and one commit.

The steps of a commit, each safe to die between:

1. Catch up with the log, and leave out what it has already.
2. Write the data file, and bring it to the disk. Nobody knows of it yet.
3. Append the commit at the next version. From here on all of it is published.

Whoever loses the race for a version starts again; the data file stays if the same events are still to be published.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from pbio_spark.channels.derivation import Deriver
from pbio_spark.channels.entries import Data, DataFile, Group
from pbio_spark.channels.files import Folder
from pbio_spark.channels.history import History
from pbio_spark.channels.state import State
from pbio_spark.channels.submission import Prepared
from pbio_spark.errors import PbioError
from pbio_spark.wire import FileWriter


@dataclass(frozen=True, slots=True)
class Published:
    """What came of a publication.

    Attributes:
        version: of the commit; None if there was nothing new to publish.
        events: how many events it published.
        known: how many had been published before, and were left out.
    """

    version: int | None
    events: int
    known: int


def publish(
    history: History,
    folder: Folder,
    deriver: Deriver,
    submissions: Sequence[Prepared],
    transaction: tuple[str, int] | None,
) -> Published:
    """Publish what is new of the submissions, and what channels derive from it: all of it or nothing.

    Raises:
        PbioError: PBIO_UNKNOWN_CHANNEL if a channel has been dropped in the meantime.
        OSError: the file system failed, and it is not known whether the events are published. To publish them again
            with the same producer and sequence numbers, or the same transaction, is safe.
    """
    total = sum(submission.count for submission in submissions)
    written: tuple[list[int], Data] | None = None
    with history.lock:
        while True:
            state = history.catch_up()
            firsts = _firsts(submissions, state, transaction)
            new = [s.without(first) for s, first in zip(submissions, firsts, strict=True) if first < s.count]
            if written is not None and (written[0] != firsts or written[1].control != state.control):
                folder.remove(written[1].files[0].path)
                written = None
            if not new:
                return Published(None, 0, total)
            if written is None:
                derived, refused = deriver.derive(new, state)
                files, groups = _write(folder, [*new, *derived])
                written = firsts, Data(state.control, files, groups, transaction, refused)
            version = history.append(written[1])
            if version is not None:
                events = sum(one.count for one in new)
                return Published(version, events, total - events)


def _firsts(submissions: Sequence[Prepared], state: State, transaction: tuple[str, int] | None) -> list[int]:
    """The index of the first event of each submission that is not yet published."""
    if transaction is not None and transaction[1] <= state.transactions.get(transaction[0], -1):
        return [submission.count for submission in submissions]
    firsts = []
    last: dict[tuple[int, str], int] = {}
    for submission in submissions:
        if submission.channel not in state.channels:
            raise PbioError("PBIO_UNKNOWN_CHANNEL", "the channel has been dropped")
        first = 0
        if submission.producer is not None and submission.sequence is not None:
            key = submission.channel, submission.producer
            done = last.get(key, state.sequences.get(key, -1))
            first = min(max(done + 1 - submission.sequence, 0), submission.count)
            last[key] = max(done, submission.sequence + submission.count - 1)
        firsts.append(first)
    return firsts


def _write(folder: Folder, events: Sequence[Prepared]) -> tuple[tuple[DataFile, ...], tuple[Group, ...]]:
    """Write the data file, its events grouped by channel."""
    file = io.BytesIO()
    writer = FileWriter(file)
    groups: list[Group] = []
    ordinal = 0
    for one in sorted(events, key=lambda one: one.channel):
        writer.describe(one.format)
        start = file.tell()
        file.write(one.encoded.buffer)
        made = one.format.id.hex(), one.producer, one.sequence, one.event_time
        groups.append(Group(one.channel, 0, start, file.tell(), ordinal, one.count, *made))
        ordinal += one.count
    path = f"data/{uuid.uuid4().hex}.pbio"
    folder.create(path, file.getvalue())
    return (DataFile(path, file.tell()),), tuple(groups)
