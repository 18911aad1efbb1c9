"""The data source "bp5" through Spark: what the tests without Spark cannot show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.bp5.made import Maker, make
from tests.bp5.test_corpus import expected_rows
from tests.bp5.test_golden import GOLDEN, REFUSED
from tests.bp5.values import spelled
from tests.corpus import bp5_folder, bp5_sets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_every_set_of_the_corpus_comes_through_spark(spark: SparkSession) -> None:
    for parameter in bp5_sets():
        (values,) = parameter.values
        if not parameter.marks:
            found = [
                {name.lstrip("/"): value for name, value in row.items()} for row in rows(spark, bp5_folder(values))
            ]
            assert found == expected_rows(json.loads(values.read_text())), values.stem


def rows(spark: SparkSession, folder: Path) -> list[dict[str, Any]]:
    """The rows, without what is null in them."""
    return [
        {
            name: spelled(value)
            for name, value in row.asDict(recursive=True).items()
            if value is not None and name != "step"
        }
        for row in spark.read.format("bp5").load(str(folder)).collect()
    ]


def test_every_set_of_the_conformance_set_comes_through_spark(spark: SparkSession) -> None:
    for values in sorted(GOLDEN.glob("*.json")):
        if values.stem not in REFUSED:
            assert rows(spark, values.with_suffix(".bp")) == json.loads(values.read_text())["rows"], values.stem


def test_batch_elements_metadata_and_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    maker = Maker(tmp_path / "run.bp")
    for step in range(3):
        maker.step({"t": step, "x": np.arange(4.0) + step}, {"x/units": "m", "x/unitSI": 0.5} if not step else None)
    maker.close()
    steps = spark.read.format("bp5").load(str(tmp_path))
    assert steps.schema["x"].metadata == {"units": "m", "unitSI": 0.5}
    assert steps.count() == 3
    elements = spark.read.format("bp5").options(rows="elements", variables="x", where="{ return input.x > 4; }")
    assert [tuple(row) for row in elements.load(str(tmp_path)).collect()] == [(2, 3, 5.0)]
    projected = spark.read.format("bp5").schema("t BIGINT, step INT").option("fromStep", 1).load(str(tmp_path))
    assert [tuple(row) for row in projected.collect()] == [(1, 1), (2, 2)]

    make(tmp_path / "more.bp", [{"t": 10, "x": np.zeros(1)}])
    stream = spark.readStream.format("bp5").schema("step BIGINT, t BIGINT").load(str(tmp_path))
    query = (
        stream.writeStream.format("memory")
        .queryName("bp5_steps")
        .option("checkpointLocation", str(tmp_path / "_checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(row["t"] for row in spark.table("bp5_steps").collect()) == [0, 1, 2, 10]


def test_folders_are_only_read(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"PBIO_BAD_OPTION\] BP5 folders can only be read(.|\n)*format\(.pbio.\)"):
        spark.range(2).write.format("bp5").mode("append").save(str(tmp_path / "out"))


def test_format_pbio_names_this_source_for_a_bp5_folder(spark: SparkSession, tmp_path: Path) -> None:
    run = make(tmp_path / "run.bp", [{"t": 1}])
    with pytest.raises(Exception, match=r'PBIO_NOT_FFS.*\n.*\n.*format\("bp5"\)'):
        spark.read.format("pbio").load(str(run))
