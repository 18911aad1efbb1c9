"""The files of a stream's paths at one moment, where folders may go and return."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pbio_spark.errors import PbioError
from pbio_spark.globs import is_glob
from pbio_spark.paths import full_path, locate
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.follow.progress import Progress
from pbio_spark.source.follow.sight import Sight, key_of, look_at
from pbio_spark.source.options.options import Options

RETURNS = (
    "put it back, and the query, started again, resumes where it left off; with ignoreMissingFiles=true a stream "
    "waits for folders to return"
)

log = logging.getLogger("pbio_spark.source")


class Folders:
    """The paths of a stream.

    Attributes:
        absent: those that were gone at the last look, and that the stream waits for.
    """

    def __init__(self, paths: Sequence[str], options: Options) -> None:
        self._paths = paths
        self._options = options
        self.absent: frozenset[str] = frozenset()

    def files_there(self) -> list[Sight]:
        """The existing files, whatever is gone. Raises what `list_files` raises."""
        return look_at(list_files(self._paths, self._options, lambda path: True))

    def look(self, start: Progress) -> list[Sight]:
        """The existing files, the oldest first.

        A file that the stream has read may be gone, as may all matches of a glob. With `ignoreMissingFiles`
        a folder may, too, once the stream has read anything; before that, its path may be misspelled.

        Raises what `list_files` raises.
        """
        keys = {file.key for file in start.files}
        absent: set[str] = set()

        def may_be_gone(path: str) -> bool:
            if not keys or is_glob(path) or key_of(full_path(*locate(path))) in keys:
                return bool(keys)
            if self._options.ignore_missing_files:
                absent.add(path)
            return path in absent

        try:
            sights = look_at(list_files(self._paths, self._options, may_be_gone))
        except PbioError as error:
            if error.code == "PBIO_PATH_NOT_FOUND" and keys:
                error.hint = RETURNS
            raise
        for path in sorted(absent - self.absent):
            log.warning("%s is gone: waiting for it to return", path)
        self.absent = frozenset(absent)
        return sorted(sights, key=lambda sight: (sight.file.modified, sight.path))
