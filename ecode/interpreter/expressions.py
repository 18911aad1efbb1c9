"""Expressions as Python closures: each takes the frame of a call and gives the value."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ecode.analysis.work import BYTES, Work, shortest_text
from ecode.environment import Function
from ecode.errors import TrapKind, index_detail
from ecode.interpreter.memory import (
    Code,
    Frame,
    PointerValue,
    RecordValue,
    Text,
    Trapped,
    bodily,
    resized,
    spend,
    take,
    total,
)
from ecode.interpreter.places import address, character, location, position, value_at
from ecode.semantics import printf
from ecode.semantics.arithmetic import compute, convert, is_floating, limits, round_single, wrap
from ecode.semantics.layout import align
from ecode.typed import (
    AddressOf,
    Arithmetic,
    Assign,
    Call,
    Character,
    Choice,
    Compare,
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
    Update,
    ValueType,
    value_text,
)
from ecode.types import FLOAT64, STRING, Array, Basic, Kind, Pointer, Ref

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_NO_LIMIT = 1 << 62


class Expressions:
    """Makes the closures of one program."""

    def __init__(self, program: TypedProgram, output_bytes: int) -> None:
        self.program, self.structs, self.output_bytes = program, program.structs, output_bytes
        self.positions = {n: {f.name: i for i, f in enumerate(s.fields)} for n, s in program.structs.items()}
        self.param_slots = {p.name: len(program.variables) + i for i, p in enumerate(program.params)}
        self.texts: dict[bytes, Text] = {}
        self.work = Work(program.structs)

    def text(self, value: bytes) -> Text:
        """The one object for all equal literals."""
        return self.texts.setdefault(value, Text(value))

    def value(self, node: Expression) -> Code:
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
                return self._assign(node)
            case Update():
                return self._update(node)
            case CopyRecord():
                return self._copy(node)
            case Call():
                return self._call(node)
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

    def truth(self, node: Expression) -> Code:
        """A closure whose result is true in Python when the value is true in C."""
        value = self.value(node)
        if isinstance(node.type, Basic) and node.type != STRING:
            return value
        return lambda frame: value(frame) is not None

    def _convert(self, node: Convert) -> Code:
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

    def _negate(self, node: Negate) -> Code:
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

    def _compare(self, node: Compare) -> Code:
        left, right, compare = self.value(node.left), self.value(node.right), _COMPARE[node.op]
        if isinstance(node.left.type, Pointer):
            op, at = node.op, node.at

            def pointers(frame: Frame) -> int:
                return _compare_pointers(op, left(frame), right(frame), at)

            return pointers
        if node.left.type == STRING and shortest_text(node) is None:
            return self._compare_texts(left, right, compare, node.at)
        return lambda frame: 1 if compare(left(frame), right(frame)) else 0

    def _compare_texts(self, left: Code, right: Code, compare: Callable[[Any, Any], bool], at: int) -> Code:
        def compared(frame: Frame) -> int:
            one, other = left(frame), right(frame)
            spend(frame, min(len(one or b""), len(other or b"")), at)
            return 1 if compare(one, other) else 0

        return compared

    def _string_pointer(self, node: StringPointer) -> Code:
        value = self.value(node.value)

        def pointer(frame: Frame) -> PointerValue | None:
            text = value(frame)
            return None if text is None else PointerValue(text, 0, 0, len(text) + 1)

        return pointer

    def _difference(self, node: PointerDifference) -> Code:
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

    def _character(self, node: Character) -> Code:
        string, index, at = self.value(node.string), self.value(node.index), node.at
        name = value_text(node.string)

        def indexed(frame: Frame) -> int:
            text, i = string(frame), index(frame)
            if text is None or not 0 <= i <= len(text):
                detail = index_detail(name, i, -1 if text is None else len(text))
                raise Trapped(TrapKind.INDEX_OUT_OF_RANGE, at, detail)
            return character(text, i)

        return indexed

    def _present(self, place: Place) -> Code:
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

    # Writing

    def _assign(self, node: Assign) -> Code:
        where, value = location(self, node.place), self.value(node.value)
        resize = self._resize(node.place, node.resizes, node.at)

        def assign(frame: Frame) -> Any:
            given = value(frame)
            items, index = where(frame)
            if resize is None:
                items[index] = given
            else:
                resize(frame, items, index, given)
            return given

        return assign

    def _update(self, node: Update) -> Code:
        where, value, type_ = location(self, node.place), self.value(node.value), node.type
        resize = self._resize(node.place, node.resizes, node.at)
        is_old, at = node.is_old, node.at
        step: Callable[[Any, Any], Any]
        if isinstance(node.common, Basic):
            assert isinstance(type_, Basic)
            common, stored = node.common, type_
            combine = self.combine(node.op, common, at)
            shift = node.op in ("<<", ">>")

            def step(old: Any, by: Any) -> Any:
                widened = convert(old, common) if not shift or common != stored else old
                return convert(combine(widened, by), stored)
        else:
            sign = -1 if node.op == "-" else 1

            def step(old: Any, by: Any) -> Any:
                return moved(old, sign * by, at)

        def update(frame: Frame) -> Any:
            by = value(frame)
            items, index = where(frame)
            old = items[index]
            new = step(old, by)
            if resize is None:
                items[index] = new
            else:
                resize(frame, items, index, new)
            return old if is_old else new

        return update

    def _resize(self, place: Place, names: tuple[str, ...], at: int) -> Callable[[Frame, Any, int, Any], None] | None:
        """Stores a size field and resizes the arrays that it controls."""
        if not names:
            return None
        assert isinstance(place, FieldOf)
        struct = self.structs[place.struct]
        arrays = []
        for name in names:
            field = struct.find(name)
            assert field is not None
            assert isinstance(field.type, Array)
            index = position(self, place.struct, name)
            dims = [d if isinstance(d, int) else (position(self, place.struct, d),) for d in field.type.dims]
            arrays.append((index, dims, field.type.element, self.work.value(field.type.element)))

        def sizes(fields: Any, dims: list[Any]) -> list[int]:
            return [dim if isinstance(dim, int) else fields[dim[0]] for dim in dims]

        def resize(frame: Frame, fields: Any, index: int, value: int) -> None:
            before = [total(sizes(fields, dims), _NO_LIMIT, at) for _, dims, _, _ in arrays]
            fields[index] = value
            for old, (array, dims, element, units) in zip(before, arrays, strict=True):
                new = total(sizes(fields, dims), self.output_bytes, at)
                fields[array] = resized(frame, fields[array], old, new, element, units, self.structs, at)

        return resize

    def _copy(self, node: CopyRecord) -> Code:
        where, source, at = location(self, node.place), value_at(self, node.source), node.at
        type_ = node.source.type

        def copy(frame: Frame) -> None:
            items, index = where(frame)
            given = source(frame)
            copied = self._deep(frame, given, type_, at)
            items[index][:] = copied
            items[index].absent = copied.absent

        return copy

    def _deep(self, frame: Frame, value: Any, type_: ValueType, at: int) -> Any:
        """A copy with dynamic arrays of its own, allocated as if they had been resized."""
        match type_:
            case Array() if not type_.is_dynamic:
                return [self._deep(frame, item, type_.element, at) for item in value]
            case Ref():
                fields = self.structs[type_.name].fields
                copied = RecordValue([bodily(v, f.type, self.structs) for v, f in zip(value, fields, strict=True)])
                copied.absent = value.absent
                for i, field in enumerate(fields):
                    if isinstance(field.type, Array) and field.type.is_dynamic:
                        dims = [
                            d if isinstance(d, int) else value[self.positions[type_.name][d]] for d in field.type.dims
                        ]
                        count = total(dims, self.output_bytes, at)
                        spend(frame, self.work.value(field.type.element) * count, at)
                        copied[i] = resized(frame, [], 0, count, field.type.element, 0, self.structs, at)
                        for j in range(count):
                            copied[i][j] = self._deep(frame, value[i][j], field.type.element, at)
                    else:
                        copied[i] = self._deep(frame, value[i], field.type, at)
                return copied
        return value

    # Calls

    def _call(self, node: Call) -> Code:
        function, at = node.function, node.at
        arguments = [self.value(argument) for argument in node.arguments]
        finish = self._finish(function, node.type)
        needed = [i for i, p in enumerate(function.parameters) if p == STRING] if function.needs_strings else []
        charge = None if shortest_text(node) is not None else function.charge

        def call(frame: Frame) -> Any:
            values = [argument(frame) for argument in arguments]
            if needed and any(values[i] is None for i in needed):
                raise Trapped(TrapKind.INDEX_OUT_OF_RANGE, at)
            try:
                units, size = (0, 0) if charge is None else charge.call(*values)
                spend(frame, units, at)
                take(frame, size, at)
            except Trapped as trapped:
                raise Trapped(trapped.kind, at) from None
            if function.is_logged:
                size = _logged_bytes(values)
                spend(frame, size // BYTES, at)
                take(frame, size, at)
                frame.log.append((function.name, _logged(function, values)))
            try:
                result = function.call(*values)
            except Trapped as trapped:
                raise Trapped(trapped.kind, at) from None
            return finish(result, values)

        return call

    def _finish(self, function: Function, type_: ValueType | None) -> Callable[[Any, list[Any]], Any]:
        """What becomes of a Python result."""
        if type_ is None:
            return lambda result, values: None
        if isinstance(type_, Pointer):
            # The result is an offset into the first argument.
            return lambda result, values: (
                None if result is None else PointerValue(values[0], result, 0, len(values[0]) + 1)
            )
        if type_ == STRING:
            return lambda result, values: (
                None if result is None else Text(result.encode() if isinstance(result, str) else result)
            )
        if isinstance(type_, Basic):
            number = type_
            return lambda result, values: convert(float(result) if is_floating(number) else result, number)
        return lambda result, values: result


def _logged(function: Function, values: list[Any]) -> tuple[Any, ...]:
    if function.name == "printf":
        return (printf.formatted(values[0], values[1:]),)
    return tuple(bytes(value) if isinstance(value, bytes) else value for value in values)


def _logged_bytes(values: list[Any]) -> int:
    """What a call takes in the log of generated code."""
    return 24 + sum(16 + (align(len(value), 8) if isinstance(value, bytes) else 0) for value in values)


def moved(pointer: PointerValue | None, offset: int, at: int) -> PointerValue:
    """A pointer further on: inside its object, or just past its end."""
    if pointer is None or not pointer.low <= pointer.position + offset <= pointer.high:
        raise Trapped(TrapKind.INDEX_OUT_OF_RANGE, at)
    return pointer._replace(position=pointer.position + offset)


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
