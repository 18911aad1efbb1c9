"""`explain`: an answer of MaxMatch in a few lines, as text and as HTML for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterator

from morph.comparison.differences import Comparison
from morph.field_map import StructMap
from morph.resolution import Candidate, Rejection, Resolution, Verdict

FIELDS_SHOWN = 8
"""Names of fields on one line."""

HEADERS = (" ", "wanted", "from", "transforms", "diff", "Mr", "")


def explain(answer: Resolution | Rejection) -> str:
    """The headline, a table of candidates (a star marks the winner), and where the fields come from and go."""
    lines = [_headline(answer)]
    if answer.considered:
        rows = [HEADERS, *(_row(answer, candidate) for candidate in answer.considered)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += [
            ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
            for row in rows
        ]
    return "\n".join([*lines, *(f"  {remark}" for remark in _remarks(answer))])


def explain_html(answer: Resolution | Rejection) -> str:
    """`explain`, as an HTML table."""
    parts = [f"<p>{html.escape(_headline(answer))}</p>"]
    if answer.considered:
        rows = [
            _html_row("th", HEADERS),
            *(_html_row("td", _row(answer, candidate)) for candidate in answer.considered),
        ]
        parts.append(f"<table>{''.join(rows)}</table>")
    parts += [f"<p>{html.escape(remark)}</p>" for remark in _remarks(answer)]
    return "".join(parts)


def _html_row(tag: str, cells: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _headline(answer: Resolution | Rejection) -> str:
    who = f"{answer.name} {answer.incoming}".strip()
    if isinstance(answer, Rejection):
        return f"{who} is rejected: {answer.reason}"
    way = f" through {' -> '.join(t.target for t in answer.route)}" if answer.route else ""
    return f"{who} reaches {answer.wanted}{way}: {describe(answer.comparison)}"


def describe(comparison: Comparison) -> str:
    """A comparison in words.

    >>> describe(Comparison(0, 0, 3)), describe(Comparison(2, 1, 3))
    ('a perfect match', 'diff 2, Mr 0.33 (1 of 3)')
    """
    if comparison.is_perfect:
        return "a perfect match"
    ratio = f"Mr {comparison.mismatch_ratio:.2f} ({comparison.missing:g} of {comparison.weight:g})"
    return f"diff {comparison.diff:g}, {ratio}"


def _row(answer: Resolution | Rejection, candidate: Candidate) -> tuple[str, ...]:
    comparison = candidate.comparison
    is_winner = isinstance(answer, Resolution) and (answer.reached, answer.wanted) == (
        candidate.reached,
        candidate.wanted,
    )
    return (
        "*" if is_winner else " ",
        candidate.wanted,
        candidate.reached,
        str(candidate.hops),
        f"{comparison.diff:g}",
        f"{comparison.mismatch_ratio:.2f}",
        "perfect" if comparison.is_perfect else "" if candidate.verdict is Verdict.ACCEPTED else candidate.verdict,
    )


def _remarks(answer: Resolution | Rejection) -> Iterator[str]:
    if answer.passed_over:
        yield f"and {answer.passed_over} more, none of them better"
    if isinstance(answer, Rejection):
        if answer.hint:
            yield f"hint: {answer.hint}"
    else:
        yield from _remarks_on_fields(answer.fields, answer.unwritten)
    yield from (f"problem: {problem}" for problem in answer.problems)


def _remarks_on_fields(maps: tuple[StructMap, ...], unwritten: tuple[str, ...]) -> Iterator[str]:
    absent = [
        (_path(maps, number, source.name), source.default)
        for number, map_ in enumerate(maps)
        for source in map_.fields
        if not source.is_present
    ]
    dropped = [_path(maps, number, name) for number, map_ in enumerate(maps) for name in map_.dropped]
    for what, names in (
        ("by default", [f"{path} = {default!r}" for path, default in absent if default is not None]),
        ("null", [path for path, default in absent if default is None]),
        ("null, because no transform writes it", list(unwritten)),
        ("not wanted", dropped),
    ):
        if names:
            more = f" and {len(names) - FIELDS_SHOWN} more" if len(names) > FIELDS_SHOWN else ""
            yield f"{what}: {', '.join(names[:FIELDS_SHOWN])}{more}"


def _path(maps: tuple[StructMap, ...], number: int, name: str) -> str:
    """The name of a field; an inner structure's field gets the structure's name in front."""
    return f"{maps[number].wanted}.{name}" if number else name
