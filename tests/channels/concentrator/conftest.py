from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pbio_spark.channels.concentrator.place import FOLDER


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of sockets of this test and of processes that it starts. Its path is short, as sockets' must be."""
    folder = tempfile.mkdtemp(prefix="pbio-", dir="/tmp")
    monkeypatch.setenv(FOLDER, folder)
    yield Path(folder)
    shutil.rmtree(folder)
