"""Operations on constants become their results."""

from __future__ import annotations

from dataclasses import replace

from ecode.syntax_to_typed.constants import NotConstant, fold
from ecode.typed import (
    Arithmetic,
    Choice,
    Compare,
    Constant,
    Convert,
    Invert,
    Logical,
    Negate,
    Not,
    Typed,
    TypedProgram,
    rewritten,
)
from ecode.types import Basic


def fold_constants(program: TypedProgram) -> TypedProgram:
    """The program without operations whose operands are all constant; a division by zero remains, and traps."""
    body = rewritten(program.body, _folded)
    return replace(program, body=body)


def _folded(node: Typed) -> Typed:
    if isinstance(node, Arithmetic | Choice | Compare | Convert | Invert | Logical | Negate | Not):
        try:
            value = fold(node)
        except NotConstant:
            return node
        if isinstance(node.type, Basic) and isinstance(value, int | float):
            return Constant(node.at, node.type, value)
    return node
