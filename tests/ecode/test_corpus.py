"""The conformance corpus, every case of it, with both engines."""

from pathlib import Path

import pytest

from tests.ecode import corpus

FOLDER = Path(__file__).parents[3] / "shared" / "corpus" / "ecode"


@pytest.mark.parametrize("engine", corpus.ENGINES)
def test_corpus(engine: str) -> None:
    if not FOLDER.is_dir():
        pytest.skip(f"the conformance corpus is not there: {FOLDER.name}")
    passed, failed = corpus.failures(FOLDER, corpus.ENGINES[engine])
    assert failed == []
    assert passed == sum(1 for _ in corpus.cases(FOLDER)) > 400
