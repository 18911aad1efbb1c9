"""All conformance cases with both engines: this project's own, and the corpus if it is there."""

import os
from pathlib import Path

import pytest

from tests.ecode import corpus

OWN = Path(__file__).parents[1] / "golden" / "ecode"
FOLDER = Path(__file__).parents[3] / "shared" / "corpus" / "ecode"


@pytest.mark.parametrize("engine", corpus.ENGINES)
def test_corpus(engine: str) -> None:
    if not FOLDER.is_dir():
        pytest.skip(f"the conformance corpus is not there: {FOLDER.name}")
    passed, failed = corpus.failures(FOLDER, corpus.ENGINES[engine])
    assert failed == []
    assert passed == sum(1 for _ in corpus.cases(FOLDER)) > 400


@pytest.mark.parametrize("engine", corpus.ENGINES)
def test_own_cases(engine: str) -> None:
    """The interpreter runs them all. Compiling takes long: where the corpus is there, a kernel runs every fourth."""
    cases = list(corpus.cases(OWN))
    is_part = engine == "numba" and FOLDER.is_dir() and not os.environ.get("PBIO_LONG")
    for case in cases[:: 4 if is_part else 1]:
        corpus.check(case, corpus.ENGINES[engine])
    assert len({case["id"] for case in cases}) == len(cases) > 75
