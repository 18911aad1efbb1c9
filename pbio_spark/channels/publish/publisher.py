"""Prepared events -> data files and one commit.

The steps of a commit, each safe to die between:

1. Catch up with the log, and leave out events that it has already.
2. Write the data files durably; nothing refers to them yet. The tasks of a cluster have done that before.
   What must be derived in order is derived now, see `late`, and written to one more file.
3. Append the commit at the next version. From here on all of it is published.

A writer that loses the race for a version starts again; its data files stay if the same events are still to be
published, and derived as they were.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from pbio_spark.channels.commits.checked import bad
from pbio_spark.channels.commits.commit import LONGEST_TURN, Data, Transaction, Turn
from pbio_spark.channels.commits.contents import Contents
from pbio_spark.channels.commits.groups import Groups, Int64s
from pbio_spark.channels.derive.deriver import Deriver
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History, pause
from pbio_spark.channels.log.state import State
from pbio_spark.channels.publish.late import Late, now, packed_to_data
from pbio_spark.channels.publish.packed import Packed, contents_of_all, pack, unpack
from pbio_spark.channels.publish.prepare import Prepared
from pbio_spark.errors import PbioError
from pbio_spark.formats.store import FormatStore

log = logging.getLogger("pbio_spark.channels")

_LOST, _PATIENCE = 3, 5.0
"""How many attempts a writer loses, and how many seconds it keeps trying, before it takes a turn."""


@dataclass(frozen=True, slots=True)
class Published:
    """The result of a publication.

    Attributes:
        version: of the commit; None if there was nothing new to publish.
        events: how many events it published.
        known: how many had been published before, and were left out.
    """

    version: int | None
    events: int
    known: int


class _Parcel:
    """Events on their way into the log, in memory or in a data file that a task wrote."""

    def __init__(self, events: Sequence[Prepared] | Packed, *, has_number: bool) -> None:
        self.packed = events if isinstance(events, Packed) else None
        self._prepared = None if isinstance(events, Packed) else list(events)
        self.contents = Contents()
        """What was submitted, whether or not some of it is known, if the batch has a number."""
        if has_number:
            self.contents = events.contents if isinstance(events, Packed) else contents_of_all(events)

    @property
    def own(self) -> Groups:
        """The groups of what is still to be published."""
        if self.packed is not None:
            return self.packed.own
        assert self._prepared is not None
        return Groups.concat(one.groups for one in self._prepared)

    def pack(self, publisher: Publisher, state: State, known: Mapping[int, int]) -> Packed | None:
        """The data file as it is to be committed, without what is known; None if nothing is left."""
        packed = self.packed
        if packed is not None:
            channels = packed.own.rows["channel"].tolist()
            is_known = packed.descendants == state.descendants(channels) and state.is_current(packed.made, now())
            if not known and is_known:
                return packed
            self._prepared = self._prepared or unpack(publisher.folder, publisher.formats, packed, packed.own)
            self.discard(publisher.folder)
        assert self._prepared is not None
        self._prepared = _without(self._prepared, known)
        if self._prepared:
            self.packed = pack(publisher.folder, publisher.deriver, self._prepared, state)
        return self.packed

    def discard(self, folder: Folder) -> None:
        """Remove the data file, which nothing refers to; if it stays, `vacuum` takes it for that of a dead writer."""
        if self.packed is not None:
            with suppress(PbioError):
                folder.remove(self.packed.file.path)
        self.packed = None


@dataclass(frozen=True, slots=True)
class Publisher:
    """Publishes events in one space.

    Attributes:
        folder, history, formats: of the space.
        deriver: makes the events of derived channels.
    """

    folder: Folder
    history: History
    formats: FormatStore
    deriver: Deriver

    def publish(
        self,
        events: Sequence[Sequence[Prepared] | Packed],
        transaction: tuple[str, int] | None = None,
        *,
        fail_on_loss: bool = True,
        is_gapless: bool = False,
        after: int | None = None,
    ) -> Published:
        """Publish what is new of some events, and what channels derive from them: all of it or nothing.

        Args:
            events: those of one data file, each, or such files as tasks have written them.
            fail_on_loss: whether it is an error if other events were published as the batch of that number; else the
                batch is taken as published.
            is_gapless: whether it is one, too, if none were, though batches of higher numbers are published. Otherwise
                that number was passed over, and counts as known.
            after: the number of the batch that must be the last one before; -1 if there must be none.

        Raises:
            PbioError: PBIO_UNKNOWN_CHANNEL if a channel has been dropped in the meantime; PBIO_OUT_OF_ORDER if a
                producer's events come in another order than their numbers say; PBIO_OTHER_BATCH, also
                for another batch than `after`; PBIO_FILE_SYSTEM and
                the like. PBIO_OUTCOME_UNKNOWN, where the file system failed in a way that leaves open whether the
                events are published: to publish them again with the same numbers, or the same transaction, is safe.
        """
        parcels = [_Parcel(one, has_number=transaction is not None) for one in events]
        batch = _Batch(self, parcels, transaction, fail_on_loss, is_gapless, after)
        holder, first, lost, longest = uuid.uuid4().hex, time.monotonic(), 0, 0.0

        def take_turn(_: State) -> Turn:
            return Turn(holder, min(max(1000, int(4000 * longest)), LONGEST_TURN))

        while True:
            begun = time.monotonic()
            with self.history.lock:
                published = batch.try_once(holder)
            if published is not None:
                return published
            took = time.monotonic() - begun
            longest = max(longest, took)
            if lost >= _LOST and time.monotonic() - first > _PATIENCE:
                # Others, or changes of what is derived, have always been faster. A writer must not starve.
                self.history.commit(take_turn)
            else:
                pause(lost, took)
            lost += 1


class _Batch:
    """All that one commit is to publish."""

    def __init__(
        self,
        publisher: Publisher,
        parcels: Sequence[_Parcel],
        transaction: tuple[str, int] | None,
        fail_on_loss: bool,
        is_gapless: bool,
        after: int | None,
    ) -> None:
        self._publisher = publisher
        self._history = publisher.history
        self._folder = publisher.folder
        self._parcels = parcels
        self._transaction = transaction
        self._fail_on_loss = fail_on_loss
        self._is_gapless = is_gapless
        self._after = after
        self._total = sum(parcel.own.events for parcel in parcels)
        self._packed: list[Packed] = []
        self._data: Data | None = None
        self._late = Late(publisher.folder, publisher.formats, publisher.deriver)

    def try_once(self, holder: str) -> Published | None:
        """Commit it on the log as it is now; None if another commit was faster, or it is another writer's turn."""
        state = self._history.catch_up()
        transaction = self._transaction and self._next_transaction(*self._transaction, state)
        if self._transaction is not None and transaction is None:
            self._discard()
            return Published(None, 0, self._total)
        known = _known([parcel.own for parcel in self._parcels], state)
        made = [parcel.pack(self._publisher, state, own) for parcel, own in zip(self._parcels, known, strict=True)]
        packed = [one for one in made if one is not None]
        if not packed:
            self._late.discard()
            return Published(None, 0, self._total)
        is_late_new = self._late.derive(packed, state)
        if self._data is None or is_late_new or [*map(id, packed)] != [*map(id, self._packed)]:
            self._packed = packed
            data = packed_to_data(packed, self._late, state, self._publisher.deriver.source.name)
            self._data = self._history.with_directory(data)
        version = self._history.append(replace(self._data, control=state.control, transaction=transaction), holder)
        new = sum(one.own.events for one in packed)
        return None if version is None else Published(version, new, self._total - new)

    def _next_transaction(self, application: str, number: int, state: State) -> Transaction | None:
        """What the commit says of the batch; None if the same batch has been published. Raises PBIO_OTHER_BATCH."""
        contents = sum((parcel.contents for parcel in self._parcels), Contents())
        last, version = state.transactions.get(application, (-1, 0))
        if number > last and self._after not in (None, last):
            self._discard()
            reason = f"the last batch of {application[:80]!r} is {last}, not {self._after}: it has another publisher"
            raise PbioError("PBIO_OTHER_BATCH", reason, hint="nothing is published; one program at a time may do so")
        if number > last:
            return Transaction(application, number, version, contents)
        # An old checkpoint of the log does not say where the last one is.
        published = self._find_transaction(application, number, version) if version else Transaction(application, last)
        is_known = not self._is_gapless if published is None else published.contents in (None, contents)
        if is_known:
            return None
        if not self._fail_on_loss:
            log.warning("taking batch %d of %s as published, though its events differ", number, application)
            return None
        self._discard()
        raise _other_batch(application, number, contents, published, last)

    def _discard(self) -> None:
        self._late.discard()
        for parcel in self._parcels:
            parcel.discard(self._folder)

    def _find_transaction(self, application: str, number: int, version: int) -> Transaction | None:
        """The published batch of a number, looked for from an application's last commit on; None if there is none."""
        while version:
            entry = self._history.entry(version)
            found = entry.change.transaction if entry is not None and isinstance(entry.change, Data) else None
            if found is None or found.application != application:
                bad(f"commit {version} does not publish a batch of {application[:80]!r}")
            if found.number <= number:
                return found if found.number == number else None
            if found.contents is None:
                return Transaction(application, number)  # what was published before is unknown
            version = found.before
        return None


