"""Three generations of producers, a stream that reads all of them, topics of results and of bad records, restarts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import pbio_spark as pbio
from pbio_spark import Format, PbioDeserializer, PbioSerializer, evolve, from_pbio, schema_of_pbio, to_pbio
from tests.kafka.test_store import make, say

pytestmark = pytest.mark.spark

FIRST = Format.of(pbio.parse_record({"Load": {"host": "string", "n": "int64", "load": "float64"}}), machine="sparc")
SECOND = evolve(
    FIRST,
    Format.of(pbio.parse_record({"Load": {"host": "string", "n": "int64", "user": "float64", "system": "float64"}})),
    "{ old.host = new.host; old.n = new.n; old.load = new.user + new.system; }",
)
THIRD = evolve(
    SECOND,
    Format.of(pbio.parse_record({"Load": {"host": "string", "n": "int64", "times": "float64[2]", "cores": "int32"}})),
    "{ old.host = new.host; old.n = new.n; old.user = new.times[0]; old.system = new.times[1]; }",
)
RESULT = "host string, n bigint, load double"
NEWEST = "host string, n bigint, times array<double>, cores int"
LIE = b"\2" + b"not a hash."
"""An ID that the store has with a body of another."""

PLACE = ["topic", "partition", "offset"]


class Producers:
    """Programs of three generations that write to one topic, and what they wrote."""

    def __init__(self, broker: str, topic: str) -> None:
        self.broker, self.topic = broker, topic
        self.store = f"kafka://{broker}/{topic}-formats"
        self.loads: dict[int, float] = {}
        self.bad: list[bytes] = []
        for name in (topic, f"{topic}-results", f"{topic}-dead"):
            make(broker, name)

    def first(self, count: int) -> None:
        self._write(FIRST, [{"load": n / 4} for n in range(count)])

    def second(self, count: int) -> None:
        self._write(SECOND, [{"user": n / 4, "system": 1.0} for n in range(count)])

    def third(self, count: int) -> None:
        self._write(THIRD, [{"times": [n / 4, 2.0], "cores": n} for n in range(count)])

    def others(self) -> None:
        """Messages that do not belong in the topic, and a null, which counts as nothing."""
        say(self.broker, f"{self.topic}-formats", (LIE, FIRST.body), (b"garbage", b"garbage"))
        bad = [b"\0\0\0\0\7avro", b'{"host": "a"}', b"\xc3\x01" + bytes(12), LIE + bytes(20)]
        self.bad += bad
        say(self.broker, self.topic, *((b"k", value) for value in bad), (b"k", None))

    def _write(self, form: Format, rows: list[dict[str, Any]]) -> None:
        from confluent_kafka import SerializingProducer

        serialize = PbioSerializer(form, self.store)
        producer = SerializingProducer({"bootstrap.servers": self.broker, "value.serializer": serialize})
        for row in rows:
            n = len(self.loads)
            self.loads[n] = row.get("load", sum(row.get("times", (row.get("user", 0), row.get("system", 0)))))
            producer.produce(self.topic, value={"host": f"h{n % 3}", "n": n, **row})
        producer.flush()


def topic_as(spark: SparkSession, producers: Producers, topic: str, *, stream: bool = False) -> DataFrame:
    reader: Any = spark.readStream if stream else spark.read
    given = reader.format("kafka").option("kafka.bootstrap.servers", producers.broker).option("subscribe", topic)
    frame: DataFrame = given.option("startingOffsets", "earliest").load()
    return frame


def start(spark: SparkSession, producers: Producers, kind: str, folder: Path) -> Any:
    """A query that writes good records to the topic of results, or bad ones to the dead letters."""
    options = {"formatStore": producers.store, "mode": "PERMISSIVE", "formatName": "Load"}
    record = from_pbio("value", f"{RESULT}, _corrupt_record struct<reason string>", options=options, origin=PLACE)
    frame = topic_as(spark, producers, producers.topic, stream=True).select("value", record.alias("r"))
    if kind == "results":
        result = to_pbio("result", RESULT, {"formatStore": producers.store, "formatName": "Result", "nulls": "mask"})
        good = frame.where("r is not null and r._corrupt_record is null").select("r.host", "r.n", "r.load")
        out = good.select(F.struct("host", "n", "load").alias("result")).select(result.alias("value"))
    else:
        out = frame.where("r._corrupt_record is not null").select(
            F.expr("r._corrupt_record.reason").alias("key"), "value"
        )
    sink = out.writeStream.format("kafka").option("kafka.bootstrap.servers", producers.broker)
    return sink.option("topic", f"{producers.topic}-{kind}").option("checkpointLocation", str(folder / kind)).start()


def check(spark: SparkSession, producers: Producers) -> None:
    """Every record came out once and unchanged, and every bad one once, with the reason."""
    results = topic_as(spark, producers, f"{producers.topic}-results")
    options = {"formatStore": producers.store, "formatName": "Result"}
    rows = results.select(from_pbio("value", schema_of_pbio(options=options), options=options).alias("r")).collect()
    assert sorted((row["r"]["n"], row["r"]["load"]) for row in rows) == sorted(producers.loads.items())
    dead = topic_as(spark, producers, f"{producers.topic}-dead").collect()
    assert Counter(bytes(row["value"]) for row in dead) == Counter(producers.bad)
    reasons = "\n".join(row["key"].decode() for row in dead)
    for said in (
        "schema ID 7",
        "it looks like JSON",
        "Avro single-object",
        LIE.hex(),
        f"topic {producers.topic}, partition 0, offset",
    ):
        assert said in reasons


def test_generations_come_and_go_while_the_stream_runs(
    kafka_spark: SparkSession, broker: str, topic: str, tmp_path: Path
) -> None:
    producers = Producers(broker, topic)
    producers.first(10)
    producers.second(10)
    producers.others()
    queries = [start(kafka_spark, producers, kind, tmp_path) for kind in ("results", "dead")]
    for query in queries:
        query.processAllAvailable()
    producers.third(10)  # a format that was unknown when the queries began
    producers.first(5)
    for query in queries:
        query.processAllAvailable()
        query.stop()
    producers.others()
    producers.second(7)
    for kind in ("results", "dead"):
        query = start(kafka_spark, producers, kind, tmp_path)
        query.processAllAvailable()
        query.stop()
    check(kafka_spark, producers)

    # As a batch: as the newest type, and only what a filter takes.
    options = {"formatStore": producers.store, "mode": "PERMISSIVE", "formatName": "Load"}
    frame = topic_as(kafka_spark, producers, topic)
    newest = frame.select(from_pbio("value", NEWEST, options=options).alias("r")).where("r is not null").select("r.*")
    assert sorted(newest.select("n").toPandas()["n"]) == sorted(producers.loads)
    assert newest.where("cores is not null").select("times").first()["times"] == [0.0, 2.0]
    options["filter"] = "{ return input.load > 3.0; }"
    options["readerFormat"] = FIRST.id.hex()
    some = frame.select(from_pbio("value", RESULT, options=options).alias("r")).where("r is not null").select("r.n")
    assert sorted(row["n"] for row in some.collect()) == [n for n, load in producers.loads.items() if load > 3]

    # Failing fast, the error says which record.
    options = {"formatStore": producers.store, "formatName": "Load"}
    record = from_pbio("value", RESULT, options=options, origin=PLACE)
    with pytest.raises(PySparkException, match=rf"\[PBIO_UNKNOWN_FORMAT\](.|\n)*topic {topic}, partition 0, offset 20"):
        frame.select(record).collect()
    assert PbioDeserializer(producers.store, FIRST)(
        PbioSerializer(THIRD, producers.store)({"host": "x", "n": 1, "times": [1.0, 2.0], "cores": 1})
    ) == {"host": "x", "n": 1, "load": 3.0}
