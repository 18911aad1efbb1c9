"""The state of typing a program: scopes, structures, and the mistakes found so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from ecode.environment import Function, Param
from ecode.errors import Category, CompileError, Diagnostic, diagnostic
from ecode.limits import Limits
from ecode.suggest import did_you_mean
from ecode.typed import Constant, ValueType, Variable
from ecode.types import Record, Ref, Struct

_OTHERWISE = {
    "true": "a condition is a number: write 1",
    "false": "a condition is a number: write 0",
    **dict.fromkeys(("none", "null"), "present(input.x) says whether a field has a value"),
    "not": "E-code writes ! for 'not'",
}
"""Names of other languages, in lower case -> what E-code has."""


class Mistake(Exception):  # noqa: N818  (private: it is reported, then swallowed)
    """The rest of this statement cannot be typed; its mistake has been reported."""


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A name whose declaration is wrong: its uses are not reported again."""


Meaning: TypeAlias = Variable | Param | Constant | Function | Poisoned


@dataclass(slots=True)
class NameScope:
    names: dict[str, Meaning] = field(default_factory=dict)
    types: dict[str, ValueType] = field(default_factory=dict)  # typedef names, and tags as "struct tag"


class Context:
    """The state of typing one program.

    Attributes:
        structs: all structures, by their name in the typed tree.
        hints: what to do for names that an include or a grant would provide.
    """

    def __init__(self, source: str, returns: ValueType | None, limits: Limits) -> None:
        self.source, self.returns, self.limits = source, returns, limits
        self.structs: dict[str, Struct] = {}
        self.param_types: dict[str, ValueType] = {}
        self.variables: list[Variable] = []
        self.functions: dict[str, Function] = {}
        self.mistakes: list[Diagnostic] = []
        self.hints: dict[str, str] = {}
        self.scopes: list[NameScope] = [NameScope()]
        self.loops = 0
        self.local_bytes = 0

    def report(self, at: int, category: Category, message: str, hint: str = "") -> None:
        found = diagnostic(self.source, at, category, message, hint)
        if found not in self.mistakes:
            self.mistakes.append(found)
        if len(self.mistakes) >= self.limits.mistakes:
            raise CompileError(self.mistakes)

    def wrong_type(self, at: int, message: str, hint: str = "") -> Mistake:
        """Reports a type mistake, and returns the exception to raise."""
        self.report(at, Category.TYPE, message, hint)
        return Mistake(message)

    def wrong_name(self, at: int, message: str, hint: str = "") -> Mistake:
        self.report(at, Category.NAME, message, hint)
        return Mistake(message)

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append(NameScope())
        try:
            yield
        finally:
            self.scopes.pop()

    def declare(self, name: str, meaning: Meaning, at: int) -> None:
        names = self.scopes[-1].names
        if name in names and not isinstance(names[name], Poisoned) and len(self.scopes) > 1:
            self.report(at, Category.NAME, f"{name!r} is declared twice in this block")
        names[name] = meaning

    def find(self, name: str, at: int) -> Meaning:
        """The meaning of a name; an unknown one is reported once."""
        for scope in reversed(self.scopes):
            if name in scope.names:
                meaning = scope.names[name]
                if isinstance(meaning, Poisoned):
                    raise Mistake(name)
                return meaning
        known = [n for scope in self.scopes for n in scope.names]
        hint = (
            self.hints.get(name) or _OTHERWISE.get(name.lower()) or self._field_named(name) or did_you_mean(name, known)
        )
        mistake = self.wrong_name(at, f"unknown name {name!r}", hint)
        self.scopes[-1].names[name] = Poisoned()
        raise mistake

    def _field_named(self, name: str) -> str:
        """A hint for a field whose record the program omits; empty if no name is close."""
        fields = {
            f.name: f"{param}.{f.name}"
            for param, type_ in reversed(self.param_types.items())
            if isinstance(type_, Record | Ref)
            for f in self.structs[type_.name].fields
        }
        return f"did you mean {fields[name]!r}?" if name in fields else did_you_mean(name, fields, fields)

    def find_type(self, name: str) -> ValueType | None:
        return next((scope.types[name] for scope in reversed(self.scopes) if name in scope.types), None)

    def new_struct(self, name: str) -> str:
        """An unused name for a structure."""
        unique, count = name, 1
        while unique in self.structs:
            count += 1
            unique = f"{name}#{count}"
        return unique
