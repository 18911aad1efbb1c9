"""Following a growing folder: from one offset of a stream to the next.

A file is read as far as its records are complete. What identifies it is the last record read, not its name: a file that
was renamed goes on where it was left, and another file under its name is read from the start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence

from pbio_spark.formats import Format
from pbio_spark.source.advance import Advance, advance, formats_before, is_still
from pbio_spark.source.listing import DataFile, list_files
from pbio_spark.source.options import Options
from pbio_spark.source.progress import FileProgress, Progress
from pbio_spark.source.schema import announce, is_wanted, several_formats
from pbio_spark.wire.sidecar import Point

IDLE = 20.0
"""How much longer than a look at an unchanged folder took it is left alone afterwards."""
LONGEST_IDLE = 1.0

log = logging.getLogger("pbio_spark.source")


class Follower:
    """Looks at the files of a stream, and remembers between two looks what need not be found out again."""

    def __init__(self, paths: Sequence[str], options: Options) -> None:
        self._paths = paths
        self._options = options
        self._formats: dict[str, dict[bytes, Format]] = {}
        """By path, the formats that are known of what was read so far."""
        self._seen: dict[str, tuple[int, float, int]] = {}
        """By path, the size, the time of modification and the place at which there was nothing more to be read."""
        self._met: set[Format] = set()
        self._fixed: list[DataFile] | None = None
        self._folders: dict[str, tuple[tuple[str, str | None], ...]] = {}
        """By path, the values of the `k=v` folders that a file lies in."""
        self._pause = 0.0

    def stop_growing(self) -> None:
        """Take the files as they are now for all that there is ever going to be."""
        self._fixed = self._list()

    def latest(self, start: Progress, max_files: int | None, max_bytes: int | None) -> Progress:
        """The offset up to which a batch that begins at `start` can read; `start` itself if there is nothing to read.

        Raises PBIO_NEW_FORMAT, PBIO_SEVERAL_FORMATS, and with `mode` FAILFAST what is wrong with a file.
        """
        time.sleep(self._pause)
        began = time.monotonic()
        listed = self._fixed if self._fixed is not None else self._list()
        oldest = start.watermark - self._options.max_file_age
        listed = [file for file in listed if file.path in start.files or file.modified >= oldest]
        listed.sort(key=lambda file: (file.modified, file.path))
        origins, gone = self._origins(start, listed)
        taken: dict[str, Advance] = {}
        room = max_bytes
        for file in listed:
            if len(taken) == max_files or (room is not None and room <= 0):
                break
            advance = self._advance(file, origins.get(file.path), room)
            if advance is not None:
                taken[file.path] = advance
                room = None if room is None else room - (advance.to.offset - advance.start.offset)
        self._pause = 0.0 if taken else min(LONGEST_IDLE, IDLE * (time.monotonic() - began))
        if not taken:
            return start
        here = {file.path for file in listed}
        self._seen = {path: seen for path, seen in self._seen.items() if path in here}
        self._formats = {path: formats for path, formats in self._formats.items() if path in here}
        watermark = max(start.watermark, *(file.modified for file in listed if file.path in taken))
        files = gone | {f.path: p for f in listed if (p := _progress(f, origins.get(f.path), taken.get(f.path)))}
        oldest = watermark - self._options.max_file_age
        files = {path: progress for path, progress in files.items() if progress.modified >= oldest}
        return Progress(self._names(start, taken), watermark, files)

    def formats_of(self, path: str, end: int) -> dict[bytes, Format]:
        """The formats that are known of a file before an offset."""
        if path not in self._formats:
            self._formats[path] = formats_before(path, end)
        return self._formats[path]

    def folders_of(self, path: str) -> tuple[tuple[str, str | None], ...]:
        """The values of the `k=v` folders that a file lies in."""
        if path not in self._folders:
            self._list()
        return self._folders.get(path, ())

    def _list(self) -> list[DataFile]:
        listed = list_files(self._paths, self._options)
        self._folders = {file.path: file.partition for file in listed}
        return listed

    def _origins(
        self, start: Progress, listed: Iterable[DataFile]
    ) -> tuple[dict[str, FileProgress], dict[str, FileProgress]]:
        """How far the files that are there now had been read, by their names now; and what was read but is gone."""
        origins: dict[str, FileProgress] = {}
        new: list[DataFile] = []
        for file in listed:
            known = start.files.get(file.path)
            if known is None:
                new.append(file)
            elif self._is_seen(file, known.to) or is_still(file, known):
                origins[file.path] = known
            else:
                log.warning("%s is no longer the file that was read; what it is now is read from the start", file.path)
                self._formats.pop(file.path, None)
                new.append(file)
        gone = {path: known for path, known in start.files.items() if path not in origins}
        for file in new:
            former = next((path for path, known in gone.items() if known.last and is_still(file, known)), None)
            if former is not None:
                log.info("%s is now called %s", former, file.path)
                origins[file.path] = gone.pop(former)
        return origins, gone

    def _is_seen(self, file: DataFile, to: Point) -> bool:
        return self._seen.get(file.path) == (file.size, file.modified, to.offset)

    def _advance(self, file: DataFile, origin: FileProgress | None, room: int | None) -> Advance | None:
        """How far a file can be read on; None if it cannot."""
        start = Point(0, 0) if origin is None else origin.to
        if self._is_seen(file, start) or (origin is not None and origin.damaged is not None):
            return None
        try:
            found = advance(file, start, self._formats.get(file.path, {}), room)
        except FileNotFoundError:
            return None
        if found is not None and found.damage is not None:
            if self._options.mode == "FAILFAST" and not self._options.ignore_corrupt_files:
                raise found.damage
            log.warning("%s", found.damage)
        if found is None or found.is_all:
            to = start if found is None else found.to
            self._seen[file.path] = file.size, file.modified, to.offset
        return found

    def _names(self, start: Progress, taken: Mapping[str, Advance]) -> tuple[str, ...]:
        """The names of the formats that the stream reads, where the user did not say."""
        used: dict[Format, None] = {}
        for path, part in taken.items():
            self._formats.setdefault(path, {}).update(part.formats)
            used |= dict.fromkeys(form for form in part.used if is_wanted(form, self._options))
        if self._met:
            for new in used.keys() - self._met:
                announce(new, self._options)
        self._met |= used.keys()
        if self._options.format_name or self._options.format_id:
            return ()
        names = tuple(dict.fromkeys((*start.names, *(f.name for f in used))))
        if len(names) > 1:
            raise several_formats(names)
        return names


def _progress(file: DataFile, origin: FileProgress | None, part: Advance | None) -> FileProgress | None:
    """How far a file has been read after a batch; None if nothing of it has."""
    if part is not None:
        damaged = file.size if part.damage is not None else None
        last = origin.last if part.last is None and origin is not None else part.last
        return FileProgress(part.to, last, file.modified, part.start, damaged)
    if origin is not None:
        return FileProgress(origin.to, origin.last, file.modified, None, origin.damaged)
    return None
