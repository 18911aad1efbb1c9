"""Converters for routes that lead through E-code: record bytes -> columns, transforms and filter included, in one pass.

`FilterConverter` runs a filter over the record bytes and decodes what it keeps. `ProgramConverter` runs all programs of
a route as one kernel, from record bytes to columns. Both travel compiled, as plain converters do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import ecode
from ecode import Mode, Param, TrapKind
from ecode.columns import BatchProgram, BatchResult, Column, OutputMemory, Run, columns_of
from ecode.errors import BatchTooLarge
from ecode.interpreter.convert import completed
from ecode.native.table import TableEntry
from ecode.outcome import Statics
from ecode.types import Record
from pbio_spark.columns.decode.converter import Converter, Decoded, SharedPlans, format_to_converter
from pbio_spark.columns.decode.runner import Int64s
from pbio_spark.columns.programs.binding import WireBinding
from pbio_spark.columns.programs.excluded import NOTHING_EXCLUDED, Excluding, program_to_excluding
from pbio_spark.columns.programs.kept_state import KeptState
from pbio_spark.columns.programs.output import ProgramOutput
from pbio_spark.columns.programs.routes import RecordRoute
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.mapping import ColumnSpec
from pbio_spark.formats.arrow.names import Names

FILTER, TRANSFORM = "filter", "transform"

MOST_BYTES = 16 << 20
"""What the columns that programs make of a batch may take, unless one record takes more."""

AnyConverter: TypeAlias = "Converter | FilterConverter | ProgramConverter"


def route_to_converter(
    form: Format, route: RecordRoute, spec: ColumnSpec, shared: SharedPlans, *, fused: bool
) -> AnyConverter:
    """Compile a route; fused kernels also where they are in the cache.

    Raises what `format_to_plan` raises, PBIO_INCOMPATIBLE_TYPE, and ecode.NotCompilable if the programs of the
    route are too much for one kernel.
    """
    spec = route.fill(spec)
    # A filter has a kernel of its own where the plain kernels follow, or transforms that go on from the same record.
    is_apart = route.keep is not None and (route.is_direct or (route.keeps_first and bool(route.transforms)))
    last = ((FILTER, None if is_apart else route.keep), (TRANSFORM, route.make))
    steps = [*route.transforms, *((name, program) for name, program in last if program is not None)]
    try:
        inner: Converter | ProgramConverter
        if route.is_direct:
            inner = format_to_converter(form, spec, shared, target=route.target, fused=fused)
        else:
            output = ProgramOutput(_output(steps[-1][1]), spec)
            programs = _programs(form, steps, len(route.transforms), spec.aliases)
            inner = ProgramConverter(programs, output, route.text, route.target)
            # Columns that can never be are found here, by a batch of nothing.
            tried = inner.with_samples(dict.fromkeys(samples_of(inner), 0.0))
            tried.decoder().decode(np.empty(0, np.int64), np.empty(0, np.int64))
        if route.keep is None or not is_apart:
            return inner
        kept = _programs(form, [(FILTER, route.keep)], 0, spec.aliases, has_output=False)
        return FilterConverter(inner, kept, route.text, route.target)
    except ecode.ParameterError as error:
        raise PbioError("PBIO_INCOMPATIBLE_TYPE", error.message, format=form.name, hint=error.hint or None) from error


def with_parameters(converter: AnyConverter, block: Mapping[str, Any]) -> AnyConverter:
    """The same converter with other values in the parameter block of its programs; nothing is compiled.

    Args:
        block: plain values by field (see `ecode.semantics.values`). What it leaves out is zero, and a size field the
            length of its array.

    Raises:
        ecode.ParameterError: a value does not fit its field, or there is no such field.
    """
    return converter if isinstance(converter, Converter) else converter.with_block(block)


def with_state(converter: AnyConverter, statics: Statics) -> AnyConverter:
    """The same converter, whose programs keep their state in a dict: they take it from there and update it in place
    as records are decoded, each record once, in order.

    After `decode`, and so after each batch that `read_batches` gives, it is the state after the records handed out, not
    after any that come again. A record on which a program traps does not change it. A record that becomes a bad one
    only after its program ran (its string is not text, or NULL where the schema has NOT NULL) does. Where reading
    fails, the state may be that of a batch that nobody got: keep a copy.

    Args:
        statics: the values by name (see `statics_of`); what it lacks has its initial value. Converters of several
            formats may have one, if records are decoded one after another.
    """
    return converter if isinstance(converter, Converter) else converter.with_state(statics)


def with_samples(converter: AnyConverter, samples: Mapping[str, float]) -> AnyConverter:
    """The same converter with other results of its programs' sampled services (see `ecode.Function.is_sampled`).

    Decoding raises ecode.ParameterError where one is missing.
    """
    return converter if isinstance(converter, Converter) else converter.with_samples(samples)


def samples_of(converter: AnyConverter) -> frozenset[str]:
    """The sampled services that a converter's programs call."""
    if isinstance(converter, Converter):
        return frozenset()
    inner = samples_of(converter.inner) if isinstance(converter, FilterConverter) else frozenset()
    return inner | converter.programs.program.event.samples.keys()


