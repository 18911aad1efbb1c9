"""Publications of several programs in one commit, with the same result as separate commits."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pbio_spark.channels.commits.commit import Transaction
from pbio_spark.channels.commits.groups import Groups
from pbio_spark.channels.log.state import State
from pbio_spark.channels.publish.batch import Batch, Published, Terms, known_of, without
from pbio_spark.channels.publish.late import now
from pbio_spark.channels.publish.packed import Packed, pack
from pbio_spark.channels.publish.prepare import Prepared, by_channel
from pbio_spark.errors import PbioError

if TYPE_CHECKING:
    from pbio_spark.channels.publish.publisher import Publisher

Announce: TypeAlias = "Callable[[Sequence[int]], tuple[tuple[str, int], set[int]]]"
"""Takes the indexes of the publications that the next attempt will publish. Returns the application and the new number
of that batch, and which of the publications are withdrawn. The commit of that number has the events of all publications
that were announced under it and not withdrawn, and of no others."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication of another program.

    Attributes:
        events: the events to publish.
        control: the version of the last control change that the program knew of; None if it does not matter.
    """

    events: Sequence[Prepared]
    control: int | None = None


def publish_each(
    publisher: Publisher, handed: Sequence[Publication], announce: Announce
) -> list[Published | PbioError | None]:
    """Publish the events of several processes in one commit, as if they published one after another.

    Args:
        announce: called before each attempt with what it will publish.

    Returns:
        The outcome of each: as `Publisher.publish` returns or raises it; None if it was prepared for channels that have
        changed, or `announce` withdrew it.

    Raises what `Publisher.publish` raises for all of them, such as PBIO_FILE_SYSTEM and PBIO_OUTCOME_UNKNOWN.
    """
    batch = Joint(publisher, handed, announce)
    return batch.results(publisher.commit(batch))


class Joint(Batch):
    """Some publications in one data file."""

    def __init__(self, publisher: Publisher, handed: Sequence[Publication], announce: Announce) -> None:
        super().__init__(publisher, (), Terms())
        self._handed = handed
        self._groups = [
            own.events[0].groups if len(own.events) == 1 else Groups.concat(one.groups for one in own.events)
            for own in handed
        ]
        self._events = [groups.events for groups in self._groups]
        self._announce = announce
        self._taken_back: set[int] = set()
        self._new: list[int | PbioError | None] = [None] * len(handed)
        """How many events of each publication are new, or its error."""
        self._made: tuple[list[dict[int, int] | None], Packed] | None = None

    def results(self, published: Published) -> list[Published | PbioError | None]:
        """The outcome of each publication."""
        return [
            Published(published.version if new else None, new, events - new) if isinstance(new, int) else new
            for new, events in zip(self._new, self._events, strict=True)
        ]

    def try_once(self, holder: str) -> Published | None:
        """Implements `Batch.try_once`."""
        state = self._history.catch_up()
        while True:
            packed = self._pack(state)
            included = [i for i, new in enumerate(self._new) if isinstance(new, int) and new]
            if not packed:
                self._late.discard()
                return Published(None, 0, 0)
            # Repeated before each attempt, after reading the log: a writer that hung up may have looked there
            # meanwhile.
            transaction, taken_back = self._announce(included)
            self._taken_back |= taken_back
            if taken_back:
                continue
            version = self._append(packed, state, Transaction(*transaction), holder)
            return None if version is None else Published(version, sum(one.own.events for one in packed), 0)

    def _pack(self, state: State) -> list[Packed]:
        known = [self._settle(i, one) for i, one in enumerate(self._known(state))]
        if not any(isinstance(new, int) and new for new in self._new):
            self._discard()
            return []
        if self._made is not None:
            before, packed = self._made
            channels = packed.own.rows["channel"].tolist()
            is_current = state.is_current(packed.made, now())
            if before == known and is_current and packed.descendants == state.descendants(channels):
                return [packed]
            self._discard_made()
        events = [
            one
            for handed, own in zip(self._handed, known, strict=True)
            if own is not None
            for one in without(handed.events, own)
        ]
        made = pack(self._folder, self._publisher.deriver, by_channel(events), state)
        self._made = known, made
        return [made]

    def _known(self, state: State) -> list[dict[int, int] | PbioError | None]:
        """What is already published of each publication, given those before it; or its error."""
        own: dict[tuple[int, str], int] = {}
        found: list[dict[int, int] | PbioError | None] = []
        for i, (handed, groups) in enumerate(zip(self._handed, self._groups, strict=True)):
            if i in self._taken_back or handed.control not in (None, state.control):
                found.append(None)
                continue
            lasts = [((channel, producer), last) for _, channel, producer, _, last in groups.numbered()]
            is_repeated = any(key in own for key, _ in lasts)
            try:
                (known,) = known_of([groups], state, ChainMap(own, state.sequences) if is_repeated else state.sequences)
            except PbioError as error:
                found.append(error)
                continue
            for key, last in lasts:
                own[key] = max(last, own.get(key, -1), state.sequences.get(key, -1))
            found.append(known)
        return found

    def _settle(self, index: int, known: dict[int, int] | PbioError | None) -> dict[int, int] | None:
        """Note the outcome of a publication; returns what is already published if some events remain."""
        if not isinstance(known, dict):
            self._new[index] = known
            return None
        new = self._events[index] - sum(known.values())
        self._new[index] = new
        return known if new else None

    def _discard_made(self) -> None:
        if self._made is not None:
            with suppress(PbioError):  # if it stays, it counts as a dead writer's
                self._folder.remove(self._made[1].file.path)
        self._made = None

    def _discard(self) -> None:
        self._late.discard()
        self._discard_made()
