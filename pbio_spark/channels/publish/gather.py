"""Batches of events for one channel -> events for one data file; each batch is encoded as it arrives.

A batch from Spark fits into the processor's cache. Encoded at once, its columns are never read from memory, and its
bytes go to memory that earlier events have left. The order of events is known only when all have arrived: then their
bytes are reordered instead of their columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pbio_spark.channels.publish.grouping.concentrate import group
from pbio_spark.channels.publish.prepare import Prepared, Preparer
from pbio_spark.channels.publish.submission import Submission
from pbio_spark.columns import NullValue, RecordBuffer, rows_to_batch

if TYPE_CHECKING:
    from pbio_spark.channels.log.state import ChannelInfo
    from pbio_spark.formats import Format

ROOMS = 2
"""How many files' events are in memory: those arriving, and those being written."""


class Gatherer:
    """Encodes the events of a task for one channel.

    Results share memory with those from `ROOMS` calls before, which must be on the disk by then.
    """

    def __init__(
        self, preparer: Preparer, info: ChannelInfo, submission: Submission, null_value: NullValue | None = None
    ) -> None:
        """
        Args:
            submission: what applies to all events; its own events are ignored, and it has no column of channels.
            null_value: as for `Preparer.prepare`.
        """
        assert submission.columns.channel is None
        self._preparer = preparer
        self._info = info
        self._submission = submission
        self._null_value = null_value
        self._rooms = [RecordBuffer() for _ in range(ROOMS)]
        self._keys: list[pa.RecordBatch] = []
        self._form: Format | None = None
        self.rows = 0

    @property
    def bytes(self) -> int:
        """The bytes of the events added since `prepared`."""
        return self._rooms[0].used

    def add(self, events: pa.RecordBatch) -> None:
        """Encode events; all batches have one schema. Raises what `Preparer.prepare` raises for values of fields."""
        rows = rows_to_batch(events, None)
        preparer, columns = self._preparer, self._submission.columns
        self._form, fields = preparer.written(self._info, rows.schema, self._submission)
        chosen = rows.select(fields)
        preparer.encoders.find(self._form, chosen.schema, self._null_value).encode_into(chosen, self._rooms[0])
        if columns.names:
            keys = rows.select([name for name in columns.names if name in rows.schema.names])
            # A view would keep the whole batch in memory.
            self._keys.append(keys.copy_to(pa.default_cpu_memory_manager()))
        self.rows += rows.num_rows

    def prepared(self) -> list[Prepared]:
        """The events added since the last call, with their groups; empty if there are none.

        Raises what `Preparer.prepare` raises for `columns`.
        """
        if not self.rows or self._form is None:
            return []
        keys = pa.concat_batches(self._keys) if self._keys else pa.record_batch({})
        channels = np.full(self.rows, self._info.id)
        order, groups = group(keys, channels, self._submission)
        encoded = self._rooms[0].encoded()
        if order is not None:
            encoded = encoded.take(order)
        prepared = self._preparer.finished(self._info, self._form, encoded, groups)
        self._rooms.append(self._rooms.pop(0))
        self._rooms[0].clear()
        self._keys, self.rows = [], 0
        return [prepared]
