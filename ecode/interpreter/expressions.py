"""Expressions as Python closures: each takes the frame of a call and returns the value."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ecode.analysis.work import Work, shortest_text
from ecode.errors import TrapKind, index_detail
from ecode.interpreter.assigning import assigned, copied_record, updated
from ecode.interpreter.calling import called
from ecode.interpreter.memory import (
    Closure,
    Frame,
    PointerValue,
    RecordValue,
    StringValue,
    Trapped,
    spend,
)
from ecode.interpreter.places import address, character, location, moved, position, value_at
from ecode.semantics.arithmetic import compute, convert, is_floating, limits, round_single, wrap
from ecode.typed import (
    AddressOf,
    Arithmetic,
    Assign,
    Call,
    Character,
    Choice,
    Compare,
    CompoundAssign,
    Constant,
    Convert,
    CopyRecord,
    Element,
    Expression,
    FieldOf,
    Invert,
    Logical,
    Negate,
    Not,
    Parameter,
    Place,
    PointerAdd,
    PointerDifference,
    Present,
    Read,
    Sequence,
    StringPointer,
    Target,
    TypedProgram,
    Unset,
    value_text,
)
from ecode.types import FLOAT64, STRING, Basic, Kind, Pointer

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class Expressions:
    """Makes the closures of one program."""

    def __init__(self, program: TypedProgram, output_bytes: int) -> None:
        self.program, self.structs, self.output_bytes = program, program.structs, output_bytes
        self.positions = {n: {f.name: i for i, f in enumerate(s.fields)} for n, s in program.structs.items()}
        self.param_slots = {p.name: len(program.variables) + i for i, p in enumerate(program.params)}
        self.strings: dict[bytes, StringValue] = {}
        self.work = Work(program.structs)

    def text(self, value: bytes) -> StringValue:
        """The one object that all equal literals share."""
        return self.strings.setdefault(value, StringValue(value))

    def value(self, node: Expression) -> Closure:
        """The closure of an expression."""
        match node:
            case Constant():
                constant = self.text(node.value) if isinstance(node.value, bytes) else node.value
                return lambda frame: constant
            case Read():
                return value_at(self, node.place)
            case Convert():
                return self._convert(node)
            case Negate():
                return self._negate(node)
            case Invert():
                value, type_ = self.value(node.value), node.type
                return lambda frame: wrap(~value(frame), type_)
            case Arithmetic():
                left, right = self.value(node.left), self.value(node.right)
                combine = self.combine(node.op, node.type, node.at)
                return lambda frame: combine(left(frame), right(frame))
            case Compare():
                return self._compare(node)
            case Not():
                value = self.truth(node.value)
                return lambda frame: 0 if value(frame) else 1
            case Logical():
                left, right = self.truth(node.left), self.truth(node.right)
                if node.op == "&&":
                    return lambda frame: 1 if left(frame) and right(frame) else 0
                return lambda frame: 1 if left(frame) or right(frame) else 0
            case Choice():
                condition = self.truth(node.condition)
                then, otherwise = self.value(node.then), self.value(node.otherwise)
                return lambda frame: then(frame) if condition(frame) else otherwise(frame)
            case Sequence():
                parts = [self.value(part) for part in (*node.before, node.last)]
                return lambda frame: [part(frame) for part in parts][-1]
            case Assign():
                return assigned(self, node)
            case CompoundAssign():
                return updated(self, node)
            case CopyRecord():
                return copied_record(self, node)
            case Call():
                return called(self, node)
            case AddressOf():
                return address(self, node)
            case StringPointer():
                return self._string_pointer(node)
            case PointerAdd():
                pointer, offset = self.value(node.pointer), self.value(node.offset)
                at = node.at
                return lambda frame: moved(pointer(frame), offset(frame), at)
            case PointerDifference():
                return self._difference(node)
            case Character():
                return self._character(node)
            case Present():
                return self._present(node.place)
            case Unset():
                raise AssertionError("a pass lowers it")

    def truth(self, node: Expression) -> Closure:
        """A closure whose result is true in Python when the value is true in C."""
        value = self.value(node)
        if isinstance(node.type, Basic) and node.type != STRING:
            return value
        return lambda frame: value(frame) is not None

    def _convert(self, node: Convert) -> Closure:
        value, type_, source = self.value(node.value), node.type, node.value.type
        assert isinstance(source, Basic)
        if not is_floating(source) and not is_floating(type_):
            low, high = limits(source)
            wanted_low, wanted_high = limits(type_)
            if wanted_low <= low and high <= wanted_high:
                return value
            return lambda frame: wrap(value(frame), type_)
        if type_ == FLOAT64:
            return lambda frame: float(value(frame))
        return lambda frame: convert(value(frame), type_)

    def _negate(self, node: Negate) -> Closure:
        value, type_ = self.value(node.value), node.type
        if is_floating(type_):
            return lambda frame: -value(frame)
        return lambda frame: wrap(-value(frame), type_)

    def combine(self, op: str, type_: Basic, at: int) -> Callable[[Any, Any], Any]:
        """A binary operator on two values of a type."""
        if is_floating(type_) and op != "/":
            exact = {"+": operator.add, "-": operator.sub, "*": operator.mul}[op]
            return exact if type_ == FLOAT64 else lambda left, right: round_single(exact(left, right))
        if type_.kind is Kind.INTEGER and op in ("+", "-", "*"):
            whole = {"+": operator.add, "-": operator.sub, "*": operator.mul}[op]
            low, high = limits(type_)

            def wrapped(left: int, right: int) -> int:
                value: int = whole(left, right)
                return value if low <= value <= high else wrap(value, type_)

            return wrapped

        def computed(left: Any, right: Any) -> Any:
            try:
                return compute(op, left, right, type_)
            except ZeroDivisionError:
                raise Trapped(TrapKind.DIVISION_BY_ZERO, at) from None

        return computed

    def _compare(self, node: Compare) -> Closure:
        left, right, compare = self.value(node.left), self.value(node.right), _COMPARE[node.op]
        if isinstance(node.left.type, Pointer):
            op, at = node.op, node.at

            def pointers(frame: Frame) -> int:
                return _compare_pointers(op, left(frame), right(frame), at)

            return pointers
        if node.left.type == STRING and shortest_text(node) is None:
            return self._compare_strings(left, right, compare, node.at)
        return lambda frame: 1 if compare(left(frame), right(frame)) else 0

    def _compare_strings(self, left: Closure, right: Closure, compare: Callable[[Any, Any], bool], at: int) -> Closure:
        def compared(frame: Frame) -> int:
            one, other = left(frame), right(frame)
            spend(frame, min(len(one or b""), len(other or b"")), at)
            return 1 if compare(one, other) else 0

        return compared

    def _string_pointer(self, node: StringPointer) -> Closure:
        value = self.value(node.value)

        def pointer(frame: Frame) -> PointerValue | None:
            text = value(frame)
            return None if text is None else PointerValue(text, 0, 0, len(text) + 1)

        return pointer

    def _difference(self, node: PointerDifference) -> Closure:
        left, right, at = self.value(node.left), self.value(node.right), node.at

        def difference(frame: Frame) -> int:
            first, second = left(frame), right(frame)
            if first is None and second is None:
                return 0
            if first is None or second is None or not first.is_in(second):
                raise Trapped(TrapKind.INDEX_OUT_OF_RANGE, at)
            distance: int = first.position - second.position
            return distance

        return difference

    def _character(self, node: Character) -> Closure:
        string, index, at = self.value(node.string), self.value(node.index), node.at
        name = value_text(node.string)

        def indexed(frame: Frame) -> int:
            text, i = string(frame), index(frame)
            if text is None or not 0 <= i <= len(text):
                detail = index_detail(name, i, -1 if text is None else len(text))
                raise Trapped(TrapKind.INDEX_OUT_OF_RANGE, at, detail)
            return character(text, i)

        return indexed

    def _present(self, place: Place) -> Closure:
        if isinstance(place, Parameter):
            return lambda frame: 1
        if isinstance(place, Target) and isinstance(place.pointer, Read):
            above, pointer = self._present(place.pointer.place), value_at(self, place.pointer.place)
            return lambda frame: int(above(frame) and pointer(frame) is not None)
        if not isinstance(place, FieldOf):
            where = location(self, place)
            above = self._present(place.array) if isinstance(place, Element) else (lambda frame: 1)
            return lambda frame: above(frame) if where(frame) else 0
        outer, record = self._present(place.record), value_at(self, place.record)
        index = position(self, place.struct, place.name)

        def present(frame: Frame) -> int:
            if not outer(frame):
                return 0
            fields: RecordValue = record(frame)
            return int(index not in fields.absent)

        return present


def _compare_pointers(op: str, left: PointerValue | None, right: PointerValue | None, at: int) -> int:
    if left is None or right is None:
        if op in ("==", "!="):
            return int((left is right) == (op == "=="))
        if left is right:
            return int(op in ("<=", ">="))
        raise Trapped(TrapKind.INDEX_OUT_OF_RANGE, at)
    is_one = left.is_in(right)
    if op in ("==", "!="):
        return int((is_one and left.position == right.position) == (op == "=="))
    if not is_one:
        raise Trapped(TrapKind.INDEX_OUT_OF_RANGE, at)
    return int(_COMPARE[op](left.position, right.position))
