"""Pages that are generated say what the code says, examples in docstrings run, links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

from docs.generate import DOCS, PAGES
from ecode.errors import CODES, Category, CostError, NotCompilable, ParameterError, TrapKind
from tests.test_layers import ROOT, SOURCES

PROSE = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


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
