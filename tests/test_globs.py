"""Globs, compared with a model without regular expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbio_spark.globs import compile_glob, expand, is_hidden, is_literal, unescape

LETTERS = "ab-_.^!]\n"
SIGNS = "*?[]{},\\^!-"


@dataclass(frozen=True)
class Letter:
    text: str


@dataclass(frozen=True)
class Any:
    is_many: bool


@dataclass(frozen=True)
class OneOf:
    members: str
    is_negated: bool


@dataclass(frozen=True)
class Either:
    choices: tuple[tuple[Part, ...], ...]


Part: TypeAlias = "Letter | Any | OneOf | Either"


def escaped(char: str) -> str:
    return "\\" + char if char in SIGNS else char


def to_text(parts: tuple[Part, ...]) -> str:
    text = ""
    for part in parts:
        match part:
            case Letter(char):
                text += escaped(char)
            case Any(is_many):
                text += "*" if is_many else "?"
            case OneOf(members, is_negated):
                text += f"[{'^' if is_negated else ''}{''.join(map(escaped, members))}]"
            case Either(choices):
                text += "{" + ",".join(map(to_text, choices)) + "}"
    return text


def fits(parts: tuple[Part, ...], name: str, at: int, hides: bool) -> bool:
    """Whether the parts stand for the rest of a name from a place on."""
    if not parts:
        return at == len(name)
    part, *others = parts
    rest = tuple(others)
    is_free = not (hides and at == 0 and (name.startswith(".") or (name.startswith("_") and "=" not in name)))
    match part:
        case Letter(char):
            return name[at : at + 1] == char and fits(rest, name, at + 1, hides)
        case Any(is_many=False):
            return is_free and at < len(name) and fits(rest, name, at + 1, hides)
        case Any():
            return is_free and any(fits(rest, name, place, hides) for place in range(at, len(name) + 1))
        case OneOf(members, is_negated):
            is_one = at < len(name) and (name[at] in members) is not is_negated
            return is_free and is_one and fits(rest, name, at + 1, hides)
        case Either(choices):
            return any(fits((*choice, *rest), name, at, hides) for choice in choices)


simple = st.one_of(
    st.builds(Letter, st.sampled_from(LETTERS + SIGNS)),
    st.builds(Any, st.booleans()),
    st.builds(OneOf, st.text(LETTERS, min_size=1, max_size=3), st.booleans()),
)
globs = st.recursive(
    st.lists(simple, max_size=4).map(tuple),
    lambda inner: st.lists(
        st.one_of(simple, st.builds(Either, st.lists(inner, min_size=1, max_size=3).map(tuple))), max_size=3
    ).map(tuple),
    max_leaves=6,
)


@given(globs, st.lists(st.text(LETTERS + "=*{", max_size=5), max_size=20), st.booleans())
def test_globs_are_those_of_the_model(parts: tuple[Part, ...], names: list[str], hidden: bool) -> None:
    pattern = compile_glob(to_text(parts), hidden=hidden)
    for name in names:
        assert bool(pattern.fullmatch(name)) == fits(parts, name, 0, not hidden), name


@given(st.text(SIGNS + "ab_./", max_size=12))
def test_any_text_is_a_glob_or_is_refused(text: str) -> None:
    for component in text.split("/"):
        try:
            pattern = compile_glob(component, hidden=True)
            names = [unescape(component)] if is_literal(component) else []
        except ValueError:
            continue
        assert all(pattern.fullmatch(name) for name in names)
    try:
        expanded = expand(text)
    except ValueError:
        return
    assert expanded


@pytest.mark.parametrize(
    ("glob", "fitting"),
    [
        ("[^a]*", ["b1", "_k=1"]),
        ("[!a]*", ["b1", "_k=1"]),
        ("[a-b]1", ["a1", "b1"]),
        ("[a\\-b]1", ["a1", "b1"]),
        ("[-a]1", ["a1"]),
        ("{a{1,2},b1}", ["a1", "a2", "b1"]),
        ("*", ["a1", "a2", "b1", "_k=1"]),
        ("_*", ["_k=1", "_hid"]),
        ("?hid", []),
        ("[_.]hid", []),
        ("{_,.}hid", ["_hid", ".hid"]),
        (".*", [".hid", ".a.outline"]),
        ("*1", ["a1", "b1", "_k=1"]),
        ("a1*", ["a1"]),
        ("a1*._COPYING_", ["a1._COPYING_"]),
    ],
)
def test_wildcards_do_not_stand_for_hidden_names(glob: str, fitting: list[str]) -> None:
    names = ["a1", "a2", "b1", "_k=1", "_hid", ".hid", ".a.outline", "a1._COPYING_"]
    pattern = compile_glob(glob)
    assert [name for name in names if pattern.fullmatch(name)] == fitting


def test_hidden_names() -> None:
    names = ("_a", ".a", "a._COPYING_", "_k=1", "a", "a_")
    assert [is_hidden(name) for name in names] == [True] * 3 + [False] * 3


@pytest.mark.parametrize("glob", ["[a", "[", "[]", "[^]", "a{b", "{a,{b}", "a\\", "[b-a]", "[[a]", "[a\\"])
def test_invalid_globs(glob: str) -> None:
    with pytest.raises(ValueError, match=r"not closed|ends|has no members"):
        compile_glob(glob)


def test_braces_with_slashes() -> None:
    assert expand("{a/b,c}/{d,e}") == ["a/b/{d,e}", "c/{d,e}"]
    assert expand("{a/{b,c/d},e}") == ["a/b", "a/c/d", "e"]
    assert expand(r"\{a/b,c}") == [r"\{a/b,c}"]
    assert expand("[{]a/b,c}") == ["[{]a/b,c}"]


def test_braces_stand_for_so_many_paths_at_most() -> None:
    with pytest.raises(ValueError, match="more than"):
        expand("{a/b,c}" * 20)
