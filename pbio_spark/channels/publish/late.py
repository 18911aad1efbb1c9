"""Derives in order, the last step of a commit: when all of its events and the state before it are known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from pbio_spark.channels.commits.commit import Data
from pbio_spark.channels.commits.groups import Groups
from pbio_spark.channels.derive.deriver import Deriver
from pbio_spark.channels.derive.ordered import Arrived, InOrder, derive_in_order
from pbio_spark.channels.derive.reports import Ledger
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.state import State
from pbio_spark.channels.publish.packed import Packed, events_of, pack_derived
from pbio_spark.errors import PbioError
from pbio_spark.formats.store import FormatStore


def now() -> int:
    """The time by this machine's clock, in microseconds since 1970 UTC."""
    return time.time_ns() // 1000


class Late:
    """Derives in order, and again if events, derivations or the state change.

    Attributes:
        packed: the data file of the events; None if there are none.
        in_order: the derived events.
    """

    def __init__(self, folder: Folder, formats: FormatStore, deriver: Deriver) -> None:
        self.packed: Packed | None = None
        self.in_order: InOrder | None = None
        self._folder, self._formats, self._deriver = folder, formats, deriver
        self._of: tuple[object, ...] = ()

    def derive(self, packed: Sequence[Packed], state: State) -> bool:
        """Derive from the events of some data files. Returns whether anything changed."""
        channels = {
            channel for one in packed for part in (one.own, one.derived) for channel in part.rows["channel"].tolist()
        }
        if not state.has_ordered(channels):
            was = self.in_order is not None
            self.discard()
            return was
        # The files themselves, not their `id`s: the ID of a deleted object may be reused.
        of = (*packed, state.descendants(channels))
        known = self.in_order
        # Lazy parameters leave the derivation unchanged until their time is over.
        is_same = known is not None and self._is_same(of) and known.holds(state)
        if known is not None and is_same and state.is_current(known.derived.made, now()):
            return False
        self.discard()
        parents = [one for one in channels if any(child.is_ordered for child in state.made_of(one))]
        arrived = [
            Arrived(events, one.task)
            for one in packed
            for events in events_of(self._folder, self._formats, one, parents)
        ]
        self.in_order = derive_in_order(self._deriver, arrived, state, now())
        self._of = of
        if self.in_order.derived.events:
            self.packed = pack_derived(self._folder, (), self.in_order.derived, state)
        return True

    def discard(self) -> None:
        """Remove the unreferenced data file."""
        if self.packed is not None:
            with suppress(PbioError):
                self._folder.remove(self.packed.file.path)
        self.packed = self.in_order = None

    def _is_same(self, of: tuple[object, ...]) -> bool:
        return len(of) == len(self._of) and all(
            one is other or (isinstance(one, tuple) and one == other) for one, other in zip(of, self._of, strict=True)
        )


def packed_to_data(packed: Sequence[Packed], late: Late, state: State, source: str) -> Data:
    """The commit of some data files and of the events derived from them in order."""
    files = [*packed, *([] if late.packed is None else [late.packed])]
    groups = Groups.concat(
        part.moved(number, 0, 0) for number, one in enumerate(files) for part in (one.own, one.derived)
    ).in_order()
    ledger = Ledger()
    refused: dict[int, str] = {}
    traps: dict[int, str] = {}
    reports = [(one.made, one.refused, one.traps) for one in packed]
    if late.in_order is not None:
        derived = late.in_order.derived
        reports.append((derived.made, derived.refused, derived.traps))
    for made, reasons, trapped in reports:
        for one in made:
            ledger.plus(one)
        refused |= dict(reasons)
        traps |= dict(trapped)
    data = Data(
        state.control,
        tuple(one.file for one in files),
        groups,
        refused=tuple(refused.items()),
        made=ledger.made,
        states=() if late.in_order is None else late.in_order.states,
    )
    suspended = tuple(
        (channel, f"{count} events in a row ended in a trap; the first: {traps.get(channel, '')}")
        for channel, count in state.derived.exhausted(data.made, source, state.channels)
    )
    # If all of them are suspended, this source derived nothing.
    is_reported = any(one.descendants for one in packed)
    return replace(data, source=source if is_reported else "", suspended=suspended)
