"""A program compiled for columns: one call runs a batch of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from ecode.columns.binding import ColumnBinding, Source
from ecode.columns.column import Column
from ecode.columns.layout import OutputBuffers
from ecode.columns.run import RETURNED, BatchResult, OutputMemory, Run
from ecode.columns.sink import ColumnSink
from ecode.columns.state import pack
from ecode.environment import Mode
from ecode.errors import NotCompilable, ParameterError
from ecode.in_a_row import check_shared, row_names, row_statics
from ecode.limits import Limits
from ecode.native import Kernel, compile_kernel
from ecode.native.table import TableEntry
from ecode.outcome import Statics
from ecode.program import Program
from ecode.semantics.arithmetic import convert, is_floating
from ecode.typed import Structs, ValueType
from ecode.typed_to_numba import EventKernel, Keep, typed_to_numba
from ecode.typed_to_numba.bindings import Binding, Sink
from ecode.typed_to_numba.event import Destinations, Shared
from ecode.typed_to_numba.stages import Find, StageSink, exact

_NO_MEMORY: Mapping[str, TableEntry] = MappingProxyType({})


def _compiled(source: str, limits: Limits) -> Kernel:
    """Compiles text that may be too large for Python or numba, since anyone may write programs."""
    lines = source.split("\n")
    blocks = sum(line.endswith(":") for line in lines)
    for size, most, what in ((len(lines), limits.kernel_lines, "lines"), (blocks, limits.kernel_blocks, "branches")):
        if size > most:
            message = f"the program would become {size:,} {what} of compiled code, more than {most:,}"
            raise NotCompilable(message, "make the program shorter: use loops instead of repetition")
    try:
        return compile_kernel(source)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise NotCompilable(f"the program is too large to be compiled: {error}") from None


@dataclass(frozen=True, slots=True)
class BatchProgram:
    """A compiled program over columns. It pickles with its machine code.

    Attributes:
        kernel: the machine code, and its text (`print(batch.kernel)`).
        event: what the kernel's text needs.
        types: the type of each input parameter in `structs`.
        program_texts: the source of each program.
    """

    kernel: Kernel
    event: EventKernel
    types: Mapping[str, ValueType]
    structs: Structs
    blocks: frozenset[str]
    sources: Mapping[str, Source]
    outputs: tuple[OutputBuffers, ...]
    program_texts: tuple[str, ...] = field(repr=False)
    limits: Limits
    initial: Statics

    @classmethod
    def in_row(
        cls,
        programs: Sequence[Program],
        binding: Binding,
        *,
        has_output: bool = True,
        morphs: int = 0,
        find: Find = exact,
        names: Sequence[str] = (),
    ) -> BatchProgram:
        """Compiles programs in a row. Each reads the output of the program before it, or that program's input if it has
        no output. The first one reads through the caller's binding, whose table entries `run` takes as `memory`. All
        may read the last program's parameter blocks, which `run` takes as `inputs`.

        The output of the row is the last program's output, or its input if it has none; with `has_output=False`, only
        which events pass matters.

        Parameters of mode `state` are one variable for all programs; static variables belong to one program. An event
        that traps in any program leaves all of them unchanged.

        Args:
            morphs: how many of the first programs are transforms, which pass all events whatever they return.
            find: finds the field of the transforms' output that a name in the next program means.
            names: the prefix of the static variables of each program in `statics`, as in `filter.n`; a name may be
                empty. By default the numbers of the programs, if there is more than one.

        Raises:
            NotCompilable: the programs cannot be compiled in a row.
            ParameterError: the output of one program can never be the input of the next, or they mean different types
                by the same state.
        """
        first, last = programs[0], programs[-1]
        names = names or row_names(programs)
        check_shared(programs)
        made = _made_by(last)
        sink = ColumnSink(made, last.limits.output_bytes)
        types = {p.name: last.typed.param_types[p.name] for p in last.params if p.mode is Mode.PARAM}
        blocks = {name: ColumnBinding(name, type_, is_block=True) for name, type_ in types.items()}
        shared = Shared([(n, p.typed) for n, p in zip(names, programs, strict=True)], blocks)
        following = _following(programs, {made: sink} if has_output else {}, shared, morphs, find)
        (given,) = (p.name for p in first.params if p.mode is Mode.IN)
        event = typed_to_numba(
            first.typed, {given: binding, **blocks}, Destinations(following), first.limits, shared, is_morph=morphs > 0
        )
        return cls(
            _compiled(event.source, first.limits),
            event,
            types,
            last.typed.structs,
            frozenset(types),
            {entry: source for block in blocks.values() for entry, source in block.sources.items()},
            (_output(made, last.typed.param_types[made], last.typed.structs, sink),),
            tuple(program.source for program in programs),
            replace(first.limits, budget=min(program.limits.budget for program in programs)),
            row_statics(programs, names),
        )

    @classmethod
    def of(cls, program: Program, keep: Keep = Keep.PASSED) -> BatchProgram:
        """Compiles a program for columns.

        Raises:
            NotCompilable: only the interpreter can run it.
        """
        typed = program.typed
        inputs = {p.name: p for p in typed.params if p.mode is not Mode.OUT}
        blocks = frozenset(name for name, p in inputs.items() if p.mode is Mode.PARAM)
        bindings = {n: ColumnBinding(n, typed.param_types[n], is_block=n in blocks) for n in inputs}
        sinks = {p.name: ColumnSink(p.name, program.limits.output_bytes) for p in program.params if p.mode is Mode.OUT}
        is_returned = keep is Keep.ALL and typed.returns is not None
        results = ColumnSink(RETURNED, program.limits.output_bytes) if is_returned else None
        event = typed_to_numba(typed, bindings, Destinations(sinks, keep, results), program.limits)
        all_sinks = sinks | ({RETURNED: results} if results is not None else {})
        return cls(
            _compiled(event.source, program.limits),
            event,
            {name: typed.param_types[name] for name in inputs},
            typed.structs,
            blocks,
            {entry: source for binding in bindings.values() for entry, source in binding.sources.items()},
            tuple(
                _output(name, typed.param_types.get(name, typed.returns), typed.structs, sink)
                for name, sink in all_sinks.items()
            ),
            (program.source,),
            program.limits,
            program.statics,
        )

    def sampled(self, values: Mapping[str, float]) -> dict[str, TableEntry]:
        """The table entry that holds the results of sampled functions (`Function.is_sampled`), by name.

        Raises:
            ParameterError: a function that the programs call is missing, or its value is not a number.
        """
        types = self.event.samples
        block = bytearray(8 * len(types))
        for number, (name, type_) in enumerate(types.items()):
            value = values.get(name)
            if not isinstance(value, int | float):
                raise ParameterError(
                    f"the sampled function {name!r} has no number: {value!r}",
                    hint="give a function that returns a number",
                )
            sample = convert(float(value) if is_floating(type_) else value, type_)
            pack(sample, type_, {}, memoryview(block), 8 * number, id)
        return {"samples": np.frombuffer(block, np.uint8)} if types else {}

    def run(
        self,
        inputs: Mapping[str, Column],
        count: int,
        statics: Statics | None = None,
        budget: int | None = None,
        memory: Mapping[str, TableEntry] = _NO_MEMORY,
        outputs: OutputMemory | None = None,
    ) -> BatchResult:
        """Runs the program on a batch.

        Args:
            inputs: a column for each input parameter, with `count` values; a parameter block has one. Only the fields
                that the program reads need to be there.
            count: the number of events.
            statics: the state; it is updated in place. None starts afresh.
            budget: units of work allowed to each event.
            memory: the table entries of a binding of the caller's (see `in_row`), and those of `sampled`.
            outputs: where the outputs go; new memory by default.

        Raises:
            ParameterError: a column is missing, its buffers contradict each other, or the batch makes more output than
                a column can hold.
        """
        run = self.begin(inputs, count, statics, budget, memory, outputs)
        run.advance(count)
        return run.result()

    def begin(
        self,
        inputs: Mapping[str, Column],
        count: int,
        statics: Statics | None = None,
        budget: int | None = None,
        memory: Mapping[str, TableEntry] = _NO_MEMORY,
        outputs: OutputMemory | None = None,
    ) -> Run:
        """Like `run`, but in steps: see `run_together`."""
        state = deepcopy(self.initial) if statics is None else statics
        return Run(self, inputs, count, state, budget, memory, outputs or OutputMemory())


def _output(name: str, type_: ValueType | None, structs: Structs, sink: ColumnSink) -> OutputBuffers:
    return OutputBuffers.of(name, type_, structs, sink.buffers, tuple(sink.capacities))


def _made_by(program: Program) -> str:
    """The parameter that the next program reads: the output, or the input if the program has no output."""
    modes = {param.mode: param.name for param in program.params}
    return modes.get(Mode.OUT, modes[Mode.IN])


def _following(
    programs: Sequence[Program], sinks: Mapping[str, Sink], shared: Shared, morphs: int, find: Find
) -> Mapping[str, Sink]:
    """Where the first program's results go: through the other programs, to the sinks of the last."""
    for number in range(len(programs) - 1, 0, -1):
        before, program, is_morph = programs[number - 1], programs[number], number < morphs
        finds = find if number == morphs else exact
        stage = StageSink(program.typed, number, sinks, program.limits, shared, finds, is_morph=is_morph)
        sinks = {_made_by(before): stage}
    return sinks
