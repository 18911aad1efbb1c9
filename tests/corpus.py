"""The corpus of the specification, beside the repository if it is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
ABSENT = "the corpus (../shared/corpus) is not on this machine"


def ffs_files(*patterns: str) -> list[Any]:
    """Parameters for a test of every FFS corpus file that matches; without the corpus, one that says so."""
    files = sorted(path for pattern in patterns for path in (CORPUS / "ffs").glob(pattern))
    if not files:
        return [pytest.param(Path(), id="absent", marks=pytest.mark.skip(ABSENT))]
    return [pytest.param(path, id=path.name) for path in files]


def ffs_json(name: str) -> Any:
    """A JSON file of the FFS corpus."""
    path = CORPUS / "ffs" / name
    if not path.exists():
        pytest.skip(ABSENT)
    return json.loads(path.read_text())


def expected_items(path: Path) -> list[dict[str, Any]]:
    """The lines that tell what is in an FFS corpus file."""
    family = path.with_suffix(".jsonl")
    lines = family if family.exists() else path.with_name(path.name.partition(".")[0] + ".expected.jsonl")
    return [json.loads(line) for line in lines.read_text().splitlines()]


def bp5_sets() -> list[Any]:
    """Parameters for a test of every set of the BP5 corpus; without the corpus, one that says so."""
    sets = sorted((CORPUS / "bp5").glob("*.json"))
    if not sets:
        return [pytest.param(Path(), id="absent", marks=pytest.mark.skip(ABSENT))]
    return [pytest.param(path, id=path.stem) for path in sets]


def bp5_folder(values: Path) -> Path:
    """The dataset that a JSON file of the BP5 corpus has the values of."""
    return next(path for suffix in (".bp", ".bp5") if (path := values.with_suffix(suffix)).exists())
