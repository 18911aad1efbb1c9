"""`Converter`: a format's plan with its kernels, ready to travel; and running it over records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ecode.native import Kernel, compile_kernel
from ecode.native.compile import is_compiled
from pbio_spark.columns.decode.assemble import assemble
from pbio_spark.columns.decode.fill import EXPANDS
from pbio_spark.columns.decode.generate import KernelText, level_to_texts
from pbio_spark.columns.decode.plan import Deref, Level, Plan, levels_of
from pbio_spark.columns.decode.planner import format_to_plan
from pbio_spark.columns.decode.runner import Outputs, RoomError, Runner
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.mapping import ColumnSpec
from pbio_spark.wire import EXPANSION_LIMIT, EXPANSION_ROOM, VALUE_COST

Int64s: TypeAlias = npt.NDArray[np.int64]
Int32s: TypeAlias = npt.NDArray[np.int32]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CompiledLevel:
    """A level with its kernels."""

    level: Level
    kernels: tuple[tuple[KernelText, Kernel], ...]


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """A plan with its kernels, which serves every format that has this plan.

    Made on the driver by `compile_plan`; pickles with its machine code, so that an executor only runs it.
    """

    plan: Plan
    levels: tuple[CompiledLevel, ...]


@dataclass(frozen=True, slots=True)
class Converter:
    """Record bytes of one format -> record batches of one schema.

    `route` and `target` describe how records are read (see `RecordRoute`). Converters of a `ReadPlan` whose plans are
    equal have one `CompiledPlan`, which is also pickled once.
    """

    format: Format
    compiled: CompiledPlan
    route: str = "direct"
    target: str | None = None

    @property
    def plan(self) -> Plan:
        return self.compiled.plan

    def decoder(self) -> Decoder:
        return Decoder(self.compiled)

    @property
    def source(self) -> str:
        """The text of all kernels, for display."""
        return "\n\n".join(kernel.source for level in self.compiled.levels for _, kernel in level.kernels)

    def __reduce__(self) -> tuple[Callable[..., Converter], tuple[Any, ...]]:
        # There may be thousands; a dataclass with slots takes five times as long to unpickle by itself.
        return Converter, (self.format, self.compiled, self.route, self.target)


class SharedPlans:
    """Keeps one of all equal compiled plans, and of all equal parts of programs, of a `ReadPlan`."""

    def __init__(self, known: Iterable[CompiledPlan] = ()) -> None:
        """
        Args:
            known: plans that are compiled already, with either kind of kernels.
        """
        self._known = {(one.plan, False): one for one in known}
        self._parts: dict[Hashable, list[Any]] = {}

    def compiled(self, plan: Plan, *, fused: bool) -> CompiledPlan:
        """The compiled plan; it has fused kernels if asked for, or if these are cached."""
        found = self._known.get((plan, fused))
        if found is None:
            found = compile_plan(plan, fused=fused or _has_fused(plan))
            self._known[plan, fused] = found
        return found

    def same(self, key: Hashable, part: T) -> T:
        """The first part given with this key that equals `part`."""
        known: list[T] = self._parts.setdefault(key, [])
        for one in known:
            if one == part:
                return one
        known.append(part)
        return part


def compile_plan(plan: Plan, *, fused: bool) -> CompiledPlan:
    """Compile a plan: `fused` for many records, ready-made for few (see `generate`)."""
    return CompiledPlan(
        plan,
        tuple(
            CompiledLevel(level, tuple(_compiled(text) for text in level_to_texts(level, fused)))
            for level in levels_of(plan)
        ),
    )


def _compiled(text: KernelText) -> tuple[KernelText, Kernel]:
    kernel = compile_kernel(text.source)
    return replace(text, source=kernel.source), kernel  # the same string: it is pickled once for all plans


def format_to_converter(
    form: Format, spec: ColumnSpec, shared: SharedPlans, *, target: str | None, fused: bool
) -> Converter:
    """Compile the direct route of a format to columns; fused kernels are also used if cached.

    Raises what `format_to_plan` raises.
    """
    return Converter(form, shared.compiled(format_to_plan(form, spec), fused=fused), target=target)


def _has_fused(plan: Plan) -> bool:
    """Whether all fused kernels of a plan are in the cache."""
    return all(is_compiled(text.source) for level in levels_of(plan) for text in level_to_texts(level, True))


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
    """Runs a compiled plan over records of any formats that have it.

    It remembers how much room its outputs took, so each thread needs its own.
    """

    def __init__(self, compiled: CompiledPlan) -> None:
        self._plan = compiled.plan
        self._runners = [
            (level.level, [Runner(text, kernel) for text, kernel in level.kernels]) for level in compiled.levels
        ]
        self._type = pa.struct(list(compiled.plan.schema))
        self._cost = VALUE_COST * compiled.plan.parts
        self._minimum = -(-compiled.plan.size // 8) * 8

    def decode(self, starts: Int64s, ends: Int64s) -> Decoded:
        """Decode records in memory.

        Args:
            starts: the address of each record's first byte after its header.
            ends: the address after each record's last byte. The caller has checked that the base record fits, and that
                no record is longer than 2 GB.
        """
        while True:
            try:
                return self._decode(starts, ends)
            except RoomError:
                continue

    def _decode(self, starts: Int64s, ends: Int64s) -> Decoded:
        count = len(starts)
        status = np.zeros(count, np.int32)
        visited = np.empty(count, np.int64)
        visited.fill(self._cost)
        if self._cost > EXPANSION_ROOM:
            status[self._cost > EXPANSION_LIMIT * (ends - starts)] = EXPANDS
        outputs = Outputs(starts, ends)
        common = (starts, ends, status, visited, self._minimum)
        for level, runners in self._runners:
            at, homes, rows = self._places(level, starts, outputs)
            header = (at, 0 if homes is None else homes, 0 if rows is None else rows, *common)
            for runner in runners:
                runner.run(header, len(at), outputs)
            for node in level.nodes:
                if isinstance(node, Deref):
                    outputs.rows[node.number] = np.arange(count, dtype=np.int32) if rows is None else rows
        batch = assemble(self._plan, self._type, count, outputs, status)
        return Decoded(batch, status)

    def _places(self, level: Level, starts: Int64s, outputs: Outputs) -> tuple[Int64s, Int64s | None, Int32s | None]:
        """The addresses of a level's places, of the structures that control arrays there if these are elsewhere, and
        the record of each; None at the root, where each has its own."""
        number = level.parent
        if number is None:
            return starts, None, None
        if number not in outputs.rows:
            outputs.rows[number] = outputs.array((number, "rows"), np.int32, outputs.used[number])
        rows = outputs.rows[number]
        at = outputs.array((number, "addresses"), np.int64, len(rows))
        return at, outputs.array((number, "homes"), np.int64, len(rows)) if level.has_homes else None, rows
