"""A random writer, janitor and operator of a folder against a model, which says which rows or which error a read gets.

Rows are numbered. Files are created, appended to, rotated, removed, put back, replaced, cut, damaged, indexed, locked;
each read takes random options, as plain Python and as Spark's driver and tasks do it, with changes between the two.
`PBIO_LONG=1` does far more steps.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import pbio_spark as pbio
from pbio_spark.errors import PbioError
from tests.odd.permissions import bound_by_permissions
from tests.source.files.random_folder import NOW, RandomFolder
from tests.source.local import batches, plan

LONG = bool(os.environ.get("PBIO_LONG"))

Rows: TypeAlias = "Counter[int | None]"
"""How often each number comes; None is the row of a bad record."""


@dataclass
class Expected:
    """What a read gives: an error with one of the codes, if there are any, and otherwise the rows."""

    rows: Rows = field(default_factory=Counter)
    codes: set[str] = field(default_factory=set)


class World(RandomFolder):
    """The folder, and random reads of it."""

    def options(self) -> dict[str, Any]:
        roll = self.random.random
        options: dict[str, Any] = {"mode": self.random.choice(["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])}
        for name in ("ignoreMissingFiles", "ignoreCorruptFiles", "recursiveFileLookup"):
            if roll() < 0.5:
                options[name] = roll() < 0.7
        if roll() < 0.3:
            options["pathGlobFilter"] = self.random.choice(["*.ffs", "*.ffs", "[a-c]*", "a*", "b*", "*1*"])
        for name in ("modifiedAfter", "modifiedBefore"):
            if roll() < 0.1 and self.files:
                near = self.random.choice(sorted(self.files.values(), key=lambda model: model.modified)).modified
                moment = datetime.fromtimestamp(near + self.random.choice([-5, 0, 5]), UTC)
                options[name] = moment.strftime("%Y-%m-%dT%H:%M:%S")
        if roll() < 0.6:
            options["truncatedTail"] = self.random.choice(["error", "ignore", "wait"])
        if roll() < 0.3:
            some = [n for model in self.files.values() for n in model.rows] or [0]
            options["filter"] = f"{{ return input.n >= {self.random.choice(sorted(some))}; }}"
        if roll() < 0.3:
            options["skipBlocks"] = roll() < 0.5
        if roll() < 0.5:
            options["maxPartitionBytes"] = self.random.choice(["200", "2k", "1m"])
        if roll() < 0.3:
            options["recordsPerBatch"] = self.random.choice([1, 7, 100])
        return options

    def in_view(self, options: Mapping[str, Any]) -> list[Path]:
        """The files that a read lists."""

        def is_in_view(path: Path) -> bool:
            inside = path.relative_to(self.folder).parts
            is_entered = options.get("recursiveFileLookup") or all("=" in name for name in inside[:-1])
            modified = self.files[path].modified
            return (
                is_entered
                and not path.name.startswith("_")
                and fnmatch(path.name, options.get("pathGlobFilter", "*"))
                and modified > moment(options.get("modifiedAfter"), 0)
                and modified < moment(options.get("modifiedBefore"), 2 * NOW)
            )

        return [path for path in self.files if is_in_view(path)]

    def of_file(self, path: Path, options: Mapping[str, Any]) -> Expected:
        model, mode = self.files[path], options["mode"]
        least = int(options["filter"].split(">=")[1].split(";")[0]) if "filter" in options else 0
        found = Expected(Counter(n for n in model.rows if n >= least))
        fate = "rows"
        if model.tail == "cut" and options.get("truncatedTail", "error") == "error":
            fate = "PBIO_TRUNCATED"
        elif model.tail == "damage" and not options.get("ignoreCorruptFiles"):
            fate = "PBIO_BAD_ITEM"
        if fate != "rows" and mode == "FAILFAST":
            found.codes.add(fate)
        elif fate != "rows" and mode == "PERMISSIVE":
            found.rows[None] += 1
        if model.tail == "text" and not options.get("ignoreCorruptFiles"):
            found.codes.add("PBIO_NOT_FFS")
        return found

    def expected(self, options: Mapping[str, Any]) -> Expected:
        """What one read gives, if nothing changes meanwhile."""
        whole = Expected()
        paths = self.in_view(options)
        for path in paths:
            one = self.of_file(path, options)
            whole.rows += one.rows
            whole.codes |= one.codes
        depths = {path.relative_to(self.folder).parts[0].partition("=")[1] for path in paths}
        if len(depths) > 1 and not options.get("recursiveFileLookup"):
            whole.codes.add("PBIO_BAD_PARTITIONS")
        return whole

    def read(self) -> None:
        options = self.options()
        check(self.way()(self.folder, options), self.expected(options), options)

    def way(self) -> Callable[[Path, Mapping[str, Any]], Rows | str]:
        return self.random.choice([as_rows, as_table, as_table, as_spark])

    def read_locked(self) -> None:
        """A file or a folder may not be read, or only be read."""
        options, expected = (chosen := self.options()), self.expected(chosen)
        paths = [self.folder / name for name in self.folders] + list(self.files)
        path = self.random.choice(paths)
        mode = self.random.choice([0o000, 0o444] if path.is_dir() else [0o000])
        if self.random.random() < 0.3:
            mode = 0o555 if path.is_dir() else 0o444
        inside = path.relative_to(self.folder).parts
        is_entered = bool(options.get("recursiveFileLookup")) or all("=" in name for name in inside)
        with locked(path, mode):
            found = self.way()(self.folder, options)
        if mode in (0o555, 0o444) and (mode == 0o555 or not path.is_dir()):
            check(found, expected, options)
        elif path.is_dir() and is_entered and (mode == 0o000 or any(path.iterdir())):
            check(found, Expected(codes={"PBIO_NO_PERMISSION"}), options)
        elif path in self.in_view(options) and path.stat().st_size:
            check(found, Expected(codes={"PBIO_NO_PERMISSION", *expected.codes}), options)
        elif not path.is_file() or path.stat().st_size:
            check(found, expected, options)

    def read_without_folder(self) -> None:
        options = self.options()
        away = self.folder.rename(self.root / "away")
        try:
            check(self.way()(self.folder, options), Expected(codes={"PBIO_PATH_NOT_FOUND"}), options)
        finally:
            away.rename(self.folder)

    def read_while_changing(self) -> None:
        """A file changes between planning and reading."""
        options, expected = (chosen := self.options()), self.expected(chosen)
        path = self.some()
        if path is None:
            return
        try:
            reader = plan(self.folder, schema=SCHEMA, **options)
        except PbioError as error:
            check(error.code, expected, options)
            return
        before, is_in_view, size = self.of_file(path, options), path in self.in_view(options), path.stat().st_size
        act = self.random.choice([self.remove, self.append, self.shorten, self.cut, self.replace])
        if act == self.append and self.files[path].tail:
            act = self.remove
        if act == self.shorten and self.files[path].tail == "text":
            act = self.replace
        if act == self.cut and self.files[path].tail:
            act = self.remove
        act(path)
        found = attempt(lambda: [n for batch in batches(reader) for n in batch.column(0).to_pylist()])
        is_changed = not path.exists() or path.stat().st_size != size or act == self.replace
        if not is_in_view or not is_changed or act == self.append:
            check(found, expected, options)
            return
        others = Expected(expected.rows - before.rows, expected.codes - before.codes)
        is_tolerant = bool(options.get("ignoreMissingFiles"))
        if act == self.remove:
            is_left_out = not before.rows and "filter" in options  # by its outline
            if size and not is_tolerant and not (is_left_out and found == others.rows):  # an empty file is not opened
                others.codes.add("PBIO_PATH_NOT_FOUND")
            if not (isinstance(found, str) and found in before.codes):  # what the driver has seen of it
                check(found, others, options)
            return
        if isinstance(found, str):
            known = {"PBIO_ROWS_GONE", "PBIO_TRUNCATED", "PBIO_BAD_ITEM", "PBIO_NOT_FFS", "PBIO_CHECKSUM"}
            assert found in known | expected.codes, (found, options, act)
            return
        # a file may be left out whose outline says that none of its records passes the filter
        is_error = path.stat().st_size < size and bool(before.rows) and not is_tolerant
        assert not is_error, ("a shorter file is an error", options, act)
        came = found - others.rows
        assert not others.rows - found, (options, act)
        after = [n for n in came if n is not None]
        # the task reads what is there, up to the planned size, in order
        assert sorted(after) == [n for n in self.files[path].rows if n in came], (came, options, act)

    def steps(self, count: int) -> None:
        acts = [self.create, self.append, self.rotate, self.remove, self.put_back, self.replace, self.empty]
        acts += [self.shorten, self.cut, self.damage, self.scribble, self.touch, self.index, self.index, self.create]
        reads = [self.read] * 4 + [self.read_locked, self.read_while_changing, self.read_without_folder]
        for _ in range(3):
            self.create()
        for _ in range(count):
            if self.random.random() < 0.6:
                self.random.choice(reads)()
            else:
                self.random.choice(acts)()
            while len(self.files) > 8:
                self.remove()


SCHEMA = StructType([StructField("n", LongType())])


def moment(text: str | None, default: int) -> float:
    return default if text is None else datetime.fromisoformat(f"{text}+00:00").timestamp()


def attempt(read: Callable[[], list[int | None]]) -> Rows | str:
    """The rows, or the code of the error."""
    try:
        return Counter(read())
    except PbioError as error:
        return error.code


def as_rows(folder: Path, options: Mapping[str, Any]) -> Rows | str:
    return attempt(lambda: [row["n"] for row in pbio.read(folder, schema=COLUMNS, **options)])


def as_table(folder: Path, options: Mapping[str, Any]) -> Rows | str:
    return attempt(lambda: pbio.read_arrow(folder, schema=COLUMNS, **options).column("n").to_pylist())


def as_spark(folder: Path, options: Mapping[str, Any]) -> Rows | str:
    return attempt(
        lambda: [n for batch in batches(plan(folder, schema=SCHEMA, **options)) for n in batch.column(0).to_pylist()]
    )


COLUMNS = pa.schema([("n", pa.int64())])


@contextmanager
def locked(path: Path, mode: int) -> Iterator[None]:
    before = path.stat().st_mode
    with bound_by_permissions():
        path.chmod(mode)
        try:
            yield
        finally:
            path.chmod(before)


def check(found: Rows | str, expected: Expected, options: Mapping[str, Any]) -> None:
    if expected.codes:
        assert isinstance(found, str), (found, expected.codes, options)
        assert found in expected.codes, (found, expected.codes, options)
    else:
        assert found == expected.rows, (found, expected.rows, options)


@pytest.mark.parametrize("seed", range(300 if LONG else 6))
def test_a_read_gives_what_the_model_says(tmp_path: Path, seed: int) -> None:
    World(tmp_path, seed).steps(200 if LONG else 60)
