"""One run of a compiled program over a batch: the memory that its kernel works in, and what comes out."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ecode.columns.column import TARGET, Buffer, Column
from ecode.columns.inputs import input_buffers
from ecode.columns.layout import OFFSET, FilledBuffers, OutputBuffer, OutputBuffers
from ecode.columns.state import checked, pack, read_log, text_bytes, unpack
from ecode.columns.working import WorkingMemory
from ecode.errors import BatchTooLarge, ParameterError, Trap, index_detail, trap_at
from ecode.native import Table, compile_kernel, loads
from ecode.native.table import TableEntry, address_of
from ecode.outcome import Statics

if TYPE_CHECKING:
    from ecode.columns.batch import BatchProgram

RETURNED = "returned"
"""The name of the column of results."""

_FIRST_HEAP, _FIRST_TEXTS, _FIRST_LOG, _FIRST_PLACES = 1 << 16, 1 << 8, 1 << 12, 16
_MOST_PLACES = 2**31 - 1
_NO_STRINGS = np.zeros(0, np.uint8)
_MOST_BYTES = 1 << 29
"""The most bytes that the elements of a column take in a batch of more than one event."""

Allocate: TypeAlias = "Callable[[int], Any]"
"""Allocates a number of bytes, as an object with the buffer protocol."""


def _own_memory(size: int) -> Buffer:
    return np.empty(size, np.uint8)


@dataclass(slots=True)
class OutputMemory:
    """Where the outputs of batches go.

    Attributes:
        room: what earlier batches needed, so that the next one starts with it; a run updates it in place.
        allocate: makes the memory; its content does not matter. For many short-lived batches, recycled memory is faster
            than new memory.
        most_bytes: the most bytes that the outputs of a batch may take. The run ends before the event that would exceed
            it, unless it is the first one; `passed` tells how many events ran.
    """

    room: dict[str, int] = field(default_factory=dict)
    allocate: Allocate = _own_memory
    most_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch.

    Attributes:
        passed: uint8, 1 for each event that the program passed on.
        traps: number and trap of each event that trapped.
        filled: for each output parameter the buffers of the fields that the program ever writes, one row for each event
            that passed (with `Keep.ALL`: that did not trap).
        returned: with `Keep.ALL`, the column of the program's results.
        log: event, function and arguments of logged calls, in order.
    """

    passed: Buffer
    traps: tuple[tuple[int, Trap], ...]
    filled: dict[str, FilledBuffers]
    returned: Column | None
    log: tuple[tuple[int, str, tuple[Any, ...]], ...]

    @property
    def outputs(self) -> dict[str, Column]:
        """What was filled, as columns, which are made at each access."""
        return {name: filled.column() for name, filled in self.filled.items()}

    def first(self, count: int) -> BatchResult:
        """The result of the first `count` events, without their outputs."""
        return replace(
            self, passed=self.passed[:count], traps=tuple(t for t in self.traps if t[0] < count), filled={}, log=()
        )


IN_TURN = f"""
def kernel(count, table):
{loads(("events", "kernels", "entries", "tables"))}
    end = 0
    while end < count:
        end = min(end + events, count)
        i = 0
        while i < kernels:
            if call_kernel(load_int64(entries + 8 * i), end, load_int64(tables + 8 * i)) != 0:
                return 1
            i += 1
    return 0
"""
"""Runs several kernels over the same events; the `progress` of each holds its position."""


def run_together(runs: Sequence[Run], events: int) -> list[BatchResult]:
    """Runs several programs over the same events: each takes `events` of them at a time, in turn.

    The events then stay in the processor's cache from one program to the next.
    """
    count = min(run.count for run in runs)
    tables = [run.table for run in runs]
    entries = np.array([run.program.kernel.address for run in runs], np.int64)
    places = np.array([table.address for table in tables], np.int64)
    if compile_kernel(IN_TURN)(count, Table([events, len(runs), entries, places])):
        # One of them needs more room; each continues from its own position.
        for end in range(events, count + events, events):
            for run in runs:
                run.advance(end)
    for run in runs:
        run.advance(run.count)
    return [run.result() for run in runs]


