"""`pbio convert`: the suffix selects the kind of file, and no other kind is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from ecode.types import CHAR, FLOAT64, INT32, INT64, STRING, Array, Field, Notes, record
from pbio_spark.cli.tables import SUFFIXES
from pbio_spark.formats.layout import record_to_format
from pbio_spark.tables import open_writer, read_arrow
from pbio_spark.wire import FileWriter
from tests.cli.conftest import Ran

FLAT = record(
    "flat", [Field("n", INT32), Field("x", FLOAT64), Field("at", INT64, Notes(logical="timestamp")), Field("s", STRING)]
)
ROWS = [{"n": n, "x": n / 2, "at": n * 10**15, "s": None if n == 1 else f"é{n}"} for n in range(3)]


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    path = tmp_path / "flat.ffs"
    with FileWriter(path) as writer:
        for row in ROWS:
            writer.data(record_to_format(FLAT, "be32"), row)
    return path


READ: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    ".parquet": lambda path: pyarrow.parquet.read_table(path).to_pylist(),
    ".arrow": lambda path: pa.ipc.open_file(path).read_all().to_pylist(),
    ".feather": lambda path: pa.ipc.open_file(path).read_all().to_pylist(),
    ".csv": lambda path: pyarrow.csv.read_csv(path).to_pylist(),
    ".jsonl": lambda path: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()],
    ".ndjson": lambda path: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()],
    ".json": lambda path: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()],
}


@pytest.mark.parametrize("suffix", [*READ, ".CSV"])
def test_the_suffix_says_what_is_written(pbio: Callable[..., Ran], flat: Path, tmp_path: Path, suffix: str) -> None:
    output = tmp_path / f"out{suffix}"
    assert pbio("convert", flat, "-o", output).code == 0
    rows = READ[suffix.lower()](output)
    assert [(row["n"], row["x"]) for row in rows] == [(row["n"], row["x"]) for row in ROWS]
    assert [row["s"] or None for row in rows] == [row["s"] for row in ROWS]
    assert str(rows[2]["at"])[:4] == "2033"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["flat.ffs", output.name])


def test_all_suffixes_are_tried() -> None:
    assert {*READ, ".ffs", ".pbio"} == SUFFIXES.keys()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("out.xls", ".parquet, .csv"),
        ("out.parqet", "did you mean '.parquet'?"),
        ("out", "--to"),
        ("folder/", "name a file in it"),
        ("folder", "name a file in it"),
        ("out.ffs", "JSON lines convert to records"),
    ],
)
def test_an_output_that_says_nothing_is_refused(
    pbio: Callable[..., Ran], flat: Path, tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "folder").mkdir()
    ran = pbio("convert", flat, "-o", f"{tmp_path}/{name}")
    assert ran.code == 1
    assert said in ran.err
    assert ran.err.count("hint:") == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["flat.ffs", "folder"]


def test_csv_refuses_what_it_cannot_hold(pbio: Callable[..., Ran], readings: Path, tmp_path: Path) -> None:
    ran = pbio("convert", readings, "-o", tmp_path / "x.csv")
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_UNSUPPORTED_TYPE] a CSV file cannot hold the column v")
    assert not (tmp_path / "x.csv").exists()


def test_json_lines_come_back_as_they_went(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    type_ = {"t": {"i": "int", "x": "double", "at": "timestamp", "day": "date", "d": "decimal(10,2)", "b": "binary"}}
    type_["t"] |= {"n": "int", "v": "float32[n]", "p": "*q", "s": "string"}
    type_ |= {"q": {"k": "bigint"}}
    rows = [
        {"i": 1, "x": "NaN", "at": "2026-01-31T12:00:00+00:00", "day": "2026-01-31", "d": "1.50", "b": "00ff", "n": 2}
        | {"v": [0.5, -1.0], "p": {"k": 2**60}, "s": "é"},
        {
            "i": -1,
            "x": 0.1,
            "at": "1969-12-31T23:59:59.999999+00:00",
            "day": "1969-12-31",
            "d": "-0.01",
            "b": "",
            "n": 0,
        }
        | {"v": [], "p": None, "s": None},
    ]
    source, made, back = tmp_path / "rows.jsonl", tmp_path / "rows.ffs", tmp_path / "back.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    assert pbio("convert", source, "-o", made, "--type", json.dumps(type_)).err == ""
    assert pbio("verify", made).code == 0
    assert pbio("convert", made, "-o", back).err == ""
    read = [json.loads(line) for line in back.read_text().splitlines()]
    assert [{**row, "v": row["v"] or []} | {"b": row["b"] or ""} for row in read] == rows
    assert pbio("convert", back, "-o", tmp_path / "again.ffs", "--like", made).code == 0
    assert (tmp_path / "again.ffs").read_bytes() == made.read_bytes()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2 is not the JSON"),
        ("[1]", "line 2 is not the JSON of a record"),
        ('{"n": 1.5}', "1.5 is not a whole number"),
        ('{"n": 9999999999}', "a value of n"),
        ('{"m": 1}', "the fields are n"),
        ('{"n": null}', "PBIO_CANNOT_BE_NULL"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_written(
    pbio: Callable[..., Ran], tmp_path: Path, line: str, said: str
) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text('{"n": 1}\n' + line + "\n")
    ran = pbio("convert", source, "-o", tmp_path / "rows.ffs", "--type", '{"t": {"n": "int"}}')
    assert ran.code == 1
    assert said in ran.err
    assert list(tmp_path.iterdir()) == [source]


def test_a_null_becomes_what_the_user_says(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text('{"n": 1}\n{"n": null}\n{}\n')
    assert pbio("convert", source, "-o", tmp_path / "rows.ffs", "--null-value", -1).code == 0
    assert pbio("cat", tmp_path / "rows.ffs").out == 'rows {"n":1}\nrows {"n":-1}\nrows {"n":-1}\n'


def test_nulls_come_back(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    source, rows, back = tmp_path / "rows.jsonl", tmp_path / "rows.ffs", tmp_path / "back.jsonl"
    source.write_text('{"n": 1, "b": true, "v": [1, null]}\n{"n": null, "b": null, "v": null}\n')
    for way in ("mask", "pointer"):
        assert pbio("convert", source, "-o", rows, "--nulls", way).code == 0
        assert pbio("convert", rows, "-o", back).code == 0
        assert back.read_text() == source.read_text()
    assert pbio("convert", source, "-o", rows, "--null-value", '{"n": -1, "b": false, "v": 0}').code == 0
    assert pbio("convert", rows, "-o", back).code == 0
    assert back.read_text() == '{"n": 1, "b": true, "v": [1, 0]}\n{"n": -1, "b": false, "v": []}\n'
    ran = pbio("convert", source, "-o", rows, "--null-value", "soon")
    assert ran.code == 2
    assert "a number for all numbers" in ran.err
    assert pbio("convert", source, "-o", rows, "--nulls", "mask", "--type", '{"t": {"n": "int"}}').code == 2


def test_an_array_of_chars_goes_both_ways(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "c.ffs"
    with FileWriter(path) as writer:
        writer.data(record_to_format(record("c", [Field("station", Array(CHAR, (4,)))])), {"station": list(b"abc\0")})
    assert pbio("convert", path, "-o", tmp_path / "c.jsonl").code == 0
    assert (tmp_path / "c.jsonl").read_text() == '{"station": "abc"}\n'


DAYS = pa.schema([("n", pa.int32()), ("day", pa.date32())])


def days(path: Path, *stored: int) -> Path:
    with open_writer(path, DAYS) as writer:
        numbers = pa.array(range(len(stored)), pa.int32())
        writer.write(pa.table([numbers, pa.array(stored, pa.date32())], schema=DAYS))
    return path


def test_dates_that_python_lacks_have_their_year(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    path = days(tmp_path / "d.ffs", 0, 2932897, -800000)
    expected = ["1970-01-01", "10000-01-01", "-0221-09-04"]
    assert pbio("convert", path, "-o", tmp_path / "d.jsonl").code == 0
    lines = (tmp_path / "d.jsonl").read_text().splitlines()
    assert [json.loads(line)["day"] for line in lines] == expected
    assert pbio("convert", path, "-o", tmp_path / "d.csv").code == 0
    assert [line.partition(",")[2] for line in (tmp_path / "d.csv").read_text().splitlines()[1:]] == expected
    assert pbio("verify", path).code == 0


def test_dates_of_any_year_come_back_from_json_lines(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    far = pa.timestamp("us", "UTC")
    times = pa.table({"day": pa.array([2932897, -800000, 0], pa.date32()), "at": pa.array([2**57, -(2**57), 0], far)})
    with open_writer(tmp_path / "t.ffs", times.schema) as writer:
        writer.write(times)
    said = '{"R": {"day": "date", "at": "timestamp"}}'
    assert pbio("convert", tmp_path / "t.ffs", "-o", tmp_path / "t.jsonl").code == 0
    assert pbio("convert", tmp_path / "t.jsonl", "-o", tmp_path / "back.ffs", "--type", said).code == 0
    assert read_arrow(tmp_path / "back.ffs").equals(times)


def test_a_year_without_a_text_is_not_written_as_one(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    ran = pbio("convert", days(tmp_path / "d.ffs", 0, 2**31 - 1), "-o", tmp_path / "d.csv")
    assert (ran.code, ran.err.partition("]")[0], "field $.day" in ran.err) == (1, "[PBIO_BAD_VALUE", True)
    assert not (tmp_path / "d.csv").exists()


def test_records_without_fields_are_rows_or_refused(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    lines, ticks = tmp_path / "ticks.jsonl", tmp_path / "ticks.ffs"
    lines.write_text("{}\n{}\n")
    assert pbio("convert", lines, "-o", ticks).out == f"{ticks}: 2 rows of ticks\n"
    assert pbio("count", ticks).out == "2\n"
    assert pbio("convert", ticks, "-o", tmp_path / "back.jsonl").code == 0
    assert (tmp_path / "back.jsonl").read_text() == "{}\n{}\n"
    assert pbio("convert", ticks, "-o", tmp_path / "back.arrow").code == 0
    with pa.ipc.open_file(tmp_path / "back.arrow") as back:
        assert [back.get_batch(n).num_rows for n in range(back.num_record_batches)] == [2]
    for suffix in ("parquet", "csv"):
        target = tmp_path / f"back.{suffix}"
        ran = pbio("convert", ticks, "-o", target)
        assert (ran.code, target.exists()) == (1, False)
        assert "[PBIO_UNSUPPORTED_TYPE] the records have no fields" in ran.err
