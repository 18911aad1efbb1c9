"""Format stores: they keep bodies by ID, apart from the records."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from fsspec.implementations.local import LocalFileSystem

from pbio_spark.disk import create_file, definite, into_what_is_there, make_folder, open_file, sync_folder
from pbio_spark.errors import PbioError
from pbio_spark.formats.body.layouts import MAX_BODY
from pbio_spark.formats.format import Format, check_format
from pbio_spark.keywords import check_storage_options
from pbio_spark.paths import locate, move_file, trouble

FORMATS = "_formats"
"""The folder below a root that holds the bodies."""

FORMAT_NAME = re.compile(r"(?:[0-9a-f]{2}){8}|(?:[0-9a-f]{2}){10}|(?:[0-9a-f]{2}){12}")
"""The name of a body's file: the format's ID."""


_READERS = 16
"""How many formats are read at once from where reading one takes long."""


class FormatFinder(Protocol):
    """Where formats are looked for by ID."""

    def find(self, format_ids: Iterable[bytes]) -> list[Format]:
        """The formats of some IDs, as far as they are found; it may wait for missing ones."""


class FormatStore(FormatFinder, Protocol):
    """Formats by ID. A store neither takes nor returns a body with a wrong computed (version 2) ID: PBIO_BAD_ID."""

    def get(self, format_id: bytes) -> Format | None:
        """The format of that ID, or None."""

    def put(self, format: Format) -> None:  # noqa: A002
        """Store a format. Raises PBIO_FORMAT_CONFLICT if the store has another body with its ID."""

    def __iter__(self) -> Iterator[Format]:
        """All formats."""

    def __hash__(self) -> int:
        """A store hashes by identity, whatever it holds."""


def missing_hint(store: FormatStore) -> str:
    """What to do about a format that a store lacks."""
    while (asked := getattr(store, "asked", None)) is not None:
        store = asked
    place = getattr(store, "root", None) or getattr(store, "place", None)
    where = "" if place is None else f", which is not in {place}"
    return f"see that its producer stores the format{where}"


class MemoryStore:
    """Formats in memory, for instance those that a file's own format items describe.

    >>> from ecode.types import INT32, Field, record
    >>> from pbio_spark.formats.layout import record_to_format
    >>> format = record_to_format(record("ping", [Field("n", INT32)]))
    >>> MemoryStore([format]).get(format.id) == format
    True
    """

    def __init__(self, formats: Iterable[Format] = ()) -> None:
        self._formats: dict[bytes, Format] = {}
        for format in formats:  # noqa: A001
            self.put(format)

    def get(self, format_id: bytes) -> Format | None:
        return self._formats.get(format_id)

    def find(self, format_ids: Iterable[bytes]) -> list[Format]:
        return [found for format_id in format_ids if (found := self.get(format_id)) is not None]

    def put(self, format: Format) -> None:  # noqa: A002
        check_format(format)
        format.verify_id()
        known = self._formats.setdefault(format.id, format)
        if known.body != format.body:
            raise _conflict(format)

    def __iter__(self) -> Iterator[Format]:
        return iter(list(self._formats.values()))


class FolderStore:
    """Formats in the folder `_formats` of a root on any fsspec file system, one file per format, named by its ID.

    A file appears whole or not at all, is on disk when `put` returns, and never changes. The store remembers formats
    that it has read, and looks again for those that were missing.
    """

    def __init__(self, root: str | os.PathLike[str], **storage_options: Any) -> None:
        """`storage_options` go to fsspec."""
        # A cached listing of a folder would hide what others have put there since.
        self._fs, path = locate(root, **{**storage_options, "use_listings_cache": False})
        self.root = os.fsdecode(root)
        self._folder = f"{path.rstrip('/')}/{FORMATS}"
        self._is_local = isinstance(self._fs, LocalFileSystem)
        check_storage_options(storage_options, (), is_local=self._is_local)
        self._known = MemoryStore()

    def get(self, format_id: bytes) -> Format | None:
        if not isinstance(format_id, bytes):
            reason = f"the ID of a format is bytes, not {type(format_id).__name__}"
            raise PbioError("PBIO_BAD_ID", reason, hint="convert an ID from a message with bytes.fromhex")
        known = self._known.get(format_id)
        return known if known is not None else self._load(format_id)

    def find(self, format_ids: Iterable[bytes]) -> list[Format]:
        wanted = list(format_ids)
        if self._is_local or len(wanted) < 2:
            return [found for format_id in wanted if (found := self.get(format_id)) is not None]
        with ThreadPoolExecutor(_READERS) as pool:  # a bucket answers many as fast as one
            return [found for found in pool.map(self.get, wanted) if found is not None]

    def put(self, format: Format) -> None:  # noqa: A002
        check_format(format)
        format.verify_id()
        # Not the remembered format: the file may have been removed since.
        found = self._load(format.id)
        if found is None:
            self._create(self._path(format.id), format.body)
            # Read it back: another writer may have been faster, and an ID that is not a hash may have two bodies.
            found = self._load(format.id)
        if found != format:
            raise _conflict(format)

    def __iter__(self) -> Iterator[Format]:
        try:
            with trouble(self._fs, self._folder):
                paths = self._fs.ls(self._folder, detail=False)
        except FileNotFoundError:
            return
        for name in sorted(path.rpartition("/")[2] for path in paths):
            found = self.get(bytes.fromhex(name)) if FORMAT_NAME.fullmatch(name) else None
            if found is not None:
                yield found

    def _path(self, format_id: bytes) -> str:
        return f"{self._folder}/{format_id.hex()}"

    def _load(self, format_id: bytes) -> Format | None:
        if not FORMAT_NAME.fullmatch(format_id.hex()):
            return None  # the length is not that of an ID
        path = self._path(format_id)
        try:
            with trouble(self._fs, path), self._open(path) as file:
                body = file.read(MAX_BODY + 1)
        except FileNotFoundError:
            return None
        known = self._known.get(format_id)
        if known is not None and known.body == body:
            return known
        try:
            loaded = Format.from_body(body, format_id)
            self._known.put(loaded)
        except PbioError as error:
            raise error.at(file=path) from None
        return self._known.get(format_id) or loaded  # another thread may have read it, too

    def _open(self, path: str) -> Any:
        return open_file(path, "PBIO_BAD_BODY") if self._is_local else self._fs.open(path, "rb")

    def _create(self, path: str, body: bytes) -> None:
        # A format whose outcome is open can be put again, because `put` looks for it first.
        with into_what_is_there(self.root), trouble(self._fs, path), definite():
            make_folder(self._fs, self._folder)
            if not self._is_local:
                temporary = f"{self._folder}/.{uuid.uuid4().hex}.tmp"
                self._fs.pipe_file(temporary, body)
                move_file(self._fs, temporary, path)
            elif not create_file(path, [body]):
                sync_folder(self._folder)  # the faster writer may not have done so yet


def _conflict(format: Format) -> PbioError:  # noqa: A002
    return PbioError(
        "PBIO_FORMAT_CONFLICT",
        "the store has another body with this ID",
        format=format.id.hex(),
        hint="one of the two bodies comes from a damaged file or from another format server",
    )
