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
from benchmarks.spark.spark_scan import Ready, scan, session
from pbio_spark.bp5.rows.read import read_part
from pbio_spark.source.bp5.datasource import Bp5DataSource
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


def batches(path: Path, only: Sequence[str] = (), **options: str) -> Iterator[pa.RecordBatch]:
    """Everything from the path to the last batch. `only` are the columns, if not all."""
    scan = scan_datasets([str(path)], parse_bp5_options(options, Scope.READ)).surveyed()
    schema = scan_to_schema(scan)
    wanted = scan_to_wanted(scan, pa.schema([schema.field(name) for name in only]) if only else schema)
    for parts in plan_parts(scan, wanted):
        for part in parts:
            yield from read_part(part, wanted)


def reading(path: Path, only: Sequence[str] = (), **options: str) -> Callable[[], int]:
    """The same, and how many rows there are."""
    return lambda: sum(batch.num_rows for batch in batches(path, only, **options))


def library(path: Path, *, hold: bool = False, count_too: bool = False) -> Callable[[], int]:
    """Step by step, each variable into an array of its own, as the library's manual does it.

    Args:
        hold: keep the arrays of a step until the next, as its rows do, instead of dropping each at once.
        count_too: make the number of the step and the index of each element as arrays, too.
    """

    def read() -> int:
        count = 0
        with adios2.Stream(str(path), "r") as stream:
            for _ in stream.steps():
                held = []
                for name in stream.available_variables():
                    values = stream.read(name)
                    if hold:
                        held.append(values)
                if count_too:
                    held += [np.arange(len(values)), np.full(len(values), count)]
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
    all_of_it = reading(path, rows="elements", variables="x,y,z,id")
    for beside, other in (("a loop", library(path)), ("and numpy's for the two", library(path, count_too=True))):
        ours, theirs = side_by_side(all_of_it, other, repeats=3)
        yield Row("8 arrays of 32 MB as elements, step and index", f"adios2, {beside}", ours, theirs, size, "B", goal=1)
    alone = reading(path, ("x", "y", "z", "id"), rows="elements", variables="x,y,z,id")
    ours, theirs = side_by_side(alone, library(path), repeats=3)
    yield Row("8 arrays of 32 MB as elements, alone", "adios2, a loop", ours, theirs, size, "B", goal=1)
    for beside, other in (("a loop", library(path)), ("which holds a step", library(path, hold=True))):
        ours, theirs = side_by_side(reading(path), other, repeats=3)
        yield Row("the same as steps", f"adios2, {beside}", ours, theirs, size, "B", goal=1)
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
    yield from through_spark(path)


def through_spark(path: Path) -> Iterator[Row]:
    """What Spark's own hand-over of batches from Python leaves of that."""
    spark = session()
    try:
        spark.dataSource.register(Bp5DataSource)
        spark.dataSource.register(Ready)
        for what, options in (("elements", {"rows": "elements", "variables": "x,y,z,id"}), ("steps", {})):
            ready = path.parent / f"ready-{what}"
            ready.mkdir()
            made = list(batches(path, **options))
            with pa.ipc.new_file(f"{ready}/0", made[0].schema) as target:
                for batch in made:
                    target.write(batch)
            del made
            load = spark.read.format("bp5").options(**options).load
            schema = load(str(path)).schema
            ours = scan(lambda load=load: load(str(path)))
            theirs = scan(lambda ready=ready, s=schema: spark.read.format("ready").schema(s).load(str(ready)))
            yield Row(f"as {what} through Spark", "the same batches ready-made", *side_by_side(ours, theirs, 3))
    finally:
        spark.stop()
