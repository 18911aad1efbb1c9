"""A user of Spark first sees the code and the reason of an error, with the hint once, and no traceback."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.util import handle_worker_exception

from ecode.types import INT32, STRING, Field, record
from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from pbio_spark.functions import from_pbio
from pbio_spark.source.datasource import PbioDataSource
from pbio_spark.source.reason_first import says_reason_first
from pbio_spark.wire import FileWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMED = record("named", [Field("n", INT32), Field("name", STRING)])


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")


def told(error: BaseException) -> str:
    """What Spark's process sends to the JVM of the error that is being handled."""
    sent = io.BytesIO()
    handle_worker_exception(error, sent)
    return sent.getvalue()[8:].decode()


@says_reason_first
class _Reader:
    def read(self, count: int) -> Iterator[int]:
        yield from range(count)
        raise PbioError("PBIO_BAD_RECORD", "it is broken", hint="mend it")

    def commit(self) -> None:
        raise ValueError("a defect")


def test_a_worker_tells_the_reason_first(worker: None) -> None:
    with pytest.raises(PbioError) as raised:
        PbioDataSource({"path": "x", "nosuch": "1"}).schema()
    lines = told(raised.value).splitlines()
    assert lines[0] == "pbio_spark.errors.PbioError: " + str(raised.value).splitlines()[0]
    assert lines[1].startswith("  hint: ")
    assert lines[2].startswith("  raised at: pbio_spark.source.options.parse:")
    assert len(lines) == 3


def test_generators_give_what_they_have_and_then_the_reason(worker: None) -> None:
    rows = _Reader().read(2)
    assert [next(rows), next(rows)] == [0, 1]
    with pytest.raises(PbioError) as raised:
        next(rows)
    assert told(raised.value).startswith(
        "pbio_spark.errors.PbioError: [PBIO_BAD_RECORD] it is broken\n  hint: mend it\n"
    )


def test_a_defect_keeps_its_traceback(worker: None) -> None:
    said = ""
    try:
        _Reader().commit()
    except ValueError as error:
        said = told(error)
    assert said.startswith("Traceback")


def test_outside_of_a_worker_errors_are_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_PYTHON_RUNTIME", raising=False)
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    with pytest.raises(PbioError) as raised:
        next(_Reader().read(0))
    assert not getattr(raised.value, "__notes__", [])
    with pytest.raises(PbioError, match="PBIO_UNKNOWN_OPTION"):
        PbioDataSource({"path": "x", "nosuch": "1"}).streamReader(None)  # type: ignore[arg-type]


def test_a_stream_that_cannot_be_is_refused_when_it_is_used(worker: None) -> None:
    stream: Any = PbioDataSource({"path": "x", "nosuch": "1"}).streamReader(None)  # type: ignore[arg-type]
    stream.stop()
    uses: list[Callable[[], object]] = [
        *(stream.initialOffset, lambda: stream.latestOffset({}, None)),
        *(lambda: stream.partitions({}, {}), lambda: stream.read(None)),
    ]
    for use in uses:
        with pytest.raises(PbioError, match="PBIO_UNKNOWN_OPTION"):
            use()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("files")
    form = record_to_format(NAMED)
    for name in ("good", "bad"):
        (root / name).mkdir()
        with FileWriter(root / name / "a.ffs") as writer:
            writer.data(form, {"n": 1, "name": "first"})
            writer.data(form, {"n": 2, "name": "second"})
    path = root / "bad" / "a.ffs"
    data = path.read_bytes()
    at = data.index(b"second") - 8  # the pointer to it
    path.write_bytes(data[:at] + (1_000_000).to_bytes(8, "little") + data[at + 8 :])
    return root


def run(stream: Any, to: Path) -> None:
    stream.option("checkpointLocation", str(to / "checkpoint")).start().processAllAvailable()


CASES: dict[str, tuple[str, Callable[[Any, Path, Path], object]]] = {
    "an unknown option": ("PBIO_UNKNOWN_OPTION", lambda s, f, t: s.read.format("pbio").load(str(f), fromat="x").schema),
    "a wrong path": ("PBIO_PATH_NOT_FOUND", lambda s, f, t: s.read.format("pbio").load(str(f / "goof")).schema),
    "a bad record": (
        "PBIO_BAD_POINTER",
        lambda s, f, t: s.read.format("pbio").schema("n int, name string").load(str(f / "bad")).collect(),
    ),
    "a write that is refused": (
        "PBIO_UNSUPPORTED_TYPE",
        lambda s, f, t: s.sql("select interval 1 day as i").write.format("pbio").mode("append").save(str(t)),
    ),
    "a row that is refused": (
        "PBIO_CANNOT_BE_NULL",
        lambda s, f, t: (
            s.sql("select cast(null as int) as i")
            .write.format("pbio")
            .mode("append")
            .option("machine", "le32")
            .save(str(t))
        ),
    ),
    "a filter that does not compile": (
        "PBIO_BAD_PROGRAM",
        lambda s, f, t: s.read.format("pbio").option("filter", "input.m > 1").load(str(f / "good")).collect(),
    ),
    "a stream without schema": (
        "PBIO_NO_SCHEMA",
        lambda s, f, t: run(s.readStream.format("pbio").load(str(f / "good")).writeStream.format("noop"), t),
    ),
    "from_pbio": (
        "PBIO_UNKNOWN_FORMAT",
        lambda s, f, t: (
            s.range(1).select(F.lit(bytearray(b"\1\2\3nonsense")).alias("b")).select(from_pbio("b", "n int")).collect()
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_spark_tells_the_reason_first(spark: SparkSession, files: Path, tmp_path: Path, case: str) -> None:
    code, cause = CASES[case]
    with pytest.raises(PySparkException) as raised:
        cause(spark, files, tmp_path)
    lines = str(raised.value).splitlines()
    first = 1 if lines[0] == "An exception was thrown from the Python worker:" else 0
    assert f": [{code}] " in lines[first]
    assert sum("hint:" in line for line in lines) <= 1
    assert "Traceback" not in str(raised.value)
    assert len(lines[: lines.index("=== Streaming Query ===")] if "=== Streaming Query ===" in lines else lines) <= 9


def test_options_in_the_place_of_formats_are_told_where_they_go() -> None:
    with pytest.raises(PbioError, match=r"(?s)PBIO_BAD_OPTION.*options=\{"):
        from_pbio("b", "n int", {"mode": "PERMISSIVE"})  # type: ignore[arg-type]
