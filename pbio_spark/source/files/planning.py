"""Files and their outlines -> partitions: lists of splits, each a run of whole items of one file.

A plan holds places and formats, never records, so it stays small however large the files are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pbio_spark.columns import CORRUPT_TYPE, METADATA_TYPE, ReadPlan
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.source.files.listing import ListedFile, list_files, refuse_folder_of_spaces
from pbio_spark.source.files.outlines import PARTITION_BYTES, cuts, outline_files, outlines_to_formats
from pbio_spark.source.files.partitions import partition_schema
from pbio_spark.source.files.skipping import Skip, excluded_blocks, joined, log_skips, with_skips
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.schema import check_names, infer_schema, wanted_formats
from pbio_spark.wire.hints.sidecar import ChecksumBlock, Outline, Point

OPEN_COST = 4 << 20
"""The cost of opening a file, in bytes that could be read instead, as in Spark."""


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file that starts and ends at item boundaries.

    Attributes:
        start, end: offsets; 0 is before the magic.
        ordinal: of the first record from `start` on; None if unknown.
        formats: the formats of the file, which a reader that starts in the middle would not see.
        records: the number of records that it must have; None if unknown.
        anchors: the other item boundaries that the file's outline names, and its end.
        blocks: those with checksums in the outline.
        skips: the parts without rows, by the outline, if it still belongs to the file.
        samples: places in the file, and the outline's checksums of the bytes there; at least `start` and the file's
            end, if the outline has samples.
    """

    file: ListedFile
    start: int
    end: int
    ordinal: int | None
    formats: tuple[Format, ...] = ()
    records: int | None = None
    anchors: tuple[Point, ...] = ()
    blocks: tuple[ChecksumBlock, ...] = ()
    skips: tuple[Skip, ...] = ()
    samples: tuple[tuple[int, int], ...] = ()

    @property
    def bytes(self) -> int:
        """The number of bytes to read."""
        return self.end - self.start - sum(skip.end - skip.start for skip in self.skips)


def plan_partitions(
    files: Sequence[ListedFile], outlines: Sequence[Outline], options: Options, plan: ReadPlan | None = None
) -> list[tuple[Split, ...]]:
    """Splits of about `maxPartitionBytes`, several together where files are small, in the order of the files.

    Only bytes that remain to be read count: splits with much to skip are joined, and a file with nothing left to read
    is omitted, unless its outline has checksums, which a task must compare.

    Args:
        plan: the plan of reading them, whose filter excludes blocks.
    """
    splits = _splits(files, outlines, options)
    if plan is None or not options.skip_blocks:
        return pack(splits, options)
    known = {
        file.path: (outline, excluded)
        for file, outline in zip(files, outlines, strict=True)
        if outline.ranges and (excluded := excluded_blocks(plan, outline)).any()
    }
    found = [with_skips(split, *known[path]) if (path := split.file.path) in known else split for split in splits]
    log_skips(found)
    return pack(joined(found, options.max_partition_bytes or PARTITION_BYTES), options)


def pack(splits: Iterable[Split], options: Options) -> list[tuple[Split, ...]]:
    """Splits in their order, grouped into partitions of about `maxPartitionBytes`."""
    partitions: list[list[Split]] = []
    room = 0
    for split in splits:
        cost = split.bytes + OPEN_COST
        if cost > room or not partitions:
            partitions.append([])
            room = (options.max_partition_bytes or PARTITION_BYTES) + OPEN_COST
        partitions[-1].append(split)
        room -= cost
    return [tuple(partition) for partition in partitions]


def _splits(files: Iterable[ListedFile], outlines: Iterable[Outline], options: Options) -> Iterator[Split]:
    for file, outline in zip(files, outlines, strict=True):
        start, sample_at = Point(0, 0), outline.sample_at
        for cut in (*cuts(outline.points, file.size, options), Point(file.size, None)):
            if start.offset < cut.offset:
                places = (start.offset, file.size) if sample_at else ()
                samples = tuple((place, sample_at[place]) for place in places)
                yield _split(file, outline, start, cut.offset, samples)
            start = cut


def _split(file: ListedFile, outline: Outline, start: Point, end: int, samples: tuple[tuple[int, int], ...]) -> Split:
    known = outline.points
    if outline.is_whole:
        known = (*known, Point(file.size, sum(outline.counts)))
    anchors = tuple(point for point in known if start.offset < point.offset <= end)
    blocks = tuple(block for block in outline.blocks if start.offset <= block.start < end)
    formats = outline.formats if start.offset else ()
    return Split(file, start.offset, end, start.ordinal, formats, anchors=anchors, blocks=blocks, samples=samples)


@dataclass(frozen=True, slots=True)
class FileScan:
    """What to read: files, their outlines, and the wanted formats in them."""

    options: Options
    files: tuple[ListedFile, ...]
    outlines: tuple[Outline, ...]
    formats: tuple[Format, ...]

    @property
    def described(self) -> tuple[Format, ...]:
        """All formats that were found, wanted or not, with records or without."""
        return outlines_to_formats(self.outlines)

    def walked(self) -> FileScan:
        """The scan with files walked as far as `scanLimit` allows, for all their formats."""
        outlines = outline_files(self.files, self.options, all_formats=True)
        return replace(self, outlines=tuple(outlines), formats=tuple(wanted_formats(outlines, self.options)))

    @property
    def is_whole(self) -> bool:
        """Whether no other formats can appear, since all files were walked to their ends."""
        return all(outline.is_whole for outline in self.outlines)

    @property
    def counts(self) -> dict[bytes, int]:
        """How many records each format has, by its ID, as far as the files were walked."""
        counts = Counter[bytes]()
        for outline in self.outlines:
            for form, count in zip(outline.formats, outline.counts, strict=True):
                counts[form.id] += count
        return counts


def scan_files(paths: Sequence[str], options: Options, *, all_formats: bool) -> FileScan:
    """List and outline files. Raises what `list_files`, `outline_files` and `wanted_formats` raise."""
    files = list_files(paths, options)
    if not files:
        refuse_folder_of_spaces(paths)
    outlines = outline_files(files, options, all_formats=all_formats)
    return FileScan(options, tuple(files), tuple(outlines), tuple(wanted_formats(outlines, options)))


def scan_to_schema(scan: FileScan) -> pa.Schema:
    """All columns of a scan: of the formats, of the `k=v` folders, and those that options request.

    Raises what `infer_schema` and `check_names` raise.
    """
    options = scan.options
    columns = [*infer_schema(scan.formats, options, scan.described), *partition_schema(scan.files)]
    return with_special_columns(columns, options, METADATA_TYPE)


def with_special_columns(columns: Iterable[pa.Field], options: Options, metadata_type: pa.StructType) -> pa.Schema:
    """The schema of columns, with those that options request. Raises what `check_names` raises."""
    columns = list(columns)
    if options.mode == "PERMISSIVE":
        columns.append(pa.field(options.column_name_of_corrupt_record, CORRUPT_TYPE))
    if options.metadata_column is not None:
        columns.append(pa.field(options.metadata_column, metadata_type))
    schema = pa.schema(columns)
    own = {
        options.metadata_column: "metadataColumn",
        options.column_name_of_corrupt_record: "columnNameOfCorruptRecord",
    }
    try:
        check_names(schema)
    except PbioError as error:
        made = [option for name, option in own.items() if f"$.{name}" == error.field]
        if made:
            error.reason = f"the column of the option {made[0]} has the same name as another, ignoring case"
            error.hint = f"give another name with {made[0]}"
        raise
    return schema
