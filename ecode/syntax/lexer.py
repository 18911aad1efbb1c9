"""Text to tokens. More than a list of patterns: a visible type name is a token of its own, so the lexer follows blocks
and typedefs; and every bad character is a mistake with a location, not an exception."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_KEYWORDS = """
    if else for while do break continue goto return static extern typedef const sizeof struct enum union
    void char short int long signed unsigned float double string
"""
KEYWORDS = frozenset(_KEYWORDS.split())
INCLUDE = re.compile(r'#[ \t]*include[ \t]*(?:<([^<>\n]*)>|"([^"\n]*)")[ \t\r]*(?=\n|$|\{)')

_LOOK_ALIKES = {
    "\ufeff": "it is a byte order mark: save the file as UTF-8 without one",
    "\u00a0\u2002\u2003\u2009\u200b\u202f\u3000": "it looks like a space; type a space",
    "\u201c\u201d\u201e\u00ab\u00bb": 'a string takes straight quotes, "',
    "\u2018\u2019\u201a": "a character takes straight quotes, '",
    "\u2013\u2014\u2212": "it looks like a minus; type -",
}
"""What editors and word processors put in place of what was typed."""

_TOKEN = re.compile(
    r"""
      (?P<blank>   [ \t\n\r\f\v]+ | //[^\n]* | /\*.*?\*/ )
    | (?P<unclosed_comment> /\* )
    | (?P<FLOATING>  0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFlL]?
                 | (?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFlL]? | [0-9]+[eE][+-]?[0-9]+[fFlL]? )
    | (?P<INTEGER> (?:0[xX][0-9a-fA-F]+ | 0[bB][01]+ | [0-9]+)[uUlL]* )
    | (?P<CHARACTER>    [uUL]?'(?:[^'\\\n]|\\[^\n])+' )
    | (?P<word>    [A-Za-z_][A-Za-z0-9_]* )
    | (?P<TEXT>  "(?:[^"\\\n]|\\[^\n])*" )
    | (?P<operator> \.\.\. | <<= | >>= | -> | \+\+ | -- | << | >> | <= | >= | == | != | && | \|\| | [-+*/%&^|]=
                 | [-+*/%&^|~!<>=?:;,.(){}\[\]] )
    """,
    re.VERBOSE | re.DOTALL,
)


class Unreadable(Exception):  # noqa: N818  (private: it becomes a diagnostic)
    """Text at which no token begins. `resume` is where reading can continue; None if it cannot."""

    def __init__(self, at: int, message: str, hint: str = "", resume: int | None = None) -> None:
        super().__init__(message)
        self.at, self.message, self.hint, self.resume = at, message, hint, resume


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A token: `kind` is the operator or keyword itself, or one of the declared terminals of the grammar."""

    kind: str
    text: str
    at: int


