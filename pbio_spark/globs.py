r"""Globs as in Hadoop, and so in Spark's own sources.

`*` and `?` match any characters except a slash, `[a-z]` one character of a set, `[^a]` and `[!a]` any other character,
`{a,b}` either alternative, which may contain braces and slashes; `\` escapes the next character. Hidden names must be
given explicitly: no wildcard matches the character that hides a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

COPYING = "._COPYING_"
"""The suffix of files that Hadoop is still copying."""
_AT_HIDDEN = r"(?!\A(?:\.|_[^=]*\Z))"
_MOST = 10_000
"""The most paths that the braces of one path may expand to."""


def is_hidden(name: str) -> bool:
    """As in Spark: `_k=v` is a folder of a partition column whose name starts with an underscore."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith(COPYING)


def is_glob(text: str) -> bool:
    return any(sign in text for sign in "*?[{\\")


def compile_glob(glob: str, *, hidden: bool = False) -> re.Pattern[str]:
    r"""The pattern, for `fullmatch`, of the names that a glob without slashes matches.

    Args:
        hidden: whether wildcards also match hidden names.

    Raises ValueError for an invalid glob.

    >>> [name for name in ("a1", "b1", "_a", "x}") if compile_glob(r"{[^a]*,x\}}").fullmatch(name)]
    ['b1', 'x}']
    """
    before = "" if hidden else _AT_HIDDEN
    parts = [] if hidden or glob.endswith(COPYING) else [rf"(?!.*{re.escape(COPYING)}\Z)"]
    braces, at = 0, 0
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "\\":
            if at == len(glob):
                raise ValueError("it ends with a backslash that escapes nothing")
            parts.append(re.escape(glob[at]))
            at += 1
        elif char == "*":
            parts.append(f"{before}.*")
        elif char == "?":
            parts.append(f"{before}.")
        elif char == "[":
            end = _end_of_set(glob, at)
            parts.append(before + _set(glob[at:end]))
            at = end + 1
        elif char == "{":
            braces += 1
            parts.append("(?:")
        elif char == "}" and braces:
            braces -= 1
            parts.append(")")
        elif char == "," and braces:
            parts.append("|")
        else:
            parts.append(re.escape(char))
    if braces:
        raise ValueError("a brace is not closed")
    return re.compile("".join(parts), re.DOTALL)


def expand(glob: str) -> list[str]:
    """The globs without slashes in braces that a glob expands to, in order. Raises ValueError for too many.

    >>> expand("a/{b/{c,d},e}/{f,g}")
    ['a/b/{c,d}/{f,g}', 'a/e/{f,g}']
    """
    done: list[str] = []
    todo = [glob]
    while todo:
        text = todo.pop()
        parts = _braces_with_slash(text)
        if parts is None:
            done.append(text)
        else:
            before, choices, behind = parts
            todo += [before + choice + behind for choice in reversed(choices)]
        if len(done) + len(todo) > _MOST:
            raise ValueError(f"its braces expand to more than {_MOST} paths")
    return done


def unescape(glob: str) -> str:
    r"""
    >>> print(unescape(r"a\*b\\"))
    a*b\
    """
    return re.sub(r"\\(.)", r"\1", glob, flags=re.DOTALL)


def is_literal(component: str) -> bool:
    """Whether a component without slashes matches only one name."""
    return not any(sign in "*?[{" for sign, _ in _signs(component))


def _signs(glob: str) -> Iterator[tuple[str, int]]:
    """The special characters and their places, without those after a backslash or inside a set."""
    at = 0
    while at < len(glob):
        if glob[at] == "\\":
            at += 1
        else:
            yield glob[at], at
            if glob[at] == "[":
                at = _end_of_set(glob, at + 1)
        at += 1


def _braces_with_slash(glob: str) -> tuple[str, list[str], str] | None:
    """The text before the first outermost braces with a slash, their choices, and the text after."""
    depth, start, cuts, has_slash = 0, 0, list[int](), False
    for sign, at in _signs(glob):
        if sign == "{":
            depth += 1
            if depth == 1:
                start, cuts, has_slash = at, [at], False
        elif sign == "}" and depth:
            depth -= 1
            if depth == 0 and has_slash:
                cuts.append(at)
                choices = [glob[a + 1 : b] for a, b in pairwise(cuts)]
                return glob[:start], choices, glob[at + 1 :]
        elif sign == "," and depth == 1:
            cuts.append(at)
        elif sign == "/" and depth:
            has_slash = True
    if depth:
        raise ValueError("a brace is not closed")
    return None


def _end_of_set(glob: str, at: int) -> int:
    """The end of the set whose first character is at a place. Raises ValueError if it is not closed."""
    first = at + 1 if glob[at : at + 1] in ("^", "!") else at
    place = first
    while place < len(glob):
        char = glob[place]
        if char == "]" and place > first:
            return place
        if char == "[":
            break
        place += 2 if char == "\\" else 1
    raise ValueError("a bracket is not closed")


def _set(inside: str) -> str:
    """The set of characters between brackets, as a regular expression. Raises ValueError for an empty range."""
    negated = inside[0] in "^!"
    members: list[str] = []
    ranges: list[bool] = []  # whether a member is the hyphen of a range
    at = 1 if negated else 0
    while at < len(inside):
        escaped = inside[at] == "\\"
        at += escaped
        members.append(inside[at])
        ranges.append(inside[at] == "-" and not escaped)
        at += 1
    parts: list[str] = []
    at = 0
    while at < len(members):
        if at + 2 < len(members) and ranges[at + 1]:
            if members[at] > members[at + 2]:
                raise ValueError(f"the range {members[at]}-{members[at + 2]} has no members")
            parts.append(f"{re.escape(members[at])}-{re.escape(members[at + 2])}")
            at += 3
        else:
            parts.append(re.escape(members[at]))
            at += 1
    return f"[{'^' if negated else ''}{''.join(parts)}]"
