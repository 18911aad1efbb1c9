"""Syntax tree -> the fields of a parameter that a program names, whether the parameter has them or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from ecode.syntax import tree as syntax
from ecode.syntax.text_to_syntax import text_to_syntax


def fields_named(source: str, parameter: str) -> tuple[str, ...]:
    """The fields of a parameter that a program names, in the order of the text. Raises CompileError.

    >>> fields_named('{ return input.t > 2 && present(input["a b"]); }', "input")
    ('t', 'a b')
    """
    return tuple(dict.fromkeys(_named(text_to_syntax(source), parameter)))


def _named(node: object, parameter: str) -> Iterator[str]:
    if isinstance(node, syntax.Member) and _is_name(node.record, parameter):
        yield node.name
    elif isinstance(node, syntax.Index) and _is_name(node.array, parameter):
        if isinstance(node.index, syntax.StringLiteral):
            yield node.index.value.decode("utf-8", "surrogateescape")
    elif isinstance(node, tuple):
        for one in node:
            yield from _named(one, parameter)
    elif is_dataclass(node):
        for field in fields(node):
            yield from _named(getattr(node, field.name), parameter)


def _is_name(node: syntax.Expression, name: str) -> bool:
    return isinstance(node, syntax.Name) and node.name == name
