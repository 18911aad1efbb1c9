"""Compacted topics: made if they are missing, and checked for being compacted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pbio_spark.errors import PbioError
from pbio_spark.extras import require
from pbio_spark.kafka.client import Client, log


def make_compacted(client: Client, topic: str, config: Mapping[str, str]) -> None:
    """Creates a compacted topic of one partition, unless a topic of that name exists. Raises PBIO_KAFKA."""
    admin = client.admin()
    if client.topic(topic) is None:
        new = require("confluent_kafka.admin", "kafka").NewTopic
        made = admin.create_topics(
            [new(topic, 1, -1, config={"cleanup.policy": "compact", **config})], request_timeout=client.timeout
        )
        try:
            made[topic].result()
        except client.kafka.KafkaException as exception:
            if exception.args[0].code() != client.kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                with client.trouble(f"create topic {topic!r}"):
                    raise
        deadline = time.monotonic() + client.timeout
        while client.topic(topic) is None and time.monotonic() < deadline:
            time.sleep(0.05)  # created, but not every broker knows it yet


def loses(client: Client, topic: str) -> str | None:
    """Why a topic loses the last value of a key; None if it does not, or if the brokers do not say."""
    config = _config(client, topic)
    if config is None:
        return None
    said = {name: config[name].value for name in ("cleanup.policy", "retention.ms", "retention.bytes")}
    if "delete" not in said["cleanup.policy"] or said["retention.ms"] == said["retention.bytes"] == "-1":
        return None
    return ", ".join(f"{name}={value}" for name, value in said.items())


def is_compacted(client: Client, topic: str) -> bool:
    """Whether a topic keeps only the last value of each key, as far as the brokers say."""
    config = _config(client, topic)
    return config is not None and "compact" in config["cleanup.policy"].value


def _config(client: Client, topic: str) -> Mapping[str, Any] | None:
    """The settings of a topic; None if the brokers do not say."""
    kinds = require("confluent_kafka.admin", "kafka")
    resource = kinds.ConfigResource(kinds.ResourceType.TOPIC, topic)
    asked = client.admin().describe_configs([resource], request_timeout=client.timeout)
    try:
        return asked[resource].result()  # type: ignore[no-any-return]
    except client.kafka.KafkaException as exception:
        log.warning("topic %s: cannot see whether it is compacted: %s", topic, exception.args[0].str())
        return None


def refuse_loss(client: Client, topic: str, why: str) -> PbioError:
    """The error for a topic that loses values."""
    return PbioError(
        "PBIO_BAD_OPTION",
        f"the topic {topic!r} is not kept: {why}",
        file=f"kafka://{client.brokers}/{topic}",
        hint=f"kafka-configs --alter --entity-type topics --entity-name {topic} --add-config cleanup.policy=compact",
    )
