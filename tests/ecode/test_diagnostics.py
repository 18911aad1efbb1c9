"""Wrong programs and their diagnostics: `diagnostics/ROOM/NAME.ec` and `NAME.txt`.

python -m tests.ecode.test_diagnostics    writes the expected output again, on purpose
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import ecode
from ecode.types import FLOAT64, INT32, STRING, Array, Field, Struct, record

FOLDER = Path(__file__).parent / "diagnostics"
POINT = Struct("Point", (Field("x", INT32),))
INPUT = record("input", [Field("x", INT32), Field("d", FLOAT64), Field("s", STRING), Field("v", Array(INT32, (3,)))])
OUTPUT = record("output", [Field("y", INT32), Field("t", STRING), Field("w", Array(INT32, (3,)))], [POINT])
PARAMS = [ecode.Param("input", INPUT), ecode.Param("output", OUTPUT, ecode.Mode.OUT)]
TWICE = ecode.service("int twice(int x)", lambda x: 2 * x)


def rejection(path: Path) -> ecode.CompileError:
    with pytest.raises(ecode.CompileError) as caught:
        ecode.compile(path.read_text(), PARAMS, functions=[TWICE])
    return caught.value


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.ec")), ids=lambda path: path.stem)
def test_what_is_said(path: Path) -> None:
    error = rejection(path)
    assert str(error) + "\n" == path.with_suffix(".txt").read_text()
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert copy.diagnostics == error.diagnostics
    assert (copy.category, copy.line, copy.column) == (error.category, error.line, error.column)


def test_mistakes_stop_at_the_limit() -> None:
    with pytest.raises(ecode.CompileError) as caught:
        ecode.compile("{ " + " ".join(f"a{i} = 1;" for i in range(100)) + " }", limits=ecode.Limits(mistakes=5))
    assert len(caught.value.diagnostics) == 5


if __name__ == "__main__":
    for each in sorted(FOLDER.rglob("*.ec")):
        each.with_suffix(".txt").write_text(str(rejection(each)) + "\n")
