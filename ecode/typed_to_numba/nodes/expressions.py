"""Expressions as text. Parts that cannot be Python expressions (an assignment, a check) become lines before it."""

from __future__ import annotations

from functools import partial

from ecode.analysis.work import shortest_text
from ecode.errors import NotCompilable, TrapKind
from ecode.semantics.layout import MEMORY_LAYOUT
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
    Place,
    PointerAdd,
    PointerDifference,
    Present,
    Read,
    Sequence,
    StringPointer,
    Target,
    Unset,
    ValueType,
    value_text,
)
from ecode.typed_to_numba import numbers
from ecode.typed_to_numba.code import Code, Parts, in_order
from ecode.typed_to_numba.nodes.assignments import assign, update
from ecode.typed_to_numba.nodes.calls import call
from ecode.typed_to_numba.nodes.copying import copy_value
from ecode.typed_to_numba.nodes.operators import arithmetic, moved
from ecode.typed_to_numba.nodes.places import address, located, number
from ecode.typed_to_numba.stored import InMemory, Scattered
from ecode.types import STRING, Basic, Pointer

# Longer expressions are split into lines, for Python's parser and for readers.
_LONGEST = 160


def value(code: Code, node: Expression) -> Parts:
    """The text of an expression's value; several for strings and pointers."""
    parts = _value(code, node)
    return tuple(code.emitter.temp(text) if len(text) > _LONGEST else text for text in parts)


def single(code: Code, node: Expression) -> str:
    (text,) = value(code, node)
    return text


def _value(code: Code, node: Expression) -> Parts:
    match node:
        case Constant():
            return _constant(code, node)
        case Read():
            return _read(code, node)
        case Convert():
            source = node.value.type
            assert isinstance(source, Basic)
            return (numbers.converted(single(code, node.value), source, node.type),)
        case Negate():
            return (numbers.negated(single(code, node.value), node.type),)
        case Invert():
            return (numbers.inverted(single(code, node.value), node.type),)
        case Arithmetic():
            (left,), (right,) = in_order(code, partial(value, code, node.left), partial(value, code, node.right))
            return (arithmetic(code, node.op, left, right, node.type, node.at),)
        case Compare() | Not() | Logical() | Present():
            return (f"(1 if {condition(code, node)} else 0)",)
        case Choice():
            return _choice(code, node)
        case Sequence():
            for part in node.before:
                evaluate(code, part)
            if node.type is None:
                evaluate(code, node.last)
                return ()
            return value(code, node.last)
        case Assign() | CompoundAssign():
            return assign(code, node) if isinstance(node, Assign) else update(code, node)
        case CopyRecord():
            _, site = located(code, node.place)
            if isinstance(site, InMemory):
                site = InMemory(site.type, code.emitter.temp(site.address))
            reader, source = located(code, node.source)
            copy_value(code, reader, source, node.source.type, site, node.at)
            return ()
        case Call():
            return call(code, node)
        case AddressOf():
            return address(code, node)
        case StringPointer():
            start, length = value(code, node.value)
            start = code.emitter.named(start)
            return start, start, f"({start} + {length} + 1 if {start} != 0 else 0)"
        case PointerAdd():
            pointer, (offset,) = in_order(code, partial(value, code, node.pointer), partial(value, code, node.offset))
            return moved(code, pointer, offset, node.type, node.at)
        case PointerDifference():
            return (_difference(code, node),)
        case Unset():
            raise AssertionError("a pass lowers it")
        case Character():
            return (_character(code, node),)


def evaluate(code: Code, node: Expression) -> None:
    """An expression whose value is not used."""
    match node:
        case Assign():
            assign(code, node, is_wanted=False)
        case CompoundAssign():
            update(code, node, is_wanted=False)
        case Sequence():
            for part in (*node.before, node.last):
                evaluate(code, part)
        case _:
            value(code, node)


def condition(code: Code, node: Expression) -> str:
    """The text of an expression as a Python condition."""
    match node:
        case Compare():
            return _compare(code, node)
        case Not():
            return f"(not {condition(code, node.value)})"
        case Logical():
            return _logical(code, node)
        case Present():
            return f"({_present(code, node.place)})"
        case Constant(value=int(number)):
            return "True" if number else "False"
        case Read() if isinstance(node.type, Pointer):
            reader, site = located(code, node.place)
            return f"({reader.present(code.emitter, site)})"
    text = value(code, node)[0]
    return f"({text} != 0)"


def _constant(code: Code, node: Constant) -> Parts:
    if isinstance(node.value, bytes):
        return code.literals.address(code.emitter, node.value), str(len(node.value))
    if node.value is None:
        return ("0",) * _width(node.type)
    assert isinstance(node.type, Basic)
    return (numbers.constant(node.value, node.type),)


def _width(type_: ValueType | None) -> int:
    """The number of parts of a value."""
    return 3 if isinstance(type_, Pointer) else 2 if type_ == STRING else 1


