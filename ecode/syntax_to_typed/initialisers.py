"""Initial values: lists, designators, and strings for `char` arrays, as in C."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ecode.syntax import tree as syntax
from ecode.syntax_to_typed import constants
from ecode.syntax_to_typed.context import Context
from ecode.syntax_to_typed.copying import copy_record
from ecode.syntax_to_typed.expressions import assign, field, place, resolve, value
from ecode.typed import Assign, Constant, CopyRecord, Element, Place
from ecode.types import CHAR, INT64, Array, Ref


class _Items:
    """The unused values of one braced list."""

    def __init__(self, items: tuple[syntax.InitItem, ...]) -> None:
        self.items, self.next = list(items), 0

    def peek(self) -> syntax.InitItem | None:
        return self.items[self.next] if self.next < len(self.items) else None

    def take(self) -> syntax.InitItem:
        self.next += 1
        return self.items[self.next - 1]


def initialised(context: Context, target: Place, node: syntax.Initialiser) -> tuple[Assign | CopyRecord, ...]:
    """The assignments that give a zeroed place its initial value."""
    return tuple(_one(context, target, node))


def open_extent(context: Context, node: syntax.Initialiser) -> int:
    """The extent of `T a[] = node`."""
    if isinstance(node, syntax.StringLiteral):
        return len(node.value) + 1
    if not isinstance(node, syntax.InitList):
        raise context.wrong_type(node.at, "an array takes a list in braces")
    longest = position = 0
    for item in node.items:
        if item.designators and not isinstance(item.designators[0], str):
            position = constants.integer(context, item.designators[0], "a designator")
        position += 1
        longest = max(longest, position)
    return longest


def _one(context: Context, target: Place, node: syntax.Initialiser) -> Iterator[Assign | CopyRecord]:
    if isinstance(node, syntax.InitList):
        if isinstance(target.type, Array | Ref):
            items = _Items(node.items)
            yield from _fill(context, target, items, is_braced=True)
            if left := items.peek():
                raise context.wrong_type(left.at, "too many values")
        elif len(node.items) == 1 and not node.items[0].designators:
            yield from _one(context, target, node.items[0].value)
        else:
            raise context.wrong_type(node.at, "expected one value, not a list")
    elif isinstance(target.type, Array):
        if not (isinstance(node, syntax.StringLiteral) and plain_char(target.type)):
            raise context.wrong_type(node.at, "an array takes a list in braces")
        extent = int(target.type.dims[0])
        if len(node.value) > extent:
            raise context.wrong_type(
                node.at, f"the string has {len(node.value)} characters, but the array has room for {extent}"
            )
        for i, byte in enumerate(node.value):
            yield assign(context, _element(target, i, node.at), Constant(node.at, INT64, byte), node.at)
    elif isinstance(target.type, Ref):
        yield copy_record(context, target, place(context, node), node.at)
    else:
        yield assign(context, target, value(context, node), node.at)


def plain_char(type_: Array) -> bool:
    return type_.element == CHAR and len(type_.dims) == 1


def _fill(context: Context, target: Place, items: _Items, *, is_braced: bool) -> Iterator[Assign | CopyRecord]:
    """Takes values for the parts of an array or record; without its own braces it takes as many as it needs."""
    parts = _parts(context, target)
    position = 0
    while (item := items.peek()) is not None:
        if item.designators:
            if not is_braced:
                return
            position = _position(context, target, item.designators[0], item.at)
        if position >= parts:
            return
        part = _part(context, target, position, item.at)
        yield from _part_from(context, part, items)
        position += 1


def _part_from(context: Context, part: Place, items: _Items) -> Iterator[Assign | CopyRecord]:
    item = items.peek()
    assert item is not None
    for designator in item.designators[1:]:
        part = _part(context, part, _position(context, part, designator, item.at), item.at)
    items.items[items.next] = replace(item, designators=())
    if _is_for_whole(context, item.value, part):
        items.take()
        yield from _one(context, part, item.value)
    else:
        yield from _fill(context, part, items, is_braced=False)


def _is_for_whole(context: Context, node: syntax.Initialiser, part: Place) -> bool:
    """Whether a value initialises the whole part, rather than the first of the part's own parts."""
    if isinstance(node, syntax.InitList) or not isinstance(part.type, Array | Ref):
        return True
    if isinstance(part.type, Array):
        return isinstance(node, syntax.StringLiteral) and plain_char(part.type)
    return isinstance(node, syntax.Name | syntax.Member | syntax.Index) and isinstance(resolve(context, node).type, Ref)


def _parts(context: Context, target: Place) -> int:
    if isinstance(target.type, Array):
        return int(target.type.dims[0])
    assert isinstance(target.type, Ref)
    return len(context.structs[target.type.name].fields)


def _position(context: Context, target: Place, designator: syntax.Expression | str, at: int) -> int:
    if isinstance(designator, str):
        if not isinstance(target.type, Ref):
            raise context.wrong_type(at, f"'.{designator}' designates a field, but this is not a record")
        found = field(context, target, designator, at)
        return [f.name for f in context.structs[found.struct].fields].index(found.name)
    if not isinstance(target.type, Array):
        raise context.wrong_type(at, "'[...]' designates an element, but this is not an array")
    index = constants.integer(context, designator, "a designator")
    if not 0 <= index < int(target.type.dims[0]):
        raise context.wrong_type(at, f"the element {index} is outside the array")
    return index


def _part(context: Context, target: Place, position: int, at: int) -> Place:
    if isinstance(target.type, Array):
        return _element(target, position, at)
    assert isinstance(target.type, Ref)
    return field(context, target, context.structs[target.type.name].fields[position].name, at)


def _element(target: Place, position: int, at: int) -> Element:
    assert isinstance(target.type, Array)
    dims = target.type.dims[1:]
    type_ = Array(target.type.element, dims) if dims else target.type.element
    return Element(at, type_, target, Constant(at, INT64, position))
