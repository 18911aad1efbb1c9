"""Converters for ways that lead through E-code: record bytes -> columns, transforms and filter included, in one pass.

`FilterConverter` runs a filter over the record bytes and decodes what it keeps. `MorphConverter` runs all programs of a
way as one kernel, from record bytes to columns. Both travel compiled, as plain converters do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import ecode
from ecode import Mode, Param, TrapKind
from ecode.columns.batch import BatchProgram, BatchResult
from ecode.native.table import Entry
from ecode.types import Default, Record
from pbio_spark.columns.converter import Converter, Decoded, Decoder, is_ready, plan_to_converter
from pbio_spark.columns.made import MadeColumns
from pbio_spark.columns.planner import format_to_plan
from pbio_spark.columns.ways import Way
from pbio_spark.columns.wire_binding import WireBinding
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow_schema import Presentation

AnyConverter: TypeAlias = "Converter | FilterConverter | MorphConverter"


def way_to_converter(
    form: Format,
    way: Way,
    schema: pa.Schema,
    presentation: Presentation,
    aliases: Mapping[str, str],
    defaults: Mapping[str, Default],
    *,
    fused: bool,
) -> AnyConverter:
    """Compile a way; fused kernels also where they are in the cache.

    Raises what `format_to_plan` raises, and PBIO_BAD_PROGRAM.
    """
    defaults = {**way.defaults, **defaults}
    try:
        if way.is_direct:
            plan = format_to_plan(form, schema, presentation, aliases=aliases, defaults=defaults)
            plain = replace(plan_to_converter(plan, fused=fused or is_ready(plan, fused=True)), target=way.target)
            if way.keep is None:
                return plain
            binding = WireBinding(form, _input(way.keep))
            program = BatchProgram.in_row([way.keep], binding, has_output=False)
            return FilterConverter(
                plain, Programs(form, program, ("filter",), dict(binding.texts)), way.text, way.target
            )
        last = (("filter", way.keep), ("transform", way.make))
        steps = [*way.transforms, *((name, program) for name, program in last if program is not None)]
        binding = WireBinding(form, _input(steps[0][1]))
        program = BatchProgram.in_row([step for _, step in steps], binding)
    except ecode.NotCompilable as error:
        raise PbioError(
            "PBIO_BAD_PROGRAM", f"the way {way.text} cannot be compiled: {error}", format=form.name
        ) from error
    made = MadeColumns(_output(steps[-1][1]), schema, presentation, aliases, defaults)
    programs = Programs(form, program, tuple(name for name, _ in steps), dict(binding.texts))
    return MorphConverter(programs, made, way.text, way.target)


@dataclass(frozen=True, slots=True)
class Programs:
    """Programs in a row over the records of a format, compiled; their names, and the texts that they read."""

    form: Format
    program: BatchProgram
    names: tuple[str, ...]
    texts: Mapping[str, bytes]

    def run(self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], room: dict[str, int]) -> BatchResult:
        """Run over records that lie in memory; `room` is what earlier batches needed (see `BatchProgram.run`)."""
        texts = {name: np.frombuffer(text, np.uint8) for name, text in self.texts.items()}
        memory: dict[str, Entry] = {"starts": starts, "ends": ends, **texts}
        return self.program.run({}, len(starts), memory=memory, room=room, allocate=pa.allocate_buffer)

    def traps(self, result: BatchResult) -> dict[int, PbioError | None]:
        """Why events ended; None where the record itself is bad, which the codec explains better."""
        return {
            event: None
            if trap.kind is TrapKind.BAD_RECORD
            else PbioError(
                "PBIO_TRAP",
                f"the {self.names[trap.program]} ended: {trap.message}",
                format=f"{self.form.name} ({self.form.id.hex()})",
                hint="the program's text is in the format, or in the option that it came by",
            )
            for event, trap in result.traps
        }


@dataclass(frozen=True, slots=True)
class FilterConverter:
    """Decodes the records that a filter keeps; the others are not looked at any further."""

    plain: Converter
    programs: Programs
    way: str = "direct"
    target: str | None = None

    @property
    def format(self) -> Format:
        return self.programs.form

    @property
    def source(self) -> str:
        """The text of all kernels."""
        return f"{self.programs.program.kernel.source}\n\n{self.plain.source}"

    def decoder(self) -> FilterDecoder:
        return FilterDecoder(self)


class FilterDecoder:
    """Runs a `FilterConverter`."""

    def __init__(self, converter: FilterConverter) -> None:
        self.converter = converter
        self._plain = Decoder(converter.plain)
        self._room: dict[str, int] = {}

    def decode(self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Decoded:
        result = self.converter.programs.run(starts, ends, self._room)
        kept = np.flatnonzero(result.passed)
        decoded = self._plain.decode(starts[kept], ends[kept])
        status = np.zeros(len(starts), np.int32)
        status[kept] = decoded.status
        return _with_rows(decoded.batch, status, kept, self.converter.programs.traps(result))


@dataclass(frozen=True, slots=True)
class MorphConverter:
    """All programs of a way as one kernel."""

    programs: Programs
    made: MadeColumns
    way: str = "direct"
    target: str | None = None

    @property
    def format(self) -> Format:
        return self.programs.form

    @property
    def source(self) -> str:
        """The text of the kernel."""
        return self.programs.program.kernel.source

    def decoder(self) -> MorphDecoder:
        return MorphDecoder(self)


class MorphDecoder:
    """Runs a `MorphConverter`."""

    def __init__(self, converter: MorphConverter) -> None:
        self.converter = converter
        self._room: dict[str, int] = {}

    def decode(self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Decoded:
        result = self.converter.programs.run(starts, ends, self._room)
        (output,) = result.outputs.values()
        batch, bad = self.converter.made.to_batch(output)
        kept = np.flatnonzero(result.passed)
        status = np.zeros(len(starts), np.int32)
        status[kept[bad]] = 1
        return _with_rows(batch, status, kept, self.converter.programs.traps(result))


def _with_rows(
    batch: pa.RecordBatch,
    status: npt.NDArray[np.int32],
    kept: npt.NDArray[np.int64],
    traps: Mapping[int, PbioError | None],
) -> Decoded:
    if len(kept) == len(status):
        return Decoded(batch, status)
    rows = np.full(len(status), -1, np.int64)
    rows[kept] = np.arange(len(kept))
    refused = rows < 0
    for event in traps:
        status[event] = -1
        refused[event] = False
    return Decoded(batch, status, rows, refused, {event: error for event, error in traps.items() if error is not None})


def _input(program: ecode.Program) -> Record:
    return _record(program.params[0])


def _output(program: ecode.Program) -> Record:
    return _record(next((p for p in program.params if p.mode is Mode.OUT), program.params[0]))


def _record(param: Param) -> Record:
    assert isinstance(param.type, Record)
    return param.type
