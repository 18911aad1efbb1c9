"""Every file of the corpus through Spark, compared with its expected values."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ecode.types import Array, Basic, Kind, Pointer, Ref, Type
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import Presentation
from pbio_spark.wire import ItemKind, Scanner
from tests.columns.expected import record_to_row
from tests.corpus import ABSENT, CORPUS, expected_items
from tests.ffs.test_library import stream_to_file

pytestmark = pytest.mark.spark

DEPTH = 4
PRESENTATION = Presentation(recursive_depth=DEPTH)


def families() -> list[Any]:
    """The files of the corpus by family: what one sender wrote on several machines."""
    files = sorted(
        (*CORPUS.glob("ffs/generated/*.ffs"), *CORPUS.glob("ffs/foreign/*.ffs"), *CORPUS.glob("ffs/golden/*.bin"))
    )
    if not files:
        return [pytest.param([], id="absent", marks=pytest.mark.skip(ABSENT))]
    by_stem: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        by_stem[file.name.partition(".")[0]].append(file)
    return [pytest.param(files, id=stem) for stem, files in by_stem.items()]


@pytest.mark.parametrize("files", families())
def test_spark_reads_what_the_corpus_says(spark: SparkSession, files: list[Path], tmp_path: Path) -> None:
    expected: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(dict)
    for file in files:
        content = file.read_bytes()
        copy = tmp_path / file.name
        copy.write_bytes(stream_to_file(content) if file.name.startswith("context_test_output") else content)
        for name, rows in expected_rows(file, copy).items():
            expected[name][copy.name] = rows
    for name, by_file in expected.items():
        reader = spark.read.format("pbio").option("recursiveFieldMaxDepth", DEPTH).option("metadataColumn", "_m")
        rows = reader.option("formatName", json.dumps([name])).load(str(tmp_path)).collect()
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            values = row.asDict(recursive=True)
            metadata = values.pop("_m")
            assert metadata["format_name"] == name
            found[Path(metadata["file_path"]).name].append(values)
        assert found.keys() == by_file.keys()
        for file_name, wanted in by_file.items():
            for got, want in zip(found[file_name], wanted, strict=True):
                assert same(got, want), f"{file_name}: {got} is not {want}"


def expected_rows(file: Path, copy: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of a file by the name of their format, from the lines beside it."""
    scanner = Scanner(copy.read_bytes())
    forms = [scanner.format_of(item) for item in scanner.items() if item.kind is ItemKind.DATA]
    lines = [line for line in expected_items(file) if line["kind"] == "data"]
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for form, line in zip(forms, lines, strict=True):
        assert form.name == line["format"]
        rows[form.name].append(record_to_row(form, revive(form, line["value"]), PRESENTATION))
    return rows


def revive(form: Format, value: dict[str, Any]) -> dict[str, Any]:
    """A record's values as `decode(..., text=None)` gives them, from their JSON."""
    nodes: list[dict[str, Any]] = value.get("$nodes", [value])
    made: dict[int, dict[str, Any]] = {}

    def node(name: str, number: int) -> dict[str, Any]:
        if number not in made:
            made[number] = {}
            made[number] |= struct(name, nodes[number])
        return made[number]

    def struct(name: str, values: dict[str, Any]) -> dict[str, Any]:
        return {field.name: one(field.type, values[field.name]) for field in form.record.struct(name).fields}

    def one(type_: Type, said: Any) -> Any:
        while isinstance(type_, Pointer):
            type_ = type_.target
        match type_:
            case _ if said is None:
                return None
            case Array(element, dims):
                return nested(element, said, len(dims))
            case Ref(name):
                return node(name, said["$node"]) if "$node" in said else struct(name, said)
            case Basic(Kind.STRING):
                return said.encode()
            case Basic(Kind.FLOAT):
                return float(said)
        return said

    def nested(element: Type, said: Any, depth: int) -> Any:
        return [nested(element, part, depth - 1) for part in said] if depth else one(element, said)

    return node(form.name, 0)


def same(got: Any, want: Any) -> bool:
    """Whether a value from Spark is the one expected; columns of other versions are null."""
    if isinstance(got, dict) and isinstance(want, dict):
        return want.keys() <= got.keys() and all(same(value, want.get(name)) for name, value in got.items())
    if isinstance(got, list) and isinstance(want, list):
        return len(got) == len(want) and all(map(same, got, want))
    if isinstance(got, float) and isinstance(want, float):
        return got == want or (math.isnan(got) and math.isnan(want))
    return bool(got == want)
