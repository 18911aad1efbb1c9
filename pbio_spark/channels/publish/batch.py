"""The content of one commit, recomputed whenever the log moves on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pbio_spark.channels.commits.checked import bad
from pbio_spark.channels.commits.commit import Data, Transaction
from pbio_spark.channels.commits.contents import Contents
from pbio_spark.channels.commits.groups import Groups
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.state import State
from pbio_spark.channels.publish.late import Late, now, packed_to_data
from pbio_spark.channels.publish.packed import Packed, contents_of_all, pack, unpack
from pbio_spark.channels.publish.prepare import Prepared
from pbio_spark.errors import PbioError

if TYPE_CHECKING:
    from pbio_spark.channels.publish.publisher import Publisher

log = logging.getLogger("pbio_spark.channels")


@dataclass(frozen=True, slots=True)
class Published:
    """The result of a publication.

    Attributes:
        version: of the commit; None if there was nothing new to publish.
        events: how many events it published.
        known: how many had already been published, and were left out.
    """

    version: int | None
    events: int
    known: int


Unless: TypeAlias = "Callable[[State], Published | None]"
"""Tells, by the state of the log, whether a batch need not be published, and its result."""


class _Parcel:
    """Events on their way into the log, in memory or in a data file that a task wrote."""

    def __init__(self, events: Sequence[Prepared] | Packed, *, has_number: bool) -> None:
        self.packed = events if isinstance(events, Packed) else None
        self._prepared = None if isinstance(events, Packed) else list(events)
        self.contents = Contents()
        """The contents of what was submitted, known events included, if the batch has a number."""
        if has_number:
            self.contents = events.contents if isinstance(events, Packed) else contents_of_all(events)

    @property
    def own(self) -> Groups:
        """The groups of the events still to be published."""
        if self.packed is not None:
            return self.packed.own
        assert self._prepared is not None
        return Groups.concat(one.groups for one in self._prepared)

    def pack(self, publisher: Publisher, state: State, known: Mapping[int, int]) -> Packed | None:
        """The data file to commit, without known events; None if nothing is left."""
        packed = self.packed
        if packed is not None:
            channels = packed.own.rows["channel"].tolist()
            is_known = packed.descendants == state.descendants(channels) and state.is_current(packed.made, now())
            if not known and is_known:
                return packed
            self._prepared = self._prepared or unpack(publisher.folder, publisher.formats, packed, packed.own)
            self.discard(publisher.folder)
        assert self._prepared is not None
        self._prepared = without(self._prepared, known)
        if self._prepared:
            self.packed = pack(publisher.folder, publisher.deriver, self._prepared, state)
        return self.packed

    def discard(self, folder: Folder) -> None:
        """Remove the unreferenced data file; if that fails, `vacuum` removes it like a dead writer's."""
        if self.packed is not None:
            with suppress(PbioError):
                folder.remove(self.packed.file.path)
        self.packed = None


@dataclass(frozen=True, slots=True)
class Terms:
    """The conditions of a batch on the log: arguments of `Publisher.publish`."""

    transaction: tuple[str, int] | None = None
    fail_on_loss: bool = True
    is_gapless: bool = False
    after: int | None = None
    unless: Unless | None = None


