"""Kafka: from_pbio and to_pbio beside Spark's from_avro and to_avro, on cached binary columns and through a broker.

The same values on both sides; Avro's bytes have no frame, as Spark reads and writes them. Jars are asked of
Maven by their names. PBIO's bytes have the header that names the format. Beside Avro stands also a Python function that
returns a column that it had before: no function that decodes or encodes in Python can be faster.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import pbio_spark as pbio
from benchmarks import Row
from pbio_spark import FolderStore, Format, evolve, from_pbio, to_pbio
from tests.kafka.broker import running
from tests.kafka.maven import AVRO, CONNECTOR, jars

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

COUNT = int(os.environ.get("PBIO_BENCH_ROWS", 400_000))
REPEATS = 3
PARTITIONS = 2
BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"

KINDS = {
    "5 numbers": (
        "struct(id a, cast(id as int) b, id / 7 c, cast(id / 3 as float) d, cast(id % 100 as int) e)",
        0.9,
    ),
    "2 strings": ("struct(concat('host-', id % 1000) a, concat('a message of number ', id) b)", 0.9),
    "a list of 10 doubles": ("struct(transform(sequence(0, 9), i -> id / (i + 1)) v)", 1.0),
    "3 structures": ("struct(transform(sequence(0, 2), i -> struct(id + i as n, id / (i + 1) as x)) s)", 1.0),
}
"""A value of each kind, and how many times as fast as Avro we want to be."""


def rows() -> Iterator[Row]:
    from pyspark.sql import SparkSession

    jars_of_spark = ",".join(jars((*CONNECTOR, *AVRO), transitive=False))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jars_of_spark} pyspark-shell"
    spark = pbio.spark_session(SparkSession.builder.master("local[2]").config("spark.driver.memory", "3g"))
    spark.conf.set(BATCH, 2**31 - 1)
    try:
        with tempfile.TemporaryDirectory() as folder, running(Path(folder), ("-Xmx1g",)) as (broker, _):
            for what, (value, goal) in KINDS.items():
                yield from of_kind(spark, broker, what, value, goal)
            yield from evolved(spark)
    finally:
        spark.stop()


def of_kind(spark: SparkSession, broker: str, what: str, value: str, goal: float) -> Iterator[Row]:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.avro.functions import from_avro, to_avro

    frame = kept(spark.range(0, COUNT, 1, PARTITIONS).selectExpr(f"{value} v"))
    schema = frame.schema["v"].dataType
    store = FolderStore(tempfile.mkdtemp())
    ours_to = to_pbio("v", schema, {"formatStore": store.root, "nulls": "mask"})
    avro_schema = json.dumps(avro_type(schema))
    theirs_to = to_avro(F.col("v"), avro_schema)
    yield row(f"{what}, to", goal, select(frame, ours_to), select(frame, theirs_to))
    ready_to = ready_made(frame.select(ours_to.alias("made")), "v", "binary")
    yield row(f"{what}, to, ready-made", None, select(frame, ready_to), select(frame, theirs_to))
    ours, theirs = kept(frame.select(ours_to.alias("value"))), kept(frame.select(theirs_to.alias("value")))
    ours_from = from_pbio("value", schema, options={"formatStore": store.root})
    theirs_from = from_avro("value", avro_schema)
    yield row(f"{what}, from", goal, select(ours, ours_from), select(theirs, theirs_from))
    ready_from = ready_made(frame.select(F.col("v").alias("made")), "value", schema)
    yield row(f"{what}, from, ready-made", None, select(ours, ready_from), select(theirs, theirs_from))

    topics = {"ours": f"{what}-pbio".replace(" ", "-"), "theirs": f"{what}-avro".replace(" ", "-")}
    for name, data in (("ours", ours), ("theirs", theirs)):
        make_topic(broker, topics[name])
        send(data, broker, topics[name])()

    def read(name: str, column: Column) -> Callable[[], object]:
        given = spark.read.format("kafka").option("kafka.bootstrap.servers", broker).option("subscribe", topics[name])
        return select(given.load(), column)

    yield row(f"{what}, from a topic", goal, read("ours", ours_from), read("theirs", theirs_from), 2)
    size = {name: mean_size(data) for name, data in (("ours", ours), ("theirs", theirs))}
    text = mean_size(frame.select(F.to_json("v").cast("binary").alias("value")))
    yield Row(f"{what}, bytes of a record", "Avro", size["ours"], size["theirs"], unit="bytes")
    yield Row(f"{what}, bytes of a record", "JSON", size["ours"], text, unit="bytes")
    for data in (frame, ours, theirs):
        data.unpersist()


def evolved(spark: SparkSession) -> Iterator[Row]:
    """Newer records as an older type, by a reader's schema of Avro, and here by columns or a transform.

    Avro's reader leaves fields out, adds some with defaults, and renames one by its alias. The same is done here by
    columns, defaults and an alias, then with `readerFormat` and E-code that the newer format carries.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.avro.functions import from_avro, to_avro

    frame = kept(
        spark.range(0, COUNT, 1, PARTITIONS).selectExpr(
            "struct(id n, concat('host-', id % 1000) host, id / 3 user, id / 5 system, id / 7 idle) v"
        )
    )
    schema = frame.schema["v"].dataType
    writers = avro_type(schema)
    n, host, user = writers["fields"][:3]
    renamed = {**host, "name": "machine", "aliases": ["host"]}
    added = {"name": "load", "type": "double", "default": 0.5}
    theirs = kept(frame.select(to_avro(F.col("v"), json.dumps(writers)).alias("value")))

    def as_avro(*fields: Any) -> Column:
        readers = {"avroSchema": json.dumps({**writers, "fields": list(fields)})}
        return from_avro("value", json.dumps(writers), readers)

    new_type = {"n": "int64", "host": "string", **dict.fromkeys(("user", "system", "idle"), "float64")}
    plain = Format.of(pbio.parse_record({"Load": new_type}))
    old = Format.of(pbio.parse_record({"Load": {"n": "int64", "machine": "string", "load": "float64"}}))
    code = "{ old.n = new.n; old.machine = new.host; old.load = new.user + new.system; }"
    renaming = {"fieldAliases": '{"machine": "host"}', "defaults": '{"load": 0.5}'}
    older = "n bigint, machine string, load double"
    for what, formats, columns, options, avros in (
        ("fields left out", [plain], "n bigint, host string, user double", {}, as_avro(n, host, user)),
        ("left out, renamed, added", [plain], older, renaming, as_avro(n, renamed, added)),
        # Avro has no code: beside it stands what it can do.
        (
            "a transform",
            [evolve(old, plain, code), old],
            older,
            {"readerFormat": old.id.hex()},
            as_avro(n, renamed, added),
        ),
    ):
        store = FolderStore(tempfile.mkdtemp())
        for form in formats:
            store.put(form)
        said = {"formatStore": store.root, "writeFormat": formats[0].id.hex()}
        ours = kept(frame.select(to_pbio("v", schema, said).alias("value")))
        mine = from_pbio("value", columns, options={"formatStore": store.root, **options})
        yield row(f"newer records, {what}", 1.0, select(ours, mine), select(theirs, avros))
        ours.unpersist()


