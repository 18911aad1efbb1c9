"""The page on matching says what the code does: its examples run, its tables are the code's."""

from __future__ import annotations

import doctest
import re

from ecode.types import Kind
from morph import PAPER
from morph.comparison.convertible import CONVERTIBLE
from tests.test_layers import ROOT

PAGE = ROOT / "docs" / "programs" / "matching.md"


def test_the_examples_run() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert (found.failed, found.attempted > 20) == (0, True)


def test_the_table_of_conversions_is_the_code() -> None:
    rows = re.findall(r"^\| (\w+) \| ([\w, ]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    said = {
        (Kind(source), Kind(wanted)) for source, words in rows if source in list(Kind) for wanted in words.split(", ")
    }
    assert said == CONVERTIBLE


def test_the_thresholds_of_the_page_are_those_of_the_policy() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert re.search(r"`diff_threshold` [^.()]*\(unlimited by default\)", text)
    assert PAPER.diff_threshold == float("inf")
    assert f"how much of the wanted type may stay empty ({PAPER.mismatch_threshold} by default)" in text
    assert f"`max_hops` ({PAPER.max_hops})" in text
