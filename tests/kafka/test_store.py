"""Formats in a topic: as in a folder, with the troubles that only a topic has."""

from __future__ import annotations

import logging
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ecode.types import FLOAT64, INT32, Field, record
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.layout import record_to_format
from pbio_spark.kafka.store import KafkaStore, shared_store
from pbio_spark.kafka.stores import open_store
from pbio_spark.source.options.parse import parse_options
from pbio_spark.source.options.scopes import Scope
from pbio_spark.source.query.store import store_of
from tests.conftest import ROOT
from tests.kafka.broker import Broker

PATIENT = {"default.api.timeout.ms": "30000"}  # the broker is there, but the machine may be busy
IMPATIENT = {"default.api.timeout.ms": "500"}
"""For calls that must fail."""
BRIEF = {"kafka.default.api.timeout.ms": "5000"}


def form(name: str, fields: int = 1) -> Format:
    return record_to_format(record(name, [Field(f"f{i}", INT32) for i in range(fields)]))


ONE, TWO = form("one"), form("two", 2)


def admin(broker: str) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": broker})


def make(broker: str, topic: str, **config: str) -> None:
    from confluent_kafka.admin import NewTopic

    new = NewTopic(topic, 1, 1, config={key.replace("_", "."): value for key, value in config.items()})
    client = admin(broker)
    client.create_topics([new])[topic].result()


def say(broker: str, topic: str, *messages: tuple[bytes | None, bytes | None]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker})
    for key, value in messages:
        producer.produce(topic, key=key, value=value)
    producer.flush()


def test_formats_come_back_here_and_elsewhere(broker: str, topic: str) -> None:
    store = KafkaStore(f"kafka://{broker}/{topic}")
    assert (list(store), store.get(ONE.id)) == ([], None)
    store.put(ONE)
    store.put(ONE)
    other = KafkaStore(f"kafka://{broker}/{topic}")
    assert other.get(ONE.id) == ONE
    assert other.get(TWO.id) is None
    store.put(TWO)  # while the other is open
    assert other.get(TWO.id) == TWO
    assert set(other) == {ONE, TWO}
    assert other.find([TWO.id, b"\2" * 12]) == [TWO]
    high = other._reader._ends
    assert high == {0: 2}  # what is there is not put again


def test_the_topic_is_compacted_and_takes_large_bodies(broker: str, topic: str) -> None:
    from confluent_kafka.admin import ConfigResource, ResourceType

    large = record_to_format(record("large", [Field(f"{i:03}" + 8000 * "x", INT32) for i in range(150)]))
    KafkaStore(f"kafka://{broker}/{topic}").put(large)
    assert len(large.body) > 1 << 20
    assert KafkaStore(f"kafka://{broker}/{topic}").get(large.id) == large
    resource = ConfigResource(ResourceType.TOPIC, topic)
    client = admin(broker)
    assert client.describe_configs([resource])[resource].result()["cleanup.policy"].value == "compact"


def test_a_store_is_shared_in_a_process_and_pickles_as_its_address(broker: str, topic: str) -> None:
    store = open_store(f"kafka://{broker}/{topic}", PATIENT)
    assert pickle.loads(pickle.dumps(store)) is store is shared_store(f"kafka://{broker}/{topic}", PATIENT)
    assert b"consumer" not in pickle.dumps(store)


def test_what_is_not_remembered_is_read_again(broker: str, topic: str) -> None:
    forms = [form(f"form{i}", 3) for i in range(20)]
    store = KafkaStore(f"kafka://{broker}/{topic}", most_bytes=3 * len(forms[0].body))
    for one in forms:
        store.put(one)
    assert len(store._bodies) == 3
    assert [store.get(one.id) for one in forms] == forms
    assert len(store._bodies) == 3
    assert store._size == sum(len(one.body) for one in store._bodies.values())
    assert set(store) == set(forms)


