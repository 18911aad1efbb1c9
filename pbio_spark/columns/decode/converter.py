"""`Converter`: a plan with its kernels, ready to travel; and running it over records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ecode.native import Kernel, Table, compile_kernel
from ecode.native.compile import is_compiled
from ecode.native.table import TableEntry
from pbio_spark.columns.decode.assemble import assemble
from pbio_spark.columns.decode.fill import EXPANDS, stored_size
from pbio_spark.columns.decode.generate import HEADER, KernelText, level_to_texts
from pbio_spark.columns.decode.plan import (
    Chars,
    Deref,
    Filled,
    Items,
    Level,
    Plan,
    Scalar,
    Text,
    is_contiguous,
    levels_of,
)
from pbio_spark.columns.decode.planner import format_to_plan
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.mapping import ColumnSpec
from pbio_spark.wire import EXPANSION_LIMIT, EXPANSION_ROOM, VALUE_COST

Int64s: TypeAlias = npt.NDArray[np.int64]
Int32s: TypeAlias = npt.NDArray[np.int32]

_MAX_TEXT = 2**31 - 1

BATCH_ROOM, BATCH_LIMIT, BATCH_MOST = 128 << 20, 8, 1 << 40
"""The most bytes, or the most times their own size, that the columns of several records may take; a single record's
expansion is bounded separately. Larger batches are decoded in parts."""


@dataclass(frozen=True, slots=True)
class CompiledLevel:
    """A level with its kernels."""

    level: Level
    kernels: tuple[tuple[KernelText, Kernel], ...]


@dataclass(frozen=True, slots=True)
class Converter:
    """Record bytes of one format -> record batches of one schema.

    Made on the driver by `plan_to_converter`; pickles with its machine code, so that an executor only runs it.
    `route` and `target` describe how records are read (see `RecordRoute`).
    """

    plan: Plan
    levels: tuple[CompiledLevel, ...]
    route: str = "direct"
    target: str | None = None

    @property
    def format(self) -> Format:
        return self.plan.format

    def decoder(self) -> Decoder:
        return Decoder(self)

    @property
    def source(self) -> str:
        """The text of all kernels, for display."""
        return "\n\n".join(kernel.source for level in self.levels for _, kernel in level.kernels)


def plan_to_converter(plan: Plan, *, fused: bool) -> Converter:
    """Compile a plan: `fused` for many records, ready-made for few (see `generate`)."""
    return Converter(
        plan,
        tuple(
            CompiledLevel(level, tuple((text, compile_kernel(text.source)) for text in level_to_texts(level, fused)))
            for level in levels_of(plan)
        ),
    )


def format_to_converter(form: Format, spec: ColumnSpec, *, target: str | None, fused: bool) -> Converter:
    """Compile the direct route of a format to columns; fused kernels are also used if cached.

    Raises what `format_to_plan` raises.
    """
    plan = format_to_plan(form, spec)
    return replace(plan_to_converter(plan, fused=fused or is_ready(plan, fused=True)), target=target)


def is_ready(plan: Plan, *, fused: bool) -> bool:
    """Whether `plan_to_converter` finds everything compiled."""
    return all(is_compiled(text.source) for level in levels_of(plan) for text in level_to_texts(level, fused))


@dataclass(slots=True)
class NodeOutput:
    """The output of a kernel for one node.

    Attributes:
        buffers: Arrow memory by entry name: `values`, `offsets`, `data`.
        arrays: numpy arrays by entry name: `valid`, `addresses`, `rows`, `extents0` ...
        used: the number of elements (or bytes of text) written.
        lists: the number of lists in arrays without elements.
    """

    buffers: dict[str, pa.Buffer] = field(default_factory=dict)
    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    used: int = 0
    lists: int = 0


@dataclass(frozen=True, slots=True)
class Decoded:
    """A batch with a row for every record, and the status of each.

    Attributes:
        batch: of the wanted schema. Rows of bad records are undefined.
        status: int32, one per record; 0 is good, else one plus the number of the node that found the record bad, or -1.
        rows: the row of each record, -1 for none; None if row and record numbers are equal.
        refused: the sound records that a program refused.
        errors: why records are bad, if a program trapped.
    """

    batch: pa.RecordBatch
    status: Int32s
    rows: Int64s | None = None
    refused: npt.NDArray[np.bool_] | None = None
    errors: Mapping[int, PbioError] = field(default_factory=dict)


class Decoder:
    """Runs a converter, and remembers the size of its outputs."""

    def __init__(self, converter: Converter) -> None:
        self.converter = converter
        self._per_record: dict[int, float] = {}
        self._room = 0

    def decode(self, starts: Int64s, ends: Int64s) -> Decoded:
        """Decode records in memory.

        Args:
            starts: the address of each record's first byte after its header.
            ends: the address after each record's last byte. The caller has checked that the base record fits, and that
                no record is longer than 2 GB.
        """
        lengths = ends - starts
        status = np.zeros(len(starts), np.int32)
        visited = np.full(len(starts), VALUE_COST * self.converter.plan.parts, np.int64)
        status[visited > np.maximum(EXPANSION_ROOM, EXPANSION_LIMIT * lengths)] = EXPANDS
        outputs: dict[int, NodeOutput] = {}
        minimum = -(-self.converter.plan.format.structs[0].record_length // 8) * 8
        total = int(lengths.sum())
        self._room = max(BATCH_ROOM, BATCH_LIMIT * total) if len(starts) > 1 else BATCH_MOST
        for compiled in self.converter.levels:
            if compiled.level.parent is None:
                at, homes, rows = starts, starts, np.arange(len(starts), dtype=np.int32)
            else:
                parent = outputs[compiled.level.parent]
                at, rows = parent.arrays["addresses"], parent.arrays["rows"]
                homes = parent.arrays.get("homes", at)
            header = [at, homes, rows, starts, ends, status, visited, minimum]
            for text, kernel in compiled.kernels:
                self._run(text, kernel, header, total, outputs)
            for node in compiled.level.nodes:
                if isinstance(node, Deref):
                    outputs[node.number].arrays["rows"] = rows
        batch = assemble(self.converter.plan, len(starts), outputs, status)
        return Decoded(batch, status)

    def _run(
        self, text: KernelText, kernel: Kernel, header: list[Any], total: int, outputs: dict[int, NodeOutput]
    ) -> None:
        """Run a kernel, repeatedly with more room if it ran out."""
        at, _, _, starts, _, _, visited, _ = header
        count, records = len(at), len(starts)
        before = visited if at is starts else visited.copy()
        capacities = {
            node.number: _capacity(node, count, total, records, self._per_record) for node in text.nodes if _grows(node)
        }
        while True:
            filled = {node.number: _allocate(node, count, capacities.get(node.number, 0)) for node in text.nodes}
            table = Table([*header, *(_entry(e, filled, capacities) for e in text.entries)])
            kernel(count, table)
            for i, entry in enumerate(text.entries, len(HEADER)):
                if isinstance(entry, tuple) and entry[1] in ("used", "lists"):
                    setattr(filled[entry[0]], entry[1], table[i])
            short = {number: filled[number].used for number, room in capacities.items() if filled[number].used > room}
            made = sum(
                _bytes_of(node, count, filled[node.number].used) + 20 * filled[node.number].lists for node in text.nodes
            )
            if made > self._room or max(short.values(), default=0) > _MAX_TEXT:
                raise OverflowError("these records exceed the size of a batch")
            if not short:
                self._room -= made
                break
            capacities |= short
            visited[:] = before
        for number in capacities:
            output = filled[number]
            self._per_record[number] = output.used / max(records, 1)
            for name in ("addresses", "rows", "homes"):
                if name in output.arrays:
                    output.arrays[name] = output.arrays[name][: output.used]
        outputs |= filled


def _bytes_of(node: Filled, count: int, used: int) -> int:
    """The approximate bytes of a node's outputs."""
    match node:
        case Scalar():
            return count * stored_size(node)
        case Deref():
            return 16 * count
        case Text() | Chars():
            return used + 5 * count
        case Items(item=Scalar() as item) if is_contiguous(node):
            return used * stored_size(item) + 5 * count
    return 20 * used + 5 * count