class Run:
    """One batch: the memory of a kernel, which grows until the batch fits."""

    def __init__(
        self,
        program: BatchProgram,
        inputs: Mapping[str, Column],
        count: int,
        statics: Statics,
        budget: int | None,
        memory: Mapping[str, TableEntry],
        outputs: OutputMemory,
    ) -> None:
        self.program, self.count, self.statics = program, count, statics
        self.room, self.allocate = outputs.room, outputs.allocate
        self.most_bytes = None if outputs.most_bytes is None else min(outputs.most_bytes, _MOST_BYTES)
        event = program.event
        if self.most_bytes is not None:
            self.count = count = max(1, min(count, self.most_bytes // max(self._bytes("", 1), 1))) if count else 0
        self.places = {c: self.room.get(c, _FIRST_PLACES) for output in program.outputs for c in output.capacities}
        if self.most_bytes is not None:
            taken = self._taken()
            if taken > self.most_bytes:
                # One large event needed this much, or levels filled up at different rates.
                self.places = {c: max(p * self.most_bytes // taken, _FIRST_PLACES) for c, p in self.places.items()}
        self.working = WorkingMemory(event, count, self.room.get("heap", _FIRST_HEAP), _FIRST_LOG)
        self.memory: dict[str, Any] = {
            "passed": np.empty(count, np.uint8),
            "statics": np.zeros(event.statics_bytes // 8 + 1, np.int64),
            "budget_given": program.limits.budget if budget is None else budget,
        }
        if event.statics:
            self.memory["saved"] = np.zeros(event.statics_bytes // 8 + 1, np.int64)
        if "literals" in event.entries:
            self.memory["literals"] = np.frombuffer(event.literals + b"\0", np.uint8)
        self.memory |= memory
        if program.sources:
            self.memory |= input_buffers(program.sources, inputs, program.types, program.structs, count, program.blocks)
        self._table: Table | None = None
        self._progress = self.working.int64s("progress")
        self._pack_statics(statics)
        for output in program.outputs:
            for name, buffer in output.buffers.items():
                self.memory[name] = self._new(buffer)

    def advance(self, end: int) -> None:
        """Run the events before number `end`; once outputs are full, run no more."""
        while self.done < min(end, self.count):
            status = self.program.kernel(min(end, self.count), self.table)
            if status:
                self._make_room(status)

    @property
    def done(self) -> int:
        """How many events have run."""
        return int(self._progress[0])

    @property
    def table(self) -> Table:
        """What the kernel is called with, until something grows."""
        if self._table is None:
            known = self.memory | self.working.parts | self.working.sizes() | self.places
            self._table = Table([known[name] for name in self.program.event.entries])
        return self._table

    def _make_room(self, status: int) -> None:
        """Grow what was too small for a kernel, or end the batch before the event that needs it."""
        names = {number: name for name, number in self.program.event.growable.items()}
        wanted = int(self.working.int64s("wanted")[0])
        if self._is_full(names[status], wanted):
            self.count = self.done
        else:
            self._grow(names[status], wanted)
            self._table = None

    def result(self) -> BatchResult:
        """The result, once all events have run."""
        program = self.program
        self.statics.update(self._unpacked_statics())
        rows, log = int(self._progress[1]), b""
        filled = {output.name: self._filled(output, rows) for output in program.outputs}
        parts = self.working.parts
        if "heap" in parts:
            self.room["heap"] = parts["heap"].size
        if "log" in parts:
            log = parts["log"].data[: int(self.working.int64s("log_used_at")[0])].tobytes()
        returned = filled.pop(RETURNED, None)
        return BatchResult(
            self.memory["passed"][: self.count],
            self._traps(),
            filled,
            None if returned is None else returned.column(),
            tuple(read_log(log, program.event.functions)),
        )

    def _new(self, buffer: OutputBuffer) -> Any:
        places = self.places[buffer.level] if buffer.level else self.count
        size = (places * buffer.per_place + (1 if buffer.opens else 0)) * buffer.dtype.itemsize
        if TARGET in buffer.path:
            return np.zeros(size, np.uint8)  # nothing is written for the target of a null pointer
        made = self.allocate(size + 1)
        if buffer.opens:
            OFFSET.pack_into(made, 0, 0)
        return made

    def _grow(self, name: str, wanted: int) -> None:
        if name in self.places:
            room = 2 * self.places[name]
            if self.most_bytes is not None:
                room = min(room, self.most_bytes * self.places[name] // max(self._bytes(name, self.places[name]), 1))
            size = min(max(wanted, room), _MOST_PLACES)
            if wanted > _MOST_PLACES or (self.count > 1 and self._bytes(name, wanted) > _MOST_BYTES):
                raise BatchTooLarge(f"{name}: the batch produces more than a column can hold", "run smaller batches")
            self.places[name] = size
            for output in self.program.outputs:
                for entry, buffer in output.buffers.items():
                    if buffer.level == name:
                        grown, old = self._new(buffer), memoryview(self.memory[entry]).cast("B")
                        memoryview(grown).cast("B")[: len(old)] = old
                        self.memory[entry] = grown
        elif name == "strings":
            self._move_strings(max(wanted, 2 * len(self.memory["strings"])))
        else:
            self.working.grow(name, max(wanted, 2 * self.working.parts[name].size))

    def _is_full(self, name: str, wanted: int) -> bool:
        """Whether the batch ends here, before an event that needs more memory."""
        if self.most_bytes is None or name not in self.places or not self.done:
            return False
        others = self._taken() - self._bytes(name, self.places[name])
        return self._bytes("", self.count) + others + self._bytes(name, wanted) > self.most_bytes

    def _bytes(self, level: str, places: int) -> int:
        """The bytes that all buffers of a level take for so many places."""
        return places * sum([output.bytes_of.get(level, 0) for output in self.program.outputs])

    def _taken(self) -> int:
        """The bytes that all buffers that may grow take."""
        # Elements that hold nothing have no buffers.
        return sum(
            [self.places[c] * output.bytes_of.get(c, 0) for output in self.program.outputs for c in output.capacities]
        )

    # Statics

    def _pack_statics(self, statics: Statics, size: int = _FIRST_TEXTS) -> None:
        if not self.program.event.statics:
            self.memory |= {"strings": _NO_STRINGS, "strings_size": 0, "strings_other": _NO_STRINGS}
            return
        values = {}
        for static in self.program.event.statics:
            if static.key not in statics:
                raise ParameterError(f"the state has no {static.key!r}", "take the first one from 'statics'")
            values[static.key] = checked(statics[static.key], static.type, static.structs, static.key)
        size = max(size, sum(map(text_bytes, values.values())))
        self.memory |= {"strings": np.zeros(size, np.uint8), "strings_size": size}
        self.memory["strings_other"] = np.zeros(size, np.uint8)
        strings, base = bytearray(), address_of(self.memory["strings"])

        def keep(text: bytes) -> int:
            strings.extend(text + b"\0")
            return base + len(strings) - len(text) - 1

        self.memory["statics"][:] = 0
        block = memoryview(self.memory["statics"]).cast("B")
        for static in self.program.event.statics:
            pack(values[static.key], static.type, static.structs, block, static.offset, keep)
        self.memory["strings"][: len(strings)] = np.frombuffer(bytes(strings), np.uint8)

    def _move_strings(self, size: int) -> None:
        """Makes the blocks of static strings larger: reads the state and writes it back."""
        self._pack_statics(self._unpacked_statics(), size)

    def _unpacked_statics(self) -> Statics:
        if not self.program.event.statics:
            return {}
        block = memoryview(self.memory["statics"]).cast("B")
        return {
            static.key: unpack(static.type, static.structs, block, static.offset, ctypes.string_at)
            for static in self.program.event.statics
        }

    # Results

    def _filled(self, output: OutputBuffers, rows: int) -> FilledBuffers:
        """The buffers of an output, and how much of them was written."""

        def opened(capacity: str, used: int) -> None:
            # A little more, because batches differ in size.
            self.room[capacity] = max(self.room.get(capacity, _FIRST_PLACES), min(used + used // 8, _MOST_PLACES))

        return output.measured(rows, {entry: self.memory[entry] for entry in output.buffers}, opened)

    def _traps(self) -> tuple[tuple[int, Trap], ...]:
        count, found = int(self._progress[2]), []
        traps = self.working.int64s("traps")[: 2 * count].tolist() if count else []
        for event, number in zip(traps[::2], traps[1::2], strict=True):
            site = self.program.event.sites[number]
            detail = ""
            if site.array:
                values = self.working.int64s("trap_values")[2 * event : 2 * event + 2].tolist()
                detail = index_detail(site.array, *values)
            text = self.program.program_texts[site.program]
            found.append((event, trap_at(text, site.at, site.kind, site.program, site.reason, detail)))
        return tuple(found)
