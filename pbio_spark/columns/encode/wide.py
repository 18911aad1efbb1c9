"""The calls that write a structure's nodes: a line for each, or, for many nodes, a loop over a list.

The compiler's time grows with the lines of a kernel. In the loop, it is that of the different shapes of nodes, and a
thousand fields compile as fast as ten; a row takes a fifth longer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pbio_spark.columns.encode.text import KernelWriter, entry

WIDE = 40
"""A structure of more nodes than this is written in a loop. A field that can be null may be two nodes."""


def write_calls(writer: KernelWriter, calls: Sequence[tuple[str, list[str]]], *, in_a_loop: bool) -> None:
    """Write the text that makes some calls, in their order, and returns as soon as one of them refuses.

    Args:
        calls: the name of each function, and the arguments in which nodes of its shape differ.
    """
    if not in_a_loop:
        for name, arguments in calls:
            _write_call(writer, name, arguments)
        return
    apart = [(name, [_base_and_number(argument) for argument in arguments]) for name, arguments in calls]
    kinds = list(dict.fromkeys((name, tuple(base for base, _ in pairs)) for name, pairs in apart))
    kind_numbers = {kind: number for number, kind in enumerate(kinds)}
    width = 1 + max(len(bases) for _, bases in kinds)
    listed = bytearray()
    for name, pairs in apart:
        said = [kind_numbers[name, tuple(base for base, _ in pairs)], *(number for _, number in pairs)]
        listed += struct.pack(f"={width}q", *said, *(0 for _ in range(width - len(said))))
    body = writer.body
    body.line(f"at = {entry('constants')} + {writer.constant(bytes(listed))}")
    with body.block(f"for _ in range({len(calls)}):"):
        body.line("kind = load_int64(at)")
        for number, (name, bases) in enumerate(kinds):
            with body.block(f"{'elif' if number else 'if'} kind == {number}:"):
                _write_call(writer, name, [f"{base}load_int64(at + {8 * i})" for i, base in enumerate(bases, 1)])
        body.line(f"at += {8 * width}")


def _write_call(writer: KernelWriter, name: str, arguments: Sequence[str]) -> None:
    writer.body.line(f"end = {name}(table, start, image, index, end{''.join(f', {one}' for one in arguments)})")
    with writer.body.block("if end < 0:"):
        writer.body.line("return end")


def _base_and_number(argument: str) -> tuple[str, int]:
    """What an argument adds its number to (see `KernelWriter.argument`), and the number.

    >>> _base_and_number("image + 8"), _base_and_number("as_int64(-3)")
    (('image + ', 8), ('', -3))
    """
    base, _, number = argument.rpartition(" + ")
    if base:
        return f"{base} + ", int(number)
    return "", int(argument.removeprefix("as_int64(").removesuffix(")"))
