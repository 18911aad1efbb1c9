"""Follows a growing folder from one offset of a stream to the next.

A file is read as far as its records are complete. It is identified by what was read of it, not by its name: see
`matching`, and `docs/spark/streams.md` for the consequences.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.source.files.outlines import HEAD
from pbio_spark.source.files.splits import FILE_ERRORS
from pbio_spark.source.follow.advance import Advance, advance, formats_before
from pbio_spark.source.follow.digest import Digest, Mark, read_marks
from pbio_spark.source.follow.folders import Folders
from pbio_spark.source.follow.loss import refuse_loss
from pbio_spark.source.follow.matching import SAME_TIME, Comparer, Matched, match
from pbio_spark.source.follow.progress import NOWHERE, SHOWN, FileProgress, Progress
from pbio_spark.source.follow.sight import Sight, look_at, open_sight
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.schema import announce, is_wanted, new_format, several_formats
from pbio_spark.wire import TruncatedError

IDLE = 20.0
"""The pause after checking an unchanged folder, as a multiple of the time that the check took."""
LONGEST_IDLE = 1.0
REMEMBERED = 1000
"""The least number of vanished files that are remembered in case they return."""
ABANDONED = 600.0
"""How long, in seconds, a file may end inside a record before a warning."""

log = logging.getLogger("pbio_spark.source")


class FileFollower:
    """Checks the files of a stream, and caches what it found between checks."""

    def __init__(self, paths: Sequence[str], options: Options) -> None:
        self.folders = Folders(paths, options)
        self._options = options
        self._formats: dict[str, Mapping[bytes, Format]] = {}
        """By the digest of what was read of a file, its known formats."""
        self._comparer = Comparer(self._formats_of)
        self._seen: dict[tuple[str, int], bool] = {}
        """The stamps of settled files with nothing after an offset, and whether they end inside a record."""
        self._missed: set[tuple[str, str]] = set()
        """Keys and digests of the files that were missing at the last check."""
        self._told: set[tuple[str, int]] = set()
        self._fixed: dict[str, int] | None = None
        """The final sizes of files, by ID or else path, once files are considered complete."""
        self._new: tuple[Format, ...] = ()
        """The new formats in the most recently planned batch."""
        self._sights: dict[str, Sight] = {}
        """By path, the files of that batch, as seen then."""
        self._pause = 0.0

    def stop_growing(self) -> None:
        """Consider the files complete as they are now."""
        self._fixed = {sight.id or sight.path: sight.file.size for sight in self.folders.files_there()}

    def latest(self, start: Progress, max_files: int | None, max_bytes: int | None) -> Progress:
        """The offset up to which a batch from `start` can read; `start` itself if there is nothing to read.

        Raises PBIO_ROWS_GONE, PBIO_SEVERAL_FORMATS, and with `mode` FAILFAST the errors of files.
        """
        time.sleep(self._pause)
        began = time.monotonic()
        sights = self.folders.look(start)
        matched = self.match(start.files, sights)
        if any(file.has_more for file in matched.gone):  # or it was renamed during the listing
            sights = self.folders.look(start)
            matched = self.match(start.files, sights)
        lost = [file for file in matched.gone if file.has_more]
        for file in lost:
            refuse_loss(replace(file, start=None), options=self._options)
        oldest = start.watermark - self._options.max_file_age
        taken: dict[str, Advance] = {}
        room = max_bytes
        for sight in sights:
            if len(taken) == max_files or (room is not None and room <= 0):
                break
            origin = matched.origins.get(sight.path)
            if origin is None and sight.file.modified < oldest:
                continue
            found = self._advance(sight, origin, room)
            if found is not None:
                taken[sight.path] = found
                room = None if room is None else room - (found.to.offset - found.start.offset)
        gone = {(file.key, file.to.digest) for file in matched.gone}
        # Of files in a folder that is gone nothing is known; a file that has returned is missed no longer.
        self._missed = self._missed & gone if self.folders.absent else gone
        self._pause = 0.0 if taken else min(LONGEST_IDLE, IDLE * (time.monotonic() - began))
        pairs = [(origin, sight) for sight in sights if (origin := matched.origins.get(sight.path)) is not None]
        # A file whose object has other records, or none, has left it: later files are not its copies.
        objects = {sight.id for sight in sights if sight.is_unique}
        left = any(file.id in objects and file.to.digest for file in matched.gone)
        if not (taken or lost or left or any(self._is_news(*pair) for pair in pairs)):
            return start
        return self._next(start, sights, matched, taken)

    def match(self, files: Sequence[FileProgress], sights: Sequence[Sight]) -> Matched:
        """Match read files to existing files."""

        def is_missed(file: FileProgress) -> bool:
            return file.is_gone or (file.key, file.to.digest) in self._missed

        return match(files, sights, self._comparer, is_missed)

    def formats_of(self, mark: Mark, sight: Sight) -> Mapping[bytes, Format]:
        """The known formats of a file before a mark."""
        if mark.digest not in self._formats:
            with open_sight(sight) as source:
                self._formats[mark.digest] = formats_before(source, sight.path, mark.offset)
        return self._formats[mark.digest]

    def refuse_new_formats(self) -> None:
        """Raise PBIO_NEW_FORMAT if the last batch has new formats and `onNewFormat` is `fail`. A retry reads it."""
        if self._options.on_new_format == "fail":
            for form in self._new:
                raise new_format(form)

    def places(self, end: Progress, *, is_latest: bool) -> list[tuple[FileProgress, Sight]]:
        """The current places of the rows of the batch that ends with an offset.

        A file that was overwritten before a batch read it is left out, and later read as it is now, as if it had been
        overwritten before the stream first saw it.

        Args:
            is_latest: whether `latest` has just planned it.

        Raises PBIO_ROWS_GONE.
        """
        batch = [file for file in end.files if file.start is not None]
        if is_latest:
            seen = look_at(self._sights[file.path].file for file in batch)
            matched = self.match([replace(file, is_fresh=False) for file in batch], seen)
            if not matched.gone and all(origin.start is not None for origin in matched.origins.values()):
                return _together(batch, seen, matched)
        sights = self.folders.look(end)
        matched = self.match(end.files, sights)
        found = _together(batch, sights, matched)
        by_path = {sight.path: sight for sight in sights}
        there = {file for file, _ in found}
        for file in batch:
            if file in there:
                continue
            if not self._is_replaced(file, by_path.get(file.path), matched.origins.get(file.path)):
                refuse_loss(file, options=self._options)
            else:
                log.warning("%s was overwritten before it had been read; reading it as it is now", file.path)
        return found

    def has_damage(self, sight: Sight, file: FileProgress) -> bool:
        """Whether the damage after the read part of a file still exists."""
        found = self._read_on(sight, file, sight.file.size, None)
        return found is not None and found.damage is not None and found.to.offset == file.to.offset

    def _is_replaced(self, file: FileProgress, sight: Sight | None, origin: FileProgress | None) -> bool:
        """Whether the records that a batch was to read from a file were replaced, while those before are unchanged.

        Args:
            sight: the file that now has the path, if any.
            origin: what has been read of that file.
        """
        is_taken_back = origin is not None and origin.start is None and origin.to == file.start
        if sight is None or not (is_taken_back or (origin is None and file.start == NOWHERE)):
            return False
        try:
            found = self._read_on(sight, origin, sight.file.size, 1)
        except FileNotFoundError:
            return False
        except PbioError as error:
            if error.code not in FILE_ERRORS:
                raise
            return True  # the next batch reports what is wrong with it
        return found is not None and not found.is_empty

    def _formats_of(self, mark: Mark) -> Iterable[Format]:
        return self._formats.get(mark.digest, {}).values()

    def _advance(self, sight: Sight, origin: FileProgress | None, room: int | None) -> Advance | None:
        """How far a file can be read now; None if it cannot."""
        end = sight.file.size
        if self._fixed is not None:
            end = min(end, self._fixed.get(sight.id or sight.path, 0))
        start = NOWHERE if origin is None else origin.to
        has_all = (
            origin is not None
            and not (origin.has_more or origin.is_fresh)
            and origin.stamp == sight.stamp
            and sight.file.size == start.offset
        )
        if has_all or end <= start.offset:
            return None
        if (sight.stamp, start.offset) in self._seen:
            self._report_cut(sight, origin, end - start.offset)
            return None
        try:
            found = self._read_on(sight, origin, end, room)
        except FileNotFoundError:
            return None
        except PbioError as error:
            if error.code not in FILE_ERRORS or not self._options.ignore_corrupt_files:
                raise
            log.warning("%s", error)
            found = None
        cut: TruncatedError | None = None if found is None else found.cut
        if cut is not None and self._options.truncated_tail == "error":
            raise cut
        damage = None if found is None else found.damage
        if found is not None and damage is not None:
            if origin is not None and origin.damaged is not None and found.to.offset == start.offset:
                found = None  # already reported
            elif self._options.mode == "FAILFAST" and not self._options.ignore_corrupt_files:
                raise damage
            else:
                log.warning("%s", damage)
        if (found is None or found.is_all) and not sight.is_fresh and end == sight.file.size:
            to = start if found is None else found.to
            self._seen[sight.stamp, to.offset] = cut is not None
        return None if found is None or found.is_empty else found

    def _read_on(self, sight: Sight, origin: FileProgress | None, end: int, room: int | None) -> Advance | None:
        with open_sight(sight) as source:
            if origin is None:
                return advance(source, sight.path, end, NOWHERE, Digest(), {}, room)
            mark, formats = origin.to, self._formats.get(origin.to.digest, {})
            if not mark.digest:
                return advance(source, sight.path, end, mark, Digest(), {}, room)
            if mark.base.offset and not formats:
                formats = formats_before(source, sight.path, min(mark.base.offset, HEAD))
            read = read_marks(source, sight.path, [mark.offset], mark.base, formats.values(), origin.head)
            found = read.found.get(mark.offset)
            if found is None or found.digest != mark.digest:
                return None  # overwritten since the check: the next check finds out
            return advance(source, sight.path, end, mark, read.digest, {**formats, **read.formats}, room)

    def _next(
        self, start: Progress, sights: Sequence[Sight], matched: Matched, taken: Mapping[str, Advance]
    ) -> Progress:
        """The offset after a batch."""
        names, formats, new = self._names(start, taken)
        files: list[FileProgress] = []
        for sight in sights:
            origin, found = matched.origins.get(sight.path), taken.get(sight.path)
            if found is not None:
                files.append(self._after(sight, found))
            elif origin is not None:
                files.append(self._unread(sight, origin))
        watermark = max([start.watermark, *(sight.file.modified for sight in sights if sight.path in taken)])
        oldest = watermark - self._options.max_file_age
        files = [file for file in files if file.modified >= oldest]
        objects = {sight.id for sight in sights if sight.is_unique}
        gone = [
            replace(file, is_gone=True, has_more=False, start=None, id="" if file.id in objects else file.id)
            for file in matched.gone
            if file.to.digest
        ]
        gone = sorted((file for file in gone if file.modified >= oldest), key=lambda file: file.modified)
        gone = gone[-max(REMEMBERED, len(files)) :]
        digests = {file.to.digest for file in files[-SHOWN:]} | {found.to.digest for found in taken.values()}
        self._formats = {digest: known for digest, known in self._formats.items() if digest in digests}
        stamps = {sight.stamp for sight in sights}
        self._seen = {key: is_cut for key, is_cut in self._seen.items() if key[0] in stamps}
        self._told = {key for key in self._told if key[0] in stamps}
        self._new, self._sights = new, {sight.path: sight for sight in sights if sight.path in taken}
        return Progress(names, formats, watermark, (*files, *gone))

    def _is_news(self, origin: FileProgress, sight: Sight) -> bool:
        """Whether the next offset must record the identity of a file of which nothing is read, in case it returns.

        A file that ends inside a record is being written, so its time proves nothing; its path must differ until that
        has been reported.
        """
        if origin.is_gone or origin.id != sight.id:
            return True
        offset = origin.to.offset
        is_whole = sight.file.size == offset or self._seen.get((sight.stamp, offset)) is False
        is_touched = abs(sight.file.modified - origin.modified) >= SAME_TIME
        return is_whole and (origin.key != sight.key or is_touched)

    def _unread(self, sight: Sight, origin: FileProgress) -> FileProgress:
        """The progress of a file after a batch that does not read from it."""
        now = replace(
            origin,
            id=sight.id,
            key=sight.key,
            path=sight.path,
            modified=sight.file.modified,
            start=None,
            folders=(),
            is_gone=False,
        )
        is_all = sight.file.size == origin.to.offset or (sight.stamp, origin.to.offset) in self._seen
        if is_all and not sight.is_fresh:
            now = replace(now, stamp=sight.stamp, is_fresh=False, has_more=False)
        return now

    def _after(self, sight: Sight, found: Advance) -> FileProgress:
        """The progress of a file after a batch that reads from it."""
        if found.to.digest:
            self._formats[found.to.digest] = found.formats
        has_more = not found.is_all
        # Data after the fixed sizes has not been looked for.
        is_known = found.is_all and (self._fixed is None or self._fixed[sight.id or sight.path] >= sight.file.size)
        return FileProgress(
            sight.key,
            found.to,
            found.head,
            sight.id,
            sight.stamp if is_known or has_more else "",
            sight.file.modified,
            sight.path,
            found.start,
            sight.file.partition,
            sight.is_fresh,
            has_more,
            sight.file.size if found.damage is not None else None,
        )

    def _names(
        self, start: Progress, taken: Mapping[str, Advance]
    ) -> tuple[tuple[str, ...], tuple[bytes, ...], tuple[Format, ...]]:
        """The names of the formats that the stream reads, if not given: those seen so far, and new ones."""
        used = dict.fromkeys(f for found in taken.values() for f in found.used if is_wanted(f, self._options))
        met = dict.fromkeys(start.formats)
        new = tuple(form for form in used if form.id not in met) if start.files else ()
        for form in new:
            announce(form, self._options)
        formats = tuple(dict.fromkeys((*met, *(form.id for form in used))))
        if self._options.format_name or self._options.format_id:
            return (), formats, new
        names = tuple(dict.fromkeys((*start.names, *(f.name for f in used))))
        if len(names) > 1:
            raise several_formats(names)
        return names, formats, new

    def _report_cut(self, sight: Sight, origin: FileProgress | None, size: int) -> None:
        """Warn once that a file has ended inside a record for long, or since it was renamed."""
        offset = 0 if origin is None else origin.to.offset
        key = sight.stamp, offset
        if not self._seen[key] or key in self._told or self._options.truncated_tail == "ignore":
            return
        is_renamed = origin is not None and origin.key != sight.key
        if is_renamed or time.time() - sight.file.modified > ABANDONED:
            self._told.add(key)
            log.warning("%s ends inside a record, of which %d bytes have been written", sight.path, size)


def _together(
    batch: Sequence[FileProgress], sights: Iterable[Sight], matched: Matched
) -> list[tuple[FileProgress, Sight]]:
    """The files of a batch that were found, in order, and where."""
    found = {
        (origin.path, origin.to): sight
        for sight in sights
        if (origin := matched.origins.get(sight.path)) is not None and origin.start is not None
    }
    return [(file, found[file.path, file.to]) for file in batch if (file.path, file.to) in found]