def statics_of(converter: AnyConverter) -> Statics:
    """The state of a converter's programs before the first record: static variables, and the record `state`.

    Where there are both a filter and a transform, their static variables are `filter.n` and `transform.n`.
    """
    return {} if isinstance(converter, Converter) else deepcopy(dict(converter.programs.initial))


def _programs(
    form: Format,
    steps: Sequence[tuple[str, ecode.Program]],
    morphs: int,
    aliases: Mapping[str, str],
    *,
    has_output: bool = True,
) -> Programs:
    """The programs of a route, of which so many at the beginning are transforms of formats."""
    names, called = Names(aliases), [name for name, _ in steps]
    binding = WireBinding(form, _record(steps[0][1].params[0]), Names() if morphs else names)
    is_pair = FILTER in called and TRANSFORM in called
    program = BatchProgram.in_row(
        [step for _, step in steps],
        binding,
        has_output=has_output,
        morphs=morphs,
        find=names.find,
        names=[name if is_pair else "" for name in called],
    )
    is_first = not morphs and not program.initial
    excluding = program_to_excluding(steps[0][1], form, names) if is_first else NOTHING_EXCLUDED
    return Programs(form, program, tuple(called), dict(binding.texts), excluding=excluding).with_block({})


@dataclass(frozen=True, slots=True)
class Programs:
    """Programs in a row over the records of a format, compiled.

    Attributes:
        names: of the programs.
        texts: the string constants they read.
        blocks: the values of their parameter block, by its name.
        statics: their state, if it outlives a decoder.
        samples: the results of sampled services.
        excluding: which records the first program never lets pass.
    """

    form: Format
    program: BatchProgram
    names: tuple[str, ...]
    texts: Mapping[str, bytes]
    blocks: Mapping[str, Column] = field(default_factory=dict, compare=False, repr=False)
    statics: Statics | None = field(default=None, compare=False)
    samples: Mapping[str, float] = field(default_factory=dict, compare=False)
    excluding: Excluding = NOTHING_EXCLUDED

    @property
    def initial(self) -> Statics:
        return self.program.initial

    def with_block(self, values: Mapping[str, Any]) -> Programs:
        """The same programs with other values in the parameter block."""
        types, structs = self.program.types, self.program.structs
        blocks = {
            name: columns_of([completed(values, type_, structs, name)], type_, structs) for name, type_ in types.items()
        }
        return replace(self, blocks=blocks)

    def run(self, starts: Int64s, ends: Int64s, room: dict[str, int], most_bytes: int, statics: Statics) -> BatchResult:
        """Run over records that lie in memory, or the first of them: see `ecode.columns.OutputMemory`.

        Raises OverflowError if that makes more than one batch should hold; `statics` is as it was then.
        """
        outputs = OutputMemory(room, pa.allocate_buffer, most_bytes)
        try:
            return self.program.run(
                self.blocks, len(starts), statics, memory=self.memory(starts, ends), outputs=outputs
            )
        except BatchTooLarge as error:
            raise OverflowError(str(error)) from error

    def begin(self, starts: Int64s, ends: Int64s) -> Run:
        """The same for programs that only select, to be run bit by bit."""
        return self.program.begin(self.blocks, len(starts), memory=self.memory(starts, ends))

    def memory(self, starts: Int64s, ends: Int64s) -> dict[str, TableEntry]:
        """The table entries of records, and of what the programs read besides."""
        # Arrow tells where memory is faster than numpy does.
        memory = {name: pa.py_buffer(text) for name, text in self.texts.items()}
        memory |= {"starts": pa.py_buffer(starts), "ends": pa.py_buffer(ends)}
        return memory | self.program.sampled(self.samples) if self.program.event.samples else memory

    def traps(self, result: BatchResult) -> dict[int, PbioError | None]:
        """Why events ended; None where the record itself is bad, which the codec explains better."""
        return {event: self._error(trap) for event, trap in result.traps}

    def _error(self, trap: ecode.Trap) -> PbioError | None:
        name, form = self.names[trap.program], f"{self.form.name} ({self.form.id.hex()})"
        if trap.reason:
            return PbioError(
                "PBIO_VALUE_BEYOND_TYPE",
                f"the {name} cannot read the record: {trap.reason}",
                format=form,
                hint="name a type that has the value with readerFormat, or a wider column",
            )
        if trap.kind is TrapKind.BAD_RECORD:
            return None
        first = "set the count of an array before its elements, or " if "has length 0" in trap.message else ""
        return PbioError(
            "PBIO_TRAP",
            f"the {name} ended: {trap.message}\n{trap.excerpt}",
            format=form,
            hint=f"{first}let the program check for it; in mode DROPMALFORMED such a record is left out",
        )


