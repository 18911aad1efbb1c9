"""One broker for all tests of this folder; without Java, Maven or the client they are skipped, and say so."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.kafka.broker import running
from tests.kafka.maven import BROKER, CONNECTOR, NoMavenError, jars, java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of a broker, `host:port`, the second with SASL: ann's password is `a secret`."""
    if find_spec("confluent_kafka") is None:
        pytest.skip("confluent-kafka is not installed")
    try:
        java()
        jars(BROKER, transitive=True)
    except NoMavenError as error:
        pytest.skip(str(error))
    with running(tmp_path_factory.mktemp("broker")) as addresses:
        yield addresses


@pytest.fixture(scope="session")
def broker(brokers: tuple[str, str]) -> str:
    """The address of a broker that asks for nothing."""
    return brokers[0]


@pytest.fixture
def topic() -> str:
    """A name that no topic has yet."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def kafka_spark(spark: SparkSession, broker: str) -> SparkSession:
    """The session of all tests, with Spark's own source and sink for Kafka."""
    try:
        connector = jars(CONNECTOR, transitive=False)
    except NoMavenError as error:
        pytest.skip(str(error))
    for jar in connector:
        spark.sql(f"ADD JAR '{jar}'")
    return spark
