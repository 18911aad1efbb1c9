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

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from pbio_spark.channels.commits.commit import LONGEST_TURN, Turn
from pbio_spark.channels.derive.deriver import Deriver
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History, pause
from pbio_spark.channels.log.state import State
from pbio_spark.channels.publish.batch import Batch, Published, Terms, Unless
from pbio_spark.channels.publish.packed import Packed
from pbio_spark.channels.publish.prepare import Prepared
from pbio_spark.formats.store import FormatStore

_LOST, _PATIENCE = 3, 5.0
"""How many attempts a writer loses, and how many seconds it keeps trying, before it takes a turn."""


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
        unless: Unless | None = None,
    ) -> Published:
        """Publish what is new of some events, and what channels derive from them: all of it or nothing.

        Args:
            events: those of one data file, each, or such files as tasks have written them.
            fail_on_loss: whether it is an error if other events were published as the batch of that number; else the
                batch is taken as published.
            is_gapless: whether it is one, too, if none were, though batches of higher numbers are published. Otherwise
                that number was passed over, and counts as known.
            after: the number of the batch that must be the last one before; -1 if there must be none.
            unless: asked before each attempt whether the events are published already, and with which result.

        Raises:
            PbioError: PBIO_UNKNOWN_CHANNEL if a channel has been dropped in the meantime; PBIO_OUT_OF_ORDER if a
                producer's events come in another order than their numbers say; PBIO_OTHER_BATCH, also
                for another batch than `after`; PBIO_FILE_SYSTEM and
                the like. PBIO_OUTCOME_UNKNOWN, where the file system failed in a way that leaves open whether the
                events are published: to publish them again with the same numbers, or the same transaction, is safe.
        """
        return self.commit(Batch(self, events, Terms(transaction, fail_on_loss, is_gapless, after, unless)))

    def commit(self, batch: Batch) -> Published:
        """Try until a batch is committed. Raises what `publish` raises."""
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
