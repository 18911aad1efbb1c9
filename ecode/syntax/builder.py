"""Builds syntax nodes as lark reduces rules: one method for each rule of `ecode.lark`, given all its tokens and
nodes."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from lark import Token, Transformer, v_args

from ecode.syntax import tree as syntax

_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_ESCAPED = {"n": 10, "t": 9, "r": 13, "b": 8, "f": 12, "v": 11, "a": 7}
_N = TypeVar("_N", bound=syntax.Node)


class Refused(Exception):  # noqa: N818  (private: it becomes a diagnostic)
    """A rule matches, but its text has no meaning."""

    def __init__(self, at: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.at, self.hint = at, hint


def _nodes(children: tuple[Any, ...], kind: type[_N]) -> tuple[_N, ...]:
    return tuple(child for child in children if isinstance(child, kind))


def _start(child: Any) -> int:
    return int(child.start_pos or 0) if isinstance(child, Token) else int(child.at)


def _node_in(children: tuple[Any, ...]) -> Any:
    """The one node among tokens; None if there are only tokens."""
    return next((child for child in children if isinstance(child, syntax.Node)), None)


@v_args(inline=True)
class Builder(Transformer[Token, syntax.Block]):
    """The callbacks of one parser; `nesting` is the greatest height of a tree."""

    def __init__(self, nesting: int) -> None:
        super().__init__()
        self.nesting = nesting

    def _depth(self, at: int, *children: Any) -> int:
        depth = 1 + max((c.depth for c in children if isinstance(c, syntax.Node)), default=0)
        if depth > self.nesting:
            raise Refused(at, f"nested more than {self.nesting} levels deep", "split it into several statements")
        return depth

    def start(self, block: syntax.Block) -> syntax.Block:
        return block

    def block(self, opening: Token, *items: Any) -> syntax.Block:
        *inner, closing = items
        at = _start(opening)
        return syntax.Block(at, self._depth(at, *inner), tuple(inner), _start(closing))

    # Declarations

    def declaration(self, specifiers: syntax.Specifiers, declarators: Any, _end: Token) -> syntax.Declaration:
        declared = declarators or ()
        return syntax.Declaration(
            specifiers.at, self._depth(specifiers.at, specifiers, *declared), specifiers, declared
        )

    def init_declarators(self, *children: Any) -> tuple[syntax.InitDeclarator, ...]:
        return _nodes(children, syntax.InitDeclarator)

    def init_declarator(self, declarator: syntax.Declarator, *value: Any) -> syntax.InitDeclarator:
        given = _node_in(value)
        return syntax.InitDeclarator(declarator.at, self._depth(declarator.at, declarator, given), declarator, given)

    def specifiers(self, *parts: Any) -> syntax.Specifiers:
        at = _start(parts[0])
        words = tuple(syntax.Word(_start(p), 1, str(p)) if isinstance(p, Token) else p for p in parts)
        return syntax.Specifiers(at, self._depth(at, *words), words)

    def struct_definition(self, keyword: Token, tag: Token | None, *rest: Any) -> syntax.StructSpecifier:
        fields = _nodes(rest, syntax.FieldDeclaration)
        name = None if tag is None else str(tag)
        return syntax.StructSpecifier(_start(keyword), self._depth(_start(keyword), *fields), name, fields)

    def struct_reference(self, keyword: Token, tag: Token) -> syntax.StructSpecifier:
        return syntax.StructSpecifier(_start(keyword), 1, str(tag), None)

    def field_declaration(self, specifiers: syntax.Specifiers, *rest: Any) -> syntax.FieldDeclaration:
        declarators = _nodes(rest, syntax.Declarator)
        depth = self._depth(specifiers.at, specifiers, *declarators)
        return syntax.FieldDeclaration(specifiers.at, depth, specifiers, declarators)

    def enum_definition(self, keyword: Token, tag: Token | None, *rest: Any) -> syntax.EnumSpecifier:
        values = _nodes(rest, syntax.Enumerator)
        name = None if tag is None else str(tag)
        return syntax.EnumSpecifier(_start(keyword), self._depth(_start(keyword), *values), name, values)

    def enum_reference(self, keyword: Token, tag: Token) -> syntax.EnumSpecifier:
        return syntax.EnumSpecifier(_start(keyword), 1, str(tag), None)

    def enumerator(self, name: Token, *value: Any) -> syntax.Enumerator:
        given = _node_in(value)
        return syntax.Enumerator(_start(name), self._depth(_start(name), given), str(name), given)

    def declarator(self, *parts: Any) -> syntax.Declarator:
        pointers = sum(part == "*" for part in parts if isinstance(part, str))
        extents = tuple(part[1] for part in parts if isinstance(part, tuple) and part[0] == "extent")
        core = next(p for p in parts if p is not None and p != "*" and not isinstance(p, tuple) and p not in ("(", ")"))
        if isinstance(core, syntax.Declarator):
            depth = self._depth(core.at, core, *extents)
            all_extents = core.extents + extents
            return syntax.Declarator(core.at, depth, core.name, core.pointers + pointers, all_extents, core.prototype)
        return syntax.Declarator(_start(core), self._depth(_start(core), *extents), str(core), pointers, extents, False)

    def prototype(self, name: Token, *_parameters: Any) -> syntax.Declarator:
        return syntax.Declarator(_start(name), 1, str(name), 0, (), True)

    def parameter(self, *_parts: Any) -> None:
        return None

    def abstract_pointer(self, *_stars: Any) -> None:
        return None

    def pointer(self, *_parts: Any) -> str:
        return "*"

    def extent(self, opening: Token, size: Any, _closing: Token) -> tuple[str, Any]:
        return ("extent", size)

    def init_list(self, opening: Token, *rest: Any) -> syntax.InitList:
        items = _nodes(rest, syntax.InitItem)
        return syntax.InitList(_start(opening), self._depth(_start(opening), *items), items)

    def init_item(self, *parts: Any) -> syntax.InitItem:
        value = parts[-1]
        designators = parts[0] if isinstance(parts[0], tuple) else ()
        return syntax.InitItem(value.at, self._depth(value.at, value, *designators), designators, value)

    def designators(self, *parts: Any) -> tuple[Any, ...]:
        return parts

    def index_designator(self, _opening: Token, index: Any, _closing: Token) -> Any:
        return index

    def member_designator(self, _dot: Token, name: Token) -> str:
        return str(name)

    # Statements

    def label(self, name: Token, _colon: Token, statement: Any) -> syntax.Label:
        return syntax.Label(_start(name), self._depth(_start(name), statement), str(name), statement)

    def expression_statement(self, *parts: Any) -> syntax.ExpressionStatement:
        expression = _node_in(parts)
        at = _start(expression or parts[-1])
        return syntax.ExpressionStatement(at, self._depth(at, expression), expression)

    def if_(self, keyword: Token, _o: Token, condition: Any, _c: Token, then: Any, *rest: Any) -> syntax.If:
        otherwise = _node_in(rest)
        at = _start(keyword)
        return syntax.If(at, self._depth(at, condition, then, otherwise), condition, then, otherwise)

    def for_(self, keyword: Token, _o: Token, *rest: Any) -> syntax.Loop:
        start, _s1, condition, _s2, step, _c, body = rest
        at = _start(keyword)
        return syntax.Loop(at, self._depth(at, start, condition, step, body), start, condition, step, body, True)

    def while_(self, keyword: Token, _o: Token, condition: Any, _c: Token, body: Any) -> syntax.Loop:
        at = _start(keyword)
        return syntax.Loop(at, self._depth(at, condition, body), None, condition, None, body, True)

    def do_(self, keyword: Token, body: Any, _w: Token, _o: Token, condition: Any, *_rest: Token) -> syntax.Loop:
        at = _start(keyword)
        return syntax.Loop(at, self._depth(at, condition, body), None, condition, None, body, False)

    def break_(self, keyword: Token, _end: Token) -> syntax.Break:
        return syntax.Break(_start(keyword), 1)

    def continue_(self, keyword: Token, _end: Token) -> syntax.Continue:
        return syntax.Continue(_start(keyword), 1)

    def goto(self, keyword: Token, label: Token, _end: Token) -> syntax.Goto:
        return syntax.Goto(_start(keyword), 1, str(label))

    def return_(self, keyword: Token, *rest: Any) -> syntax.Return:
        value = _node_in(rest)
        return syntax.Return(_start(keyword), self._depth(_start(keyword), value), value)

    # Expressions

    def comma(self, *parts: Any) -> syntax.Comma:
        values = tuple(p for p in parts if not isinstance(p, Token))
        return syntax.Comma(values[0].at, self._depth(values[0].at, *values), values)

    def assign(self, target: Any, op: Token, value: Any) -> syntax.Assign:
        return syntax.Assign(_start(op), self._depth(_start(op), target, value), str(op)[:-1], target, value)

    def conditional(self, condition: Any, mark: Token, then: Any, _colon: Token, otherwise: Any) -> syntax.Conditional:
        at = _start(mark)
        return syntax.Conditional(at, self._depth(at, condition, then, otherwise), condition, then, otherwise)

    def binary(self, left: Any, op: Token, right: Any) -> syntax.Binary:
        return syntax.Binary(_start(op), self._depth(_start(op), left, right), str(op), left, right)

    def unary(self, op: Token, operand: Any) -> syntax.Unary:
        return syntax.Unary(_start(op), self._depth(_start(op), operand), str(op), operand)

    def prefix(self, op: Token, operand: Any) -> syntax.Increment:
        return syntax.Increment(_start(op), self._depth(_start(op), operand), str(op)[0], operand, True)

    def postfix(self, operand: Any, op: Token) -> syntax.Increment:
        return syntax.Increment(_start(op), self._depth(_start(op), operand), str(op)[0], operand, False)

    def cast(self, opening: Token, type_: syntax.TypeName, _closing: Token, operand: Any) -> syntax.Cast:
        return syntax.Cast(_start(opening), self._depth(_start(opening), type_, operand), type_, operand)

    def sizeof_value(self, keyword: Token, operand: Any) -> syntax.SizeOf:
        return syntax.SizeOf(_start(keyword), self._depth(_start(keyword), operand), operand)

    def sizeof_type(self, keyword: Token, _o: Token, type_: syntax.TypeName, _c: Token) -> syntax.SizeOf:
        return syntax.SizeOf(_start(keyword), self._depth(_start(keyword), type_), type_)

    def index(self, array: Any, _opening: Token, index: Any, _closing: Token) -> syntax.Index:
        return syntax.Index(array.at, self._depth(array.at, array, index), array, index)

    def member(self, record: Any, _dot: Token, name: Token) -> syntax.Member:
        return syntax.Member(_start(name), self._depth(_start(name), record), record, str(name))

    def call(self, function: Any, _opening: Token, arguments: Any, _closing: Token) -> syntax.Call:
        given = arguments or ()
        return syntax.Call(function.at, self._depth(function.at, function, *given), function, given)

    def arguments(self, *parts: Any) -> tuple[Any, ...]:
        return tuple(p for p in parts if not isinstance(p, Token))

    def type(self, specifiers: syntax.Specifiers, *pointers: Any) -> syntax.TypeName:
        return syntax.TypeName(specifiers.at, self._depth(specifiers.at, specifiers), specifiers, len(pointers))

    def parenthesised(self, _opening: Token, expression: Any, _closing: Token) -> Any:
        return expression

    def name(self, token: Token) -> syntax.Name:
        return syntax.Name(_start(token), 1, str(token))

    def integer(self, token: Token) -> syntax.NumberLiteral:
        digits = str(token).rstrip("uUlL")
        suffix = "".join(sorted(str(token)[len(digits) :].lower()))
        if suffix not in ("", "l", "ll", "u", "lu", "llu"):
            raise Refused(_start(token), f"{str(token)!r} has an unknown suffix")
        if len(digits) > 200:
            raise Refused(_start(token), "the number does not fit 64 bits")
        prefixed = len(digits) > 1 and digits[0] == "0"
        if prefixed and digits.isdigit() and not set(digits) <= set("01234567"):
            raise Refused(_start(token), f"{digits!r} is not octal", "a leading 0 makes a number octal")
        base = 10 if not prefixed else 8 if digits.isdigit() else 0
        value = int(digits, base)
        if value >= 1 << 64:
            raise Refused(_start(token), "the number does not fit 64 bits")
        return syntax.NumberLiteral(_start(token), 1, value, suffix, not prefixed)

    def floating(self, token: Token) -> syntax.NumberLiteral:
        text = str(token)
        if text[:2].lower() == "0x":
            digits = text.rstrip("fFlL") if text[-1] in "fFlL" else text
            try:
                value = float.fromhex(digits)
            except OverflowError:
                raise Refused(_start(token), "the number is too large for a double") from None
        else:
            digits = text.rstrip("fFlL")
            value = float(digits)
        return syntax.NumberLiteral(_start(token), 1, value, text[len(digits) :].lower(), True)

    def character(self, token: Token) -> syntax.CharacterLiteral:
        quoted = str(token)
        text = unescape(quoted[quoted.index("'") + 1 : -1])
        if len(text) != 1:
            raise Refused(
                _start(token),
                f"{quoted} is not one character",
                "strings take double quotes, and a field follows a dot: input.x",
            )
        return syntax.CharacterLiteral(_start(token), 1, text[0] - 256 if text[0] > 127 else text[0])

    def text(self, token: Token) -> syntax.StringLiteral:
        value = unescape(str(token)[1:-1])
        return syntax.StringLiteral(_start(token), 1, value.split(b"\0")[0])


def unescape(text: str) -> bytes:
    r"""The bytes that the inside of a literal means; a character beyond ASCII means its UTF-8 bytes.

    >>> unescape(r"a\x41\101\n\q")
    b'aAA\nq'
    """
    out, position = bytearray(), 0
    for escape in _ESCAPE.finditer(text):
        out += text[position : escape.start()].encode("utf-8", "surrogateescape")
        octal, hexadecimal, other = escape.groups()
        if octal:
            out.append(int(octal, 8) & 255)
        elif hexadecimal:
            out.append(int(hexadecimal, 16))
        elif other in _ESCAPED:
            out.append(_ESCAPED[other])
        else:
            out += other.encode("utf-8", "surrogateescape")
        position = escape.end()
    return bytes(out + text[position:].encode("utf-8", "surrogateescape"))
