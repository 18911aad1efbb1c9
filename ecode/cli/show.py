"""Syntax and typed trees as indented text, for people."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from ecode.environment import Function, Param
from ecode.typed import Variable

_HIDDEN = ("at", "depth", "end")


def show_tree(tree: object) -> str:
    """One line per node: its kind, its plain attributes, and the nodes below it.

    >>> from ecode.syntax.text_to_syntax import text_to_syntax
    >>> print(show_tree(text_to_syntax("{ return a + 1; }").body))
    Block
      items
        Return
          value
            Binary op='+'
              left
                Name name='a'
              right
                NumberLiteral value=1 suffix='' decimal=True
    """
    return "\n".join(_lines(tree, 0))


def _lines(node: Any, depth: int) -> list[str]:
    if not _is_node(node):
        return ["  " * depth + _plain(node)]
    plain, inner = [], []
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name in _HIDDEN or value is None or value == ():
            continue
        if _is_node(value) or (isinstance(value, tuple) and any(map(_is_inside, value))):
            inner.append((field.name, value))
        else:
            plain.append(f"{field.name}={_plain(value)}")
    lines = ["  " * depth + " ".join([type(node).__name__, *plain])]
    for name, value in inner:
        lines.append("  " * (depth + 1) + name)
        for part in value if isinstance(value, tuple) else (value,):
            lines += _lines(part, depth + 2)
    return lines


def _is_inside(value: object) -> bool:
    return _is_node(value) or (isinstance(value, tuple) and any(map(_is_inside, value)))


def _is_node(value: object) -> bool:
    """Whether a value is part of the tree; types and variables are shown by name."""
    module = type(value).__module__
    is_tree = module.startswith(("ecode.syntax.tree", "ecode.typed")) and type(value).__name__ != "Opaque"
    return is_dataclass(value) and is_tree and not isinstance(value, Variable)


def _plain(value: object) -> str:
    match value:
        case Variable() | Param() | Function():
            return value.name
        case str() | bytes() | int() | float() | tuple():
            return repr(value)
    return str(value)
