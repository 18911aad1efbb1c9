"""Before a program runs: whether it ends, what it costs, what it touches (ecode-language 15)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ecode.analysis.polynomial import Polynomial
from ecode.analysis.work import Work, fixed_work
from ecode.environment import Mode
from ecode.errors import Category, Diagnostic, diagnostic
from ecode.outcome import static_names
from ecode.passes.check_reads import check_reads
from ecode.passes.written_fields import field_path, written_fields
from ecode.semantics.layout import MEMORY_LAYOUT
from ecode.typed import (
    Arithmetic,
    Assign,
    Block,
    Call,
    CompoundAssign,
    Constant,
    Convert,
    Counted,
    Element,
    Expression,
    FieldOf,
    If,
    Jump,
    Loop,
    Parameter,
    Read,
    StateMachine,
    Statement,
    Typed,
    TypedProgram,
    children,
    root,
    walk,
)
from ecode.types import STRING, Array


@dataclass(frozen=True, slots=True)
class Analysis:
    """What is known about a program.

    Attributes:
        is_bounded: every loop counts to a bound that is fixed when it begins, and no goto leads back.
        cost: the most work of one call (`ecode.analysis.work`), by size fields and parameters. An unbounded program
            counts one round of each unbounded loop. A loop whose number of rounds is not a polynomial appears as
            `rounds(line)`, and work that depends on other lengths as `length(line)`.
        allocation: the most bytes of dynamic output arrays of one call; None if only `Limits.output_bytes` bounds them.
        reads, writes: for each record parameter the fields used, e.g. `position.x`.
        statics: names of static variables.
        functions: names of the host and library functions called.
        warnings: variables that may be read before they are written.
    """

    is_bounded: bool
    cost: Polynomial
    allocation: Polynomial | None
    reads: Mapping[str, frozenset[str]]
    writes: Mapping[str, frozenset[str]]
    statics: tuple[str, ...]
    functions: tuple[str, ...]
    warnings: tuple[Diagnostic, ...]

    @property
    def fixed_cost(self) -> int:
        """The part of `cost` that does not depend on the event."""
        return self.cost.terms.get((), 0)

    def __str__(self) -> str:
        def names(fields: Mapping[str, frozenset[str]]) -> str:
            return ", ".join(f"{param}.{name}" for param in fields for name in sorted(fields[param])) or "nothing"

        allocated = "limited by the host only" if self.allocation is None else f"{self.allocation} bytes"
        lines = [
            f"bounded:   {'yes' if self.is_bounded else 'no, runs under a budget'}",
            f"cost:      {self.cost} units of work{'' if self.is_bounded else ' and the rounds of unbounded loops'}",
            f"allocates: {allocated}",
            f"reads:     {names(self.reads)}",
            f"writes:    {names(self.writes)}",
            f"statics:   {', '.join(self.statics) or 'none'}",
            f"functions: {', '.join(self.functions) or 'none'}",
        ]
        return "\n".join([*lines, *(f"warning:   {w.line}:{w.column}: {w.message}" for w in self.warnings)])


def analysed(program: TypedProgram) -> Analysis:
    """Analyses a checked program."""
    nodes = list(walk(program.body))
    costs = _Costs(program)
    cost, allocation = costs.statement(program.body)
    cost += Polynomial.of(fixed_work(program))
    loops = [node for node in nodes if isinstance(node, Loop)]
    jumps_back = any(isinstance(node, Jump) and node.work for node in nodes)
    return Analysis(
        all(loop.counted is not None for loop in loops) and not jumps_back,
        cost,
        None if costs.allocates_unknown else allocation,
        read_fields(program),
        {
            param.name: frozenset(".".join(path) for path in written_fields(program, param.name))
            for param in program.params
            if param.mode is Mode.OUT
        },
        tuple(static_names(program).values()),
        tuple(function.name for function in program.functions),
        tuple(check_reads(program)),
    )


def read_fields(program: TypedProgram) -> dict[str, frozenset[str]]:
    """The fields of each parameter that the program reads, size fields of arrays included."""
    found: dict[str, set[str]] = {}
    for node in walk(program.body):
        if not isinstance(node, FieldOf):
            continue
        base = root(node)
        if isinstance(base, Parameter) and base.param.mode is not Mode.OUT:
            path = field_path(node)
            found.setdefault(base.param.name, set()).add(".".join(path))
            if isinstance(node.type, Array):
                sizes = (dim for dim in node.type.dims if isinstance(dim, str))
                found[base.param.name] |= {".".join((*path[:-1], size)) for size in sizes}
    # Reading a field does not read the records around it.
    return {
        param: frozenset(p for p in paths if not any(other.startswith(f"{p}.") for other in paths))
        for param, paths in found.items()
    }


class _Costs:
    """Upper bounds of work and of bytes allocated."""

    def __init__(self, program: TypedProgram) -> None:
        self.program = program
        self.work = Work(program.structs)
        self.allocates_unknown = False

    def statement(self, node: Statement) -> tuple[Polynomial, Polynomial]:
        match node:
            case Block():
                total = (Polynomial.of(0), Polynomial.of(0))
                for part in node.statements:
                    total = _sum(total, self.statement(part))
                return total
            case If():
                then = self.statement(node.then)
                otherwise = (Polynomial.of(0),) * 2 if node.otherwise is None else self.statement(node.otherwise)
                most = then[0].most(otherwise[0]), then[1].most(otherwise[1])
                return _sum(self.expression(node.condition), most)
            case Loop():
                return self.loop(node)
            case StateMachine():
                total = (Polynomial.of(0), Polynomial.of(0))
                for state in node.states:
                    for part in state:
                        total = _sum(total, self.statement(part))
                return total
        return self.expression(node)

    def loop(self, node: Loop) -> tuple[Polynomial, Polynomial]:
        once = self.statement(node.body)
        for part in (node.condition, node.step):
            if part is not None:
                once = _sum(once, self.expression(part))
        rounds = Polynomial.of(1)
        if node.counted is not None:
            rounds = self.rounds(node, node.counted)
        elif once[1].terms:
            self.allocates_unknown = True
        if not node.is_charged_before:
            rounds += Polynomial.of(1)  # a loop that may never end
        test = (Polynomial.of(0),) * 2 if node.condition is None else self.expression(node.condition)
        return _sum(test, ((once[0] + Polynomial.of(1)) * rounds + Polynomial.of(1), once[1] * rounds))

    def rounds(self, node: Loop, counted: Counted) -> Polynomial:
        line = diagnostic(self.program.source, node.at, Category.TYPE, "").line
        unknown = Polynomial.named(f"rounds({line})")
        start = None if counted.start is None else polynomial(counted.start)
        bound = polynomial(counted.bound)
        if start is None or bound is None:
            return unknown
        distance = bound - start if counted.step > 0 else start - bound
        return (distance + Polynomial.of(1 if counted.op in ("<=", ">=") else 0)).bounded()

    def expression(self, node: Typed) -> tuple[Polynomial, Polynomial]:
        """Operations of an expression or a simple statement, both arms of a choice included."""
        cost, bytes_ = Polynomial.of(self.work.tree(node)), Polynomial.of(0)
        for inner in walk(node):
            if self.work.is_charged_later(inner):
                cost += self.later(inner)
            if isinstance(inner, Assign | CompoundAssign) and inner.resizes:
                bytes_ += self.allocation(inner)
        return cost, bytes_

    def later(self, node: Typed) -> Polynomial:
        """Work that only the event decides."""
        if isinstance(node, Assign | CompoundAssign):
            size = polynomial(node.value) if isinstance(node, Assign) else None
            assert isinstance(node.place, FieldOf)
            types = [self.program.structs[node.place.struct].find(name) for name in node.resizes]
            units = sum(self.work.value(f.type.element) for f in types if f is not None and isinstance(f.type, Array))
            # An array that grows doubles its capacity.
            return Polynomial.of(3 * units) * self.length(node, size)
        strings = [side for side in children(node) if getattr(side, "type", None) == STRING]
        total = Polynomial.of(0)
        for string in strings:
            total += self.length(string, None)
        if isinstance(node, Call) and node.function.is_logged:
            return total + Polynomial.of(3 + 2 * len(node.arguments))
        return total if strings else self.length(node, None)

    def length(self, node: Typed, known: Polynomial | None) -> Polynomial:
        """A size as a polynomial, else as a name: that of the field or of the line."""
        if known is not None:
            return known.bounded()
        if isinstance(node, Constant):
            return Polynomial.of(len(node.value) if isinstance(node.value, bytes) else 0)
        line = diagnostic(self.program.source, node.at, Category.TYPE, "").line
        return Polynomial.named(f"length({line})")

    def allocation(self, node: Assign | CompoundAssign) -> Polynomial:
        size = polynomial(node.value) if isinstance(node, Assign) else None
        if size is None or not isinstance(node.place, FieldOf):
            self.allocates_unknown = True
            return Polynomial.of(0)
        total = Polynomial.of(0)
        for name in node.resizes:
            field = self.program.structs[node.place.struct].find(name)
            assert field is not None
            assert isinstance(field.type, Array)
            if len(field.type.dims) > 1:
                self.allocates_unknown = True
            total += Polynomial.of(MEMORY_LAYOUT.size(field.type.element, self.program.structs)) * size.bounded()
        return total


def _sum(a: tuple[Polynomial, Polynomial], b: tuple[Polynomial, Polynomial]) -> tuple[Polynomial, Polynomial]:
    return a[0] + b[0], a[1] + b[1]


def polynomial(node: Expression) -> Polynomial | None:
    """An integer expression over parameters as a polynomial; None if it cannot be one."""
    match node:
        case Constant(value=int(value)):
            return Polynomial.of(value)
        case Convert():
            return polynomial(node.value)
        case Arithmetic(op="+" | "-" | "*"):
            left, right = polynomial(node.left), polynomial(node.right)
            if left is None or right is None:
                return None
            return left + right if node.op == "+" else left - right if node.op == "-" else left * right
        case Read(place=FieldOf() | Parameter() as place):
            base = root(place)
            if isinstance(base, Parameter) and base.param.mode is not Mode.OUT and not _in_array(place):
                return Polynomial.named(".".join((base.param.name, *field_path(place))))
    return None


def _in_array(place: Typed) -> bool:
    return any(isinstance(part, Element) for part in _outwards(place))


def _outwards(place: Typed) -> list[Typed]:
    parts = [place]
    while isinstance(parts[-1], FieldOf | Element):
        last = parts[-1]
        parts.append(last.record if isinstance(last, FieldOf) else last.array)
    return parts
