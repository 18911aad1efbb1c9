"""Files that were read <-> existing files, whatever their names.

A file that was read is the one that still has, from its start, exactly the records that were read of it. The evidence
of a check decides how many candidates are compared, and how much of them is read, the strongest evidence first:

  the same stamp                        it has not changed: nothing is read
  the same file object, here or there   it grew or was renamed: the last blocks of what was read are compared
  the same path                         copied back, or rewritten: all that was read is compared
  any other file                        the same, unless the file had been missed before

A file that was missed before can return under its path, as the same object, or with its size and time; a new file with
the same beginning is a new file. If its object returns with other records (it was copied and truncated between checks),
it is no longer missed, and any file can be it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.source.files.splits import FILE_ERRORS
from pbio_spark.source.follow.digest import START, Mark, read_marks
from pbio_spark.source.follow.progress import FileProgress, read_to
from pbio_spark.source.follow.sight import Sight, open_sight

MEMORY = 1 << 17
"""How many comparisons are cached."""
SAME_TIME = 2e-6
"""The tolerance of times in seconds, since packed times are in microseconds."""

log = logging.getLogger("pbio_spark.source")


class Comparer:
    """Compares what was read with existing files, and caches results for settled files."""

    def __init__(self, formats_of: Callable[[Mark], Iterable[Format]] = lambda mark: ()) -> None:
        """
        Args:
            formats_of: the known formats of the records up to a mark.
        """
        self._formats_of = formats_of
        self._known: dict[tuple[str, int, str, bool], bool] = {}

    def is_same(self, sight: Sight, file: FileProgress, mark: Mark, *, whole: bool) -> bool:
        """Whether a file has the records that were read of another, up to a mark.

        Args:
            whole: whether all of them are compared, or only the last blocks.
        """
        if not mark.offset:
            return bool(sight.id) and sight.id == file.id
        return bool(self._compare(sight, [replace(file, to=mark)], whole=whole))

    def which(self, sight: Sight, files: Sequence[FileProgress]) -> int | None:
        """The index of the read file that an existing file is; of several, the one read farthest."""
        same = self._compare(sight, files, whole=True)
        return max(same, key=lambda number: files[number].to.offset, default=None)

    def _compare(self, sight: Sight, files: Sequence[FileProgress], *, whole: bool) -> list[int]:
        asked = {n: file for n, file in enumerate(files) if file.to.offset <= sight.file.size and file.to.digest}
        keys = {n: (sight.stamp, file.to.offset, file.to.digest, whole) for n, file in asked.items()}
        known = {n: self._known[key] for n, key in keys.items() if key in self._known}
        unknown = {n: file for n, file in asked.items() if n not in known}
        if unknown:
            try:
                found = self._digests(sight, list(unknown.values()), whole=whole)
            except FileNotFoundError:
                return []
            except PbioError as error:
                if error.code not in FILE_ERRORS:
                    raise
                found = {}
            for n, file in unknown.items():
                known[n] = found.get(file.to.offset) == file.to.digest
                if not sight.is_fresh:
                    self._known[keys[n]] = known[n]
            if len(self._known) > MEMORY:
                self._known.clear()
        return [n for n, is_same in known.items() if is_same]

    def _digests(self, sight: Sight, files: Sequence[FileProgress], *, whole: bool) -> dict[int, str]:
        """By offset, the digests of a file at the places where read files ended."""
        offsets = sorted({file.to.offset for file in files})
        base, head = (START, "") if whole else (files[0].to.base, files[0].head)
        formats = self._formats_of(files[0].to) if base.offset else ()
        with open_sight(sight) as source:
            heads = frozenset(file.head for file in files)
            marks = read_marks(source, sight.path, offsets, base, formats, head, heads)
        return {offset: mark.digest for offset, mark in marks.found.items()}


@dataclass(frozen=True, slots=True)
class Matched:
    """
    Attributes:
        origins: by the path of an existing file, what has been read of it.
        gone: the progress of files that no longer exist.
    """

    origins: dict[str, FileProgress]
    gone: list[FileProgress]


def match(
    files: Sequence[FileProgress],
    sights: Sequence[Sight],
    comparer: Comparer,
    is_missed: Callable[[FileProgress], bool],
) -> Matched:
    """Find the files of a stream among existing files, each at most once.

    A file that lacks the records of the last batch, but has those before, resumes before that batch.

    Args:
        is_missed: whether a file had been missed before, so that newer files are not it.
    """
    return _Matching(files, sights, comparer, is_missed).run()


class _Matching:
    def __init__(
        self,
        files: Sequence[FileProgress],
        sights: Sequence[Sight],
        comparer: Comparer,
        is_missed: Callable[[FileProgress], bool],
    ) -> None:
        self._files = dict(enumerate(files))
        self._sights = {sight.path: sight for sight in sights}
        self._comparer = comparer
        self._is_missed = is_missed
        self._back = {sight.id for sight in sights if sight.is_unique}
        """IDs of existing objects that no file had at the last check."""
        self._back -= {file.id for file in files if not is_missed(file)}
        self._origins: dict[str, FileProgress] = {}

    def run(self) -> Matched:
        self._by_stamp()
        if self._files and self._sights:
            self._by_evidence(lambda n, s: self._is_here(n, s) and self._is_object(n, s), whole=False)
            self._by_evidence(self._is_unique_object, whole=False)
            self._by_evidence(self._is_here, whole=True)
            self._by_content()
            self._take_back()
        return Matched(self._origins, list(self._files.values()))

    def _take(self, number: int, sight: Sight, file: FileProgress | None = None) -> None:
        del self._sights[sight.path]
        found = self._files.pop(number)
        self._origins[sight.path] = file or found

    def _by_stamp(self) -> None:
        stamps: dict[str, list[int]] = {}
        for number, file in self._files.items():
            if file.stamp:
                stamps.setdefault(file.stamp, []).append(number)
        for is_here in (True, False):  # two copies on a server can have one stamp
            for sight in list(self._sights.values()):
                for number in stamps.get(sight.stamp, ()):
                    if number not in self._files or (is_here and not self._is_here(number, sight)):
                        continue
                    file = self._files[number]
                    if not file.is_fresh or self._comparer.is_same(sight, file, file.to, whole=False):
                        self._take(number, sight)
                        break

    def _is_here(self, number: int, sight: Sight) -> bool:
        return self._files[number].key == sight.key

    def _is_object(self, number: int, sight: Sight) -> bool:
        """Whether it is evidently the same file object."""
        return bool(sight.id) and self._files[number].id == sight.id

    def _is_unique_object(self, number: int, sight: Sight) -> bool:
        return sight.is_unique and self._is_object(number, sight)

    def _by_evidence(self, is_likely: Callable[[int, Sight], bool], *, whole: bool) -> None:
        for number, sight in self._pairs(is_likely):
            file = self._files[number]
            if self._comparer.is_same(sight, file, file.to, whole=whole):
                self._take(number, sight)

    def _pairs(self, is_likely: Callable[[int, Sight], bool]) -> Iterator[tuple[int, Sight]]:
        """The unmatched pairs of a file and a sight that share a key or an ID."""
        by_name: dict[str, list[int]] = {}
        for number, file in self._files.items():
            for name in (file.key, file.id):
                by_name.setdefault(name, []).append(number)
        for sight in list(self._sights.values()):
            for number in dict.fromkeys((*by_name.get(sight.key, ()), *by_name.get(sight.id, ()))):
                if number in self._files and sight.path in self._sights and is_likely(number, sight):
                    yield number, sight

    def _by_content(self) -> None:
        for sight in sorted(self._sights.values(), key=lambda sight: (sight.file.modified, sight.path)):
            likely = [number for number, file in self._files.items() if self._may_be(file, sight)]
            found = self._comparer.which(sight, [self._files[number] for number in likely]) if likely else None
            if found is not None:
                self._take(likely[found], sight)

    def _may_be(self, file: FileProgress, sight: Sight) -> bool:
        if file.to.offset > sight.file.size:
            return False
        is_untouched = file.to.offset == sight.file.size and abs(file.modified - sight.file.modified) < SAME_TIME
        return is_untouched or file.id in self._back or not self._is_missed(file)

    def _take_back(self) -> None:
        for number, sight in self._pairs(lambda n, s: self._is_here(n, s) or self._is_unique_object(n, s)):
            file = self._files[number]
            if file.start is not None and self._comparer.is_same(sight, file, file.start, whole=True):
                log.warning(
                    "%s has been truncated or overwritten; reading continues at byte %d", sight.path, file.start.offset
                )
                self._take(number, sight, read_to(file, file.start))
