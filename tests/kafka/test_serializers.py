"""(De)serialisers in the client library's own producers and consumers, over a broker."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pbio_spark as pbio
from pbio_spark import FolderStore, Format, MemoryStore, PbioDeserializer, PbioError, PbioSerializer, evolve
from pbio_spark.kafka.store import KafkaStore
from pbio_spark.wire import ItemKind, Scanner
from tests.kafka.test_store import make

OLD = Format.of(pbio.parse_record({"Load": {"host": "string", "load": "float64"}}))
NEW_TYPE = Format.of(pbio.parse_record({"Load": {"host": "string", "user": "float64", "system": "float64"}}))
NEW = evolve(OLD, NEW_TYPE, "{ old.host = new.host; old.load = new.user + new.system; }")
BIG_ENDIAN = Format.of(OLD.record, machine="sparc")


def received(broker: str, topic: str, count: int, deserialize: PbioDeserializer) -> list[Any]:
    from confluent_kafka import DeserializingConsumer

    config = {"bootstrap.servers": broker, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = DeserializingConsumer({**config, "key.deserializer": deserialize, "value.deserializer": deserialize})
    consumer.subscribe([topic])
    found: list[Any] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        found.append((message.key(), message.value()))
    consumer.close()
    return found


def test_producers_of_several_generations_and_a_consumer_that_knows_one(broker: str, topic: str) -> None:
    from confluent_kafka import SerializingProducer

    make(broker, topic)
    store = f"kafka://{broker}/{topic}-formats"
    for form, values in (
        (OLD, {"load": 1.0}),
        (BIG_ENDIAN, {"load": 2.0}),
        (NEW, {"user": 1.0, "system": 2.0}),
    ):
        serialize = PbioSerializer(form, store)
        key = PbioSerializer(pbio.parse_record({"key": {"n": "int32"}}), store)
        producer = SerializingProducer(
            {"bootstrap.servers": broker, "key.serializer": key, "value.serializer": serialize}
        )
        producer.produce(topic, key={"n": 7}, value={"host": "a", **values})
        producer.flush()
    producer.produce(topic, key=None, value=None)
    producer.flush()
    found = received(broker, topic, 4, PbioDeserializer(store))
    assert found[0] == ({"n": 7}, {"host": "a", "load": 1.0})
    assert found[2:] == [({"n": 7}, {"host": "a", "user": 1.0, "system": 2.0}), (None, None)]
    as_old = PbioDeserializer(KafkaStore(store), OLD)
    raw = [PbioSerializer(form, store)(values) for form, values in ((BIG_ENDIAN, found[1][1]), (NEW, found[2][1]))]
    assert [as_old(value) for value in raw] == [{"host": "a", "load": 2.0}, {"host": "a", "load": 3.0}]


def test_the_format_is_there_before_the_first_record(tmp_path: Path) -> None:
    serialize = PbioSerializer(NEW, str(tmp_path), beside=[OLD])
    assert set(FolderStore(tmp_path)) == {OLD, NEW}
    assert serialize(None) is None
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_VALUE\](.|\n)*user"):
        serialize({"host": "a"})


def test_what_a_deserialiser_refuses() -> None:
    formats = MemoryStore([OLD])
    deserialize = PbioDeserializer(formats)
    record = PbioSerializer(OLD, formats)({"host": "a", "load": 1.0})
    assert record is not None
    for value, code, said in (
        (b"", "PBIO_UNKNOWN_FORMAT", "it is empty"),
        (b"\0\0\0\0\7abc", "PBIO_UNKNOWN_FORMAT", "Confluent's serialisers, schema ID 7"),
        (PbioSerializer(NEW, MemoryStore())({"host": "a", "user": 1.0, "system": 0.0}), "PBIO_UNKNOWN_FORMAT", "02"),
        (record[:-1], "PBIO_BAD_RECORD", ""),
    ):
        with pytest.raises(PbioError, match=rf"\[{code}\].*{said}"):
            deserialize(value)
    other = pbio.parse_record({"Other": {"x": "float64", "y": "float64"}})
    with pytest.raises(PbioError, match=r"\[PBIO_REJECTED\]"):
        PbioDeserializer(formats, other)(record)

    class Context:
        topic = "loads"

    for wanted in (None, OLD):
        with pytest.raises(PbioError, match=r"at: topic loads"):
            PbioDeserializer(formats, wanted)(record[:-1], Context())


@pytest.mark.parametrize(
    "wanted", ["Load", {"Load": {"load": "float64"}}, 7, ""], ids=["name", "json", "number", "empty"]
)
def test_a_wrong_type_is_refused_when_it_is_given(wanted: Any) -> None:
    formats = MemoryStore()
    for make_one in (lambda: PbioDeserializer(formats, wanted), lambda: PbioSerializer(wanted, formats)):
        with pytest.raises(PbioError, match=r"\[PBIO_BAD_TYPE\](.|\n)*PbioDeserializer\(store, type\)"):
            make_one()
    assert list(formats) == []


def test_addresses_and_settings_are_refused_when_they_are_given() -> None:
    pytest.importorskip("confluent_kafka")
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\](.|\n)*kafka://localhost:9092/formats"):
        PbioDeserializer("kafka:/h:1/formats", OLD)
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\](.|\n)*did you mean 'security.protocol'"):
        PbioDeserializer("kafka://h:1/formats", OLD, settings={"securty.protocol": "SSL"})


def test_the_store_that_lacks_a_format_is_named(broker: str, topic: str, tmp_path: Path) -> None:
    record, address = PbioSerializer(OLD, MemoryStore())({"host": "a", "load": 1.0}), f"kafka://{broker}/{topic}"
    for store, said in ((address, f"{address} (there is no such topic)"), (str(tmp_path), str(tmp_path))):
        with pytest.raises(PbioError, match=r"\[PBIO_UNKNOWN_FORMAT\]") as error:
            PbioDeserializer(store, wait=0.01)(record)
        assert f"not in {said}" in (error.value.hint or "")
    KafkaStore(address).put(NEW)
    with pytest.raises(PbioError, match=rf"not in {address}$"):
        PbioDeserializer(address)(record)


def test_a_deserialiser_waits_for_a_format(tmp_path: Path) -> None:
    record = PbioSerializer(OLD, MemoryStore())({"host": "a", "load": 1.0})
    later = threading.Timer(0.3, FolderStore(tmp_path).put, [OLD])
    later.start()
    assert PbioDeserializer(str(tmp_path), wait=30)(record) == {"host": "a", "load": 1.0}
    later.join()


def test_no_client_is_needed_without_a_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    serialize = PbioSerializer(OLD, str(tmp_path))
    assert PbioDeserializer(str(tmp_path))(serialize({"host": "a", "load": 1.0})) == {"host": "a", "load": 1.0}
    with pytest.raises(PbioError, match=r"\[PBIO_MISSING_EXTRA\]"):
        PbioSerializer(OLD, "kafka://localhost:1/formats")


def test_a_date_that_python_lacks_is_refused_with_its_field() -> None:
    form = Format.of(pbio.parse_record({"o": {"n": "int32", "day": "date"}}))
    store = MemoryStore([form])
    value = pbio.encode(form, {"n": 1, "day": 2932897})
    for type_ in (None, form):
        with pytest.raises(PbioError) as raised:
            PbioDeserializer(store, type_)(value)
        error = raised.value
        assert (error.code, error.field, error.record) == ("PBIO_BAD_VALUE", "$.day", None)
        assert "decode" in str(error.hint)
    assert pbio.decode(form, value)["day"] == 2932897


def test_a_wrong_record_or_store_is_refused() -> None:
    store = MemoryStore()
    record = PbioSerializer(OLD, store)({"host": "a", "load": 1.0})
    assert record is not None
    deserialize = PbioDeserializer(store)
    for given in (record, bytearray(record), memoryview(record)):
        assert deserialize(given) == {"host": "a", "load": 1.0}  # type: ignore[arg-type]
    with pytest.raises(PbioError, match=r"PBIO_BAD_VALUE.* a str is not a record"):
        deserialize("text")  # type: ignore[arg-type]
    for odd in (None, 3, OLD, object()):
        for make_ in (lambda store: PbioSerializer(OLD, store), PbioDeserializer):
            with pytest.raises(PbioError, match="PBIO_BAD_TYPE"):
                make_(odd)
    for place in (store, "a/folder"):
        with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION.*settings"):
            PbioDeserializer(place, settings={"security.protocol": "SSL"})
    for wait in (-1, float("nan"), "5", None, True):
        with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION.*wait"):
            PbioDeserializer(store, wait=wait)  # type: ignore[arg-type]


def test_a_store_that_is_given_is_waited_for_too() -> None:
    written, store = MemoryStore(), MemoryStore()
    record = PbioSerializer(OLD, written)({"host": "a", "load": 1.0})
    later = threading.Timer(0.1, store.put, [OLD])
    later.start()
    assert PbioDeserializer(store, wait=60)(record) == {"host": "a", "load": 1.0}
    later.join()


def test_a_folder_is_a_store_by_its_path(tmp_path: Path) -> None:
    record = PbioSerializer(OLD, tmp_path / "store")({"host": "a", "load": 1.0})
    assert PbioDeserializer(tmp_path / "store")(record) == {"host": "a", "load": 1.0}


def test_none_is_told_what_has_nulls() -> None:
    with pytest.raises(PbioError, match=r"None cannot be stored as float64.*\*float64"):
        PbioSerializer(OLD, MemoryStore())({"host": "a", "load": None})


@pytest.mark.parametrize("nulls", ["mask", "pointer"])
def test_a_null_array_is_not_an_empty_one(tmp_path: Path, nulls: str) -> None:
    """As tables have it, whatever represents nulls."""
    types = [pa.binary(), pa.list_(pa.int32()), pa.string(), pa.list_(pa.binary()), pa.struct([("y", pa.binary())])]
    schema = pa.schema([(f"c{number}", type_) for number, type_ in enumerate(types)])
    rows = [
        {"c0": b"ab", "c1": [1, None], "c2": "q", "c3": [b"a", None, b""], "c4": {"y": None}},
        {"c0": None, "c1": None, "c2": None, "c3": None, "c4": None},
        {"c0": b"", "c1": [], "c2": "", "c3": [], "c4": {"y": b""}},
    ]
    path = tmp_path / "a.ffs"
    with pbio.open_writer(path, schema, nulls=nulls) as writer:
        writer.write(pa.Table.from_pylist(rows, schema))
    assert list(pbio.read(path)) == rows
    with path.open("rb") as source:
        scanner = Scanner(source, str(path))
        records = [scanner.read(item) for item in scanner.items() if item.kind is ItemKind.DATA]
    store = MemoryStore(scanner.formats.values())
    assert [PbioDeserializer(store)(one) for one in records] == rows