class Batch:
    """Everything that one commit will publish."""

    def __init__(self, publisher: Publisher, events: Sequence[Sequence[Prepared] | Packed], terms: Terms) -> None:
        self._publisher = publisher
        self._history = publisher.history
        self._folder = publisher.folder
        self._parcels = [_Parcel(one, has_number=terms.transaction is not None) for one in events]
        self._terms = terms
        self._total = sum(parcel.own.events for parcel in self._parcels)
        self._packed: list[Packed] = []
        self._data: Data | None = None
        self._late = Late(publisher.folder, publisher.formats, publisher.deriver)

    def try_once(self, holder: str) -> Published | None:
        """Commit on the current log; None if another commit was faster or it is another writer's turn."""
        state = self._history.catch_up()
        if self._terms.unless is not None and (found := self._terms.unless(state)) is not None:
            self._discard()
            return found
        numbered = self._terms.transaction
        transaction = numbered and self._next_transaction(*numbered, state)
        if numbered is not None and transaction is None:
            self._discard()
            return Published(None, 0, self._total)
        packed = self._pack(state)
        if not packed:
            self._late.discard()
            return Published(None, 0, self._total)
        version = self._append(packed, state, transaction, holder)
        new = sum(one.own.events for one in packed)
        return None if version is None else Published(version, new, self._total - new)

    def _append(self, packed: list[Packed], state: State, transaction: Transaction | None, holder: str) -> int | None:
        """Append the commit of some data files; its version, or None if there is none."""
        is_late_new = self._late.derive(packed, state)
        if self._data is None or is_late_new or [*map(id, packed)] != [*map(id, self._packed)]:
            self._packed = packed
            data = packed_to_data(packed, self._late, state, self._publisher.deriver.source.name)
            self._data = self._history.with_directory(data)
        return self._history.append(replace(self._data, control=state.control, transaction=transaction), holder)

    def _pack(self, state: State) -> list[Packed]:
        """The data files to commit, without known events."""
        known = known_of([parcel.own for parcel in self._parcels], state, state.sequences)
        made = [parcel.pack(self._publisher, state, own) for parcel, own in zip(self._parcels, known, strict=True)]
        return [one for one in made if one is not None]

    def _next_transaction(self, application: str, number: int, state: State) -> Transaction | None:
        """The transaction to commit; None if the same batch has been published. Raises PBIO_OTHER_BATCH."""
        contents = sum((parcel.contents for parcel in self._parcels), Contents())
        last, version = state.transactions.get(application, (-1, 0))
        if number > last and self._terms.after not in (None, last):
            self._discard()
            reason = f"the last batch of {application[:80]!r} is {last}, not {self._terms.after}"
            raise PbioError(
                "PBIO_OTHER_BATCH",
                f"{reason}: it has another publisher",
                hint="nothing is published; only one program at a time may publish for an application",
            )
        if number > last:
            return Transaction(application, number, version, contents)
        # Old checkpoints of the log do not record where the last batch is.
        published = self._find_transaction(application, number, version) if version else Transaction(application, last)
        is_known = not self._terms.is_gapless if published is None else published.contents in (None, contents)
        if is_known:
            return None
        if not self._terms.fail_on_loss:
            log.warning("taking batch %d of %s as published, though its events differ", number, application)
            return None
        self._discard()
        raise _other_batch(application, number, contents, published, last)

    def _discard(self) -> None:
        self._late.discard()
        for parcel in self._parcels:
            parcel.discard(self._folder)

    def _find_transaction(self, application: str, number: int, version: int) -> Transaction | None:
        """The published batch of a number, searched from an application's last commit; None if there is none."""
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
    """PBIO_OTHER_BATCH: no events are published now; whether some were before is unknown."""
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


def without(events: Sequence[Prepared], known: Mapping[int, int]) -> list[Prepared]:
    """The new events; `known` numbers the groups of all events consecutively."""
    new, first = [], 0
    for one in events:
        count = len(one.groups)
        left = one.without({i - first: known[i] for i in range(first, first + count) if i in known})
        new += [left] if len(left.groups) else []
        first += count
    return new


def known_of(parts: Sequence[Groups], state: State, sequences: Mapping[tuple[int, str], int]) -> list[dict[int, int]]:
    """How many of each group's first events are known: already published, or repeated from an earlier group.

    Args:
        sequences: the last published number of each (channel, producer).

    Raises PBIO_UNKNOWN_CHANNEL, PBIO_OUT_OF_ORDER.
    """
    for channel in {channel for part in parts for channel in part.rows["channel"].tolist()}:
        if channel not in state.channels:
            raise PbioError(
                "PBIO_UNKNOWN_CHANNEL",
                "the channel has been dropped",
                hint="open the channel again if it was created again, or publish to another",
            )
    found: list[dict[int, int]] = []
    seen: dict[tuple[int, str], list[tuple[int, Groups, int]]] = {}
    """Groups before, by their last numbers. Few repeat any, so all numbers are looked at only then."""
    for part in parts:
        known = {}
        for i, channel, producer, first, last in part.numbered():
            before = seen.setdefault((channel, producer), [])
            done = sequences.get((channel, producer), -1)
            latest = max((one for one, _, _ in before), default=-1)
            if first <= max(done, latest):
                numbers = part.numbers(i)
                late = numbers[(numbers > done) & (numbers <= latest)]
                if len(late):
                    late = late[~np.isin(late, np.concatenate([own.numbers(j) for _, own, j in before]))]
                if len(late):
                    raise PbioError(
                        "PBIO_OUT_OF_ORDER",
                        f"event {late[0]} of producer {producer[:80]!r} comes after its event {latest}",
                        hint="sort the events of each producer by their numbers; in Spark, "
                        "df.repartition(producer).sortWithinPartitions(producer, sequence)",
                    )
                known[i] = int(np.searchsorted(numbers, max(done, latest), "right"))
            before.append((last, part, i))
        found.append(known)
    return found
