"""Events of one channel that go to a data file as they arrive: unordered, and without derivation.

Each batch is encoded and written while it is in the processor's cache, reusing the memory of the previous batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pbio_spark.channels.commits.commit import DataFile
from pbio_spark.channels.commits.contents import Contents, contents_of
from pbio_spark.channels.commits.groups import Groups
from pbio_spark.channels.footers.making import FooterMaker
from pbio_spark.channels.log.layout import new_data_path
from pbio_spark.channels.publish.grouping.concentrate import group
from pbio_spark.channels.publish.packed import Packed
from pbio_spark.columns import RecordBuffer, rows_to_batch
from pbio_spark.wire import MAGIC
from pbio_spark.wire.writer import format_to_item

if TYPE_CHECKING:
    from ecode.native import Kernel
    from pbio_spark.channels.log.files import Folder
    from pbio_spark.channels.log.state import ChannelInfo, State
    from pbio_spark.channels.publish.prepare import Preparer
    from pbio_spark.channels.publish.submission import Submission
    from pbio_spark.columns import Encoder, NullValue
    from pbio_spark.disk import NewFile
    from pbio_spark.formats import Format


def is_straight(folder: Folder, state: State, info: ChannelInfo, submission: Submission) -> bool:
    """Whether events may be written as they arrive, to a file that grows."""
    columns = submission.columns
    has_order = columns.channel or columns.producer or columns.sequence or submission.sequence is not None
    return folder.is_local and not has_order and info.id not in state.parents


@dataclass(frozen=True, slots=True)
class Finished:
    """A data file with all its events that is not yet on the disk.

    Attributes:
        packed: the data file that it becomes.
        file: the file that remains to be finished.
    """

    packed: Packed
    file: NewFile


class StraightWriter:
    """Writes the events of a task to data files; see `is_straight`."""

    def __init__(
        self,
        folder: Folder,
        preparer: Preparer,
        info: ChannelInfo,
        submission: Submission,
        null_value: NullValue | None = None,
        *,
        summing: Kernel | None = None,
        ranging: Kernel | None = None,
    ) -> None:
        """
        Args:
            submission: what applies to all events; its own events are ignored.
            null_value: as for `Preparer.prepare`.
            summing: for `contents_of`; without it contents are not computed.
            ranging: for `RangeMaker`.
        """
        self._folder = folder
        self._preparer = preparer
        self._info = info
        self._submission = submission
        self._null_value = null_value
        self._summing = summing
        self._ranging = ranging
        self._room = RecordBuffer()
        self._known: tuple[Format, list[str], Encoder] | None = None
        """The format of the events, the columns that are fields, and the encoder."""
        self._is_plain = False
        self._channels = np.empty(0, np.int64)
        self._file: NewFile | None = None
        self._path = ""
        self.bytes = 0
        self._begin = 0
        self._footer = FooterMaker(ranging)
        self._groups: list[Groups] = []
        self._contents = Contents()

    def add(self, events: pa.RecordBatch) -> None:
        """Write events; all batches have one schema.

        Raises what `Preparer.prepare` raises, and what `Folder.add` raises.
        """
        if not events.num_rows:
            return
        rows = events if self._is_plain else rows_to_batch(events, None)
        if self._known is None:
            self._is_plain = rows.schema.equals(events.schema, check_metadata=True)
            form, fields = self._preparer.written(self._info, rows.schema, self._submission)
            encoder = self._preparer.encoders.find(form, rows.select(fields).schema, self._null_value)
            self._known = form, fields, encoder
        form, fields, encoder = self._known
        if len(self._channels) < rows.num_rows:
            self._channels = np.full(rows.num_rows, self._info.id)
        _, groups = group(rows, self._channels[: rows.num_rows], self._submission)
        self._room.clear()
        encoder.encode_into(rows.select(fields), self._room)
        encoded = self._room.encoded()
        prepared = self._preparer.finished(self._info, form, encoded, groups)
        if self._summing is not None:
            self._contents += contents_of(encoded, prepared.groups, self._summing)
        file = self._file or self._opened(form)
        count = len(encoded.offsets) - 1
        self._footer.add(form, encoded, self.bytes, np.zeros(1, np.int64), np.array([count]))
        with self._folder.adding(self._path):
            file.write(encoded.buffer)
        self.bytes += encoded.buffer.size
        self._groups.append(prepared.groups)

    def _opened(self, form: Format) -> NewFile:
        self._path = new_data_path()
        self._footer = FooterMaker(self._ranging)
        self._file = self._folder.begin(self._path)
        head = MAGIC + format_to_item(form)
        with self._folder.adding(self._path):
            self._file.write(head)
        self._begin = self.bytes = len(head)
        return self._file

    def finished(self) -> Finished | None:
        """The file of the events since the last call; None if there were none. The next event begins another file."""
        file, self._file = self._file, None
        if file is None:
            return None
        groups = _one_group(self._groups, self._begin, self.bytes)
        footer = self._footer.made(self.bytes)
        try:
            with self._folder.adding(self._path):
                file.write(footer)
        except BaseException:
            file.discard()
            raise
        packed = Packed(DataFile(self._path, self.bytes + len(footer)), groups, Groups(), (), (), self._contents)
        self._groups, self._contents, self.bytes = [], Contents(), 0
        return Finished(packed, file)

    def bring(self, finished: Finished) -> None:
        """Finish a file on the disk, in any thread. Raises what `Folder.add` raises."""
        with self._folder.adding(finished.packed.file.path):
            finished.file.finish()

    def discard(self) -> None:
        """Abandon the current file."""
        if self._file is not None:
            self._file.discard()
            self._file = None


def _one_group(parts: Sequence[Groups], start: int, end: int) -> Groups:
    """Merges consecutive single groups into one group."""
    rows = parts[0].rows.copy()
    counts = [int(part.rows["count"][0]) for part in parts]
    rows["start"], rows["end"], rows["count"] = start, end, sum(counts)
    firsts = {int(part.rows["event_time"][0]) for part in parts}
    if len(firsts) == 1 and not any(part.event_times for part in parts):
        return replace(parts[0], rows=rows)
    times = [
        part.event_times[0] if part.event_times else np.full(count, part.rows["event_time"][0])
        for part, count in zip(parts, counts, strict=True)
    ]
    return replace(parts[0], rows=rows, event_times={0: np.concatenate(times)})
