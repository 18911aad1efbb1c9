"""Formats that a file describes before the part that a task reads, where the file's outline lacks them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import BinaryIO

from pbio_spark.columns import Chunker, ReadPlan, Resumption
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format


class EarlierFormats:
    """Finds unknown formats in the file itself, then in the plan's store: an outline is only a hint.

    The file is walked at most once, only up to the part that is being read, and only if a record's format is unknown.

    Attributes:
        start: where that part begins; a format item lies before the records that it describes.
    """

    def __init__(self, source: BinaryIO, name: str, plan: ReadPlan) -> None:
        self.start = 0
        self._walked_to = 0
        self._store = plan.store
        resumption = Resumption(search=plan.errors.resync)
        self._chunker = Chunker(source, name, limits=plan.limits, kernel=plan.walk, resumption=resumption)

    def find(self, format_ids: Iterable[bytes]) -> list[Format]:
        """The formats of some IDs, as far as the file or the store has them. Raises what the store raises."""
        if self._walked_to < self.start:
            with suppress(PbioError):  # the split that the damage lies in says so
                for _ in self._chunker.chunks(self._walked_to, self.start, 0, joins=True):
                    pass
            self._walked_to = self.start
        wanted = set(format_ids)
        found = [form for form in self._chunker.formats if form.id in wanted]
        missing = wanted - {form.id for form in found}
        return found if self._store is None or not missing else found + self._store.find(sorted(missing))
