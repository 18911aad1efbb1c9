"""Syntax tree to typed tree: resolves names, types every expression, makes every conversion a node.

context.py       scopes, declared types, and the mistakes found so far
record_types.py  the structures of parameters
specifiers.py    declaration specifiers and type names to types
conversions.py   the implicit conversions
operators.py     operators on typed operands
calls.py         function calls
expressions.py   expressions and places
copying.py       assignments of records
constants.py     constant expressions
initialisers.py  initial values, lists and designators
statements.py    statements and declarations; the entry
"""

from ecode.syntax_to_typed.statements import syntax_to_typed

__all__ = ["syntax_to_typed"]
