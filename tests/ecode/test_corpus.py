"""The conformance corpus, every case of it."""

from pathlib import Path

import pytest

from tests.ecode import corpus

FOLDER = Path(__file__).parents[3] / "shared" / "corpus" / "ecode"


def test_python_engine() -> None:
    if not FOLDER.is_dir():
        pytest.skip(f"the conformance corpus is not there: {FOLDER.name}")
    passed, failed = corpus.failures(FOLDER, corpus.python_engine)
    assert failed == []
    assert passed == sum(1 for _ in corpus.cases(FOLDER)) > 400
