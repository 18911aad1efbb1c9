"""Formats that a file describes before the part that a task reads, where the file's outline lacks them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from pbio_spark.columns import Chunker, ReadPlan, Resumption
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.store import FormatFinder
from pbio_spark.paths import locate
from pbio_spark.source.files.listing import ListedFile
from pbio_spark.wire.hints.sidecar import Point, read_sidecar


class EarlierFormats:
    """Finds unknown formats in the file itself, then in the plan's store: an outline is only a hint.

    The file is walked at most once, only up to the part that is being read, and only if a record's format is unknown.
    Each task does this for itself: if nothing describes a format with records in all n splits of a file, the file is
    read n/2 times over.
    """

    def __init__(self, source: BinaryIO, file: ListedFile, plan: ReadPlan, formats: Sequence[Format]) -> None:
        """`formats` are those that are known: the walk resumes after damage only where it knows records' formats."""
        self._source, self._file, self._plan, self._formats = source, file, plan, formats
        self._walked_to = 0
        self._anchors: tuple[Point, ...] = ()
        self._chunker: Chunker | None = None

    def before(self, start: int) -> FormatFinder:
        """Finds formats that the file describes before an item boundary; a format item precedes its records."""
        return _Before(self, start)

    def find(self, format_ids: Iterable[bytes], start: int) -> list[Format]:
        """The formats of some IDs, as far as the file before `start`, or the store, has them.

        Raises what the store raises.
        """
        wanted, store = set(format_ids), self._plan.store
        found = [form for form in self._walked(start).formats if form.id in wanted]
        missing = wanted - {form.id for form in found}
        return found if store is None or not missing else found + store.find(sorted(missing))

    def _walked(self, start: int) -> Chunker:
        """The walk up to an item boundary at least. It resumes after damage, which the split that has it reports."""
        chunker = self._chunker = self._chunker or self._new_walk()
        while self._walked_to < start:
            try:
                for _ in chunker.chunks(self._walked_to, start, 0, joins=True):
                    pass
                self._walked_to = start
            except PbioError as error:  # the body of a format
                broken = max(self._walked_to, error.offset or 0)
                after = (anchor.offset for anchor in self._anchors if broken < anchor.offset < start)
                self._walked_to = next(after, start)
        return chunker

    def _new_walk(self) -> Chunker:
        file, plan = self._file, self._plan
        outline = read_sidecar(*locate(file.path), file.size, file.modified)
        self._anchors = () if outline is None else outline.points
        resumption = Resumption(self._anchors, plan.errors.resync)
        return Chunker(self._source, file.path, self._formats, None, plan.limits, plan.walk, resumption)


@dataclass(frozen=True, slots=True)
class _Before:
    earlier: EarlierFormats
    start: int

    def find(self, format_ids: Iterable[bytes]) -> list[Format]:
        return self.earlier.find(format_ids, self.start)