def test_garbage_is_skipped_and_said_when_it_is_asked_for(
    broker: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make(broker, topic, cleanup_policy="compact")
    bad = [(b"key", b"x" * 40), (ONE.id, TWO.body), (b"\2" + b"k" * 11, b""), (b"k" * 5000, b"v")]
    say(broker, topic, *bad, (TWO.id, TWO.body))
    store = KafkaStore(f"kafka://{broker}/{topic}")
    with caplog.at_level(logging.WARNING):
        assert list(store) == [TWO]
    assert len([one for one in caplog.records if "skipped" in one.message]) == 4
    assert store.find([ONE.id, TWO.id]) == [TWO]
    with pytest.raises(PbioError, match=rf"\[PBIO_BAD_ID\](.|\n)*{topic}, partition 0, offset 1") as lie:
        store.get(ONE.id)
    assert lie.value.format == ONE.id.hex()
    lie.value.file = "the place of a record that has this format"
    with pytest.raises(PbioError, match=f"{topic}, partition 0, offset 1"):
        store.get(ONE.id)
    store.put(ONE)  # a true body heals it
    assert KafkaStore(f"kafka://{broker}/{topic}").get(ONE.id) == ONE
    say(broker, topic, (ONE.id, TWO.body), (TWO.id, b"\0" * 100))  # a lie after the truth changes nothing
    assert set(store) == {ONE, TWO}
    assert store.get(ONE.id) == ONE


def test_an_id_that_is_not_a_hash_has_one_body(broker: str, topic: str) -> None:
    from dataclasses import replace

    one, two = (replace(each, id=b"\1" + b"serverid1") for each in (ONE, TWO))
    store = KafkaStore(f"kafka://{broker}/{topic}")
    store.put(one)
    with pytest.raises(PbioError, match=r"\[PBIO_FORMAT_CONFLICT\]"):
        KafkaStore(f"kafka://{broker}/{topic}").put(two)


def test_a_null_value_removes_a_format(broker: str, topic: str) -> None:
    store = KafkaStore(f"kafka://{broker}/{topic}")
    store.put(ONE)
    say(broker, topic, (ONE.id, None))
    assert list(store) == []
    assert store.get(ONE.id) is None
    store.put(ONE)
    assert store.get(ONE.id) == ONE


def test_a_topic_that_is_not_compacted_is_refused_for_writing(
    broker: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make(broker, topic, cleanup_policy="delete")
    say(broker, topic, (ONE.id, ONE.body))
    store = KafkaStore(f"kafka://{broker}/{topic}")
    with caplog.at_level(logging.WARNING):
        assert store.get(ONE.id) == ONE
    assert "not kept: cleanup.policy=delete" in caplog.text
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\](.|\n)*cleanup.policy=compact"):
        store.put(TWO)
    make(broker, f"{topic}-kept", cleanup_policy="delete", retention_ms="-1", retention_bytes="-1")
    KafkaStore(f"kafka://{broker}/{topic}-kept").put(TWO)


def test_a_topic_that_is_deleted_and_created_again(broker: str, topic: str) -> None:
    store = KafkaStore(f"kafka://{broker}/{topic}", PATIENT)
    store.put(ONE)
    store.put(TWO)
    client = admin(broker)
    client.delete_topics([topic])[topic].result()
    while topic in client.list_topics(timeout=5).topics:
        time.sleep(0.05)
    three = form("three", 3)
    assert store.get(three.id) is None
    store.put(three)
    assert KafkaStore(f"kafka://{broker}/{topic}").get(three.id) == three
    assert store.get(three.id) == three


@pytest.mark.parametrize("later", [[], [TWO], [TWO, form("three", 3)]], ids=["missing", "as long", "longer"])
def test_a_format_is_put_again_into_a_topic_that_was_created_again(
    broker: str, topic: str, later: list[Format]
) -> None:
    address = f"kafka://{broker}/{topic}"
    store = KafkaStore(address, PATIENT)
    store.put(ONE)
    client = admin(broker)
    client.delete_topics([topic])[topic].result()
    while topic in client.list_topics(timeout=5).topics:
        time.sleep(0.05)
    for each in later:
        KafkaStore(address).put(each)
    store.put(ONE)
    assert sorted(each.id for each in KafkaStore(address)) == sorted(each.id for each in [ONE, *later])
    assert sorted(each.id for each in store) == sorted(each.id for each in [ONE, *later])


def test_formats_put_in_a_transaction_and_one_that_hangs(broker: str, topic: str) -> None:
    from confluent_kafka import Producer

    make(broker, topic, cleanup_policy="compact")
    producer = Producer({"bootstrap.servers": broker, "transactional.id": topic})
    producer.init_transactions()
    for each, ends in ((ONE, producer.commit_transaction), (TWO, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, key=each.id, value=each.body)
        producer.flush()
        ends()
    store = KafkaStore(f"kafka://{broker}/{topic}", PATIENT)
    assert list(store) == [ONE]
    assert store.get(TWO.id) is None
    producer.begin_transaction()
    producer.produce(topic, key=TWO.id, value=TWO.body)
    producer.flush()
    with pytest.raises(PbioError, match=r"\[PBIO_KAFKA\]"):
        KafkaStore(f"kafka://{broker}/{topic}", IMPATIENT).get(TWO.id)
    producer.commit_transaction()
    assert store.get(TWO.id) == TWO


def test_waiting_for_a_format(broker: str, topic: str) -> None:
    address = f"kafka://{broker}/{topic}"
    store = open_store(address, PATIENT, wait=20)
    later = threading.Timer(0.3, KafkaStore(address).put, [ONE])
    later.start()
    assert store.find([ONE.id]) == [ONE]
    later.join()
    brief = open_store(address, PATIENT, wait=0.5)
    began = time.monotonic()
    assert brief.find([ONE.id, TWO.id]) == [ONE]
    assert time.monotonic() - began >= 0.5
    assert brief.find([TWO.id]) == []
    assert pickle.loads(pickle.dumps(brief))._wait == 0.5


def test_a_broker_that_is_not_there(topic: str) -> None:
    pytest.importorskip("confluent_kafka")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        away = f"127.0.0.1:{nobody.getsockname()[1]}"
        store = KafkaStore(f"kafka://{away}/{topic}", {"default.api.timeout.ms": "500"})
        for call in (list, lambda store: store.get(ONE.id), lambda store: store.put(ONE)):
            with pytest.raises(PbioError, match=rf"\[PBIO_KAFKA\](.|\n)*refused(.|\n)*at: kafka://{away}"):
                call(store)


@pytest.mark.skipif(not os.environ.get("PBIO_LONG"), reason="a broker of its own takes long; PBIO_LONG=1")
def test_a_broker_that_goes_away_and_comes_back(broker: str, topic: str, tmp_path: Path) -> None:
    own = Broker(tmp_path)
    store = KafkaStore(f"kafka://{own.address}/{topic}", {"default.api.timeout.ms": "1000"})
    with pytest.raises(PbioError, match=r"\[PBIO_KAFKA\](.|\n)*the brokers cannot(.|\n)*at: kafka://127.0.0.1"):
        store.get(ONE.id)
    own.start()
    try:
        store.put(ONE)
        own.stop()
        assert store.get(ONE.id) == ONE  # it is remembered
        with pytest.raises(PbioError, match=r"\[PBIO_KAFKA\]"):
            store.get(TWO.id)
        with pytest.raises(PbioError, match=r"\[PBIO_KAFKA\]"):
            store.put(TWO)
        own.start()
        KafkaStore(f"kafka://{own.address}/{topic}").put(TWO)
        assert store.get(TWO.id) == TWO
    finally:
        own.stop()


def test_brokers_that_want_a_login(brokers: tuple[str, str], topic: str) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="{}";'
    sasl = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN", **BRIEF}
    address = f"kafka://{brokers[1]}/{topic}"
    options = parse_options(
        {**sasl, "kafka.sasl.jaas.config": login.format("a secret"), "formatStore": address}, Scope.FROM
    )
    store = store_of(options)
    assert store is not None
    store.put(ONE)
    assert list(KafkaStore(f"kafka://{brokers[0]}/{topic}")) == [ONE]
    assert "secret" not in f"{store!r}"
    wrong = KafkaStore(address, {**options.kafka, "sasl.jaas.config": login.format("guessed")})
    with pytest.raises(PbioError, match=r"\[PBIO_KAFKA\](.|\n)*uthentication"):
        wrong.get(ONE.id)
    with pytest.raises(PbioError, match=r"\[PBIO_KAFKA\]"):
        KafkaStore(address, IMPATIENT).get(ONE.id)


def test_a_forked_process_reads_with_connections_of_its_own(broker: str, topic: str) -> None:
    code = f"""
import os
from pbio_spark.kafka.stores import open_store
store = open_store("kafka://{broker}/{topic}")
store.put(open_store("kafka://{broker}/{topic}-other").get(bytes.fromhex("{ONE.id.hex()}")))
if not (child := os.fork()):
    found = store.get(bytes.fromhex("{ONE.id.hex()}"))
    os._exit(0 if found is not None and found.name == "one" else 1)
assert os.waitpid(child, 0)[1] == 0
print(len(list(store)))
"""
    KafkaStore(f"kafka://{broker}/{topic}-other").put(ONE)
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (ran.stdout.strip(), ran.returncode) == ("1", 0), ran.stderr


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"security.protocl": "SSL"}, 'No such configuration property: "security.protocl"'),
        ({"Securty.protocol": "SSL"}, "did you mean 'security.protocol'?"),
        ({"bootstrap.servers": "a:1"}, "the address of the topic names the brokers"),
        ({"default.api.timeout.ms": "soon"}, "a number of milliseconds"),
        ({"ssl.truststore.location": "a.jks"}, "the client reads no JKS files"),
        ({"sasl.login.callback.handler.class": "x.Y"}, "a Java class"),
        ({"sasl.jaas.config": "com.sun.Krb5LoginModule required;"}, "PlainLoginModule"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, str], reason: str) -> None:
    pytest.importorskip("confluent_kafka")
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\]") as error:
        KafkaStore("kafka://localhost:1/formats", settings)
    assert reason in str(error.value)


