"""Type strings: the text that says what a field is, `(*point)[n]` (ffs-wire-format 6).

A type string holds no size; the size of its innermost element comes from the field's entry in the body.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod

from ecode.suggest import did_you_mean
from ecode.types import Array, Basic, Kind, Pointer, Ref, Type
from pbio_spark.errors import PbioError

MAX_DEPTH = 64
"""The most pointers, parentheses and dimensions one type string may have: the code walks types by recursion."""

MAX_LENGTH = 4096
"""The longest type string, in characters: thousands of fields may share a string, and each parses it."""

MAX_ELEMENTS = 2**31 - 1
"""The most elements the static dimensions of one field may have, all together."""

SIZES: dict[Kind, tuple[int, ...]] = {
    Kind.INTEGER: (1, 2, 4, 8),
    Kind.UNSIGNED: (1, 2, 4, 8),
    Kind.FLOAT: (4, 8, 16),
    Kind.CHAR: (1,),
    Kind.BOOLEAN: (1, 2, 4, 8),
    Kind.ENUMERATION: (1, 2, 4, 8),
    Kind.STRING: (0,),
}
"""The sizes that values of each kind may have."""

BASE_TYPES: dict[str, Kind] = {
    "integer": Kind.INTEGER,
    "unsigned integer": Kind.UNSIGNED,
    "unsigned\tinteger": Kind.UNSIGNED,
    "unsigned": Kind.UNSIGNED,
    "float": Kind.FLOAT,
    "double": Kind.FLOAT,
    "char": Kind.CHAR,
    "boolean": Kind.BOOLEAN,
    "enumeration": Kind.ENUMERATION,
    "string": Kind.STRING,
}
_BLANKS = " \t"
_DIMS = re.compile(r"(?:\[[^\]]*\])*")
_NUMBER = re.compile(r"[ \t]*([1-9][0-9]{0,9})")


def type_string_to_type(text: str, size: int, is_struct: Callable[[str], bool]) -> Type:
    """The type that `text` means, with basic elements of `size` bytes (ignored for strings and structures).

    Args:
        is_struct: whether the body holds a structure of that name.

    Raises PBIO_BAD_TYPE_STRING. It does not check that the fields in dimensions exist: `layouts_to_record` does.

    >>> print(type_string_to_type("(*point)[n]", 8, {"point"}.__contains__))
    (*point)[n]
    >>> print(type_string_to_type("unsigned integer[2][3]", 4, {"point"}.__contains__))
    uint32[2][3]
    """

    if len(text) > MAX_LENGTH:
        raise _bad(text, f"more than {MAX_LENGTH} characters")
    # From the outside in: every layer is its stars, its dimensions, and either a name or a text in parentheses.
    layers: list[tuple[int, tuple[int | str, ...]]] = []
    depth, elements = 0, 1
    rest = text
    while True:
        core = rest.lstrip(_BLANKS + "*")
        stars = rest[: len(rest) - len(core)].count("*")
        nested = core.startswith("(")
        end = core.rfind(")") + 1 if nested else core.find("[") if "[" in core else len(core)
        if nested and not end:
            raise _bad(text, "a parenthesis is not closed")
        brackets = core[end:]
        if _DIMS.fullmatch(brackets) is None:
            raise _bad(text, "only dimensions in brackets may follow the name")
        dims = tuple(_dim(dim, text) for dim in brackets[1:-1].split("][")) if brackets else ()
        layers.append((stars, dims))
        depth += stars + len(dims) + nested
        elements *= prod(dim for dim in dims if isinstance(dim, int))
        if depth > MAX_DEPTH:
            raise _bad(text, f"more than {MAX_DEPTH} pointers, parentheses and dimensions")
        if elements > MAX_ELEMENTS:
            raise _bad(text, f"more than {MAX_ELEMENTS} elements")
        if not nested:
            break
        rest = core[1 : end - 1]
    result = _named(core[:end], size, is_struct, text)
    for stars, dims in reversed(layers):
        result = Array(result, dims) if dims else result
        for _ in range(stars):
            result = Pointer(result)
    return result


def _named(name: str, size: int, is_struct: Callable[[str], bool], text: str) -> Type:
    """The type of a name, in the type string `text`."""
    kind = BASE_TYPES.get(name.strip(_BLANKS).lower())
    if kind is Kind.STRING:
        return Basic(kind, 0)
    if kind is not None:
        if size not in SIZES[kind]:
            raise _bad(text, f"a type of kind {kind} cannot have {size} bytes")
        return Basic(kind, size)
    if is_struct(name):
        return Ref(name)
    hint = did_you_mean(name[:80], BASE_TYPES)
    raise _bad(text, f"{shorten(name)} is neither a basic type nor a structure of this format", hint)


def _bad(text: str, why: str, hint: str | None = None) -> PbioError:
    return PbioError("PBIO_BAD_TYPE_STRING", f"type string {shorten(text)}: {why}", hint=hint)


def _dim(dim: str, text: str) -> int | str:
    number = _NUMBER.fullmatch(dim)
    if number is not None:
        return int(number[1])
    if not dim.strip(_BLANKS) or dim.strip(_BLANKS).lstrip("+-").isdecimal():
        why = f"{shorten(dim)} is not a dimension: a positive decimal number or the name of an integer field"
        raise _bad(text, why)
    return dim


def type_to_type_string(type_: Type) -> str:
    """The usual spelling of a type: no blanks, `unsigned integer` and `float` for their kinds.

    If the structure or control field of a type has an unlucky name (`a]b`), the text means something else; the layout
    builder notices by reading it back.

    >>> type_to_type_string(Array(Pointer(Ref("point")), ("n",)))
    '(*point)[n]'
    """
    match type_:
        case Basic(Kind.UNSIGNED, _):
            return "unsigned integer"
        case Basic(kind, _):
            return kind.value
        case Ref(name):
            return name
        case Pointer(target):
            return f"*{type_to_type_string(target)}"
        case Array(element, dims):
            inner = type_to_type_string(element)
            inner = f"({inner})" if isinstance(element, Array | Pointer) else inner
            return inner + "".join(f"[{dim}]" for dim in dims)


def shorten(text: str) -> str:
    """An untrusted text, quoted and cut so that it fits a message.

    >>> shorten("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'"
    """
    return repr(text if len(text) <= 60 else text[:40] + "...")
