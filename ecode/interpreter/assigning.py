"""Assignments as Python closures: what is stored, and the arrays that a new extent resizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ecode.interpreter.memory import NO_LIMIT, Closure, ElementType, Frame, RecordValue, bodily, resized, spend, total
from ecode.interpreter.places import location, moved, position, value_at
from ecode.semantics.arithmetic import convert, plain
from ecode.typed import Assign, CompoundAssign, CopyRecord, FieldOf, Place, ValueType
from ecode.types import Array, Basic, Ref

if TYPE_CHECKING:
    from ecode.interpreter.expressions import Expressions


def assigned(code: Expressions, node: Assign) -> Closure:
    """A closure that stores a value and returns it."""
    where, value = location(code, node.place), code.value(node.value)
    resize = _resize(code, node.place, node.resizes, node.at)

    def assign(frame: Frame) -> Any:
        given = value(frame)
        items, index = where(frame)
        if resize is None:
            items[index] = given
        else:
            resize(frame, items, index, given)
        return given

    return assign


def updated(code: Expressions, node: CompoundAssign) -> Closure:
    """A closure for `place op= value` and `++`."""
    where, value, type_ = location(code, node.place), code.value(node.value), node.type
    resize = _resize(code, node.place, node.resizes, node.at)
    is_old, at = node.is_old, node.at
    step: Callable[[Any, Any], Any]
    if isinstance(node.common, Basic):
        assert isinstance(type_, Basic)
        common, stored = node.common, type_
        combine = code.combine(node.op, common, at)
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


def _resize(
    code: Expressions, place: Place, names: tuple[str, ...], at: int
) -> Callable[[Frame, Any, int, Any], None] | None:
    """Stores a size field and resizes the arrays that it controls."""
    if not names:
        return None
    assert isinstance(place, FieldOf)
    struct = code.structs[place.struct]
    arrays = []
    for name in names:
        field = struct.find(name)
        assert field is not None
        assert isinstance(field.type, Array)
        index = position(code, place.struct, name)
        dims = [d if isinstance(d, int) else (position(code, place.struct, d),) for d in field.type.dims]
        element = ElementType(field.type.element, code.work.value(field.type.element), code.structs)
        arrays.append((index, dims, element))

    def sizes(fields: Any, dims: list[Any]) -> list[int]:
        return [dim if isinstance(dim, int) else fields[dim[0]] for dim in dims]

    def resize(frame: Frame, fields: Any, index: int, value: int) -> None:
        before = [total(sizes(fields, dims), NO_LIMIT, at) for _, dims, _ in arrays]
        fields[index] = value
        for old, (array, dims, element) in zip(before, arrays, strict=True):
            new = total(sizes(fields, dims), code.output_bytes, at)
            fields[array] = resized(frame, fields[array], old, new, element, at)

    return resize


def copied_record(code: Expressions, node: CopyRecord) -> Closure:
    """A closure that copies a record, deeply."""
    where, source, at = location(code, node.place), value_at(code, node.source), node.at
    type_, to = node.source.type, node.place.type

    def copy(frame: Frame) -> None:
        items, index = where(frame)
        given = source(frame)
        copied = _deep(code, frame, given, (type_, to), at)
        items[index][:] = copied
        items[index].absent = copied.absent

    return copy


def _deep(code: Expressions, frame: Frame, value: Any, types: tuple[ValueType, ValueType], at: int) -> Any:
    """A copy of a value of one type as another. The types may differ in single characters and enumerations. The copy's
    dynamic arrays are its own, allocated as if they had been resized."""
    type_, to = types
    match type_, to:
        case (Array(), Array()) if not type_.is_dynamic:
            return [_deep(code, frame, item, (type_.element, to.element), at) for item in value]
        case (Ref(), Ref()):
            fields = code.structs[type_.name].fields
            copied = RecordValue([bodily(v, f.type, code.structs) for v, f in zip(value, fields, strict=True)])
            copied.absent = value.absent
            for i, (field, other) in enumerate(zip(fields, code.structs[to.name].fields, strict=True)):
                if isinstance(field.type, Array) and field.type.is_dynamic:
                    assert isinstance(other.type, Array)
                    dims = [d if isinstance(d, int) else value[code.positions[type_.name][d]] for d in field.type.dims]
                    count = total(dims, code.output_bytes, at)
                    spend(frame, code.work.value(field.type.element) * count, at)
                    free = ElementType(field.type.element, 0, code.structs)
                    copied[i] = resized(frame, [], 0, count, free, at)
                    for j in range(count):
                        copied[i][j] = _deep(code, frame, value[i][j], (field.type.element, other.type.element), at)
                else:
                    copied[i] = _deep(code, frame, value[i], (field.type, other.type), at)
            return copied
        case (Basic(), Basic()) if type_ != to:
            return convert(value, plain(to) or to)
    return value
