"""Files -> outlines: what is known of them without decoding a record, found as cheaply as each file allows.

In this order: the sidecar beside the file, what was found out about the unchanged file before, FFS's own index, a walk
over the headers of its items, and where that would cost too much the formats at its head.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ecode.native.cache import folder
from pbio_spark.columns.chunks import Chunker
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.store import FolderStore, FormatStore
from pbio_spark.paths import locate, opened
from pbio_spark.source.listing import DataFile
from pbio_spark.source.options import Options
from pbio_spark.wire import Scanner, TruncatedError, read_index
from pbio_spark.wire.sidecar import STEP, Outline, Point, outline_from_json, outline_to_json, read_sidecar

PARTITION_BYTES = 128 << 20
"""How many bytes of files one task reads, where nobody says: Spark's own figure."""
HEAD = 1 << 20
"""How far into a file the formats at its head are looked for, in bytes."""
BLOCKS = 20_000
"""An index of more blocks than this is slower to follow than the file is to read."""
REMEMBERED = 8 << 20
"""Outlines of files of at least this many bytes are kept on disk."""
THREADS = 8
CHUNK_RECORDS, CHUNK_BYTES = 1 << 16, 8 << 20
"""What a walk takes at once."""

log = logging.getLogger("pbio_spark.source")


def outline_files(files: Sequence[DataFile], options: Options, *, all_formats: bool) -> list[Outline]:
    """The outlines of files, in their order.

    Args:
        all_formats: whether every format of a file matters; if not, a file that needs no splitting is not walked.

    Raises PBIO_NOT_FFS and what else is wrong with a file as far as it is read, unless `mode` or `ignoreCorruptFiles`
    bears it; PBIO_PATH_NOT_FOUND unless `ignoreMissingFiles` does.
    """
    store = None if options.format_store is None else FolderStore(options.format_store)
    walked: set[str] = set()
    budget = options.scan_limit
    for file in sorted(files, key=lambda file: file.size):
        if all_formats or file.size > (options.max_partition_bytes or PARTITION_BYTES):
            # A sidecar spares the walk, but it may turn out to be of an earlier state of the file.
            budget -= 0 if file.has_sidecar else file.size
            if budget >= 0 and file.size <= options.scan_limit:
                walked.add(file.path)

    def outline(file: DataFile) -> Outline:
        try:
            found, error = _outline(file, file.path in walked, store)
        except FileNotFoundError:
            found = Outline(file.size, file.modified, (), (), (), False)
            error = PbioError("PBIO_PATH_NOT_FOUND", "the file has vanished since it was listed", file=file.path)
        if isinstance(error, TruncatedError) or error is None:
            return found
        match error.code:
            case "PBIO_PATH_NOT_FOUND":
                is_borne = options.ignore_missing_files
            case "PBIO_BAD_ITEM":
                is_borne = options.ignore_corrupt_files or options.mode != "FAILFAST"
            case _:
                is_borne = options.ignore_corrupt_files
        if not is_borne:
            raise error
        log.warning("%s", error)
        return found

    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(outline, files))


def _outline(file: DataFile, walk: bool, store: FormatStore | None) -> tuple[Outline, PbioError | None]:
    """What is known of a file, and why it is not more."""
    if file.has_sidecar and (known := read_sidecar(*locate(file.path), file.size, file.modified)) is not None:
        return known, None
    if file.size >= REMEMBERED and (known := _recall(file)) is not None and (known.is_whole or not walk):
        return known, None
    with opened(file.path) as source:
        found, error = _indexed(file, source) or file_to_outline(file, source, None if walk else HEAD, store)
    if file.size >= REMEMBERED and error is None and store is None:
        _remember(file, found)
    return found, error


def file_to_outline(
    file: DataFile, source: BinaryIO, stop: int | None = None, store: FormatStore | None = None
) -> tuple[Outline, PbioError | None]:
    """Walk over a file, or over its bytes before `stop`; also what ended the walk early.

    Args:
        store: where formats are looked up that the file does not describe.
    """
    counts = Counter[int]()
    points: list[Point] = []
    error: PbioError | None = None
    find = store.get if store is not None else lambda format_id: None
    chunker = Chunker(source, file.path, (), find, CHUNK_RECORDS, CHUNK_BYTES)
    try:
        for chunk in chunker.chunks(0, file.size if stop is None else min(stop, file.size), 0):
            error = chunk.error
            numbers, found = np.unique(chunk.formats, return_counts=True)
            counts.update(dict(zip(numbers.tolist(), found.tolist(), strict=True)))
            while True:
                row = int(np.searchsorted(chunk.positions, (points[-1].offset if points else 0) + STEP - chunk.offset))
                if row == len(chunk.positions):
                    break
                points.append(Point(chunk.offset + int(chunk.positions[row]), chunk.ordinal + row))
    except PbioError as caught:
        error = caught
    formats = tuple(chunker.formats)
    is_whole = error is None and (stop is None or stop >= file.size)
    found_of = tuple(counts[number] for number in range(len(formats)))
    return Outline(file.size, file.modified, formats, found_of, tuple(points), is_whole), error


def _indexed(file: DataFile, source: BinaryIO) -> tuple[Outline, None] | None:
    """The outline that FFS's index gives; None if there is none, or one that is damaged or too long."""
    try:
        blocks = read_index(Scanner(source, file.path), BLOCKS)
        if blocks is None:
            return None
        ids: dict[bytes, int] = {}
        formats: dict[bytes, Format] = {}
        points: list[Point] = []
        for block in blocks:
            ordinal = block.first
            for entry in block.entries:
                if not entry.is_data:
                    formats[entry.format_id] = _format_at(source, file.path, entry.offset)
                    continue
                ids[entry.format_id] = ids.get(entry.format_id, 0) + 1
                if entry.offset - (points[-1].offset if points else 0) >= STEP:
                    points.append(Point(entry.offset, ordinal))
                ordinal += 1
    except PbioError as error:
        log.warning("%s", error)
        return None
    counts = tuple(ids.get(format_id, 0) for format_id in formats)
    return Outline(file.size, file.modified, tuple(formats.values()), counts, tuple(points), True), None


def _format_at(source: BinaryIO, path: str, offset: int) -> Format:
    scanner = Scanner(source, path, offset=offset)
    next(scanner.items())
    (found,) = scanner.formats.values()
    return found


def _recall(file: DataFile) -> Outline | None:
    """What was found out about the file when it was as it is now."""
    try:
        known = outline_from_json(_memory(file).read_bytes())
    except OSError:
        return None
    return known if known is not None and known.is_of(file.size, file.modified) else None


def _remember(file: DataFile, outline: Outline) -> None:
    with suppress(OSError):
        path = _memory(file)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w") as stream:
            stream.write(outline_to_json(outline))
        os.replace(temporary, path)


def _memory(file: DataFile) -> Path:
    """Where the outline of a file is kept, in the private cache. Raises OSError if there is none."""
    private = folder()
    if private is None:
        raise FileNotFoundError("no private cache")
    return private / f"outline-{hashlib.sha256(file.path.encode()).hexdigest()}"
