"""E-code over batches: the published programs, against the same loops by hand in numba and in C

COD, the C implementation, needs about 4 ns for a call of the stock filter, 32 us for the wind average, and 149 us for
the morph of 100,000 queue lengths on such a machine; divide the rates to compare.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

import ecode
from benchmarks import Row, side_by_side
from ecode.columns import BatchProgram, Column
from ecode.native import compile as compiler
from ecode.native import compile_kernel
from ecode.types import FLOAT32, FLOAT64, INT32, Array, Field, record

Numbers = npt.NDArray[Any]

C_LOOPS = r"""
#include <stdint.h>
void stock(int64_t n, const double *price, uint8_t *passed) {
    for (int64_t i = 0; i < n; i++) passed[i] = price[i] < 75.0 || price[i] > 80.0;
}
void wind(int64_t n, const float *v, double *average) {
    for (int64_t e = 0; e < n; e++, v += 253 * 37) {
        double sum = 0.0;
        for (int i = 0; i < 37; i++) for (int j = 0; j < 253; j++) sum += v[j * 37 + i];
        average[e] = sum / (37 * 253);
    }
}
void monitoring(int64_t n, const int32_t *cpus, const int32_t *offsets, const int32_t *queue, const int32_t *total,
                const int32_t *used, const int32_t *rx, const int32_t *tx, int32_t *avg, int32_t *unused,
                int32_t *bytes) {
    for (int64_t e = 0; e < n; e++) {
        const int32_t *q = queue + offsets[e];
        int32_t len = 0;
        for (int32_t i = 0; i < cpus[e]; i++) len += q[i];
        avg[e] = len / cpus[e]; unused[e] = total[e] - used[e]; bytes[e] = rx[e] + tx[e];
    }
}
"""


@numba.njit
def stock_by_hand(price: Numbers, passed: Numbers) -> None:
    for i in range(len(price)):
        passed[i] = price[i] < 75.0 or price[i] > 80.0


@numba.njit
def wind_by_hand(v: Numbers, average: Numbers) -> None:
    for event in range(len(average)):
        total = 0.0
        for i in range(37):
            for j in range(253):
                total += v[event, j, i]
        average[event] = total / (37 * 253)


@numba.njit(error_model="numpy")
def monitoring_by_hand(
    cpus: Numbers, offsets: Numbers, queue: Numbers, total: Numbers, used: Numbers, rx: Numbers, tx: Numbers,
    avg: Numbers, unused: Numbers, bytes_: Numbers,
) -> None:  # fmt: skip
    for event in range(len(cpus)):
        start, length = offsets[event], 0
        for i in range(cpus[event]):
            length += queue[start + i]
        avg[event] = length // cpus[event]
        unused[event] = total[event] - used[event]
        bytes_[event] = rx[event] + tx[event]


@dataclass(frozen=True, slots=True)
class Case:
    """One program with a batch for it, and the same loop by hand: its arguments are the same buffers."""

    what: str
    program: ecode.Program
    inputs: dict[str, Column]
    events: int
    by_hand: Callable[..., Any]
    in_c: str
    arguments: tuple[Numbers, ...]


def stock(events: int = 1_000_000) -> Case:
    price = np.random.default_rng(1).uniform(70, 85, events)
    type_ = record("stock", [Field("price", FLOAT64)])
    source = "{ if ((input.price < 75.0) || (input.price > 80.0)) { return 1; } return 0; }"
    program = ecode.compile(source, [ecode.Param("input", type_)])
    column = Column(events, children={"price": Column(events, price)})
    passed = np.zeros(events, np.uint8)
    return Case("stock filter", program, {"input": column}, events, stock_by_hand, "stock", (price, passed))


def wind(events: int = 300) -> Case:
    velocity = np.random.default_rng(1).uniform(0, 30, (events, 253, 37)).astype(np.float32)
    source = """{ int i; int j; double sum = 0.0;
        for(i = 0; i<37; i= i+1) { for(j = 0; j<253; j=j+1) { sum = sum + input.wind_velocity[j][i]; } }
        output.average_velocity = sum / (37 * 253); return 1; }"""
    params = [
        ecode.Param("input", record("wind", [Field("wind_velocity", Array(FLOAT32, (253, 37)))])),
        ecode.Param("output", record("average", [Field("average_velocity", FLOAT64)]), ecode.Mode.OUT),
    ]
    cells = Column(velocity.size, velocity.ravel())
    column = Column(events, children={"wind_velocity": Column(events, children={"[]": cells})})
    arguments = (velocity, np.zeros(events))
    program = ecode.compile(source, params)
    return Case("wind average, 37 x 253", program, {"input": column}, events, wind_by_hand, "wind", arguments)


def monitoring(length: int, cells: int = 3_000_000) -> Case:
    events = cells // length
    queue = np.random.default_rng(1).integers(0, 100, events * length).astype(np.int32)
    offsets = (np.arange(events + 1) * length).astype(np.int32)
    cpus, *rest = (np.full(events, n, np.int32) for n in (length, 9, 4, 5, 6))
    source = """{ int i, len = 0;
        for ( i = 0; i < new.number_of_cpus; i = i + 1) len += new.rqueue_length[i];
        old.avg_rqueue_length = len / new.number_of_cpus; old.free_memory = new.total_memory - new.used_memory;
        old.rx_tx_bytes = new.rx_bytes + new.tx_bytes; }"""
    names = ("total_memory", "used_memory", "rx_bytes", "tx_bytes")
    array = Field("rqueue_length", Array(INT32, ("number_of_cpus",)))
    new = record("new", [Field("number_of_cpus", INT32), array, *(Field(name, INT32) for name in names)])
    old = record("old", [Field(name, INT32) for name in ("avg_rqueue_length", "free_memory", "rx_tx_bytes")])
    program = ecode.compile(source, [ecode.Param("new", new), ecode.Param("old", old, ecode.Mode.OUT)], None)
    queues = Column(events, None, offsets, None, {"[]": Column(len(queue), queue)})
    scalars = {name: Column(events, data) for name, data in zip(names, rest, strict=True)}
    children = {"number_of_cpus": Column(events, cpus), "rqueue_length": queues} | scalars
    arguments = (cpus, offsets, queue, *rest, *(np.zeros(events, np.int32) for _ in range(3)))
    inputs = {"new": Column(events, children=children)}
    return Case(f"MonitoringMsg, n = {length:,}", program, inputs, events, monitoring_by_hand, "monitoring", arguments)


def rows() -> Iterator[Row]:
    cases = [stock(), wind(), *(monitoring(length) for length in (10, 1_000, 100_000))]
    with tempfile.TemporaryDirectory() as folder:
        library = c_loops(Path(folder))
        for case in cases:
            batch = case.program.kernel()
            check(case, batch)
            run = runner(batch, case)
            ours, theirs = side_by_side(run, lambda case=case: case.by_hand(*case.arguments))
            yield Row(case.what, "numba by hand", ours, theirs, case.events, "events", 1 / 1.2)
            if library is not None:
                ours, theirs = side_by_side(run, lambda case=case: in_c(library, case))
                yield Row(case.what, "gcc -O2", ours, theirs, case.events, "events", 1 / 1.2)
            unchecked = runner(without_bounds_checks(batch), case)
            ours, theirs = side_by_side(run, unchecked)
            yield Row(case.what, "without bounds checks", ours, theirs, case.events, "events")
    yield from compile_times(cases)


def runner(batch: BatchProgram, case: Case) -> Callable[[], object]:
    return lambda: batch.run(case.inputs, case.events)


def check(case: Case, batch: BatchProgram) -> None:
    """The loop by hand computes the same."""
    result = batch.run(case.inputs, case.events)
    case.by_hand(*case.arguments)
    columns = [c.data for output in result.outputs.values() for c in output.children.values()] or [result.passed]
    for ours, theirs in zip(columns, case.arguments[-len(columns) :], strict=True):
        if not np.array_equal(np.asarray(ours), theirs):
            raise ValueError(f"{case.what}: the results differ")


def without_bounds_checks(batch: BatchProgram) -> BatchProgram:
    """The same kernel with the lines that check an index taken out."""
    text = re.sub(r" *if not 0 <= .*:\n *return \d+\n", "", batch.kernel.source)
    return replace(batch, kernel=compile_kernel(text))


def c_loops(folder: Path) -> ctypes.CDLL | None:
    if shutil.which("gcc") is None:
        return None
    (folder / "loops.c").write_text(C_LOOPS)
    options = ["-O2", "-march=native", "-shared", "-fPIC"]
    subprocess.run(["gcc", *options, "-o", folder / "loops.so", folder / "loops.c"], check=True)
    return ctypes.CDLL(str(folder / "loops.so"))


def in_c(library: ctypes.CDLL, case: Case) -> None:
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in case.arguments]
    library[case.in_c](ctypes.c_int64(case.events), *pointers)


def compile_times(cases: list[Case]) -> Iterator[Row]:
    """From the text to a kernel: cold, from the cache on disk, and shipped to a process without a compiler."""
    known = os.environ.get("ECODE_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ECODE_CACHE_DIR"] = folder
        for case in cases[:3]:
            cold, cached = compile_time(case), compile_time(case)
            yield Row(f"{case.what}, compiling", "cold", cached, cold)
            yield Row(f"{case.what}, first batch where it was shipped", "cold", shipped_time(case), cold)
    if known is None:
        del os.environ["ECODE_CACHE_DIR"]
    else:
        os.environ["ECODE_CACHE_DIR"] = known


def compile_time(case: Case) -> float:
    compiler._compiled.clear()
    start = time.perf_counter()
    ecode.compile(case.program.source, case.program.params, case.program.typed.returns).kernel()  # type: ignore[arg-type]
    return time.perf_counter() - start


SHIPPED = """
import pickle, sys, time
import numpy, llvmlite.binding, ecode.columns
sent = sys.stdin.buffer.read()
start = time.perf_counter()
batch, inputs, events = pickle.loads(sent)
batch.run(inputs, events)
print(time.perf_counter() - start, "numba" in sys.modules)
"""


def shipped_time(case: Case) -> float:
    sent = pickle.dumps((case.program.kernel(), case.inputs, case.events))
    done = subprocess.run([sys.executable, "-c", SHIPPED], input=sent, capture_output=True, check=True)
    seconds, has_numba = done.stdout.decode().split()
    if has_numba != "False":
        raise ValueError("the fresh process imported numba")
    return float(seconds)
