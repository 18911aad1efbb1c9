"""Source text to syntax tree: feeds the tokens of `lexer` to lark's LALR parser, builds nodes as rules are reduced, and
continues after a mistake at the next statement, so that all mistakes are reported together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, UnexpectedToken
from lark.lexer import Lexer as LarkLexer

from ecode.errors import Category, CompileError, Diagnostic, diagnostic
from ecode.limits import Limits
from ecode.suggest import did_you_mean
from ecode.syntax import tree as syntax
from ecode.syntax.builder import Builder, Refused
from ecode.syntax.lexer import KEYWORDS, Lexeme, Lexer, Unreadable

_BAD = "bad"
_SWITCH = re.compile(r"\bswitch\s*\([^{};]*\)\s*\Z")


_OTHERWISE = {
    "and": "E-code writes && for 'and'",
    "or": "E-code writes || for 'or'",
    "not": "E-code writes ! for 'not'",
    "is": "E-code compares with == and !=; present(input.x) says whether there is a value",
    "in": "E-code has no 'in'; compare with each value: a == 1 || a == 2",
    "between": "E-code has no 'between'; compare with both ends: a >= 1 && a <= 2",
    "like": "E-code has no 'like'; strcmp and strstr compare strings: #include <string.h>",
}
"""Words of SQL and Python that people write in conditions, in lower case -> what E-code has."""

_TYPE_WORDS = ("void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "string", "TYPE_NAME")


class _Fed(LarkLexer):
    """Replaces lark's own lexer: tokens are fed by hand."""

    def __init__(self, _conf: object) -> None:
        pass

    def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Token]:
        raise NotImplementedError


@cache
def _grammar(nesting: int) -> tuple[Lark, dict[str, str]]:
    """The parser, and the names that lark gives to quoted operators and keywords."""
    parser = Lark(
        files("ecode.syntax").joinpath("ecode.lark").read_text(),
        parser="lalr",
        lexer=_Fed,
        transformer=Builder(nesting),
        keep_all_tokens=True,
        maybe_placeholders=True,
    )
    return parser, {t.pattern.value: t.name for t in parser.terminals if t.pattern is not None}


def text_to_syntax(source: str, type_names: Iterable[str] = (), limits: Limits | None = None) -> syntax.Tree:
    """Parses a program.

    Args:
        source: the program text.
        type_names: record types of the host, whose names cannot be variables.
        limits: bounds on source, nesting and the number of mistakes.

    Raises:
        CompileError: with every syntax mistake.
    """
    limits = limits or Limits()
    if len(source) > limits.source:
        message = f"the program has {len(source):,} characters, more than {limits.source:,}"
        hint = "split it into several transforms, or allow more with Limits(source=...)"
        raise CompileError([diagnostic(source[:200], 0, Category.PARSE, message, hint)])
    return _Parse(source, Lexer(source, type_names, 2 * limits.nesting), limits).run()


def _follow(kind: str, pending: list[str], fed: bool) -> bool:
    """Keeps the open brackets of a statement. Returns True for a '}' that closes the block around the statement.

    A brace that the parser took begins or ends a block of statements, and with it a new statement.
    """
    if kind in ("(", "[") or (kind == "{" and not fed):
        pending.append(kind)
    elif kind in (")", "]"):
        if pending and pending[-1] != "{":
            pending.pop()
    elif kind == "}" and not fed:
        is_inner = "{" in pending
        while pending and pending.pop() != "{":
            pass
        if "{" not in pending:
            pending.clear()
        return not is_inner
    elif kind in ("{", "}"):
        pending.clear()
    return False


def _copy(state: Any) -> Any:
    """A copy of the parser state to return to. It shares the nodes."""
    return state.copy(deepcopy_values=False)


