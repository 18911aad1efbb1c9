"""Streams of folders that are still being written, without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pbio_spark.errors import PbioError
from pbio_spark.source.bp5.follow.stream import Bp5StreamReader
from pbio_spark.source.bp5.options import parse_bp5_options
from pbio_spark.source.options.scopes import Scope
from tests.bp5.made import Maker, make
from tests.bp5.values import read

SCHEMA = pa.schema([("step", pa.int64()), ("t", pa.int64()), ("x", pa.list_(pa.float64()))])


class Stream:
    """A query, batch by batch."""

    def __init__(
        self, *paths: Path, offset: dict[str, Any] | None = None, schema: pa.Schema = SCHEMA, **options: str
    ) -> None:
        parsed = parse_bp5_options(options, Scope.STREAM)
        self.reader = Bp5StreamReader([str(path) for path in paths], parsed, schema)
        self.offset = offset or self.reader.initialOffset()
        self.limit = ReadMaxRows(1) if "maxStepsPerTrigger" in options else ReadAllAvailable()

    def batch(self, column: str = "t") -> list[Any]:
        end = self.reader.latestOffset(self.offset, self.limit)
        batches = [b for part in self.reader.partitions(self.offset, end) for b in self.reader.read(part)]
        again = [b for part in self.reader.partitions(self.offset, end) for b in self.reader.read(part)]
        assert batches == again
        self.offset = end
        return [value for batch in batches for value in batch[column].to_pylist()]


def values(t: int) -> dict[str, Any]:
    return {"t": t, "x": np.arange(3.0) + t}


def test_new_steps_come_once_also_those_of_an_appended_run_and_of_a_new_folder(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "a.bp")
    maker.step(values(0))
    stream = Stream(tmp_path)
    seen = stream.batch()
    maker.step(values(1))
    maker.step(values(2))
    seen += stream.batch()
    maker.close()
    seen += stream.batch()
    stream = Stream(tmp_path, offset=stream.offset)
    assert (seen, stream.batch()) == ([0, 1, 2], [])
    more = Maker(tmp_path / "a.bp", append=True)
    more.step(values(3))
    more.close()
    make(tmp_path / "b.bp", [values(10)])
    assert stream.batch() == [3, 10]
    assert stream.batch() == []


def test_a_step_that_is_not_whole_waits(tmp_path: Path) -> None:
    run, copy = make(tmp_path / "run.bp", [values(t) for t in range(3)]), tmp_path / "copy.bp"
    index = bytearray((run / "md.idx").read_bytes())
    index[39] = 1  # a writer is at work
    for name in ("md.idx", "md.0", "data.0"):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run, copy)
        (copy / "md.idx").write_bytes(index)
        data = (copy / name).read_bytes()
        end = data.rfind(np.float64(4).tobytes()) + 7 if name == "data.0" else len(data) - 3
        (copy / name).write_bytes(data[:end])
        stream = Stream(copy)
        assert stream.batch() == [0, 1]
        assert stream.batch() == []
        (copy / name).write_bytes(data)
        assert stream.batch() == [2]


def test_a_folder_that_was_cut_back_or_rewritten_is_noticed(tmp_path: Path) -> None:
    run = make(tmp_path / "run.bp", [values(t) for t in range(3)])
    for other in ([values(0)], [{"t": 7} for _ in range(4)]):
        stream = Stream(run)
        assert len(stream.batch()) >= 3
        shutil.rmtree(run)
        make(run, other)
        with pytest.raises(PbioError, match="PBIO_ROWS_GONE"):
            stream.batch()
        shutil.rmtree(run)
        make(run, [values(t) for t in range(3)])


def test_limits_and_where_a_stream_begins(tmp_path: Path) -> None:
    run = make(tmp_path / "run.bp", [values(t) for t in range(4)])
    stream = Stream(run, maxStepsPerTrigger="1")
    assert [stream.batch() for _ in range(5)] == [[0], [1], [2], [3], []]
    assert Stream(run, startingStep="3").batch() == [3]
    stream = Stream(run, startingStep="latest")
    assert stream.batch() == []
    more = Maker(run, append=True)
    more.step(values(4))
    more.close()
    assert stream.batch() == [4]
    stream = Stream(run)
    stream.reader.prepareForTriggerAvailableNow()
    more = Maker(run, append=True)
    more.step(values(5))
    more.close()
    assert stream.batch() == [0, 1, 2, 3, 4]
    assert stream.batch() == []


def test_steps_without_the_variable_of_elements_have_no_rows(tmp_path: Path) -> None:
    run = make(tmp_path / "run.bp", [{"t": 0}, values(1), {"t": 2}, values(3)])
    schema = pa.schema([("step", pa.int64()), ("index", pa.int64()), ("x", pa.float64()), ("t", pa.int64())])
    where = "{ return input.x > 1.5; }"
    stream = Stream(run, schema=schema, rows="elements", variables="x", where=where, maxStepsPerTrigger="1")
    assert [stream.batch("x") for _ in range(5)] == [[], [2.0, 3.0], [], [3.0, 4.0, 5.0], []]
    columns = pa.schema([("a", pa.float64()), ("step", pa.int64())])
    table = make(tmp_path / "table.bp", [{"t": 0}, {"k": np.arange(4.0).reshape(2, 2)}, {"t": 2}])
    stream = Stream(table, schema=columns, rows="elements", variables="k", columns="a,b", maxStepsPerTrigger="1")
    assert [stream.batch("a") for _ in range(4)] == [[], [0.0, 2.0], [], []]


@pytest.mark.parametrize(
    ("where", "batches"),
    [
        ("{ return input.late > 1; }", [[], [2]]),
        ("{ return input.late % 2 == 0; }", [[0, 1], [2]]),  # zero where it is absent
        ("{ return !present(input.late) || input.late == 2; }", [[0, 1], [2]]),
        ('{ return input["word"] == "w2"; }', [[], [2]]),
    ],
)
def test_a_program_of_a_stream_may_ask_about_variables_that_come_later(
    tmp_path: Path, where: str, batches: list[list[int]]
) -> None:
    schema = pa.schema([("step", pa.int64()), ("t", pa.int64())])
    maker = Maker(tmp_path / "run.bp")
    maker.step({"t": 0})
    maker.step({"t": 1})
    stream = Stream(tmp_path, schema=schema, where=where)
    found = [stream.batch("step")]
    maker.step({"t": 2, "late": 2, "word": "w2"})
    found.append(stream.batch("step"))
    maker.close()
    assert found == batches


def test_a_name_in_a_program_that_is_nearly_one_there_is_is_an_error_if_that_is_not_borne(tmp_path: Path) -> None:
    run = make(tmp_path / "run.bp", [{"time": 1, "grid": np.arange(3.0)}])
    schema, where = pa.schema([("time", pa.int64())]), "{ return input.tiem < 1; }"
    with pytest.raises(PbioError, match="no dataset has a variable 'tiem'") as caught:
        Stream(run, schema=schema, where=where).batch("time")
    assert "did you mean 'time'? onUnfilled=warn" in str(caught.value)
    assert Stream(run, schema=schema, where=where, onUnfilled="warn").batch("time") == [1]
    assert read(run, schema=schema, where=where, onUnfilled="ignore")["time"].to_pylist() == [1]
    with pytest.raises(PbioError, match="no dataset has a variable 'later'"):
        read(run, schema=schema, where="{ return present(input.later); }")
    said = r"'grid' is a global array of double, which a program for rows=steps(.|\n)*rows=elements"
    with pytest.raises(PbioError, match=said):
        Stream(run, schema=schema, where="{ return input.grid > 1; }", onUnfilled="ignore").batch("time")


def test_units_hold_for_later_batches_and_what_comes_later_does_not_matter(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "run.bp")
    for step in range(3):
        maker.step(values(step), {"x/unitSI": 10.0} if step == 0 else None)
    maker.close()
    stream = Stream(tmp_path, applyUnitSI="true", maxStepsPerTrigger="1")
    assert [stream.batch("x") for _ in range(2)] == [[[0.0, 10.0, 20.0]], [[10.0, 20.0, 30.0]]]
    before = stream.offset
    more = Maker(tmp_path / "run.bp", append=True)
    more.step(values(3), {"x/unitSI": 7.0})
    more.close()
    assert stream.batch("x") == [[20.0, 30.0, 40.0]]
    again = Stream(tmp_path, offset=before, applyUnitSI="true", maxStepsPerTrigger="1")
    assert again.batch("x") == [[20.0, 30.0, 40.0]]
    assert again.batch("x") == [[21.0, 28.0, 35.0]]


def test_an_offset_of_another_source_is_refused(tmp_path: Path) -> None:
    run = make(tmp_path / "run.bp", [values(0)])
    with pytest.raises(PbioError, match="PBIO_BAD_OFFSET"):
        Stream(run, offset={"files": {}}).batch()


def test_a_dataset_that_is_gone_does_not_stop_a_query_that_takes_what_is_there(tmp_path: Path) -> None:
    stream = Stream(make(tmp_path / "a.bp", [values(0)]))
    assert stream.batch() == [0]
    shutil.rmtree(tmp_path / "a.bp")
    stream = Stream(tmp_path / "a.bp", offset=stream.offset)
    stream.reader.prepareForTriggerAvailableNow()
    assert stream.batch() == []
