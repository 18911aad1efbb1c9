"""Prepared events -> data files and one commit.

The steps of a commit; it is safe to die between any two:

1. Catch up with the log, and leave out events that it already has.
2. Write the data files durably; nothing refers to them yet. On a cluster, tasks have already done this.
   Derive what must be derived in order, see `late`, and write it to one more file.
3. Append the commit at the next version. From then on all of it is published.

A writer that loses the race for a version starts again. It keeps its data files if the events to publish, and those
derived from them, have not changed.
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
        """Publish the new events among some, and those derived from them: all or nothing.

        Args:
            events: the events for one data file each, or data files that tasks have written.
            fail_on_loss: whether it is an error if other events were published as the batch of that number; otherwise
                the batch counts as published.
            is_gapless: whether it is an error if the batch was not published but batches of higher numbers were;
                otherwise the number was skipped, and counts as known.
            after: the number that the previous batch must have; -1 if there must be none.
            unless: asked before each attempt whether the events are already published, and with which result.

        Raises:
            PbioError: PBIO_UNKNOWN_CHANNEL if a channel has been dropped meanwhile; PBIO_OUT_OF_ORDER if a producer's
                events arrive out of the order of their numbers; PBIO_OTHER_BATCH, also if the previous batch is not
                `after`; PBIO_FILE_SYSTEM and the like. PBIO_OUTCOME_UNKNOWN, if the file system failed and events may
                have been published: publishing them again with the same numbers or transaction is safe.
        """
        return self.commit(Batch(self, events, Terms(transaction, fail_on_loss, is_gapless, after, unless)))

    def commit(self, batch: Batch) -> Published:
        """Retry until a batch is committed. Raises what `publish` raises."""
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
                # Other writers or changed derivations were always faster. A writer must not starve.
                self.history.commit(take_turn)
            else:
                pause(lost, took)
            lost += 1