@dataclass(frozen=True, slots=True)
class FilterConverter:
    """Decodes the records that a filter keeps; the others are not looked at any further. Only the filter may keep state
    (`make` is in one kernel with it)."""

    inner: Converter | ProgramConverter
    programs: Programs
    route: str = "direct"
    target: str | None = None

    @property
    def format(self) -> Format:
        return self.programs.form

    @property
    def source(self) -> str:
        """The text of all kernels."""
        return f"{self.programs.program.kernel.source}\n\n{self.inner.source}"

    @property
    def statics(self) -> Statics | None:
        """The state that outlives decoders."""
        return self.programs.statics

    def with_block(self, values: Mapping[str, Any]) -> FilterConverter:
        inner = self.inner if isinstance(self.inner, Converter) else self.inner.with_block(values)
        return replace(self, inner=inner, programs=self.programs.with_block(values))

    def with_samples(self, samples: Mapping[str, float]) -> FilterConverter:
        inner = self.inner if isinstance(self.inner, Converter) else self.inner.with_samples(samples)
        return replace(self, inner=inner, programs=replace(self.programs, samples=samples))

    def with_state(self, statics: Statics) -> FilterConverter:
        return replace(self, programs=replace(self.programs, statics=statics))

    def decoder(self, most_bytes: int = MOST_BYTES) -> FilterDecoder:
        return FilterDecoder(self, most_bytes)


class FilterDecoder:
    """Runs a `FilterConverter`."""

    def __init__(self, converter: FilterConverter, most_bytes: int) -> None:
        self.converter, self._most_bytes = converter, most_bytes
        inner = converter.inner
        self._inner = inner.decoder() if isinstance(inner, Converter) else inner.decoder(most_bytes)
        self._room: dict[str, int] = {}
        self._state = KeptState(converter.programs.initial, converter.programs.statics)

    def decode(self, starts: Int64s, ends: Int64s) -> Decoded:
        programs, statics = self.converter.programs, self._state.copy()
        result = programs.run(starts, ends, self._room, self._most_bytes, statics)
        kept = np.flatnonzero(result.passed)
        decoded = self._inner.decode(starts[kept], ends[kept])
        if len(decoded.status) < len(kept):
            # The first record that was not decoded, and all after it, come again.
            done = int(kept[len(decoded.status)])
            result = result.first(done)
            kept = kept[: len(decoded.status)]
            if statics:
                statics = self._state.copy()
                programs.run(starts[:done], ends[:done], self._room, self._most_bytes, statics)
        self._state.keep(statics)
        return _with_rows(decoded, kept, self.converter.programs, result)

    def select(self, starts: Int64s, ends: Int64s) -> tuple[npt.NDArray[np.bool_], Mapping[int, PbioError | None]]:
        """Which records pass, and those on which the filter ended in a trap, with the reasons; nothing is decoded."""
        programs, statics = self.converter.programs, self._state.copy()
        result = programs.run(starts, ends, self._room, self._most_bytes, statics)
        self._state.keep(statics)
        return result.passed.view(np.bool_), programs.traps(result)


