"""A program and its bindings to the text that runs it on one event, and so to a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from ecode.environment import Mode
from ecode.limits import Limits
from ecode.outcome import Keep
from ecode.passes.written_fields import written_fields
from ecode.semantics.arithmetic import plain
from ecode.typed import (
    AddressOf,
    Block,
    Call,
    Choice,
    Compare,
    Constant,
    FieldOf,
    If,
    Local,
    Logical,
    Loop,
    Not,
    Parameter,
    Place,
    Read,
    Return,
    StateMachine,
    Statement,
    StringPointer,
    Target,
    Typed,
    TypedProgram,
    children,
    root,
    walk,
)
from ecode.typed_to_numba.bindings import Binding, HomeSink, Sink, WrittenFields
from ecode.typed_to_numba.code import Code, Literals, Parts, static_path
from ecode.typed_to_numba.emitter import DROPPED, PASSED, Emitter
from ecode.typed_to_numba.fills import place_fills
from ecode.typed_to_numba.kernel import EventKernel, assembled
from ecode.typed_to_numba.nodes.copying import copy_value
from ecode.typed_to_numba.nodes.statements import write
from ecode.typed_to_numba.state.statics import StaticsText
from ecode.typed_to_numba.stored import MemoryBlock, Scattered, Stored, StoredSite, cast
from ecode.types import STRING, Array, Basic, Pointer, Record

# How many copies of a record, for pointers into it, an event may make beyond its allocation limit.
MOST_COPIES = 16


def typed_to_numba(
    program: TypedProgram,
    bindings: Mapping[str, Binding],
    to: Destinations,
    limits: Limits,
    shared: Shared | None = None,
    *,
    is_morph: bool = False,
) -> EventKernel:
    """Writes the kernel of a program.

    Args:
        program: a checked program.
        bindings: what reads each input parameter.
        to: the destinations of the results.
        limits: limits on each call.
        shared: what this program and those after it (`stages`) share.
        is_morph: the program's result does not matter: every event that does not trap passes.

    Raises:
        NotCompilable: the program uses something that only the interpreter has.
    """
    event = ProgramWriter(program, bindings, to, limits, shared or Shared([("", program)]))
    return event.kernel(is_morph=is_morph)


@dataclass(frozen=True, slots=True)
class Destinations:
    """Where the results of events go.

    sinks: one for each output parameter; outputs without a sink are computed and dropped. A sink for an input takes
        the input of events that the program passes.
            input itself, of events that the program passes.
        keep: which events yield a row.
        results: a sink for what the program itself returns, if needed.
    """

    sinks: Mapping[str, Sink]
    keep: Keep = Keep.PASSED
    results: Sink | None = None


class Shared:
    """What programs in a row share: memory, state, and the bindings of their parameter blocks.

    Args:
        programs: each with the prefix of its static variables in the host's state, which may be empty.
    """

    def __init__(
        self, programs: Sequence[tuple[str, TypedProgram]], blocks: Mapping[str, Binding] = MappingProxyType({})
    ) -> None:
        self.frame, self.literals, self.blocks = MemoryBlock("frame"), Literals(), blocks
        self.statics = StaticsText(programs)


class ProgramWriter:
    """Writes the text of one program."""

    def __init__(
        self,
        program: TypedProgram,
        bindings: Mapping[str, Binding],
        to: Destinations,
        limits: Limits,
        shared: Shared,
        emitter: Emitter | None = None,
    ) -> None:
        self.program, self.bindings, self.to, self.limits = program, bindings, to, limits
        self.emitter, self.frame = emitter or Emitter(), shared.frame
        stored = Stored(program.structs, self.frame, limits.output_bytes)
        self.code = Code(program, self.emitter, stored, self.frame, shared.literals, self._finish)
        self.statics = shared.statics
        self.nodes = list(walk(program.body))
        self.pointed = {base_of(node.place) for node in self.nodes if isinstance(node, AddressOf)}
        self.is_morph = False
        self.has_one_end = False

    def kernel(self, *, is_morph: bool = False) -> EventKernel:
        """The text of the whole kernel."""
        self.write(is_morph=is_morph)
        return assembled(self)

    def write(self, *, is_morph: bool = False) -> None:
        """Writes the event, from its inputs to the return. The result of a transform is ignored."""
        emitter, code = self.emitter, self.code
        self.is_morph = is_morph
        ways_out = [node for node in self.nodes if isinstance(node, Return) and (is_morph or not _is_dropped(node))]
        self.has_one_end = len(ways_out) + (is_morph or self.program.returns is None) <= 1
        code.spend(str(self.program.work), self.program.body.at)
        self._place_variables()
        self._bind_inputs()
        for param in self.program.params:
            if param.mode is Mode.OUT:
                type_ = self.program.param_types[param.name]
                is_scattered = param not in self.pointed and self.has_one_end
                site = (
                    code.stored.scattered(emitter, type_, param.name) if is_scattered else code.stored.in_frame(type_)
                )
                code.roots[param.name] = (code.stored, site)
                code.stored.clear(emitter, site)
                self._find_homes(param.name, site)
                if isinstance(site, Scattered):
                    takes = getattr(self.to.sinks.get(param.name), "takes_once", None)
                    place_fills(code, param.name, site, takes and partial(takes, type_, self.program.structs))
        with self.statics.of(code):
            if isinstance(self.program.body, StateMachine):
                for variable in self.program.variables:
                    if not variable.is_static:
                        code.stored.clear(emitter, code.variables[variable])
            write(code, self.program.body)
            if not ends(self.program.body):
                self._finish(None)

    # Where things are

    def _find_homes(self, name: str, site: StoredSite) -> None:
        """Has arrays of an output built where its sink wants them."""
        sink = self.to.sinks.get(name)
        if not isinstance(sink, HomeSink) or not isinstance(site, Scattered):
            return
        written = WrittenFields(site.type, self.program.structs, written_fields(self.program, name))
        for field, inner in site.fields:
            if isinstance(inner, Scattered) and isinstance(inner.type, Array) and written.has((field,)):
                find = sink.home(field, inner.type)
                if find is not None:
                    self.code.stored.homes[inner.names[0]] = find

    def _place_variables(self) -> None:
        code = self.code
        for variable in self.program.variables:
            type_ = variable.type
            is_plain = not (isinstance(type_, Array) and not type_.is_dynamic)
            if variable.is_static:
                continue
            if is_plain and variable not in self.pointed:
                code.variables[variable] = code.stored.scattered(self.emitter, type_, variable.name)
            else:
                code.variables[variable] = code.stored.in_frame(type_)

    def _bind_inputs(self) -> None:
        code, emitter = self.code, self.emitter
        goes_into_strings = any(
            isinstance(node, StringPointer) or (isinstance(node, Call) and isinstance(node.type, Pointer))
            for node in self.nodes
        )
        kept = _kept_pointers(self.program.body)
        for param in self.program.params:
            if param.mode is Mode.OUT:
                continue
            binding, type_ = self.bindings[param.name], self.program.param_types[param.name]
            site = binding.root(emitter)
            if not isinstance(param.type, Record):
                variable = code.stored.scattered(emitter, type_, param.name)
                with self._charged(binding):
                    copy_value(code, binding, site, type_, variable, 0, is_input=goes_into_strings)
                code.roots[param.name] = (code.stored, variable)
            elif param in self.pointed or param.name in kept or goes_into_strings:
                moved = code.stored.in_frame(type_)
                with self._charged(binding):
                    copy_value(code, binding, site, type_, moved, 0, is_input=True)
                code.roots[param.name] = (code.stored, moved)
            else:
                code.roots[param.name] = (binding, site)
                code.sites[(param.name,)] = site
        self._preload()

    @contextmanager
    def _charged(self, binding: Binding) -> Iterator[None]:
        """Limits the copies inside, if a binding knows the size of its record: a null may stand for any number of
        zeros, and any number of pointers may share a target."""
        size = getattr(binding, "size", None)
        if size is not None:
            self.emitter.line(f"input_left = {self.limits.output_bytes} + {MOST_COPIES} * ({size(self.emitter)})")
        self.code.charges_input = size is not None
        yield
        self.code.charges_input = False

    def _preload(self) -> None:
        """Finds the fields of bound parameters that lie outside arrays, and loads their numbers, once per event."""
        code, emitter = self.code, self.emitter
        for node in self.nodes:
            if isinstance(node, FieldOf):
                self._preload_field(node)
            array = node.type if isinstance(node, FieldOf) else None
            if isinstance(array, Array) and isinstance(node, FieldOf):
                for dim in array.dims:
                    if isinstance(dim, str):
                        size = code.field(node.struct, dim)
                        self._preload_field(FieldOf(node.at, size.type, node.record, node.struct, dim))
        del emitter

    def _preload_field(self, node: FieldOf) -> None:
        code, emitter = self.code, self.emitter
        path = static_path(node)
        if path is None or path in code.sites or path[:1] not in code.sites:
            return
        if isinstance(node.record, FieldOf):
            self._preload_field(node.record)
        reader, outer = code.roots[path[0]][0], code.sites[path[:-1]]
        site = reader.field(emitter, outer, code.field(node.struct, node.name))
        code.sites[path] = site
        number = plain(node.type) if isinstance(node.type, Basic) else None
        if isinstance(node.type, Basic) and number is not None:
            name = emitter.name("_".join(path))
            emitter.line(f"{name} = {cast(number, reader.number(emitter, site, node.type))}")
            code.preloaded[path] = name

    # Leaving

    def _finish(self, parts: Parts | None) -> None:
        """Writes the end of an event: outputs, state, status."""
        emitter, program = self.emitter, self.program
        if self.is_morph:
            parts = None
        elif parts is None and program.returns is not None:
            parts = ("0",) * (2 if program.returns == STRING else 1)
        if parts is None:
            self._leave(str(PASSED), is_row=True)
            return
        if self.to.keep is Keep.PASSED and parts[0] == "0":
            self._leave(str(DROPPED), is_row=False)
            return
        parts = tuple(emitter.temp(part) for part in parts)
        is_certain = emitter.is_settled(parts[0]) and parts[0].lstrip("-").isdigit() and int(parts[0]) != 0
        if self.to.keep is Keep.PASSED and not is_certain and self.to.sinks:
            with emitter.block(f"if {parts[0]} == 0:"):
                self._leave(str(DROPPED), is_row=False)
            is_certain = True
        if self.to.results is not None:
            site = Scattered(program.returns, parts) if program.returns is not None else None
            if site is not None and program.returns is not None:
                written = WrittenFields(program.returns, program.structs, frozenset({()}))
                self.to.results.write(emitter, self.code.stored, site, written)
        answer = str(PASSED) if is_certain else f"{PASSED} if {parts[0]} != 0 else {DROPPED}"
        self._leave(answer, is_row=True)

    def _leave(self, answer: str, *, is_row: bool) -> None:
        program, emitter = self.program, self.emitter
        if is_row:
            for name, sink in self.to.sinks.items():
                reader, site = self.code.roots[name]
                is_output = any(p.name == name and p.mode is Mode.OUT for p in program.params)
                fields = written_fields(program, name) if is_output else frozenset({()})
                sink.write(emitter, reader, site, WrittenFields(program.param_types[name], program.structs, fields))
                if getattr(sink, "leaves", False):
                    return
        self.statics.store(self.code)
        if "log" in emitter.entries:
            emitter.line(f"store_int64({emitter.entry('log_used_at')}, log_used)")
        emitter.line(f"return {answer}")


def ends(statement: Statement) -> bool:
    """Whether control certainly reaches a return."""
    match statement:
        case Return():
            return True
        case Block():
            return any(ends(part) for part in statement.statements)
        case If():
            return statement.otherwise is not None and ends(statement.then) and ends(statement.otherwise)
    return False


def base_of(place: Place) -> object:
    """The variable or parameter that contains a place; None for the target of a pointer."""
    base = root(place)
    return base.variable if isinstance(base, Local) else base.param if isinstance(base, Parameter) else None


def _is_dropped(node: Return) -> bool:
    return isinstance(node.value, Constant) and node.value.value == 0


def _kept_pointers(body: Typed) -> set[str]:
    """The parameters whose pointer fields a program does more with than follow them or compare them with null."""
    kept: set[str] = set()
    waiting: list[tuple[Typed, bool]] = [(body, False)]
    while waiting:
        node, is_asked = waiting.pop()
        if isinstance(node, Read) and isinstance(node.type, Pointer) and not is_asked:
            base = root(node.place)
            if isinstance(base, Parameter):
                kept.add(base.param.name)
        for child in children(node):
            waiting.append((child, _asks(node, child)))
    return kept


def _asks(node: Typed, child: Typed) -> bool:
    match node:
        case Target() | Not() | Logical():
            return True
        case If() | Loop() | Choice():
            return child is node.condition
        case Compare(op="==" | "!="):
            return any(isinstance(side, Constant) for side in (node.left, node.right))
    return False
