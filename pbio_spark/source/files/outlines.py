"""Files -> outlines: what is known without decoding a record, found as cheaply as each file allows.

The sources of an outline, in order: the sidecar of the file, the cached outline of an unchanged file, a walk over its
items, and, where that would cost too much, only the formats at its head. A file with FFS's own index is walked by the
heads of its items, whatever its size. A sidecar is compared with the file where it matters, and an index is not relied
upon: neither can hide a record or make one up.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ecode.native.cache import folder
from pbio_spark.columns import BatchLimits, Chunker, RangeFinder, Resumption
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.store import FormatStore
from pbio_spark.paths import locate, opened
from pbio_spark.source.files.listing import ListedFile, list_files
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.store import store_of
from pbio_spark.wire import IndexCheck, ItemKind, Scanner, TruncatedError
from pbio_spark.wire.hints.sidecar import STEP, Outline, Point, outline_from_json, outline_to_json, read_sidecar

PARTITION_BYTES = 128 << 20
"""How many bytes of files one task reads by default, as in Spark."""
HEAD = 1 << 20
"""How far into a file its head formats are searched, in bytes."""
ITEMS, FIRST_ITEMS = 160_000, 1_000
"""With more items than this, estimated from its first ones, a file is faster to read than to walk by heads."""
HEADS = 1 << 12
"""What a walk by heads fetches at once, in bytes."""
REMEMBERED = 8 << 20
"""The least bytes of a file whose outline is cached on disk."""
THREADS = 8
CHUNKS = BatchLimits(1 << 16, 8 << 20)
"""What a walk reads at once, in bytes."""

log = logging.getLogger("pbio_spark.source")


def outline_files(files: Sequence[ListedFile], options: Options, *, all_formats: bool) -> list[Outline]:
    """The outlines of files, in their order.

    Args:
        all_formats: whether every format of a file matters; otherwise, a file that needs no splitting is not walked.

    Raises PBIO_NOT_FFS and the other errors of a file as far as it is read, unless `mode` or `ignoreCorruptFiles`
    tolerates them; PBIO_PATH_NOT_FOUND unless `ignoreMissingFiles` does.
    """
    store = store_of(options)
    walked: set[str] = set()
    budget = options.scan_limit
    for file in sorted(files, key=lambda file: file.size):
        if all_formats or file.size > (options.max_partition_bytes or PARTITION_BYTES):
            # A sidecar saves the walk, but it may turn out to be outdated.
            budget -= 0 if file.has_sidecar else file.size
            if budget >= 0 and file.size <= options.scan_limit:
                walked.add(file.path)

    def outline(file: ListedFile) -> Outline:
        try:
            found, error = _outline(file, file.path in walked, options, store)
        except FileNotFoundError:
            found = Outline(file.size, file.modified, (), (), (), False)
            error = PbioError(
                "PBIO_PATH_NOT_FOUND",
                "the file has vanished since it was listed",
                file=file.path,
                hint="read again; write to folders other than those being read",
            )
        if isinstance(error, TruncatedError) or error is None:
            return found
        match error.code:
            case "PBIO_PATH_NOT_FOUND":
                is_tolerated = options.ignore_missing_files
            case "PBIO_BAD_ITEM":
                is_tolerated = options.ignore_corrupt_files or options.mode != "FAILFAST"
            case _:
                is_tolerated = options.ignore_corrupt_files
        if not is_tolerated:
            raise error
        log.warning("%s", error)
        return found

    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(outline, files))


def outlines_to_formats(outlines: Iterable[Outline]) -> tuple[Format, ...]:
    """The formats that files describe, wanted or not, with records or without, in the order of appearance."""
    return tuple(dict.fromkeys(form for outline in outlines for form in outline.formats))


def paths_to_formats(paths: Sequence[str]) -> tuple[Format, ...]:
    """The formats that the files at paths describe, in the order of appearance.

    Raises what `list_files` and `outline_files` raise.
    """
    options = Options()
    return outlines_to_formats(outline_files(list_files(paths, options), options, all_formats=True))


def _outline(
    file: ListedFile, walk: bool, options: Options, store: FormatStore | None
) -> tuple[Outline, PbioError | None]:
    """The outline of a file, and why it is not more complete."""
    known = read_sidecar(*locate(file.path), file.size, file.modified) if file.has_sidecar else None
    if known is None and file.size >= REMEMBERED:
        known = _recall(file)
    if known is not None and not (known.is_whole or not walk):
        known = None
    with opened(file.path) as source:
        if known is not None and known.fits(source, cuts(known.points, file.size, options)):
            return known, None
        if known is not None and known.sums and not options.ignore_corrupt_files:
            reason = "the file has the size and the time that its outline names, but other bytes"
            hint = "restore the file, or rewrite its outline with `pbio index --checksums`"
            return known, PbioError("PBIO_CHECKSUM", reason, file=file.path, hint=hint)
        found, error = _by_heads(file, source) or file_to_outline(
            file, source, None if walk else HEAD, store, resync=options.resync
        )
    if file.size >= REMEMBERED and error is None and store is None:
        _remember(file, found)
    return found, error


def cuts(points: Sequence[Point], size: int, options: Options) -> Iterator[Point]:
    """The points after which a file is cut into about equal parts of at most `maxPartitionBytes`."""
    parts = -(-size // (options.max_partition_bytes or PARTITION_BYTES))
    wanted = 1
    for point in points:
        if point.offset * parts >= wanted * size:
            yield point
            wanted = point.offset * parts // size + 1


def file_to_outline(
    file: ListedFile,
    source: BinaryIO,
    stop: int | None = None,
    store: FormatStore | None = None,
    *,
    resync: bool = False,
    ranged: bool = False,
    points_of: Sequence[Point] | None = None,
) -> tuple[Outline, PbioError | None]:
    """Walk over a file, or over its bytes before `stop`; also return what ended the walk early.

    Args:
        store: the store for formats that the file does not describe.
        resync: whether the walk resumes after damage, at the next sound item.
        ranged: whether to record the ranges of values, which a complete file with sound records allows.
        points_of: the points to use, which must be item boundaries; by default they are chosen.
    """
    counts = Counter[int]()
    points: list[Point] = list(points_of or ())
    error: PbioError | None = None
    chunker = Chunker(source, file.path, (), store, CHUNKS, resumption=Resumption(search=resync))
    finder = RangeFinder()
    try:
        for chunk in chunker.chunks(0, file.size if stop is None else min(stop, file.size), 0):
            error = chunk.error or error
            numbers, found = np.unique(chunk.formats, return_counts=True)
            counts.update(dict(zip(numbers.tolist(), found.tolist(), strict=True)))
            while points_of is None:
                row = int(np.searchsorted(chunk.positions, (points[-1].offset if points else 0) + STEP - chunk.offset))
                if row == len(chunk.positions):
                    break
                ordinal = chunk.ordinal + row if chunk.is_counted else None
                points.append(Point(chunk.offset + int(chunk.positions[row]), ordinal))
            if ranged:
                finder.add(chunk, chunker.formats, [point.offset for point in points])
    except PbioError as caught:
        error = caught
    formats = tuple(chunker.formats)
    is_whole = error is None and (stop is None or stop >= file.size)
    found_of = tuple(counts[number] for number in range(len(formats)))
    ranges = finder.made(formats, len(points) + 1) if ranged and is_whole else ()
    outline = Outline(file.size, file.modified, formats, found_of, tuple(points), is_whole, ranges=ranges)
    return _made(outline, source), error


def _made(outline: Outline, source: BinaryIO) -> Outline:
    return outline.with_samples(source) if outline.is_whole else outline


def _by_heads(file: ListedFile, source: BinaryIO) -> tuple[Outline, PbioError | None] | None:
    """The outline of a file with FFS's index, found by reading only the heads of its items.

    None without an index, or if reading the file is faster because of its many items.
    """
    scanner = Scanner(source, file.path, chunk=HEADS)
    index = IndexCheck(scanner)
    lies: PbioError | None = None
    error: PbioError | None = None
    counts = Counter[bytes]()
    points: list[Point] = []
    is_indexed = False
    try:
        for number, item in enumerate(scanner.items(file.size)):
            is_indexed |= item.kind is ItemKind.INDEX
            if not is_indexed and item.kind is not ItemKind.COMMENT:
                return None
            if number >= FIRST_ITEMS and number * file.size > ITEMS * item.offset:
                return None
            lies = lies or next(index.check(item), None)
            if item.kind is ItemKind.DATA:
                counts[item.format_id] += 1
                if item.offset - (points[-1].offset if points else 0) >= STEP:
                    points.append(Point(item.offset, item.ordinal))
        lies = lies or next(index.end(scanner.offset), None)
    except PbioError as caught:
        error = caught
    if not is_indexed:
        return None
    if lies is not None:
        log.warning("%s", lies)
    formats = tuple(scanner.formats.values())
    found_of = tuple(counts[form.id] for form in formats)
    return _made(Outline(file.size, file.modified, formats, found_of, tuple(points), error is None), source), error


def _recall(file: ListedFile) -> Outline | None:
    """The cached outline of a file that has not changed since."""
    try:
        known = outline_from_json(_memory(file).read_bytes())
    except OSError:
        return None
    return known if known is not None and known.is_of(file.size, file.modified) else None


def _remember(file: ListedFile, outline: Outline) -> None:
    with suppress(OSError):
        path = _memory(file)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w") as stream:
            stream.write(outline_to_json(outline))
        os.replace(temporary, path)


def _memory(file: ListedFile) -> Path:
    """The path of a file's outline in the private cache. Raises OSError without a cache."""
    private = folder()
    if private is None:
        raise FileNotFoundError("no private cache")
    return private / f"outline-{hashlib.sha256(file.path.encode('utf-8', 'surrogateescape')).hexdigest()}"
