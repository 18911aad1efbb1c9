"""Writing a folder of files: complete files or none.

Tasks write to a hidden staging folder, under names that no other attempt uses. The commit moves the files of successful
attempts into place, removes what an overwrite replaces, and creates `_SUCCESS`; an abort removes only the staging
folder. A task that outlives its failed job may leave a staging folder; no reader sees it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pbio_spark.columns import Encoder, RangeMaker, RecordBuffer, format_to_encoder, limited, ranges_kernel
from pbio_spark.disk import into_what_is_there, make_folder
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.paths import find_entry, full_path, is_local, locate, move_file, remove_folder, trouble
from pbio_spark.source.arrow import with_schema
from pbio_spark.source.files.being_read import files_read, refuse_read_files
from pbio_spark.source.options.options import Options
from pbio_spark.source.reason_first import says_reason_first
from pbio_spark.source.write.folders import FolderColumns
from pbio_spark.source.write.output import OutputFile, WrittenFile
from pbio_spark.source.write.overwrite import refuse_other_columns, replaced_files
from pbio_spark.source.write.write_format import (
    files_there,
    formats_of,
    formats_to_write,
    name_there,
    refuse_other_types,
    several_there,
)
from pbio_spark.spaces import space_above
from pbio_spark.wire.hints.ranges import Ranges
from pbio_spark.wire.hints.sidecar import Outline, write_sidecar

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

OVERWRITES = "spark.sql.sources.partitionOverwriteMode"
OPEN_FILES = 64
"""How many files of different folders a task keeps open; beyond that it finishes the least recently used one."""
OUTLINED = 256 << 10
"""A file of at least this many bytes gets an outline, even with one block. Measured: planning takes 0.5 ms with it
instead of 1 (of 500 kB) or 2.3 (3 MB), and a file excluded by a filter is not read, which saves 2 to 4 ms more. Smaller
files are read as fast as outlines."""


@dataclass(frozen=True, slots=True)
class TaskOutput(WriterCommitMessage):
    """The result of one task.

    Attributes:
        files: with their paths below the staging folder, which are also their places in the target.
        overwrites: `partitionOverwriteMode` of the session, which only tasks get.
        read: what the query itself reads in the folder (see `being_read`).
    """

    files: tuple[WrittenFile, ...]
    overwrites: str | None = None
    read: tuple[str, ...] = ()


def refuse_space(path: str) -> None:
    """Raise PBIO_CHANNEL_SPACE if files would be written to or inside a channel space."""
    fs, root = locate(path)
    _refuse_spaces(fs, root)


def _refuse_spaces(fs: AbstractFileSystem, *folders: str) -> None:
    fs.invalidate_cache()
    space = space_above(fs, *folders)
    if space is not None:
        raise PbioError(
            "PBIO_CHANNEL_SPACE",
            "cannot write files into a channel space",
            file=space,
            hint="choose another folder, or publish: save to the space, and name a channel of it with the option "
            "channel, or for each row with channelColumn; `pbio space ls` lists them",
        )


@says_reason_first
class PbioWriter(DataSourceArrowWriter):
    """Writes record batches of one schema to a folder. Created on the driver; a copy writes in each task."""

    def __init__(self, path: str, options: Options, schema: pa.Schema, overwrite: bool) -> None:
        """
        Raises:
            PbioError: PBIO_CHANNEL_SPACE; what `formats_to_write`, `name_there` and both of `refuse_other_types` raise;
                PBIO_BAD_OPTION and what `format_to_encoder` raises for a schema that cannot be written.
        """
        if options.checksums and options.index != "sidecar":
            reason = f"checksums are in the small file beside each file, which index={options.index} does not write"
            raise PbioError("PBIO_BAD_OPTION", reason, hint="leave out index, or checksums")
        self.path = path
        self.options = options
        self.overwrite = overwrite
        self.folders = FolderColumns.of(schema, options.partition_columns)
        refuse_space(path)
        fs, root = locate(path)
        place = find_entry(fs, root)
        there: Sequence[Format] = ()
        self._is_new = place is None
        if place is None and is_local(fs) and os.path.islink(root):
            raise PbioError(
                "PBIO_PATH_NOT_FOUND",
                "the path is a broken link",
                file=path,
                hint="remove the link, or make the folder that it leads to",
            )
        if place is not None and place.kind != "folder":
            reason = "the path is a file, but must be a folder"
            raise PbioError("PBIO_PATH_NOT_FOUND", reason, file=path, hint="choose another path, or remove the file")
        if overwrite and options.partition_overwrite_mode != "dynamic":
            replaced_files(fs, root)
        else:
            refuse_other_columns(fs, root, self.folders.names)
            files = files_there(path)
            if not overwrite:
                self.folders.refuse_other_types(files, path)
            there = formats_of(files, options) if options.write_format is None else ()
            if not options.format_name and (own := name_there(path, there)):
                options = replace(options, format_name=(own,))
        self.format, *priors = formats_to_write(options, self.folders.rest, path)
        if not overwrite and not priors:
            refuse_other_types(path, self.format, there)
        self.priors = tuple(priors)
        self.encoder: Encoder = format_to_encoder(
            self.format,
            self.folders.rest,
            null_value=options.null_value,
            wrap=options.index != "ffs",
            is_complete=options.write_format is not None,
        ).checked()
        self.ranges = ranges_kernel() if options.index == "sidecar" else None
        self.job = uuid.uuid4().hex
        self.staging = f"_staging-{self.job}"

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats that every file describes: that of its records, and the targets of its transforms."""
        return (self.format, *self.priors)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskOutput:
        context = TaskContext.get()
        assert context is not None
        task = _Task(self, context.partitionId(), context.taskAttemptId())
        try:
            with into_what_is_there(self.path):
                for batch in iterator:
                    task.add(batch)
                read = files_read(self.path) if self.overwrite else ()
                return TaskOutput(task.close(), context.getLocalProperty(OVERWRITES), read)
        except BaseException:
            task.discard()
            raise

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the written files visible, then remove what they replace: after a crash in between rows may be
        duplicated, without `_SUCCESS`, but none is lost."""
        fs, root = locate(self.path)
        with trouble(fs, root):
            self._commit(fs, root, [message for message in messages if isinstance(message, TaskOutput)])

    def _commit(self, fs: AbstractFileSystem, root: str, messages: Sequence[TaskOutput]) -> None:
        written = [file for message in messages for file in message.files]
        _refuse_spaces(fs, root, *dict.fromkeys(f"{root}/{file.path}".rpartition("/")[0] for file in written))
        replaced = self._replaced(fs, root, messages) if self.overwrite else []
        read = [path for message in messages for path in message.read]
        refuse_read_files(self.path, (full_path(fs, path) for path in replaced), read)
        make_folder(fs, root)
        if not written:
            written = [self._empty(fs, root)]
        with suppress(FileNotFoundError):
            fs.rm_file(f"{root}/_SUCCESS")
        for file in written:
            target = f"{root}/{file.path}"
            make_folder(fs, target.rpartition("/")[0])
            move_file(fs, f"{root}/{self.staging}/{file.path}", target)
            if (file.points or file.sums or file.size >= OUTLINED) and self.options.index == "sidecar":
                placed = find_entry(fs, target)
                counts = (file.records, *(0 for _ in self.priors))
                modified = placed.modified if placed is not None else 0
                outline = Outline(
                    file.size, modified, self.formats, counts, file.points, True, ranges=self._ranges(file)
                )
                with fs.open(target, "rb") as source:
                    write_sidecar(fs, target, outline.with_samples(source))
        kept = {f"{root}/{file.path}" for file in written}
        for path in replaced:
            if path not in kept:
                with suppress(FileNotFoundError):  # another overwrite may have removed it
                    fs.rm_file(path)
        remove_folder(fs, f"{root}/{self.staging}")
        fs.touch(f"{root}/_SUCCESS")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        fs, root = locate(self.path)
        with suppress(FileNotFoundError), trouble(fs, root):
            remove_folder(fs, f"{root}/{self.staging}")
        if self._is_new and is_local(fs):
            with suppress(OSError):  # it is not empty, or no task has created it
                os.rmdir(root)

    def _replaced(self, fs: AbstractFileSystem, root: str, messages: Sequence[TaskOutput]) -> list[str]:
        """The files that an overwrite removes: all data files, or those in the written folders."""
        said: set[str | None] = {self.options.partition_overwrite_mode}
        if said == {None}:
            said = {message.overwrites and message.overwrites.lower() for message in messages}
        if "dynamic" not in said or not self.folders.names:
            return replaced_files(fs, root)
        refuse_other_columns(fs, root, self.folders.names)
        replaced = replaced_files(fs, root, {file.path.rpartition("/")[0] for m in messages for file in m.files})
        # Planning did not know which files remain.
        files = files_there(self.path, {full_path(fs, path) for path in replaced})
        self.folders.refuse_other_types(files, self.path)
        if self.options.write_format is None:
            there = formats_of(files, self.options)
            names = sorted({form.name for form in there})
            if names and self.format.name not in names and not self.options.format_name:
                raise several_there(self.path, (*names, self.format.name))
            if not self.priors:
                refuse_other_types(self.path, self.format, there)
        return replaced

    def _empty(self, fs: AbstractFileSystem, root: str) -> WrittenFile:
        """A file without records, so that a folder without rows has a schema.

        It is in the folder of rows with null partition columns, since all files must be partitioned alike.
        """
        path = f"{self.folders.of_nulls()}part-00000-{self.job[:8]}.ffs"
        return self.output(fs, f"{root}/{self.staging}", path).close()

    def _ranges(self, file: WrittenFile) -> tuple[Ranges, ...]:
        """The ranges for the outline of a file, empty for formats without records."""
        if file.ranges is None:
            return ()
        blocks = len(file.points) + 1
        return limited([file.ranges, *(RangeMaker(form).made(blocks) for form in self.priors)])

    def output(self, fs: AbstractFileSystem, folder: str, path: str) -> OutputFile:
        """A new file."""
        indexed, summed = self.options.index == "ffs", self.options.checksums
        return OutputFile(fs, folder, path, self.formats, indexed=indexed, summed=summed, ranged=self.ranges)


class _Task:
    """Writes for one attempt of a task."""

    def __init__(self, writer: PbioWriter, partition: int, attempt: int) -> None:
        self._writer = writer
        self._partition = partition
        self._name = f"part-{partition:05}-{writer.job[:8]}-{attempt}"
        self._rows = 0
        self._room = RecordBuffer()
        self._fs, root = locate(writer.path)
        self._staging = f"{root}/{writer.staging}"
        self._open: dict[str, OutputFile] = {}
        self._done: list[WrittenFile] = []
        self._made = 0

    def add(self, batch: pa.RecordBatch) -> None:
        end = self._rows + batch.num_rows
        try:
            self._add(batch)
        except PbioError as error:
            raise error.at(file=f"rows {self._rows} to {end - 1} of partition {self._partition}") from None
        self._rows = end

    def _add(self, batch: pa.RecordBatch) -> None:
        most = self._writer.options.max_records_per_file
        for folder, rows in self._writer.folders.divide(batch):
            rows = with_schema(rows, self._writer.folders.rest)
            start = 0
            while start < rows.num_rows:
                file = self._file(folder)
                part = rows.slice(start, None if most is None else min(most - file.records, rows.num_rows))
                self._room.clear()
                self._writer.encoder.encode_into(part, self._room)
                file.add(self._room.encoded())
                start += part.num_rows
                if file.records == most:
                    self._done.append(self._open.pop(folder).close())

    def _file(self, folder: str) -> OutputFile:
        """The open file of a folder; the most recently used one is last."""
        file = self._open.pop(folder, None)
        if file is None:
            if len(self._open) == OPEN_FILES:
                self._done.append(self._open.pop(next(iter(self._open))).close())
            path = f"{folder}{self._name}-{self._made:04}.ffs"
            file = self._writer.output(self._fs, self._staging, path)
            self._made += 1
        self._open[folder] = file
        return file

    def close(self) -> tuple[WrittenFile, ...]:
        return (*self._done, *(file.close() for file in self._open.values()))

    def discard(self) -> None:
        for file in self._open.values():
            file.discard()