def _other_batch(
    application: str, number: int, contents: Contents, published: Transaction | None, last: int
) -> PbioError:
    """PBIO_OTHER_BATCH: none of the events is published now, and whether some were before is unknown."""
    was = "was not published"
    if published is not None and published.contents is not None:
        events = published.contents.events
        now = "different ones" if events == contents.events else str(contents.events)
        was = f"was published with {events} events, and now has {now}"
    return PbioError(
        "PBIO_OTHER_BATCH",
        f"batch {number} of {application[:80]!r} {was}; the last one published is {last}",
        hint="nothing is published. Either the checkpoint is older than the space (restored, or files were lost), "
        "or the query makes different rows each time (rand, uuid). Start it with a new checkpoint, from the first "
        "event that the space does not have; failOnDataLoss=false takes the batch as published, for one run",
    )


def _without(events: Sequence[Prepared], known: Mapping[int, int]) -> list[Prepared]:
    """The events that are new; `known` counts the groups of all of them through."""
    new, first = [], 0
    for one in events:
        count = len(one.groups)
        left = one.without({i - first: known[i] for i in range(first, first + count) if i in known})
        new += [left] if len(left.groups) else []
        first += count
    return new


def _known(parts: Sequence[Groups], state: State) -> list[dict[int, int]]:
    """How many of the first events of each group are known: published before, or repeated from an earlier group."""
    for channel in {channel for part in parts for channel in part.rows["channel"].tolist()}:
        if channel not in state.channels:
            raise PbioError("PBIO_UNKNOWN_CHANNEL", "the channel has been dropped")
    found: list[dict[int, int]] = []
    seen: dict[tuple[int, str], list[Int64s]] = {}
    for part in parts:
        known = {}
        for i, channel, producer, first, _ in part.numbered():
            before = seen.setdefault((channel, producer), [])
            done = state.sequences.get((channel, producer), -1)
            latest = max((int(numbers[-1]) for numbers in before), default=-1)
            numbers = part.numbers(i)
            if first <= latest:
                late = numbers[(numbers > done) & (numbers <= latest)]
                missed = late[~np.isin(late, np.concatenate(before))]
                if len(missed):
                    raise PbioError(
                        "PBIO_OUT_OF_ORDER",
                        f"event {missed[0]} of producer {producer[:80]!r} comes after its event {latest}",
                        hint="sort the events of each producer by their numbers; in Spark, "
                        "df.repartition(producer).sortWithinPartitions(producer, sequence)",
                    )
            if first <= max(done, latest):
                known[i] = int(np.searchsorted(numbers, max(done, latest), "right"))
            before.append(numbers)
        found.append(known)
    return found
