"""BP5 folders to Arrow, as one task of Spark reads them, beside the adios2 library in one process."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import adios2
import numpy as np
import pyarrow as pa

from benchmarks import Row, side_by_side
from pbio_spark.bp5.rows.read import read_part
from pbio_spark.source.bp5.options import parse_bp5_options
from pbio_spark.source.bp5.plan import plan_parts, scan_to_schema, scan_to_wanted
from pbio_spark.source.bp5.scan import scan_datasets
from pbio_spark.source.options.scopes import Scope
from tests.bp5.made import make


def rows() -> Iterator[Row]:
    folder = Path(tempfile.mkdtemp())
    try:
        yield from scalars(folder / "scalars.bp")
        yield from small_steps(folder / "small.bp")
        yield from large_arrays(folder / "large.bp")
    finally:
        shutil.rmtree(folder)


def reading(path: Path, only: Sequence[str] = (), **options: str) -> Callable[[], int]:
    """Everything from the path to the last batch; it gives the number of rows. `only` are the columns, if not all."""

    def read() -> int:
        scan = scan_datasets([str(path)], parse_bp5_options(options, Scope.READ)).surveyed()
        schema = scan_to_schema(scan)
        wanted = scan_to_wanted(scan, pa.schema([schema.field(name) for name in only]) if only else schema)
        return sum(
            batch.num_rows for parts in plan_parts(scan, wanted) for part in parts for batch in read_part(part, wanted)
        )

    return read


def library(path: Path) -> Callable[[], int]:
    """Step by step, each variable into an array of its own, as the library's manual does it."""

    def read() -> int:
        count = 0
        with adios2.Stream(str(path), "r") as stream:
            for _ in stream.steps():
                for name in stream.available_variables():
                    stream.read(name)
                count += 1
        return count

    return read


def scalars(path: Path) -> Iterator[Row]:
    make(path, [{f"v{i:03}": float(step * i) for i in range(200)} for step in range(2000)])
    ours, theirs = side_by_side(reading(path), library(path), repeats=2)
    yield Row("200 scalars, 2,000 steps", "adios2, a loop", ours, theirs, 400_000, "values", goal=5)


def small_steps(path: Path) -> Iterator[Row]:
    make(path, [{name: np.arange(100.0) + step for name in "abcde"} for step in range(2000)])
    ours, theirs = side_by_side(reading(path), library(path), repeats=2)
    yield Row("5 arrays of 100, 2,000 steps", "adios2, a loop", ours, theirs, 10_000, "arrays", goal=1)


def large_arrays(path: Path) -> Iterator[Row]:
    values: dict[str, Any] = {name: np.random.default_rng(1).random(4_000_000) for name in "xyz"}
    values["id"] = np.arange(4_000_000)
    each = 4_000_000 // 16  # a writer's part of it, as of 16 processes
    blocks = {name: [((at,), v[at : at + each]) for at in range(0, len(v), each)] for name, v in values.items()}
    step = {name: ((4_000_000,), parts) for name, parts in blocks.items()}
    make(path, [step, step])
    size = 2 * 4 * 4_000_000 * 8
    ours, theirs = side_by_side(reading(path, rows="elements", variables="x,y,z,id"), library(path), repeats=3)
    yield Row("8 arrays of 32 MB as elements, step and index", "adios2, a loop", ours, theirs, size, "B", goal=1)
    alone = reading(path, ("x", "y", "z", "id"), rows="elements", variables="x,y,z,id")
    ours, theirs = side_by_side(alone, library(path), repeats=3)
    yield Row("8 arrays of 32 MB as elements, alone", "adios2, a loop", ours, theirs, size, "B", goal=1)
    ours, theirs = side_by_side(reading(path), library(path), repeats=3)
    yield Row("the same as steps", "adios2, a loop", ours, theirs, size, "B", goal=1)
    data = path / "data.0"
    ours, theirs = side_by_side(reading(path), lambda: pa.py_buffer(data.read_bytes()), repeats=3)
    yield Row("the same as steps", "copying the bytes", ours, theirs, size, "B", goal=0.8)
    where = "{ return input.x < 0.01; }"
    some = reading(path, rows="elements", variables="x,y,z,id", where=where)
    ours, theirs = side_by_side(some, reading(path, rows="elements", variables="x,y,z,id"), repeats=3)
    yield Row("1 % of the elements by where", "all of them", ours, theirs, 8_000_000, "elements", goal=1)
    where = "{ return input.id < 40000; }"
    some = reading(path, rows="elements", variables="x,y,z,id", where=where)
    ours, theirs = side_by_side(some, reading(path, rows="elements", variables="x,y,z,id"), repeats=3)
    yield Row("the same where blocks are in order", "all of them", ours, theirs, 8_000_000, "elements", goal=5)
