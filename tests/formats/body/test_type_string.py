"""The grammar of type strings, both ways (ffs-wire-format 6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecode.types import BOOLEAN, CHAR, FLOAT32, INT32, STRING, UINT32, Array, Pointer, Ref, Type
from pbio_spark.errors import PbioError
from pbio_spark.formats.body.type_string import type_string_to_type, type_to_type_string

P = Ref("P")
STRUCTS = {"P", "my point", "trailing ", "int"}

MEANINGS: list[tuple[str, Type]] = [
    ("P", P),
    ("*P", Pointer(P)),
    ("**P", Pointer(Pointer(P))),
    ("P[3]", Array(P, (3,))),
    ("P[n]", Array(P, ("n",))),
    ("P[3][n]", Array(P, (3, "n"))),
    ("*P[3]", Pointer(Array(P, (3,)))),
    ("(*P)[n]", Array(Pointer(P), ("n",))),
    ("*(P[n])", Pointer(Array(P, ("n",)))),
    ("*P[n]", Pointer(Array(P, ("n",)))),
    ("(*integer[3])[n]", Array(Pointer(Array(INT32, (3,))), ("n",))),
    ("string[n]", Array(STRING, ("n",))),
    ("(*string)[n]", Array(Pointer(STRING), ("n",))),
    ("string[3][2]", Array(STRING, (3, 2))),
    ("*(integer[35])[10]", Pointer(Array(Array(INT32, (35,)), (10,)))),
    ("((integer))", INT32),
]

SPELLINGS: list[tuple[str, Type]] = [
    (" Integer\t ", INT32),
    ("unsigned", UINT32),
    ("UNSIGNED INTEGER", UINT32),
    ("unsigned\tinteger", UINT32),
    ("double", FLOAT32),
    ("my point", Ref("my point")),
    (" \tmy point", Ref("my point")),
    ("trailing ", Ref("trailing ")),
    ("int", Ref("int")),
    ("* * P", Pointer(Pointer(P))),
    (" *(\tP)[n]", Pointer(Array(P, ("n",)))),
    ("integer[  3]", Array(INT32, (3,))),
    ("integer[ n ]", Array(INT32, (" n ",))),
    ("integer[n)]", Array(INT32, ("n)",))),
    ("integer[a[0]", Array(INT32, ("a[0",))),
]

WRONG = [
    *("", " ", "*", "()", "long", "unsigned  integer", "p", "P ", "integer]", "integer[", "integer[]", "integer[0]"),
    *(
        "integer[-3]",
        "integer[+3]",
        "integer[03]",
        "integer[3 ]",
        "integer[3]x",
        "integer[3] [3]",
        "(integer",
        "integer)",
    ),
    *("(*P) [n]", "integer[2147483648]", "integer[65536][65536]", "integer[99999999999999999999]", "integer[\u0663]"),
    *("*" * 65 + "P", "(" * 65 + "P" + ")" * 65, "integer" + "[1]" * 65, "integer[ ]"),
]


@pytest.mark.parametrize(("text", "type_"), MEANINGS + SPELLINGS)
def test_strings_mean_types(text: str, type_: Type) -> None:
    assert type_string_to_type(text, 4, STRUCTS.__contains__) == type_


@pytest.mark.parametrize(("text", "type_"), MEANINGS)
def test_types_have_a_text_that_means_them(text: str, type_: Type) -> None:
    assert type_string_to_type(type_to_type_string(type_), 4, STRUCTS.__contains__) == type_


@pytest.mark.parametrize("text", WRONG)
def test_other_strings_are_refused(text: str) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_TYPE_STRING"):
        type_string_to_type(text, 4, STRUCTS.__contains__)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("integer", {1, 2, 4, 8}),
        ("unsigned", {1, 2, 4, 8}),
        ("enumeration", {1, 2, 4, 8}),
        ("boolean", {1, 2, 4, 8}),
        ("float", {4, 8, 16}),
        ("char", {1}),
        ("string", set(range(20))),
        ("P", set(range(20))),
    ],
)
def test_each_kind_has_its_sizes(text: str, sizes: set[int]) -> None:
    legal = set()
    for size in range(20):
        try:
            type_string_to_type(text, size, STRUCTS.__contains__)
            legal.add(size)
        except PbioError:
            pass
    assert legal == sizes


def test_a_near_miss_gets_a_hint() -> None:
    with pytest.raises(PbioError, match="did you mean 'integer'"):
        type_string_to_type("interger", 4, STRUCTS.__contains__)


@given(st.text(st.sampled_from("*()[]nP3 \tinteger"), max_size=40))
def test_any_text_is_a_type_or_an_error_and_what_is_printed_means_the_same(text: str) -> None:
    type_ = _type(text)
    # Only a count whose name has a bracket or parenthesis in it can spoil the printed text.
    if type_ is not None and not any(mark in dim for dim in _names(type_) for mark in "()[]"):
        assert _type(type_to_type_string(type_)) == type_


def _type(text: str) -> Type | None:
    try:
        return type_string_to_type(text, 4, STRUCTS.__contains__)
    except PbioError:
        return None


def _names(type_: Type) -> list[str]:
    names = []
    while isinstance(type_, Array | Pointer):
        if isinstance(type_, Array):
            names += [dim for dim in type_.dims if isinstance(dim, str)]
        type_ = type_.element if isinstance(type_, Array) else type_.target
    return names


def test_names_print_as_they_are() -> None:
    assert [type_to_type_string(t) for t in (BOOLEAN, CHAR, UINT32, FLOAT32, STRING)] == [
        "boolean",
        "char",
        "unsigned integer",
        "float",
        "string",
    ]
