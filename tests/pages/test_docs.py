"""Generated pages agree with the code, examples in docstrings run, links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.reference.generate import PAGES, REFERENCE
from ecode.errors import CODES, Category, CostError, NotCompilable, ParameterError, TrapKind
from tests.test_layers import ROOT, SOURCES

DOCS = ROOT / "docs"
CITED = {
    "DESIGN": DOCS / "design.md",
    "ffs-wire-format": DOCS / "spec" / "ffs.md",
    "ecode-language": DOCS / "spec" / "e-code.md",
    "spark-datasource": DOCS / "spec" / "spark-data-sources.md",
}
"""The word under which code and pages cite a page."""
CITATION = re.compile(
    r"\b(DESIGN|ffs-wire-format|ecode-language|spark-datasource)\s+(section |decision )?(\d+(?:\.\d+)?)"
    r"((?:(?:,\s*|,?\s+(?:and|to)\s+)\d+(?:\.\d+)?)*)"
)

CODE = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py"), *SOURCES.values()]
PROSE = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_every_error_code_of_e_code_is_explained() -> None:
    made = {f"ECODE_{kind.upper()}" for kind in (*Category, *TrapKind)}
    raised = {error.code for error in (ParameterError(""), NotCompilable(""), CostError(""))}
    assert made | raised == set(CODES)


@pytest.mark.parametrize("module", [*SOURCES, "benchmarks.__main__"])
def test_examples_in_docstrings_run(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def named_paths() -> Iterator[tuple[str, str]]:
    """Each path of this repository in prose, with its place."""
    paths = re.compile(r"(?<![\w/.-])(?:docs|tests|benchmarks|notebooks|ecode|morph|pbio_spark)/[\w/.-]*\w")
    released = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    code = [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in CODE]
    prose = [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in PROSE]
    for where, text in [("CHANGELOG.md", released), ("Makefile", makefile), *prose, *code]:
        yield from ((where, path) for path in paths.findall(text))


def test_paths_that_are_named_are_there() -> None:
    found = list(named_paths())
    assert {where for where, _ in found} >= {"Makefile", "README.md"}
    assert [(where, path) for where, path in found if not [*ROOT.glob(f"{path}*")]] == []  # `0017` is enough


def numbers(page: Path) -> tuple[set[str], set[str]]:
    """What a page numbers: its sections, headings and the items of their lists (`15.3`), and its decisions."""
    sections, items, section = set(), set(), ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"#{2,3} (\d+(?:\.\d+)?)\b", line):
            section = heading[1]
            sections.add(section)
        elif item := re.match(r"(\d+)\. ", line):
            items.add(item[1])
            sections.add(f"{section}.{item[1]}")
    return sections, items


def citations() -> list[tuple[str, str, str]]:
    """Where, which page as which kind of number, the number."""
    found = []
    for path in [*CODE, *PROSE]:
        for word, kind, first, more in CITATION.findall(path.read_text(encoding="utf-8")):
            for number in [first, *re.findall(r"\d+(?:\.\d+)?", more)]:
                found.append((str(path.relative_to(ROOT)), f"{word} {kind}".strip(), number))
    return found


def test_what_is_cited_is_there() -> None:
    numbered = {word: numbers(page) for word, page in CITED.items()}

    def is_there(where: str, number: str) -> bool:
        word, _, kind = where.partition(" ")
        sections, items = numbered[word]
        return number in (items if word == "DESIGN" and kind != "section" else sections)

    found = citations()
    assert [citation for citation in found if not is_there(citation[1], citation[2])] == []
    assert {where.partition(" ")[0] for _, where, _ in found} == set(CITED)


def test_decisions_are_numbered_without_gaps() -> None:
    _, items = numbers(CITED["DESIGN"])
    assert items == {str(number) for number in range(1, len(items) + 1)}


def test_the_index_of_decisions_lists_them_all() -> None:
    folder = DOCS / "decisions"
    listed = set(re.findall(r"\]\((\d{4}-[^)]*)\)", (folder / "README.md").read_text(encoding="utf-8")))
    assert listed == {page.name for page in folder.glob("[0-9]*.md")}
