"""`pbio cat` shows the values that reading gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pbio_spark.tables import open_writer, read
from tests.cli.conftest import Ran


def test_cat_shows_what_is_empty_as_reading_does(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    type_ = {
        "e": {
            "s": "string",
            "v": "float64[]",
            "n": "int32",
            "grid": "float64[n][2]",
            "m": "int32",
            "rows": "int32[2][m]",
        }
        | {"far": "*int32[]", "texts": "string[]", "parts": "part[]", "near": "int32[]"},
        "part": {"x": "*float64", "w": "int16[]", "t": "string"},
    }
    empty = {"s": None, "v": [], "n": 0, "grid": [], "m": 0, "rows": [[], []], "far": None, "texts": [], "parts": []}
    parts = [{"x": None, "w": [], "t": ""}, {"x": 1.5, "w": [2], "t": None}]
    full = {"s": "", "v": [1.0], "n": 1, "grid": [[1.0, 2.0]], "m": 1, "rows": [[1], [2]], "far": [], "texts": [None]}
    rows = [{**empty, "near": []}, {**full, "parts": parts, "near": [7]}]
    with open_writer(tmp_path / "e.ffs", type_) as writer:
        writer.write(rows)
    assert list(read(tmp_path / "e.ffs")) == rows
    texts = [line.partition(" ")[2] for line in pbio("cat", tmp_path / "e.ffs").out.splitlines()]
    lines = [json.loads(line)["value"] for line in pbio("cat", "--json", tmp_path / "e.ffs").out.splitlines()]
    assert [json.loads(text) for text in texts] == lines
    assert [_without_counts(line) for line in lines] == rows


def _without_counts(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_counts(one) for one in value]
    if isinstance(value, dict):
        return {key: _without_counts(inner) for key, inner in value.items() if not key.endswith("_count")}
    return value