class _Parse:
    def __init__(self, source: str, lexer: Lexer, limits: Limits) -> None:
        self.source, self.lexer, self.limits = source, lexer, limits
        self.mistakes: list[Diagnostic] = []
        parser, self.names = _grammar(limits.nesting)
        self.state: Any = parser.parse_interactive()
        self.checkpoint: Any = self.state
        self.last = Lexeme("", "", 0)

    def run(self) -> syntax.Tree:
        braces = 0
        pending: list[str] = []  # brackets that the current statement has opened and not closed
        skipping = False  # skips the rest of a statement after a mistake, with its brackets and blocks
        for lexeme in self._lexemes():
            braces += (lexeme.kind == "{") - (lexeme.kind == "}")
            if braces < 0 or (braces == 0 and lexeme.kind != "}"):
                self._outside(lexeme)
                break
            fed = not skipping and self._feed(lexeme)
            skipping = not fed
            encloses = _follow(lexeme.kind, pending, fed)
            if lexeme.kind in (";", "{", "}") and not pending:
                if skipping:
                    self.state = _copy(self.checkpoint)
                    skipping = encloses and not self._feed(lexeme)
                if not skipping:
                    self.checkpoint = _copy(self.state)
            self.last = lexeme
            if len(self.mistakes) >= self.limits.mistakes:
                break
        else:
            block = None if skipping else self._finish()
            if block is not None and not self.mistakes:
                return syntax.Tree(self.source, self.lexer.includes, block)
        raise CompileError(self.mistakes)

    def _lexemes(self) -> Iterator[Lexeme]:
        """The tokens. Other text is reported, and becomes a token of a kind that no rule takes."""
        tokens = iter(self.lexer)
        while True:
            try:
                yield from tokens
                return
            except Unreadable as bad:
                self._report(bad.at, bad.message, bad.hint)
                if bad.resume is None:
                    return
                yield Lexeme(_BAD, "", bad.at)
                tokens = self.lexer.rest()

    def _outside(self, lexeme: Lexeme) -> None:
        if self.last.kind:
            self._report(lexeme.at, "unexpected text after the closing brace", "")
        else:
            if lexeme.kind == _BAD:
                if self.mistakes[-1].hint:
                    return
                self.mistakes.pop()  # which character it is does not matter
            hint = "put the whole program into one pair of braces"
            if self.source.lstrip().startswith("@"):
                hint = "@FILE is for command lines; give the text of the program"
            elif not any(sign in self.source for sign in "{;"):  # as Spark's `filter` takes it
                hint = f"a condition is the program {{ return {self.source.strip()[:60]}; }}"
            self._report(lexeme.at, "a program begins with '{'", hint)

    def _token(self, lexeme: Lexeme) -> Token:
        return Token(self.names.get(lexeme.kind, lexeme.kind), lexeme.text, start_pos=lexeme.at)

    def _feed(self, lexeme: Lexeme) -> bool:
        if lexeme.kind == _BAD:
            return False
        try:
            self.state.feed_token(self._token(lexeme))
        except UnexpectedToken:
            self._unexpected(lexeme)
            return False
        except Refused as refused:
            self._report(refused.at, str(refused), refused.hint)
            return False
        return True

    def _finish(self) -> syntax.Block | None:
        try:
            block: syntax.Block = self.state.feed_eof(Token("$END", "", start_pos=len(self.source)))
        except UnexpectedToken:
            if self.last.kind:
                self._report(len(self.source), "the program ends too early", "a '}' is missing")
            else:
                self._report(0, "the program is empty", "a program is one block: { ... }")
            return None
        return block

    def _unexpected(self, lexeme: Lexeme) -> None:
        wanted = {name for name in self.state.accepts() if name != "$END"}
        hint = ""
        if lexeme.kind in _TYPE_WORDS and self.last.kind == "(":
            hint = "declare the variable before the loop"
        elif _SWITCH.search(self.source, max(0, lexeme.at - 200), lexeme.at):
            hint = "E-code has no switch; use if and else if"
        elif said := [word for word in (lexeme.text.lower(), self.last.text.lower()) if word in _OTHERWISE]:
            hint = _OTHERWISE[said[0]]
        elif (self.last.kind, lexeme.kind) == ("<", ">"):
            hint = "E-code writes != for <>"
        elif self.last.kind == "NAME" and lexeme.kind in ("NAME", "INTEGER", "TEXT", "{"):
            hint = did_you_mean(self.last.text, KEYWORDS)
        elif "TYPE_NAME" in (lexeme.kind, self.last.kind):
            hint = f"{(lexeme if lexeme.kind == 'TYPE_NAME' else self.last).text!r} is the name of a type"
        elif lexeme.kind == "TEXT" and self.last.kind == "TEXT":
            hint = "write one string; adjacent strings are not joined"
        elif self.names[";"] in wanted and self.last.kind not in (";", "{", "}"):
            hint = f"is a ';' missing after {self.last.text!r}?"
        elif self.names[")"] in wanted:
            hint = "is a ')' missing?"
        self._report(lexeme.at, f"unexpected {lexeme.text!r}", hint)

    def _report(self, at: int, message: str, hint: str) -> None:
        self.mistakes.append(diagnostic(self.source, at, Category.PARSE, message, hint))