def test_settings_of_java_and_what_they_become() -> None:
    from pbio_spark.kafka.settings import to_client

    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="a\\"b;c";'
    assert to_client({"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": login}) == {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": 'a"b;c',
    }
    stores = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "k.p12", "ssl.keystore.password": "s"}
    assert to_client(stores) == {"ssl.keystore.location": "k.p12", "ssl.keystore.password": "s"}
    assert to_client({"ssl.endpoint.identification.algorithm": ""}) == {"ssl.endpoint.identification.algorithm": "none"}


@pytest.mark.parametrize(
    "address",
    [
        "kafka://",
        "kafka:/host:1/topic",
        "Kafka:host:1/topic",
        "kafka://host:1",
        "kafka://host:1/",
        "kafka://h:1/a b",
        "kafka://h:1/a/b",
    ],
)
def test_addresses_that_name_no_topic(address: str) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\](.|\n)*kafka://localhost:9092/formats"):
        open_store(address)


@pytest.mark.parametrize(
    ("brokers", "hint"),
    [
        ("host", "the port is missing: host:9092 is usual"),
        ("a:1,[::1]", r"the port is missing: \[::1\]:9092 is usual"),
        ("::1:9092", r"in brackets: \[::1\]:9092"),
        ("h:0", "a port is a number from 1 to 65535"),
        ("a:1,h:65536", "a port is a number from 1 to 65535"),
        ("ann:secret@h:9092", "kafka.sasl.jaas.config"),
    ],
)
def test_brokers_that_are_none_and_what_may_be_meant(brokers: str, hint: str) -> None:
    with pytest.raises(PbioError, match=rf"\[PBIO_BAD_OPTION\](.|\n)*{hint}") as caught:
        open_store(f"kafka://{brokers}/topic")
    assert "secret" not in str(caught.value)


def test_without_the_client_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)
    with pytest.raises(PbioError, match=r"\[PBIO_MISSING_EXTRA\](.|\n)*pip install 'pbio-spark\[kafka\]'"):
        open_store("kafka://nowhere:1/formats")


def test_a_record_type_that_a_folder_and_a_topic_keep_alike(broker: str, topic: str, tmp_path: Path) -> None:
    wide = record_to_format(record("wide", [Field("x", FLOAT64)]))
    for address in (str(tmp_path), f"kafka://{broker}/{topic}"):
        store = open_store(address)
        store.put(wide)
        assert [store.get(wide.id), *store.find([wide.id]), *store] == [wide] * 3
