"""A program compiled for columns: one call runs a batch of events."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from ecode.columns.binding import ColumnBinding, Source
from ecode.columns.column import TARGET, Column, set_lengths
from ecode.columns.column import Buffer as Array
from ecode.columns.inputs import input_buffers
from ecode.columns.sink import Buffer, ColumnSink
from ecode.columns.state import pack, read_log, text_bytes, unpack
from ecode.environment import Mode
from ecode.errors import NotCompilable, ParameterError, Trap, index_detail, trap_at
from ecode.limits import Limits
from ecode.native import Kernel, Table, compile_kernel
from ecode.native.table import Entry, address_of
from ecode.outcome import Statics
from ecode.program import Program
from ecode.typed import Structs, ValueType
from ecode.typed_to_numba import EventKernel, Keep, typed_to_numba
from ecode.typed_to_numba.bindings import Binding, Sink
from ecode.typed_to_numba.event import Shared
from ecode.typed_to_numba.stages import Find, StageSink, exact

_RETURNED = "returned"
_NO_MEMORY: Mapping[str, Entry] = MappingProxyType({})
_FIRST_HEAP, _FIRST_TEXTS, _FIRST_LOG, _FIRST_PLACES = 1 << 16, 1 << 8, 1 << 12, 16
_MOST_PLACES = 2**31 - 1
_MOST_BYTES = 1 << 29
"""What the elements of a column may take in a batch of more than one event."""


Allocate: TypeAlias = "Callable[[int], Any]"
"""Makes memory of so many bytes, with the buffer protocol."""


def _own_memory(size: int) -> Array:
    return np.empty(size, np.uint8)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of a batch.

    Attributes:
        passed: uint8, 1 for each event that the program passed on.
        traps: for each event that trapped its number and the trap.
        outputs: for each output parameter the columns of the fields that the program ever writes, one row for each
            event that passed (with `Keep.ALL`: that did not trap), in order.
        returned: with `Keep.ALL` the column of the program's results.
        log: event, function and arguments of logged calls, in order.
    """

    passed: Array
    traps: tuple[tuple[int, Trap], ...]
    outputs: dict[str, Column]
    returned: Column | None
    log: tuple[tuple[int, str, tuple[Any, ...]], ...]

    def first(self, count: int) -> BatchResult:
        """Of so many events at the beginning, what became of them; not their outputs."""
        return replace(
            self, passed=self.passed[:count], traps=tuple(t for t in self.traps if t[0] < count), outputs={}, log=()
        )


@dataclass(frozen=True, slots=True)
class _Output:
    """The buffers and capacities of one output parameter."""

    name: str
    type: ValueType | None
    buffers: Mapping[str, Buffer]
    capacities: tuple[str, ...]


def _compiled(source: str, limits: Limits) -> Kernel:
    """The kernel of a text that may be too much for Python or numba: programs are anybody's."""
    lines = source.split("\n")
    blocks = sum(line.endswith(":") for line in lines)
    for size, most, what in ((len(lines), limits.kernel_lines, "lines"), (blocks, limits.kernel_blocks, "branches")):
        if size > most:
            message = f"the program would make {size:,} {what} of compiled code, more than {most:,}"
            raise NotCompilable(message, "make the program shorter: loops instead of repetition")
    try:
        return compile_kernel(source)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise NotCompilable(f"the program is too large to be compiled: {error}") from None


