"""Many tasks share a step that is too large for one: the rows come once each, and few tasks read one file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pbio_spark.bp5.data import flat
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.source.bp5.options import parse_bp5_options
from pbio_spark.source.bp5.plan import scan_to_schema
from pbio_spark.source.bp5.reader import Bp5Reader
from pbio_spark.source.bp5.scan import scan_datasets
from pbio_spark.source.options.scopes import Scope
from tests.bp5.test_golden import GOLDEN
from tests.bp5.values import read

SETS = dict(
    [
        *[("writers", "x"), ("blocks", "x"), ("arrays", "cube"), ("column_major", "x"), ("flattened", "x")],
        *[("local", "parts"), ("bzip2", "x"), ("blosc2", "/data/0/meshes/rho"), ("zfp", "/data/0/meshes/E")],
        *[("appended", "x"), ("flushed", "d")],
    ]
)
"""By set, the variable whose elements are read."""


def tasks(path: Path, **options: str) -> list[list[dict[str, Any]]]:
    """The rows of each task."""
    scan = scan_datasets([str(path)], parse_bp5_options(options, Scope.READ)).surveyed()
    reader = Bp5Reader(scan, scan_to_schema(scan))
    return [[row for batch in reader.read(part) for row in batch.to_pylist()] for part in reader.partitions()]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("rows", ["elements", "blocks"])
@pytest.mark.parametrize(("share", "most"), [(700, "16m"), (200, "40")])
def test_shares_of_a_step_have_its_rows_once(
    name: str, rows: str, share: int, most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pbio_spark.source.bp5.plan.OPEN_COST", 0)
    monkeypatch.setattr(flat, "LEAST", 1)
    path = GOLDEN / f"{name}.bp"
    options = {"rows": rows, "maxBatchBytes": most, **({"variables": SETS[name]} if rows == "elements" else {})}
    whole = read(path, rows=rows, **({"variables": SETS[name]} if rows == "elements" else {})).to_pylist()
    found = tasks(path, maxPartitionBytes=str(share), **options)
    assert share == 700 or len(found) > len({row["step"] for row in whole})
    assert sorted(map(repr, (row for task in found for row in task))) == sorted(map(repr, whole))


def test_a_task_for_blocks_reads_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    touched: list[set[str]] = []
    own = DatasetFolder.read_into

    def read_into(self: DatasetFolder, name: str, offset: int, target: Any) -> int:
        touched[-1].add(name)
        return own(self, name, offset, target)

    monkeypatch.setattr(DatasetFolder, "read_into", read_into)
    monkeypatch.setattr("pbio_spark.source.bp5.plan.OPEN_COST", 0)
    options = parse_bp5_options({"rows": "blocks", "maxPartitionBytes": "1000", "toStep": "1"}, Scope.READ)
    touched.append(set())
    scan = scan_datasets([str(GOLDEN / "writers.bp")], options).surveyed()
    reader = Bp5Reader(scan, scan_to_schema(scan))
    shares = 0
    for part in reader.partitions():
        touched.append(set())
        shares += any(batch.num_rows for batch in reader.read(part))
    files = [len({name for name in one if name.startswith("data.")}) for one in touched[1:]]
    assert shares > 2
    assert set(files) <= {0, 1, 2}
    assert files.count(2) <= 1


@pytest.mark.parametrize("rows", ["elements", "blocks"])
def test_a_damaged_step_is_one_row_however_many_share_it(
    rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pbio_spark.source.bp5.plan.OPEN_COST", 0)
    path = tmp_path / "run.bp"
    shutil.copytree(GOLDEN / "blocks.bp", path)
    meta = bytearray((path / "md.0").read_bytes())
    meta[32] ^= 255  # the format of the first step
    (path / "md.0").write_bytes(bytes(meta))
    options = {"rows": rows, "mode": "PERMISSIVE", "variables": "x"}
    found = [row for task in tasks(path, maxPartitionBytes="300", **options) for row in task]
    assert [row["step"] for row in found if row["_corrupt_record"] is not None] == [0]
    assert {row["step"] for row in found} == {0, 1, 2}
