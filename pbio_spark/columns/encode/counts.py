"""The text that finds the greatest extent of the arrays that a control field counts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeAlias

from pbio_spark.columns.decode.plan import Load
from pbio_spark.columns.encode.plan import Chars, Deref, Items, Node, names_control
from pbio_spark.columns.encode.text import At, KernelWriter

Columns: TypeAlias = Callable[[int], At]
"""The column of a number."""


def count_extents(writer: KernelWriter, at: Columns, node: Node, control: Load, count: str, index: str) -> None:
    """Raise the variable `count` to the greatest extent of the arrays in a node that name the control field."""
    body = writer.body
    match node:
        case Chars():
            column = at(node.column)
            with body.block(f"if {column.is_valid(index)}:"):
                first, last = writer.bounds(column, index)
                body.line(f"{count} = max({count}, {last} - {first})")
        case Deref():
            with body.block(f"if {at(node.column).is_valid(index)}:"):
                count_extents(writer, at, node.target, control, count, index)
        case Items():
            _count_items(writer, at, node, control, count, index)
        case _:
            raise TypeError(node)


def _count_items(writer: KernelWriter, at: Columns, node: Items, control: Load, count: str, index: str) -> None:
    body, deeper = writer.body, names_control(node.item, control)
    with ExitStack() as stack:
        for d, number in enumerate(node.columns):
            column = at(number)
            stack.enter_context(body.block(f"if {column.is_valid(index)}:"))
            first, last = writer.bounds(column, index)
            if node.extents[d] == control:
                body.line(f"{count} = max({count}, {last} - {first})")
            if not deeper and control not in node.extents[d + 1 :]:
                return
            index = writer.variable("element")
            stack.enter_context(body.block(f"for {index} in range({first}, {last}):"))
        count_extents(writer, at, node.item, control, count, index)


def column_of(node: Node) -> int:
    """The column of an array."""
    match node:
        case Chars(column=column) | Deref(column=column):
            return column
        case Items(columns=columns):
            return columns[0]
    raise TypeError(node)