@dataclass(frozen=True, slots=True)
class BatchProgram:
    """A compiled program over columns. It pickles with its machine code.

    Attributes:
        kernel: the machine code, and its text (`print(batch.kernel)`).
        event: what the text needs.
        types: the type of each input parameter in `structs`.
        texts: the programs' sources.
    """

    kernel: Kernel
    event: EventKernel
    types: Mapping[str, ValueType]
    structs: Structs
    blocks: frozenset[str]
    sources: Mapping[str, Source]
    outputs: tuple[_Output, ...]
    texts: tuple[str, ...] = field(repr=False)
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
    ) -> BatchProgram:
        """Compiles programs of which each takes what the one before makes, or passes on its own input; the first reads
        through a binding of the caller's, whose table entries `run` takes as `memory`. All may read the last one's
        parameter blocks, which `run` takes as `inputs`.

        The last program's output, or its input if it has none, is the output of all, unless only what passes matters.

        Args:
            morphs: of so many programs at the beginning the results do not matter: they pass all events.
            find: which field of what the morphs made a name in the program behind them means.

        Raises:
            NotCompilable: the programs cannot be compiled in a row.
            ParameterError: what one program makes can never be what the next one reads.
        """
        shared = Shared()
        first, last = programs[0], programs[-1]
        made = _made_by(last)
        sink = ColumnSink(made, last.limits.output_bytes)
        types = {p.name: last.typed.param_types[p.name] for p in last.params if p.mode is Mode.PARAM}
        blocks = {name: ColumnBinding(name, type_, is_block=True) for name, type_ in types.items()}
        following: Mapping[str, Sink] = {made: sink} if has_output else {}
        for number, program in reversed(list(enumerate(programs))[1:]):
            stage = StageSink(
                program.typed,
                number,
                following,
                program.limits,
                shared,
                blocks,
                find if number == morphs else exact,
                is_morph=number < morphs,
            )
            following = {_made_by(programs[number - 1]): stage}
        (given,) = (p.name for p in first.params if p.mode is Mode.IN)
        event = typed_to_numba(
            first.typed, {given: binding, **blocks}, following, first.limits, shared=shared, is_morph=morphs > 0
        )
        return cls(
            _compiled(event.source, first.limits),
            event,
            types,
            last.typed.structs,
            frozenset(types),
            {entry: source for block in blocks.values() for entry, source in block.sources.items()},
            (_Output(made, last.typed.param_types[made], dict(sink.buffers), tuple(sink.capacities)),),
            tuple(program.source for program in programs),
            replace(first.limits, budget=min(program.limits.budget for program in programs)),
            first.statics,
        )

    @classmethod
    def of(cls, program: Program, keep: Keep = Keep.PASSED) -> BatchProgram:
        """Compiles a program for columns.

        Raises:
            NotCompilable: only the interpreter can run it.
        """
        typed = program.typed
        inputs = {p.name: p for p in program.params if p.mode is not Mode.OUT}
        blocks = frozenset(name for name, p in inputs.items() if p.mode is Mode.PARAM)
        bindings = {n: ColumnBinding(n, typed.param_types[n], is_block=n in blocks) for n in inputs}
        sinks = {p.name: ColumnSink(p.name, program.limits.output_bytes) for p in program.params if p.mode is Mode.OUT}
        is_returned = keep is Keep.ALL and typed.returns is not None
        results = ColumnSink(_RETURNED, program.limits.output_bytes) if is_returned else None
        event = typed_to_numba(typed, bindings, sinks, program.limits, keep, results)
        all_sinks = sinks | ({_RETURNED: results} if results is not None else {})
        return cls(
            _compiled(event.source, program.limits),
            event,
            {name: typed.param_types[name] for name in inputs},
            typed.structs,
            blocks,
            {entry: source for binding in bindings.values() for entry, source in binding.sources.items()},
            tuple(
                _Output(n, typed.param_types.get(n, typed.returns), dict(s.buffers), tuple(s.capacities))
                for n, s in all_sinks.items()
            ),
            (program.source,),
            program.limits,
            program.statics,
        )

    def run(
        self,
        inputs: Mapping[str, Column],
        count: int,
        statics: Statics | None = None,
        budget: int | None = None,
        memory: Mapping[str, Entry] = _NO_MEMORY,
        room: dict[str, int] | None = None,
        allocate: Allocate = _own_memory,
        most_bytes: int | None = None,
    ) -> BatchResult:
        """Runs the program on a batch.

        Args:
            inputs: a column for each input parameter, with `count` values; a parameter block has one. Only the fields
                that the program reads need to be there.
            count: the number of events.
            statics: the state; it is updated in place. None starts afresh.
            budget: units of work allowed to each event.
            memory: the table entries of a binding of the caller's (see `in_row`).
            room: what earlier batches needed, so that this one need not grow; it is updated in place.
            allocate: makes so many bytes of memory for the outputs, whose content does not matter. Where batches come
                and go, memory that has been in use is faster than new memory.
            most_bytes: what the outputs may take. The run ends before the event that would make them larger, unless it
                is the first one; `passed` says how many events there were.

        Raises:
            ParameterError: a column is missing, or its buffers contradict each other.
            ParameterError: also, the batch makes more output than a column can hold.
        """
        return _Run(
            self,
            inputs,
            count,
            self.initial if statics is None else statics,
            budget,
            memory,
            room,
            allocate,
            most_bytes,
        ).run()


def _made_by(program: Program) -> str:
    """The parameter that goes on to the next program: the output, or where there is none the input."""
    return next((p.name for p in program.params if p.mode is Mode.OUT), program.params[0].name)


