"""Follows BP5 folders that are being written, from one offset of a stream to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pbio_spark.bp5.data.places import place_blocks, subfile_name
from pbio_spark.bp5.dataset import Dataset
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.blocks import read_blocks
from pbio_spark.bp5.meta.index import HEADER, NAME, Step, parse_index
from pbio_spark.errors import PbioError
from pbio_spark.globs import is_glob
from pbio_spark.source.bp5.follow.progress import FolderProgress, Progress, digest_of
from pbio_spark.source.bp5.options import Bp5Options
from pbio_spark.source.bp5.scan import Scanned, list_datasets, scan_dataset
from pbio_spark.source.files.listing import ListedFile


class FolderFollower:
    """Looks at the folders of a stream."""

    def __init__(self, paths: Sequence[str], options: Bp5Options) -> None:
        self._paths = paths
        self._options = options
        self._fixed: dict[str, int] | None = None
        """The final numbers of steps, once folders are considered complete."""

    def start(self) -> dict[str, FolderProgress]:
        """Where a new stream begins."""
        at = self._options.starting_step
        if at == "earliest":
            return {}
        found = {}
        for file in self._files({}):
            known = self._whole(file)
            if known is not None:
                dataset, steps = known
                found[file.path] = self._place(
                    file, dataset, len(steps) if at == "latest" else min(int(at), len(steps))
                )
        return found

    def stop_growing(self) -> None:
        """Consider folders complete: take the current steps as final."""
        files = list_datasets(self._paths, self._options, lambda path: True)
        self._fixed = {file.path: len(known[1]) for file in files if (known := self._whole(file)) is not None}

    def latest(self, start: Progress, max_steps: int | None, max_bytes: int | None) -> dict[str, FolderProgress]:
        """The offset up to which a batch can read. Raises PBIO_ROWS_GONE for a folder that was truncated or
        replaced."""
        after = dict(start)
        steps_left, bytes_left = max_steps, max_bytes
        for file in self._files(start):
            known = self._whole(file)
            if known is None:
                continue
            dataset, steps = known
            before = start.get(file.path, FolderProgress(0))
            self._check(file, before, len(dataset.steps))
            end = min(len(steps), (self._fixed or {}).get(file.path, 0 if self._fixed is not None else len(steps)))
            if steps_left is not None:
                end = min(end, before.steps + steps_left)
            if bytes_left is not None and end > before.steps:
                each = max(1, file.size // max(1, len(dataset.steps)))
                end = min(end, before.steps + max(1 if bytes_left > 0 else 0, bytes_left // each))
                bytes_left -= each * max(0, end - before.steps)
            if end > before.steps or (file.path not in start and not steps):
                after[file.path] = self._place(file, dataset, max(end, before.steps))
                steps_left = None if steps_left is None else steps_left - max(0, end - before.steps)
        return after

    def scanned(self, start: Progress, end: Progress) -> list[Scanned]:
        """The datasets with steps between two offsets, and these steps. Raises PBIO_ROWS_GONE."""
        found = []
        for path, place in end.items():
            first = start.get(path, FolderProgress(0)).steps
            if place.steps <= first:
                continue
            file = next((file for file in self._files(end) if file.path == path), None)
            one = None if file is None else scan_dataset(file, self._options)
            if one is None or file is None or len(one.dataset.steps) < place.steps:
                raise _gone(path, f"steps {first} to {place.steps - 1} are gone")
            self._check(file, place, len(one.dataset.steps))
            # Later steps must not matter, since a batch may be read again when they exist.
            index = replace(one.dataset.index, steps=one.dataset.steps[: place.steps])
            found.append(Scanned(file, replace(one.dataset, index=index), index.steps[first:]))
        return found

    def _files(self, start: Progress) -> list[ListedFile]:
        return list_datasets(self._paths, self._options, lambda path: bool(start) or is_glob(path))

    def _whole(self, file: ListedFile) -> tuple[Dataset, tuple[Step, ...]] | None:
        """A dataset and its complete steps; None if it has no header yet."""
        with DatasetFolder(file.path) as folder:
            if (folder.size(NAME) or 0) < HEADER:
                return None
        one = scan_dataset(file, self._options)
        if one is None:
            return None
        if one.dataset.index.header.flatten:
            raise PbioError(
                "PBIO_UNSUPPORTED_BP5",
                "a flattened dataset cannot be read as a stream",
                file=file.path,
                hint="read it with spark.read once it is complete",
            )
        steps = one.dataset.steps
        with DatasetFolder(file.path) as folder:
            while steps and one.dataset.index.header.is_active and not is_whole(one.dataset, folder, steps[-1]):
                steps = steps[:-1]
        return one.dataset, steps

    def _place(self, file: ListedFile, dataset: Dataset, steps: int) -> FolderProgress:
        with DatasetFolder(file.path) as folder:
            index = folder.all_of(NAME) or b""
        end = _index_end(index, dataset, steps, file.path)
        return FolderProgress(steps, end, digest_of(index[:end]))

    def _check(self, file: ListedFile, place: FolderProgress, steps: int) -> None:
        """Refuse a folder whose index no longer has the same beginning."""
        with DatasetFolder(file.path) as folder:
            index = folder.read(NAME, 0, place.index)
        if place.digest and (len(index) < place.index or digest_of(index) != place.digest):
            raise _gone(file.path, f"{place.steps} steps were read, but the folder was truncated or rewritten")
        if steps < place.steps:
            raise _gone(file.path, f"{place.steps} steps were read, but the folder now has {steps}")


def is_whole(dataset: Dataset, folder: DatasetFolder, step: Step) -> bool:
    """Whether all data of a step is present."""
    try:
        located = dataset.locate(folder, [step])
        for group in located.groups:
            for name, place in group.form.places.items():
                blocks = read_blocks(located, name, None, column_major=False) if place.variable.is_array else None
                if blocks is None:
                    continue
                stored = blocks.take(blocks.location >= 0)
                places = place_blocks(stored, located.steps, folder.path)
                for subfile, position, size in zip(places.subfile, places.position, stored.stored, strict=True):
                    if size and position + size > (folder.size(subfile_name(int(subfile))) or 0):
                        return False
    except PbioError:
        return False
    return True


def _index_end(index: bytes, dataset: Dataset, steps: int, path: str) -> int:
    """The bytes of md.idx up to the end of a number of steps."""
    if steps == len(dataset.steps):
        return dataset.index.end
    low, high = HEADER, dataset.index.end
    # Records have different lengths, so find the end as the shortest prefix that has all the steps.
    while low < high:
        middle = (low + high) // 2
        if len(parse_index(index[:middle], path).steps) >= steps:
            high = middle
        else:
            low = middle + 1
    return low


def _gone(path: str, reason: str) -> PbioError:
    return PbioError("PBIO_ROWS_GONE", reason, file=path, hint="start the query again, with a new checkpoint")