def _grows(node: Filled) -> bool:
    return isinstance(node, Text | Chars | Items)


def _capacity(node: Filled, count: int, total: int, records: int, per_record: Mapping[int, float]) -> int:
    """The initial room in elements: that of earlier batches, else the maximum without sharing."""
    stride = node.stride if isinstance(node, Items) and isinstance(node.stride, int) else 1
    most = total // stride + 1
    extents = [extent for extent in getattr(node, "extents", ()) if isinstance(extent, int)]
    if isinstance(node, Chars | Items) and isinstance(node.place, int) and len(extents) == len(node.extents):
        most = count * prod(extents)
    seen = per_record.get(node.number)
    room = most if seen is None else int(seen * records * 1.25) + 1024
    return min(2 * room if isinstance(node, Text | Chars) and node.is_latin else room, _MAX_TEXT)


def _allocate(node: Filled, count: int, capacity: int) -> NodeOutput:
    output = NodeOutput()
    match node:
        case Scalar():
            output.buffers["values"] = pa.allocate_buffer(count * stored_size(node))
            return output
        case Deref():
            output.arrays["addresses"] = np.empty(count, np.int64)
            if node.homes:
                output.arrays["homes"] = np.empty(count, np.int64)
            return output
        case Text() | Chars():
            output.buffers["data"] = pa.allocate_buffer(capacity)
        case Items(item=Scalar() as item) if is_contiguous(node):
            output.buffers["data"] = pa.allocate_buffer(capacity * stored_size(item))
        case Items():
            output.arrays["addresses"] = np.empty(capacity, np.int64)
            output.arrays["rows"] = np.empty(capacity, np.int32)
            if node.homes:
                output.arrays["homes"] = np.empty(capacity, np.int64)
    if isinstance(node, Items) and len(node.extents) > 1:
        for d in range(len(node.extents)):
            output.arrays[f"extents{d}"] = np.empty(count, np.int32)
    output.buffers["offsets"] = pa.allocate_buffer(4 * (count + 1))
    output.arrays["valid"] = np.empty(count, np.uint8)
    return output


def _entry(entry: tuple[int, str] | int, filled: Mapping[int, NodeOutput], capacities: Mapping[int, int]) -> TableEntry:
    if isinstance(entry, int):
        return entry
    number, name = entry
    output = filled[number]
    match name:
        case "used" | "lists":
            return 0
        case "capacity":
            return capacities[number]
    return output.buffers[name] if name in output.buffers else output.arrays[name]