@dataclass(frozen=True, slots=True)
class ProgramConverter:
    """All programs of a route as one kernel."""

    programs: Programs
    output: ProgramOutput
    route: str = "direct"
    target: str | None = None

    @property
    def format(self) -> Format:
        return self.programs.form

    @property
    def source(self) -> str:
        """The text of the kernel."""
        return self.programs.program.kernel.source

    @property
    def statics(self) -> Statics | None:
        """The state that outlives decoders."""
        return self.programs.statics

    def with_block(self, values: Mapping[str, Any]) -> ProgramConverter:
        return replace(self, programs=self.programs.with_block(values))

    def with_samples(self, samples: Mapping[str, float]) -> ProgramConverter:
        return replace(self, programs=replace(self.programs, samples=samples))

    def with_state(self, statics: Statics) -> ProgramConverter:
        return replace(self, programs=replace(self.programs, statics=statics))

    def decoder(self, most_bytes: int = MOST_BYTES) -> ProgramDecoder:
        return ProgramDecoder(self, most_bytes)

    def decoded(self, result: BatchResult) -> Decoded:
        """What the programs made of records, as columns. Raises OverflowError if that is too much for them."""
        (filled,) = result.filled.values()
        batch, bad = self.output.filled_to_batch(filled)
        status = np.zeros(filled.lengths[0], np.int32)
        if len(bad):
            status[bad] = 1
        kept = None if len(status) == len(result.passed) else np.flatnonzero(result.passed)
        return _with_rows(Decoded(batch, status), kept, self.programs, result)


class ProgramDecoder:
    """Runs a `ProgramConverter`: on the first of the records where all of them would make too large a batch."""

    def __init__(self, converter: ProgramConverter, most_bytes: int) -> None:
        self.converter, self._most_bytes = converter, most_bytes
        self._room: dict[str, int] = {}
        self._state = KeptState(converter.programs.initial, converter.programs.statics)

    def decode(self, starts: Int64s, ends: Int64s) -> Decoded:
        statics = self._state.copy()
        result = self.converter.programs.run(starts, ends, self._room, self._most_bytes, statics)
        decoded = self.converter.decoded(result)
        self._state.keep(statics)
        return decoded


def _with_rows(decoded: Decoded, kept: Int64s | None, programs: Programs, result: BatchResult) -> Decoded:
    """What was decoded of the records that programs kept (None: all), and what became of the others."""
    count = len(result.passed)
    if kept is None or len(kept) == count:
        return decoded
    status, rows, refused = np.zeros(count, np.int32), np.full(count, -1, np.int64), np.ones(count, np.bool_)
    status[kept] = decoded.status
    rows[kept] = np.arange(len(kept)) if decoded.rows is None else decoded.rows
    refused[kept] = False if decoded.refused is None else decoded.refused
    errors = {int(kept[event]): error for event, error in decoded.errors.items()}
    for event, error in programs.traps(result).items():
        status[event], refused[event] = -1, False
        if error is not None:
            errors[event] = error
    return Decoded(decoded.batch, status, rows, refused, errors)


def _output(program: ecode.Program) -> Record:
    return _record(next((p for p in program.params if p.mode is Mode.OUT), program.params[0]))


def _record(param: Param) -> Record:
    assert isinstance(param.type, Record)
    return param.type
