"""Files to look into, and a way to run the command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ecode.types import CHAR, FLOAT64, INT32, STRING, Array, Field, Record, record
from pbio_spark import cli
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter

OLD = record("reading", [Field("n", INT32), Field("v", Array(FLOAT64, ("n",))), Field("unit", STRING)])
NEW = Record((*record("reading", [*OLD.fields, Field("station", Array(CHAR, (4,)))]).structs,))


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def pbio(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs `pbio` with these arguments."""

    def run(*arguments: str | Path) -> Ran:
        monkeypatch.setattr("sys.argv", ["pbio", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        code = stopped.value.code
        captured = capfd.readouterr()
        return Ran(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    """A file of two versions of one format from two machines, with a comment."""
    path = tmp_path / "readings.ffs"
    with FileWriter(path, indexed=True) as writer:
        writer.comment("two generations")
        old, new = record_to_format(OLD, "be32"), record_to_format(NEW, "x86-64")
        writer.data(old, {"n": 2, "v": [1.5, -2.0], "unit": "kPa"})
        for n in range(3):
            writer.data(new, {"n": n, "v": [0.25] * n, "unit": None, "station": list(b"abc\0")})
    return path
