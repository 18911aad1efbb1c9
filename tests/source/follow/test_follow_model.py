"""A random logger, janitor and operator against a model: each row comes once, whatever happens to its file.

Rows are numbered, so a row that comes twice is seen, and at the end all must be there that were not destroyed before
the stream could read them. `PBIO_LONG=1` does far more steps.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles
from pyspark.sql.types import LongType, StructField, StructType

from pbio_spark.errors import PbioError
from pbio_spark.source.datasource import PbioDataSource
from pbio_spark.source.follow.stream import PbioStreamReader
from pbio_spark.wire import FileWriter
from tests.source.samples import MIDDLE, formatted, reading

LONG = bool(os.environ.get("PBIO_LONG"))
FAILED_WITHIN = 80
"""Steps in which the seeds failed that once did."""
SCHEMA = StructType([StructField("n", LongType())])


class World:
    """A folder, what is in its files, and a query over it.

    Attributes:
        rows: by path, the numbers of the complete records of each file.
        due: numbers that must come.
        lost: numbers that may come, since their file was destroyed before the stream was sure to have read it.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.root = folder
        self.folder = folder / "in"
        self.outside = folder / "out"
        self.folder.mkdir()
        self.outside.mkdir()
        (folder / "link").symlink_to(self.folder)
        self.rows: dict[Path, list[int]] = {}
        self.half: dict[Path, tuple[bytes, int]] = {}
        self.number = self.name = 0
        self.due: set[int] = set()
        self.lost: set[int] = set()
        self.came: Counter[int] = Counter()
        self.options: dict[str, str] = {}
        self.restart()
        self.offset = self.reader.initialOffset()
        self.pending: tuple[dict[str, object], dict[str, object]] | None = None

    # what the query does

    def restart(self) -> None:
        spelled = [str(self.folder), f"file:{self.folder}", f"file://{self.folder}/", str(self.root / "link")]
        spelled.append(os.path.relpath(self.folder))
        options = {"path": self.random.choice(spelled), **self.options}
        if self.random.random() < 0.4:
            options["maxBytesPerTrigger"] = str(self.random.choice([1, 100, 500]))
        reader = PbioDataSource(options).streamReader(SCHEMA)
        assert isinstance(reader, PbioStreamReader)
        self.reader = reader
        self.limit: ReadLimit = reader.getDefaultReadLimit()
        if self.random.random() < 0.2:
            self.limit = ReadMaxFiles(1)

    def plan(self) -> bool:
        """Plan a batch, which may be read later."""
        if self.pending is None:
            end = json.loads(json.dumps(self.reader.latestOffset(self.offset, self.limit)))
            self.pending = None if end == self.offset else (self.offset, end)
        return self.pending is not None

    def read(self) -> None:
        """Read the batch that was planned."""
        if self.pending is None:
            return
        start, self.offset = self.pending
        for part in self.reader.partitions(start, self.offset):
            for batch in self.reader.read(part):
                self.came.update(batch.column(0).to_pylist())
        self.pending = None

    def fetch(self) -> None:
        if self.plan():
            self.read()

    def fetch_all(self) -> None:
        while self.plan():
            self.read()

    def crash(self) -> None:
        """A query that starts again plans the batch once more that was not read, with the same offsets."""
        self.restart()

    # what happens to files

    def some(self) -> Path | None:
        return self.random.choice(sorted(self.rows)) if self.rows else None

    def new_path(self) -> Path:
        self.name += 1
        return self.folder / f"{self.random.choice('abc')}{self.name}.ffs"

    def write(self, path: Path, *, append: bool, half: bool = False) -> None:
        count = self.random.randint(1, 5)
        if path in self.half:  # what was begun is completed first
            rest, number = self.half.pop(path)
            with path.open("ab") as file:
                file.write(rest)
            self.rows[path].append(number)
            self.due.add(number)
        numbers = range(self.number, self.number + count)
        self.number += count
        with FileWriter(path, append=append) as writer:
            for n in numbers:
                writer.data(formatted(MIDDLE), reading(MIDDLE, n))
        self.rows[path] = (self.rows.get(path, []) if append else []) + list(numbers)
        if half:
            size = path.stat().st_size
            cut = self.random.randint(1, 20)
            self.half[path] = path.read_bytes()[size - cut :], self.rows[path].pop()
            os.truncate(path, size - cut)
            numbers = numbers[:-1]
        self.due.update(numbers)

    def create(self) -> None:
        self.write(self.new_path(), append=False, half=self.random.random() < 0.3)

    def append(self) -> None:
        if (path := self.some()) is not None:
            self.write(path, append=True, half=self.random.random() < 0.3)

    def move(self, path: Path, to: Path) -> None:
        path.rename(to)
        self.rows[to] = self.rows.pop(path)
        if path in self.half:
            self.half[to] = self.half.pop(path)

    def rename(self) -> None:
        if (path := self.some()) is not None:
            self.move(path, self.new_path())

    def rotate(self) -> None:
        if (path := self.some()) is not None:
            self.move(path, self.new_path())
            self.write(path, append=False)

    def copytruncate(self) -> None:
        if (path := self.some()) is not None and path not in self.half:
            copy = self.new_path()
            (shutil.copy2 if self.random.random() < 0.5 else shutil.copy)(path, copy)
            self.rows[copy] = self.rows.pop(path)
            self.write(path, append=False)

    def restore(self) -> None:
        """Another file object with the same content, or one more row, under the same path."""
        if (path := self.some()) is not None:
            data = path.read_bytes()
            path.unlink()
            path.write_bytes(data)
            if self.random.random() < 0.5:
                self.write(path, append=True)

    def touch(self) -> None:
        if (path := self.some()) is not None:
            path.touch()

    def destroy(self, path: Path) -> None:
        """The rows of a file go; those that had not come never need to."""
        gone = set(self.rows.pop(path))
        self.half.pop(path, None)
        self.lost |= {n for n in gone if not self.came[n]}
        self.due -= gone

    def remove_read(self) -> None:
        self.fetch_all()
        if (path := self.some()) is not None:
            self.destroy(path)
            path.unlink()

    def remove(self) -> None:
        """Remove a file of which rows may be unread: the query says so, and continues when told to."""
        if (path := self.some()) is None:
            return
        self.destroy(path)
        path.unlink()
        try:
            self.fetch()
        except PbioError as error:
            assert error.code == "PBIO_ROWS_GONE", error  # noqa: PT017
            self.options = {"ignoreMissingFiles": "true"}
            self.restart()
            self.fetch()
            self.options = {}
            self.restart()

    def replace(self) -> None:
        """Another file, under the path of one that was read; half the time it is the same file object."""
        self.fetch_all()
        if (path := self.some()) is not None:
            self.destroy(path)
            if self.random.random() < 0.5:
                path.unlink()
            self.write(path, append=False)

    def archive(self) -> None:
        """A file leaves the view for a batch or so and comes back under its path."""
        self.fetch_all()
        if (path := self.some()) is not None:
            path.rename(self.outside / path.name)
            self.create()
            self.fetch()
            (self.outside / path.name).rename(path)

    def folder_gone(self) -> None:
        """The whole folder leaves, and returns with its files or copies of them, to which one may have been added."""
        self.fetch_all()
        gone = self.folder.rename(self.root / "gone")
        is_tolerated = bool(self.came) and self.random.random() < 0.5
        self.options = {"ignoreMissingFiles": "true"} if is_tolerated else {}
        self.restart()
        if is_tolerated:
            self.fetch()
        else:
            with pytest.raises(PbioError, match="PBIO_PATH_NOT_FOUND"):
                self.fetch()
        if self.random.random() < 0.5:
            gone.rename(self.folder)
        else:
            shutil.copytree(gone, self.folder)
            shutil.rmtree(gone)
        if self.random.random() < 0.5:
            self.create()
        self.options = {}
        if self.random.random() < 0.5:
            self.restart()

    def steps(self, count: int, *, gone: bool = True) -> None:
        """
        Args:
            gone: whether the folder itself may leave, too.
        """
        quick = [self.create, self.append, self.append, self.append, self.rename, self.rotate, self.touch]
        rare = [self.copytruncate, self.restore, self.remove_read, self.remove, self.replace, self.archive]
        rare += [self.folder_gone] if gone else []
        for _ in range(count):
            roll = self.random.random()
            if roll < 0.35:
                self.fetch()
            elif roll < 0.42:
                self.plan()  # to be read after whatever comes next
            elif roll < 0.50:
                self.crash()
            else:
                step = self.random.choice(quick if roll < 0.85 else rare)
                if step in rare and self.pending is not None:
                    self.read()
                step()
            self.check()
        self.limit = ReadAllAvailable()
        if self.pending is not None:
            self.read()
        self.restart()
        self.fetch_all()
        self.check()
        assert self.due <= self.came.keys(), sorted(self.due - self.came.keys())

    def check(self) -> None:
        twice = sorted(n for n, count in self.came.items() if count > 1)
        assert not twice, twice
        assert self.came.keys() <= self.due | self.lost | set(range(self.number))


@pytest.mark.parametrize("seed", range(400 if LONG else 8))
def test_each_row_comes_once(tmp_path: Path, seed: int) -> None:
    World(tmp_path, seed).steps(150 if LONG else 40)


@pytest.mark.parametrize("seed", [187, 302, 376])
def test_each_row_comes_once_where_it_once_did_not(tmp_path: Path, seed: int) -> None:
    World(tmp_path, seed).steps(FAILED_WITHIN, gone=False)
