"""Declaration specifiers and type names to types."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ecode.errors import Category
from ecode.semantics.layout import MEMORY_LAYOUT
from ecode.syntax import tree as syntax
from ecode.syntax_to_typed import constants
from ecode.syntax_to_typed.context import Context, Mistake
from ecode.typed import Constant, Opaque, ValueType
from ecode.types import (
    CHAR,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Array,
    Basic,
    Field,
    Pointer,
    Ref,
    Struct,
)

_STORAGE = ("static", "extern", "typedef", "const")
_LONG = ("long", "long int", "long long", "long long int")
_TYPES: dict[frozenset[tuple[str, int]], Basic | None] = {
    frozenset(Counter(words.split()).items()): type_
    for type_, forms in {
        None: ("void",),
        CHAR: ("char",),
        INT8: ("signed char",),
        UINT8: ("unsigned char",),
        INT16: ("short", "short int", "signed short", "signed short int"),
        UINT16: ("unsigned short", "unsigned short int"),
        INT32: ("", "int", "signed", "signed int"),
        UINT32: ("unsigned", "unsigned int"),
        INT64: tuple(sign + word for sign in ("", "signed ") for word in _LONG),
        UINT64: tuple("unsigned " + word for word in _LONG),
        FLOAT32: ("float",),
        FLOAT64: ("double", "long double"),
        STRING: ("string",),
    }.items()
    for words in forms
}


@dataclass(frozen=True, slots=True)
class Specified:
    """The meaning of specifiers; a `type` of None is void."""

    type: ValueType | None
    is_static: bool
    is_const: bool
    is_typedef: bool
    is_extern: bool


def specified(context: Context, node: syntax.Specifiers) -> Specified:
    """Resolves specifiers; declares the structures and enumerations that they define."""
    words: Counter[str] = Counter()
    named: list[ValueType] = []
    for part in node.parts:
        match part:
            case syntax.StructSpecifier():
                named.append(_struct(context, part))
            case syntax.EnumSpecifier():
                named.append(_enum(context, part))
            case syntax.Word():
                known = context.find_type(part.text)
                if known is not None:
                    named.append(known)
                else:
                    words[part.text] += 1
    storage = {word for word in _STORAGE if words.pop(word, 0)}
    if len(named) > 1 or (named and words):
        raise context.wrong_type(node.at, "these words do not make a type")
    type_: ValueType | None
    if named:
        type_ = named[0]
    else:
        key = frozenset(words.items())
        if key not in _TYPES:
            raise context.wrong_type(node.at, f"{' '.join(words.elements())!r} is not a type")
        type_ = _TYPES[key]
    return Specified(type_, *(word in storage for word in ("static", "const", "typedef", "extern")))


def type_named(context: Context, node: syntax.TypeName) -> ValueType | None:
    """The type of a cast or `sizeof`; None is void."""
    return pointers(context, specified(context, node.specifiers).type, node.pointers, node.at)


def pointers(context: Context, type_: ValueType | None, count: int, at: int) -> ValueType | None:
    for _ in range(count):
        if type_ is None or isinstance(type_, Opaque):
            raise context.wrong_type(at, "E-code has no pointers to this type")
        type_ = Pointer(type_)
    return type_


def declared(context: Context, base: ValueType | None, node: syntax.Declarator) -> tuple[ValueType, bool]:
    """The type of a declarator, and whether its first extent is left open (`[]`, then 0)."""
    type_ = pointers(context, base, node.pointers, node.at)
    if type_ is None:
        raise context.wrong_type(node.at, f"{node.name!r} cannot be void")
    if not node.extents:
        return type_, False
    if isinstance(type_, Opaque):
        raise context.wrong_type(node.at, "E-code has no arrays of handles")
    dims: list[int] = []
    for position, extent in enumerate(node.extents):
        if extent is None:
            if position:
                raise context.wrong_type(node.at, "only the first extent may be left open")
            dims.append(0)
            continue
        value = constants.integer(context, extent, "an extent")
        if value <= 0:
            raise context.wrong_type(extent.at, f"the extent is {value}", "an extent must be at least 1")
        dims.append(value)
    type_ = Array(type_.element, (*dims, *type_.dims)) if isinstance(type_, Array) else Array(type_, tuple(dims))
    check_size(context, type_, node.at)
    return type_, node.extents[0] is None


def check_size(context: Context, type_: ValueType, at: int) -> int:
    size = MEMORY_LAYOUT.size(type_, context.structs)
    if size > context.limits.local_bytes:
        raise context.wrong_type(at, f"{size:,} bytes are more than a program may use ({context.limits.local_bytes:,})")
    return size


def _struct(context: Context, node: syntax.StructSpecifier) -> Ref:
    tag = f"struct {node.tag}"
    if node.fields is None:
        known = context.find_type(tag) or context.find_type(str(node.tag))
        if not isinstance(known, Ref):
            raise context.wrong_name(node.at, f"unknown type {tag!r}")
        return known
    fields: list[Field] = []
    for declaration in node.fields:
        spec = specified(context, declaration.specifiers)
        for declarator in declaration.declarators:
            type_, is_open = declared(context, spec.type, declarator)
            if is_open or isinstance(type_, Opaque) or declarator.prototype:
                raise context.wrong_type(declarator.at, f"{declarator.name!r} cannot be a field")
            if any(f.name == declarator.name for f in fields):
                context.report(declarator.at, Category.NAME, f"the field {declarator.name!r} is declared twice")
                raise Mistake(declarator.name)
            fields.append(Field(declarator.name, type_))
    name = context.new_struct(node.tag or "struct")
    context.structs[name] = Struct(name, tuple(fields))
    check_size(context, Ref(name), node.at)
    if node.tag is not None:
        types = context.scopes[-1].types
        if tag in types:
            raise context.wrong_name(node.at, f"{tag!r} is declared twice in this block")
        types[tag] = Ref(name)
    return Ref(name)


def _enum(context: Context, node: syntax.EnumSpecifier) -> Basic:
    tag = f"enum {node.tag}"
    if node.values is None:
        if context.find_type(tag) is None:
            raise context.wrong_name(node.at, f"unknown type {tag!r}")
        return INT32
    value = 0
    for enumerator in node.values:
        if enumerator.value is not None:
            value = constants.integer(context, enumerator.value, "an enumerator")
        if not -(1 << 31) <= value < 1 << 31:
            raise context.wrong_type(enumerator.at, f"{enumerator.name!r} does not fit an int")
        context.declare(enumerator.name, Constant(enumerator.at, INT32, value), enumerator.at)
        value += 1
    if node.tag is not None:
        context.scopes[-1].types[tag] = INT32
    return INT32
