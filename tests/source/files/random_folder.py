"""A folder in which a random writer, janitor and operator work, and what is in its files afterwards."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pbio_spark.errors import PbioError
from pbio_spark.paths import locate
from pbio_spark.source.files.listing import ListedFile
from pbio_spark.source.files.outlines import file_to_outline
from pbio_spark.wire import FileWriter, ItemKind, Scanner
from pbio_spark.wire.hints.sidecar import write_sidecar
from tests.source.samples import MIDDLE, formatted, reading

NOW = 1_700_000_000
PLAIN, DIVIDED = ("", "", "", "deep", "deep/deeper"), ("k=1", "k=2", "k=2", "k=1/deep")
NAMES = ("a.ffs", "a1.ffs", "a2.ffs", "b.ffs", "b1.log", "c.ffs", "d.ffs", "_hidden.ffs")


@dataclass
class Model:
    """What is in a file.

    Attributes:
        tail: what follows the rows: nothing, part of a record (`cut`), bytes that are not an item (`damage`); or `text`
            if all of it is something else.
        is_closed: whether it has lost a part of its index, so that nothing can be appended.
    """

    rows: list[int] = field(default_factory=list)
    tail: str = ""
    modified: int = NOW
    is_closed: bool = False


class RandomFolder:
    """A folder whose files change at random, and the model of its files, by path."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.root = root
        self.folder = root / "in"
        self.attic = root / "attic"
        self.folders = self.random.choice([PLAIN, PLAIN, DIVIDED, DIVIDED, PLAIN + DIVIDED])
        for name in self.folders:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.attic.mkdir()
        self.files: dict[Path, Model] = {}
        self.removed: dict[Path, Model] = {}
        self.number, self.clock = 0, NOW

    # what happens to files

    def some(self, *tails: str) -> Path | None:
        """One of the files, with one of the tails if any are given."""
        found = [path for path, model in sorted(self.files.items()) if not tails or model.tail in tails]
        return self.random.choice(found) if found else None

    def new_path(self) -> Path:
        while True:
            path = self.folder / self.random.choice(self.folders) / self.random.choice(NAMES)
            if path not in self.files:
                return path
            if self.random.random() < 0.3:
                return path.with_name(f"n{self.number}-{len(self.files)}.ffs")

    def changed(self, path: Path) -> None:
        """Each change has a time of its own, as changes of a real file have, unless they come in one tick."""
        self.clock += 10
        self.files[path].modified = self.clock
        os.utime(path, (self.clock, self.clock))

    def write(self, path: Path, *, append: bool) -> None:
        numbers = range(self.number, self.number + self.random.choice([1, 3, 5, 200]))
        self.number = numbers.stop
        is_indexed = has_index(path) if append else self.random.random() < 0.2
        with FileWriter(path, append=append, indexed=is_indexed) as writer:
            for n in numbers:
                writer.data(formatted(MIDDLE), reading(MIDDLE, n))
        model = self.files.setdefault(path, Model())
        model.rows, model.tail, model.is_closed = (model.rows if append else []) + list(numbers), "", False
        self.changed(path)

    def create(self) -> None:
        self.write(self.new_path(), append=False)

    def append(self, path: Path | None = None) -> None:
        if (path := path or self.some("")) is not None and not self.files[path].is_closed:
            self.write(path, append=True)

    def rotate(self) -> None:
        """A sidecar stays with the name."""
        if (path := self.some()) is not None:
            to = self.new_path()
            path.rename(to)
            self.files[to] = self.files.pop(path)
            if self.random.random() < 0.5:
                self.write(path, append=False)

    def remove(self, path: Path | None = None) -> None:
        if (path := path or self.some()) is not None:
            kept = self.attic / f"{len(self.removed)}-{path.name}"
            path.rename(kept)
            self.removed[kept] = self.files.pop(path)

    def put_back(self) -> None:
        if self.removed:
            kept = self.random.choice(sorted(self.removed))
            path = self.new_path()
            kept.rename(path)
            self.files[path] = self.removed.pop(kept)

    def replace(self, path: Path | None = None) -> None:
        """As another object, or in place."""
        if (path := path or self.some()) is not None:
            if self.random.random() < 0.5:
                path.unlink()
            self.write(path, append=False)

    def empty(self) -> None:
        path = self.new_path()
        path.write_bytes(b"")
        self.files[path] = Model()
        self.changed(path)

    def shorten(self, path: Path | None = None) -> None:
        """To fewer whole records."""
        if (path := path or self.some("", "cut", "damage")) is not None and self.files[path].rows:
            keep = self.random.randrange(len(self.files[path].rows))
            self.files[path].is_closed |= has_index(path)
            os.truncate(path, ends(path)[keep])
            self.files[path].rows[keep:] = []
            self.files[path].tail = ""
            self.changed(path)

    def cut(self, path: Path | None = None) -> None:
        """Into a record."""
        if (path := path or self.some("")) is not None and self.files[path].rows:
            keep = self.random.randrange(len(self.files[path].rows))
            self.files[path].is_closed |= has_index(path)
            before, after = ends(path)[keep : keep + 2]
            os.truncate(path, self.random.randrange(before + 1, after))
            self.files[path].rows[keep:] = []
            self.files[path].tail = "cut"
            self.changed(path)

    def damage(self) -> None:
        if (path := self.some("")) is not None and self.files[path].rows:
            with path.open("ab") as file:
                file.write(b"\xee" * 9)
            self.files[path].tail = "damage"
            self.changed(path)

    def scribble(self) -> None:
        path = self.new_path()
        path.write_text("these are words, and no records")
        self.files[path] = Model(tail="text")
        self.changed(path)

    def touch(self) -> None:
        if (path := self.some()) is not None:
            self.changed(path)

    def index(self) -> None:
        """Write an outline, which later changes make untrue."""
        if (path := self.some("")) is not None and self.files[path].rows:
            found = path.stat()
            with path.open("rb") as source:
                outline, _ = file_to_outline(ListedFile(str(path), found.st_size, found.st_mtime), source, ranged=True)
                write_sidecar(*locate(str(path)), outline.with_sums(source) if self.random.random() < 0.3 else outline)


def ends(path: Path) -> list[int]:
    """Where the first record of a file begins, and where each of its records ends."""
    found: list[int] = []
    with suppress(PbioError):  # the tail
        for item in Scanner(path.read_bytes()).items():
            if item.kind is ItemKind.DATA:
                found = found or [item.offset]
                found.append(item.end)
    return found


def has_index(path: Path) -> bool:
    with suppress(PbioError):
        return any(item.kind is ItemKind.INDEX for item in Scanner(path.read_bytes()).items())
    return False