def ready_made(frame: DataFrame, of: str, type_: DataType | str) -> Column:
    """A Python function of a column that returns rows which it was given before."""
    from pyspark.sql.functions import arrow_udf

    most = int(frame.sparkSession.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 10_000)
    table = frame.limit(most).toArrow().combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    read: list[pa.Array] = []

    def made(values: pa.Array) -> pa.Array:
        if not read:
            read.append(pa.ipc.open_stream(data).read_all().column(0).combine_chunks())
        return read[0].slice(0, len(values))

    return arrow_udf(made, type_)(of)


def row(
    what: str, goal: float | None, ours: Callable[[], object], theirs: Callable[[], object], repeats: int = REPEATS
) -> Row:
    from benchmarks import side_by_side

    ours()
    theirs()
    first, second = side_by_side(ours, theirs, repeats)
    return Row(what, "Avro", first, second, COUNT, "records", goal)


def select(frame: DataFrame, column: Column) -> Callable[[], object]:
    """Makes a column of all rows, and throws it away."""
    return lambda: frame.select(column).write.format("noop").mode("overwrite").save()


def kept(frame: DataFrame) -> DataFrame:
    cached = frame.persist()
    cached.count()
    return cached


def send(frame: DataFrame, broker: str, topic: str) -> Callable[[], object]:
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", broker).option("topic", topic)
    return lambda: writer.mode("append").save()


def make_topic(broker: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient({"bootstrap.servers": broker})
    client.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()


def mean_size(frame: DataFrame) -> float:
    found = frame.selectExpr("avg(length(value)) size").first()
    return float(found["size"])


def avro_type(type_: Any, name: str = "r") -> Any:
    """The Avro schema of a Spark type whose values are never null."""
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(type_, StructType):
        fields = [{"name": f.name, "type": avro_type(f.dataType, f"{name}_{f.name}")} for f in type_.fields]
        return {"type": "record", "name": name, "fields": fields}
    if isinstance(type_, ArrayType):
        return {"type": "array", "items": avro_type(type_.elementType, f"{name}_item")}
    return {"bigint": "long", "int": "int", "double": "double", "float": "float", "string": "string"}[
        type_.simpleString()
    ]
