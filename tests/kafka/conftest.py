"""One broker for all tests of this folder; without Java, Maven or the client they are skipped, and say so."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.kafka.broker import running
from tests.kafka.maven import BROKER, NoMavenError, jars, java


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker, `host:port`."""
    if find_spec("confluent_kafka") is None:
        pytest.skip("confluent-kafka is not installed")
    try:
        java()
        jars(BROKER, transitive=True)
    except NoMavenError as error:
        pytest.skip(str(error))
    with running(tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture
def topic() -> str:
    """A name that no topic has yet."""
    return f"t-{uuid.uuid4().hex[:12]}"