class Lexer:
    """An iterator over the tokens of a program, from its opening brace on.

    Args:
        source: the program text.
        type_names: the record types that the host names.
        nesting: the limit of open brackets.

    Raises:
        Unreadable: from the iteration; it may be continued if `resume` is not None.
    """

    def __init__(self, source: str, type_names: Iterable[str], nesting: int) -> None:
        self.source, self.nesting = source, nesting
        self.position = 0
        self.includes: tuple[str, ...] = ()
        self._brackets: list[str] = []
        self._scopes: list[set[str]] = [set(type_names)]
        self._previous = ""
        # The name that a typedef will declare, and the depth of brackets around it.
        self._typedef_depth: int | None = None
        self._typedef_name: str | None = None

    def __iter__(self) -> Iterator[Lexeme]:
        self._read_head()
        while self.position < len(self.source):
            lexeme = self._next()
            if lexeme is not None:
                yield lexeme
                self._previous = lexeme.kind

    def rest(self) -> Iterator[Lexeme]:
        """The remaining tokens, after an Unreadable."""
        while self.position < len(self.source):
            lexeme = self._next()
            if lexeme is not None:
                yield lexeme
                self._previous = lexeme.kind

    def _read_head(self) -> None:
        """Skips blanks and comments, and collects `#include` lines, up to the opening brace."""
        includes = []
        while self.position < len(self.source):
            at = self.position
            if include := INCLUDE.match(self.source, at):
                includes.append(include[1] or include[2] or "")
                self.position = include.end()
            elif self.source[at] == "#":
                raise Unreadable(at, "only #include lines may precede the program", "E-code has no other directive")
            elif (blank := _TOKEN.match(self.source, at)) and blank.lastgroup == "blank":
                self.position = blank.end()
            else:
                break
        self.includes = tuple(includes)

    def _next(self) -> Lexeme | None:
        at = self.position
        match = _TOKEN.match(self.source, at)
        if match is None:
            self.position += 1
            raise self._unknown(at)
        self.position = match.end()
        text = match[0]
        match match.lastgroup:
            case "blank":
                return None
            case "unclosed_comment":
                self.position = len(self.source)
                raise Unreadable(at, "the comment is not closed", "add '*/'")
            case "word":
                return Lexeme(self._word_kind(text, at), text, at)
            case "operator":
                self._follow(text, at)
                return Lexeme(text, text, at)
            case "INTEGER" | "FLOATING" as kind:
                if glued := re.compile(r"[A-Za-z0-9_.]+").match(self.source, self.position):
                    self.position = glued.end()
                    raise Unreadable(at, f"{text + glued[0]!r} is not a number", resume=self.position)
                return Lexeme(kind, text, at)
            case kind:
                return Lexeme(str(kind), text, at)

    def _unknown(self, at: int) -> Unreadable:
        character = self.source[at]
        if character in "\"'":
            end = self.source.find("\n", at)
            self.position = len(self.source) if end < 0 else end
            what = "string" if character == '"' else "character"
            return Unreadable(at, f"the {what} is not closed on its line", f"add {character}", resume=self.position)
        if character == "#":
            return Unreadable(
                at, "a directive cannot be inside the program", "move #include before the '{'", self.position
            )
        hint = next((hint for look_alikes, hint in _LOOK_ALIKES.items() if character in look_alikes), "")
        return Unreadable(at, f"unexpected character {character!a}", hint, resume=self.position)

    def _word_kind(self, word: str, at: int) -> str:
        if self._previous in (".", "->"):
            return "MEMBER"
        if self._previous in ("struct", "enum", "goto") and word not in KEYWORDS:
            return "NAME"
        if word == "union":
            raise Unreadable(at, "E-code has no unions", "use a struct", resume=self.position)
        if word in KEYWORDS:
            if word == "typedef":
                self._typedef_depth = len(self._brackets)
            return word
        if any(word in scope for scope in self._scopes):
            return "TYPE_NAME"
        if self._typedef_depth == len(self._brackets):
            self._typedef_name = word
        return "NAME"

    def _follow(self, operator: str, at: int) -> None:
        """Keeps blocks and typedefs in step with the parser."""
        if self._typedef_depth == len(self._brackets) and operator in (",", ";"):
            if self._typedef_name is not None:
                self._scopes[-1].add(self._typedef_name)
            self._typedef_name = None
            if operator == ";":
                self._typedef_depth = None
        if operator in ("(", "[", "{"):
            if len(self._brackets) >= self.nesting:
                raise Unreadable(at, f"more than {self.nesting} brackets are open")
            self._brackets.append(operator)
            if operator == "{":
                self._scopes.append(set())
        elif operator in (")", "]", "}") and self._brackets:
            opened = self._brackets.pop()
            # A brace closes everything that is still open inside it; the parser reports that.
            while operator == "}" and opened != "{" and self._brackets:
                opened = self._brackets.pop()
            if operator == "}" and len(self._scopes) > 1:
                self._scopes.pop()