def _read(code: Code, node: Read) -> Parts:
    if isinstance(node.type, Pointer):
        reader, site = located(code, node.place)
        assert code.is_stored(reader), "a parameter whose pointers are kept is stored"
        return code.stored.pointer(site)
    if node.type == STRING:
        reader, site = located(code, node.place)
        return reader.string(code.emitter, site)
    if isinstance(node.type, Basic):
        return (number(code, node.place),)
    _, site = located(code, node.place)
    assert isinstance(site, Scattered), "handles are variables"
    return site.names


# Conditions


def _compare(code: Code, node: Compare) -> str:
    operands = node.left, node.right
    type_ = node.left.type
    if isinstance(type_, Pointer):
        for one, other in (operands, operands[::-1]):
            if isinstance(other, Constant) and isinstance(one, Read) and node.op in ("==", "!="):
                reader, site = located(code, one.place)
                present = reader.present(code.emitter, site)
                return f"({present})" if node.op == "!=" else f"(not {present})"
        return _compare_pointers(code, node)
    left, right = in_order(code, partial(value, code, node.left), partial(value, code, node.right))
    if type_ == STRING:
        if shortest_text(node) is None:
            left, right = (tuple(code.emitter.temp(part) for part in parts) for parts in (left, right))
            code.spend(f"min_int64({left[1]}, {right[1]})", node.at)
        same = f"same_text({', '.join((*left, *right))})"
        return same if node.op == "==" else f"(not {same})"
    assert isinstance(type_, Basic)
    return numbers.compared(node.op, left[0], right[0], type_)


def _compare_pointers(code: Code, node: Compare) -> str:
    left, right = _pair(code, node.left, node.right)
    if node.op in ("==", "!="):
        same = f"({left[0]} == {right[0]} and {left[1]} == {right[1]})"
        return same if node.op == "==" else f"(not {same})"
    code.emitter.trap(f"{left[1]} != {right[1]}", TrapKind.INDEX_OUT_OF_RANGE, node.at)
    return f"({left[0]} {node.op} {right[0]})"


def _pair(code: Code, left: Expression, right: Expression) -> tuple[Parts, Parts]:
    first, second = in_order(code, partial(value, code, left), partial(value, code, right))
    return first, second


def _difference(code: Code, node: PointerDifference) -> str:
    left, right = _pair(code, node.left, node.right)
    code.emitter.trap(f"{left[1]} != {right[1]}", TrapKind.INDEX_OUT_OF_RANGE, node.at)
    assert isinstance(node.left.type, Pointer)
    size = MEMORY_LAYOUT.size(node.left.type.target, code.program.structs)
    return f"quotient_int64({left[0]} - {right[0]}, {max(size, 1)})"


def _character(code: Code, node: Character) -> str:
    (start, length), (index,) = in_order(code, partial(value, code, node.string), partial(value, code, node.index))
    emitter = code.emitter
    start, length, index = (emitter.named(text) for text in (start, length, index))
    bad, known = f"{start} == 0 or not 0 <= {index} <= {length}", f"-1 if {start} == 0 else {length}"
    emitter.trap_index(bad, node.at, value_text(node.string), index, known)
    return f"character({start}, {length}, {index})"


def _logical(code: Code, node: Logical) -> str:
    left = condition(code, node.left)
    with code.emitter.captured() as lines:
        right = condition(code, node.right)
    word = "and" if node.op == "&&" else "or"
    if not lines and len(left) + len(right) < _LONGEST:
        return f"({left} {word} {right})"
    result = code.emitter.temporary()
    code.emitter.line(f"{result} = {left}")
    with code.emitter.block(f"if {result}:" if word == "and" else f"if not {result}:"):
        code.emitter.replay(lines)
        code.emitter.line(f"{result} = {right}")
    return result


def _present(code: Code, place: Place) -> str:
    if isinstance(place, Target) and isinstance(place.pointer, Read):
        reader, site = located(code, place.pointer.place)
        here, outer = reader.present(code.emitter, site), _present(code, place.pointer.place)
        return here if outer == "True" else f"{outer} and {here}"
    if not isinstance(place, FieldOf):
        located(code, place)
        return _present(code, place.array) if isinstance(place, Element) else "True"
    outer = _present(code, place.record)
    if code.is_stored(located(code, place)[0]):
        raise NotCompilable("cannot compile 'present' for a parameter into which the program keeps pointers")
    reader, site = located(code, place)
    here = reader.present(code.emitter, site)
    return here if outer == "True" else f"{outer} and {here}"


def _choice(code: Code, node: Choice) -> Parts:
    emitter = code.emitter
    test = condition(code, node.condition)
    with emitter.captured() as then_lines:
        then = () if node.type is None else value(code, node.then)
        if node.type is None:
            evaluate(code, node.then)
    with emitter.captured() as otherwise_lines:
        otherwise = () if node.type is None else value(code, node.otherwise)
        if node.type is None:
            evaluate(code, node.otherwise)
    if not then_lines and not otherwise_lines and len(then) == 1:
        return (f"({then[0]} if {test} else {otherwise[0]})",)
    results = tuple(emitter.temporary() for _ in then)
    for head, lines, parts in ((f"if {test}:", then_lines, then), ("else:", otherwise_lines, otherwise)):
        with emitter.block(head):
            emitter.replay(lines)
            if parts:
                emitter.line(f"{', '.join(results)} = {', '.join(parts)}")
    return results