class _Run:
    """One batch: the memory of a kernel, and its growth."""

    def __init__(
        self,
        program: BatchProgram,
        inputs: Mapping[str, Column],
        count: int,
        statics: Statics,
        budget: int | None,
        memory: Mapping[str, Entry],
        room: dict[str, int] | None,
        allocate: Allocate,
        most_bytes: int | None,
    ) -> None:
        self.program, self.count, self.statics = program, count, statics
        self.most_bytes = None if most_bytes is None else min(most_bytes, _MOST_BYTES)
        self.room = {} if room is None else room
        self.allocate = allocate
        event = program.event
        if self.most_bytes is not None:
            self.count = count = max(1, min(count, self.most_bytes // max(self._bytes("", 1), 1))) if count else 0
        self.places = {c: self.room.get(c, _FIRST_PLACES) for output in program.outputs for c in output.capacities}
        taken = sum(self._bytes(level, places) for level, places in self.places.items())
        if self.most_bytes is not None and taken > self.most_bytes:
            # What one large event needed, or levels that were full at different times.
            self.places = {c: max(p * self.most_bytes // taken, _FIRST_PLACES) for c, p in self.places.items()}
        self.memory: dict[str, Any] = {
            "progress": np.zeros(3, np.int64),
            "passed": np.empty(count, np.uint8),
            "traps": np.zeros(count if event.sites else 0, np.int32),
            "trap_values": np.empty(2 * count if "trap_values" in event.entries else 0, np.int64),
            "wanted": np.zeros(1, np.int64),
            "frame": np.zeros(event.frame_bytes // 8 + 1, np.int64),
            "literals": np.frombuffer(event.literals + b"\0", np.uint8),
            "heap": np.empty(self.room.get("heap", _FIRST_HEAP), np.uint8),
            "log": np.empty(_FIRST_LOG, np.uint8),
            "log_used_at": np.zeros(1, np.int64),
            "statics": np.zeros(event.statics_bytes // 8 + 1, np.int64),
            "saved": np.zeros(event.statics_bytes // 8 + 1, np.int64),
            "budget_given": program.limits.budget if budget is None else budget,
        }
        self.memory |= memory
        self.memory |= input_buffers(program.sources, inputs, program.types, program.structs, count, program.blocks)
        self._pack_statics(statics)
        for output in program.outputs:
            for name, buffer in output.buffers.items():
                self.memory[name] = self._new(buffer)

    def run(self) -> BatchResult:
        program = self.program
        names = {number: name for name, number in program.event.growable.items()}
        while True:
            self._measure()
            status = program.kernel(self.count, Table(self.memory[name] for name in program.event.entries))
            if status == 0:
                break
            if self._is_full(names[status], int(self.memory["wanted"][0])):
                self.count = int(self.memory["progress"][0])
                break
            self._grow(names[status], int(self.memory["wanted"][0]))
        self.statics.update(self._unpacked_statics())
        rows = int(self.memory["progress"][1])
        columns = {output.name: self._columns(output, rows) for output in program.outputs}
        self.room["heap"] = len(self.memory["heap"])
        log = self.memory["log"][: int(self.memory["log_used_at"][0])].tobytes()
        returned = columns.pop(_RETURNED, None)
        return BatchResult(
            self.memory["passed"][: self.count],
            self._traps(),
            columns,
            returned,
            tuple(read_log(log, program.event.functions)),
        )

    def _measure(self) -> None:
        """The sizes of what can grow."""
        self.memory |= {f"{name}_size": len(self.memory[name]) for name in ("heap", "log", "texts")}
        self.memory |= self.places

    def _size(self, buffer: Buffer) -> int:
        places = self.places[buffer.level] if buffer.level else self.count
        return places * buffer.per_place + (1 if buffer.opens else 0)

    def _new(self, buffer: Buffer) -> Array:
        size, dtype = self._size(buffer), np.dtype(buffer.dtype)
        if TARGET in buffer.path:
            return np.zeros(size, dtype)  # nobody writes what a null pointer would point to
        made = np.frombuffer(self.allocate(size * dtype.itemsize + 1), dtype, size)
        if buffer.opens:
            made[0] = 0
        return made

    def _grow(self, name: str, wanted: int) -> None:
        if name in self.places:
            room = 2 * self.places[name]
            if self.most_bytes is not None:
                room = min(room, self.most_bytes * self.places[name] // max(self._bytes(name, self.places[name]), 1))
            size = min(max(wanted, room), _MOST_PLACES)
            if wanted > _MOST_PLACES or (self.count > 1 and self._bytes(name, wanted) > _MOST_BYTES):
                raise ParameterError(f"{name}: the batch makes more than a column can hold", "run smaller batches")
            self.places[name] = size
            for output in self.program.outputs:
                for entry, buffer in output.buffers.items():
                    if buffer.level == name:
                        grown = self._new(buffer)
                        grown[: len(self.memory[entry])] = self.memory[entry]
                        self.memory[entry] = grown
        elif name == "texts":
            self._move_texts(max(wanted, 2 * len(self.memory["texts"])))
        else:
            grown = np.empty(max(wanted, 2 * len(self.memory[name])), np.uint8)
            grown[: len(self.memory[name])] = self.memory[name]
            self.memory[name] = grown

    def _is_full(self, name: str, wanted: int) -> bool:
        """Whether the batch has events enough, before one that wants more of some memory."""
        if self.most_bytes is None or name not in self.places or not self.memory["progress"][0]:
            return False
        others = sum(self._bytes(level, places) for level, places in self.places.items() if level != name)
        return self._bytes("", self.count) + others + self._bytes(name, wanted) > self.most_bytes

    def _bytes(self, level: str, places: int) -> int:
        """How many bytes all buffers of a level take for so many places."""
        buffers = (buffer for output in self.program.outputs for buffer in output.buffers.values())
        return sum(
            places * buffer.per_place * np.dtype(buffer.dtype).itemsize for buffer in buffers if buffer.level == level
        )

    # Statics

    def _pack_statics(self, statics: Statics, size: int = _FIRST_TEXTS) -> None:
        event, structs = self.program.event, self.program.structs
        size = max(size, sum(map(text_bytes, statics.values())))
        self.memory |= {"texts": np.zeros(size, np.uint8), "texts_other": np.zeros(size, np.uint8)}
        texts, base = bytearray(), address_of(self.memory["texts"])

        def keep(text: bytes) -> int:
            texts.extend(text + b"\0")
            return base + len(texts) - len(text) - 1

        self.memory["statics"][:] = 0
        block = memoryview(self.memory["statics"]).cast("B")
        for name, type_, offset in event.statics:
            pack(statics[name], type_, structs, block, offset, keep)
        self.memory["texts"][: len(texts)] = np.frombuffer(bytes(texts), np.uint8)

    def _move_texts(self, size: int) -> None:
        """Larger blocks for the texts of static strings: the state goes out and in again."""
        self._pack_statics(self._unpacked_statics(), size)

    def _unpacked_statics(self) -> Statics:
        block, structs = memoryview(self.memory["statics"]).cast("B"), self.program.structs
        return {n: unpack(type_, structs, block, at, ctypes.string_at) for n, type_, at in self.program.event.statics}

    # Results

    def _columns(self, output: _Output, rows: int) -> Column:
        """The columns of an output, cut to what was written."""
        top = Column(rows)
        counts = {"": rows}
        # From the outside in, offsets first: they say how much there is of what they are offsets into.
        for name, buffer in sorted(output.buffers.items(), key=lambda b: (len(b[1].path), not b[1].opens)):
            column = top
            for step in buffer.path:
                column = column.children.setdefault(step, Column(0))
            data = self.memory[name][: counts[buffer.level] * buffer.per_place + (1 if buffer.opens else 0)]
            setattr(column, buffer.part, data)
            if buffer.opens:
                used = counts[buffer.opens] = int(data[-1])
                # A little more, for batches are alike and not the same.
                room = min(used + used // 8, _MOST_PLACES)
                self.room[buffer.opens] = max(self.room.get(buffer.opens, _FIRST_PLACES), room)
        set_lengths(top, output.type, self.program.structs, rows)
        return top

    def _traps(self) -> tuple[tuple[int, Trap], ...]:
        if not self.memory["progress"][2]:
            return ()
        found = []
        for event in np.flatnonzero(self.memory["traps"][: self.count]).tolist():
            site = self.program.event.sites[int(self.memory["traps"][event]) - 1]
            detail = ""
            if site.array:
                detail = index_detail(site.array, *self.memory["trap_values"][2 * event : 2 * event + 2].tolist())
            text = self.program.texts[site.program]
            found.append((event, trap_at(text, site.at, site.kind, site.program, site.reason, detail)))
        return tuple(found)
