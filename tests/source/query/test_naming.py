"""Transforms of options: the names of their record types, the formats that they serve, and their rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, StructField, StructType

import pbio_spark as pbio
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import json_to_record, record_to_json
from pbio_spark.formats.store import FolderStore
from pbio_spark.source.options.parse import parse_options
from pbio_spark.source.options.scopes import Scope
from pbio_spark.source.query.request import options_to_request
from pbio_spark.wire import FileWriter
from tests.source.local import load

V1 = json_to_record('{"sensor": {"id": "int64", "temp": "float64", "place": "string"}}')
V2 = json_to_record('{"sensor": {"id": "int64", "kelvin": "float64", "place": "string"}}')
MACHINES = ("x86-64", "i386", "sparc")
KELVIN = StructType([StructField("kelvin", DoubleType())])
UP = "{ old.id = new.id; old.kelvin = new.temp + 273.0; old.place = new.place; }"
IDS = {machine: record_to_format(V1, machine).id.hex() for machine in MACHINES}


def file_of(path: Path, form: Format, *records: dict[str, Any], also: tuple[Format, ...] = ()) -> None:
    with FileWriter(path) as writer:
        for one in also:
            writer.describe(one)
        for values in records:
            writer.data(form, values)


@pytest.fixture
def sensors(tmp_path: Path) -> Path:
    """The old version from three machines, and the new one from one."""
    for machine in MACHINES:
        values = {"id": 1, "temp": 1.0, "place": machine}
        file_of(tmp_path / f"1-{machine}.ffs", record_to_format(V1, machine), values)
    file_of(tmp_path / "2.ffs", record_to_format(V2), {"id": 2, "kelvin": 300.0, "place": "new"})
    return tmp_path


def option(source: Any, target: Any, ecode: str = UP) -> str:
    return json.dumps([{"from": source, "to": target, "ecode": ecode}])


@pytest.mark.parametrize("source", [*IDS.values(), "sensor@1", record_to_json(V1), json.loads(record_to_json(V1))])
@pytest.mark.parametrize("target", [record_to_format(V2).id.hex(), "sensor@2", record_to_json(V2)])
def test_a_transform_is_of_record_types_however_they_are_named(sensors: Path, source: Any, target: Any) -> None:
    rows = load(sensors, readerFormat=record_to_json(V2), transforms=option(source, target))
    assert [row["kelvin"] for row in rows] == [274.0, 274.0, 274.0, 300.0]


def test_the_order_of_fields_is_not_part_of_the_type(sensors: Path) -> None:
    turned = '{"sensor": {"place": "string", "temp": "float64", "id": "int64"}}'
    rows = load(sensors, readerFormat="sensor@2", transforms=option(turned, "sensor@2"))
    assert [row["kelvin"] for row in rows] == [274.0, 274.0, 274.0, 300.0]


def test_a_type_may_be_one_that_only_the_reader_has(sensors: Path) -> None:
    wanted = '{"mine": {"f": "float64"}}'
    (sensors / "2.ffs").unlink()
    ecode = "{ to.f = from.temp; }"
    for target in ("mine", wanted):
        rows = load(sensors, readerFormat=wanted, transforms=option("sensor", target, ecode))
        assert rows == [{"f": 1.0}] * 3


@pytest.mark.parametrize("words", [("new", "old"), ("from", "to"), ("input", "output")])
def test_a_reader_calls_the_two_records_as_he_likes(sensors: Path, words: tuple[str, str]) -> None:
    source, target = words
    ecode = UP.replace("new.", f"{source}.").replace("old.", f"{target}.")
    said: dict[str, Any] = {"readerFormat": "sensor@2", "transforms": option("sensor@1", "sensor@2", ecode)}
    assert [row["kelvin"] for row in load(sensors, **said)] == [274.0, 274.0, 274.0, 300.0]
    assert [row["id"] for row in load(sensors, **said, filter="{ return input.kelvin > 280; }")] == [2]


def test_a_name_that_several_types_have_lists_their_versions(sensors: Path) -> None:
    with pytest.raises(PbioError, match=r"PBIO_SEVERAL_FORMATS\] 2 record types are called 'sensor'(.|\n)*sensor@1 \("):
        load(sensors, transforms=option("sensor", "sensor@2"))
    with pytest.raises(PbioError, match=r"did you mean 'sensor@[12]'"):
        load(sensors, readerFormat="sensor@3")


@pytest.fixture
def nullable(tmp_path: Path) -> Path:
    """The old version with nulls by mask and by pointer."""
    columns = pa.schema([("id", pa.int64()), ("temp", pa.float64()), ("place", pa.string())])
    for number, nulls in enumerate(("mask", "pointer")):
        with pbio.open_writer(tmp_path / f"{nulls}.ffs", columns, formatName="sensor", nulls=nulls) as writer:
            writer.write({"id": 2 * number, "temp": 1.0, "place": "a"})
            writer.write({"id": 2 * number + 1, "temp": None, "place": "b"})
    return tmp_path


@pytest.mark.parametrize("source", ["sensor", json.loads(record_to_json(V1))])
def test_how_nulls_are_written_makes_no_difference_to_what_a_transform_leads_from(nullable: Path, source: Any) -> None:
    """A null reads as zero, and `present` tells."""
    said: dict[str, Any] = {"readerFormat": record_to_json(V2)}
    rows = load(nullable, **said, transforms=option(source, "sensor", UP))
    assert [row["kelvin"] for row in rows] == [274.0, 273.0] * 2
    kelvin = "if (present(from.temp)) to.kelvin = from.temp + 273.0; else to.kelvin = -1;"
    rows = load(nullable, **said, transforms=option(source, "sensor", f"{{ to.id = from.id; {kelvin} }}"))
    assert [row["kelvin"] for row in rows] == [274.0, -1.0] * 2


def test_what_the_reader_calls_so_is_meant_where_the_files_have_other_types_of_the_name(sensors: Path) -> None:
    rows = load(sensors, readerFormat=record_to_json(V2), transforms=option(json.loads(record_to_json(V1)), "sensor"))
    assert [row["kelvin"] for row in rows] == [274.0, 274.0, 274.0, 300.0]


def test_a_transform_that_fits_no_record_says_how_the_nearest_type_differs(sensors: Path) -> None:
    """It may be why a column is empty, so it is told before that."""
    (sensors / "2.ffs").unlink()
    other = '{"sensor": {"id": "int32", "temp": "float64", "place": "string"}}'
    with pytest.raises(PbioError, match=r"PBIO_UNFILLED(.|\n)*the nearest, differs: ~ id: int32 -> int64") as caught:
        load(sensors, readerFormat=record_to_json(V2), transforms=option(json.loads(other), "sensor"))
    assert "did you mean" not in str(caught.value)


def test_what_does_not_work_is_an_error(sensors: Path) -> None:
    def refused(source: str, target: str, ecode: str = UP) -> PbioError:
        with pytest.raises(PbioError) as caught:
            load(sensors, readerFormat="sensor@2", transforms=option(source, target, ecode))
        return caught.value

    wrong = refused("sensor@1", "sensor@2", "{ old.id = new.idd; }")
    assert wrong.code == "PBIO_BAD_PROGRAM"
    assert "{ old.id = new.idd; }" in str(wrong)
    assert "^^^" in str(wrong)
    assert "did you mean 'id'" in str(wrong)
    for word in ("to.id = from.idd", "output.id = input.idd"):
        assert "has no field 'idd'" in str(refused("sensor@1", "sensor@2", f"{{ {word}; }}"))
    assert "to itself" in str(refused(IDS["i386"], IDS["sparc"]))
    assert "keeps state" in str(refused("sensor@1", "sensor@2", "{ static int n = 0; n++; old.id = n; }"))
    assert refused("sensr", "sensor@2").code == "PBIO_UNKNOWN_FORMAT"
    assert "lacks its `from`" in str(refused("", "sensor@2"))


def test_two_programs_between_the_same_types_contradict_each_other(sensors: Path) -> None:
    two = json.loads(option(IDS["i386"], "sensor@2")) + json.loads(option(IDS["sparc"], "sensor@2", "{ old.id = 1; }"))
    with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION(.|\n)*two programs"):
        load(sensors, readerFormat="sensor@2", transforms=json.dumps(two))


@pytest.mark.parametrize("schema", [True, False], ids=["a schema", "readerFormat"])
def test_transforms_of_one_layout_serve_all_layouts(tmp_path: Path, schema: bool) -> None:
    """The new version comes from a machine whose format carries nothing, and follows one without records."""
    old = record_to_format(V2, "i386")
    carries = evolve(old, record_to_format(V1, "x86-64"), UP)
    file_of(tmp_path / "1.ffs", carries, {"id": 1, "temp": 1.0, "place": "a"}, also=(old,))
    file_of(tmp_path / "2.ffs", record_to_format(V1, "sparc"), {"id": 2, "temp": 2.0, "place": "b"})
    said: dict[str, Any] = {"schema": KELVIN} if schema else {"readerFormat": record_to_json(V2)}
    assert [row["kelvin"] for row in load(tmp_path, **said)] == [274.0, 275.0]


def test_a_reader_has_the_word_over_what_formats_carry(tmp_path: Path) -> None:
    old = record_to_format(V2)
    file_of(
        tmp_path / "1.ffs", evolve(old, record_to_format(V1), UP), {"id": 1, "temp": 1.0, "place": "a"}, also=(old,)
    )
    own = option(record_to_json(V1), "sensor@1", "{ to.kelvin = from.temp + 1000.0; }")
    assert load(tmp_path, readerFormat=record_to_json(V2), transforms=own)[0]["kelvin"] == 1001.0


def test_a_stream_takes_names_that_last() -> None:
    """What a name means must not depend on which files a micro-batch has."""
    one, two = record_to_format(V1, "sparc"), record_to_format(V2)

    def made(source: str, target: str, *formats: Format, wanted: str = record_to_json(V2)) -> int:
        options = parse_options({"readerFormat": wanted, "transforms": option(source, target)}, Scope.STREAM)
        columns = pa.schema([("kelvin", pa.float64())])
        request = options_to_request(options, columns, formats, is_stream=True)
        assert request is not None
        return len(request.transforms)

    assert made(record_to_json(V1), "sensor", one, two) == 1
    assert made(one.id.hex(), two.id.hex(), one) == 1  # the type that is wanted is known by its JSON
    assert made(IDS["i386"], record_to_json(V2), two) == 0  # no record of it in this batch
    for refused in (("sensor", record_to_json(V2)), (record_to_json(V1), "sensor@2")):
        with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION(.|\n)*ID or as JSON"):
            made(*refused, one, two)
    with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
        made(record_to_json(V1), record_to_json(V2), one, two, wanted="sensor@2")
    with pytest.raises(PbioError, match="PBIO_UNKNOWN_FORMAT"):
        made(record_to_json(V1), "0200002d837dba355dffb699", one)


def test_a_store_knows_types_too(sensors: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    store = str(tmp_path_factory.mktemp("store"))
    FolderStore(store).put(record_to_format(json_to_record('{"later": {"x": "float64"}}')))
    said = option("sensor@1", "later", "{ output.x = input.temp; }")
    rows = load(sensors, readerFormat="later", formatStore=store, transforms=said, onReject="drop")
    assert rows == [{"x": 1.0}] * 3
