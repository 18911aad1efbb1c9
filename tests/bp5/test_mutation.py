"""Folders with wrong bytes: errors of this package, or rows; and damage stays in the step that it is in."""

from __future__ import annotations

import os
import random
import resource
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pbio_spark.bp5.dataset import open_dataset
from pbio_spark.bp5.folder import Folder
from pbio_spark.bp5.meta.index import Step
from pbio_spark.errors import PbioError
from tests.bp5.made import Maker
from tests.bp5.test_golden import GOLDEN
from tests.bp5.values import read
from tests.corpus import CORPUS

MUTATIONS = int(os.environ.get("PBIO_MUTATIONS", 100_000 if os.environ.get("PBIO_LONG") == "1" else 300))
CORPUS_SETS = ("multiwriter.bp", "flush.bp", "joined.bp", "local.bp", "flatten.bp", "blocks.bp", "op_blosc_zstd.bp5")
GOLDEN_SETS = (
    *(
        "writers.bp",
        "flushed.bp",
        "local.bp",
        "flattened.bp",
        "blocks.bp",
        "column_major.bp",
        "attributes.bp",
        "many.bp",
    ),
    *("appended.bp", "null.bp", "bzip2.bp", "blosc2.bp", "old_blosc2.bp", "zfp.bp", "zfp_rate.bp"),
)
FILES = ("md.idx", "mmd.0", "md.0", "data.0")
WORDS = [0, 1, 7, 255, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 2]
MEMORY = 6 << 30
"""The address space that reading a folder of a few kilobytes may take: far less than a wrong byte can claim."""


def write_run(path: Path) -> Path:
    """Scalars, strings, arrays in blocks, an operator, and attributes; five steps in two writing runs."""
    for part in range(2):
        maker = Maker(path, append=part > 0, operator="null" if part else None)
        for step in range(3 - part):
            x = ((6, 2), [((0, 0), np.ones((3, 2))), ((3, 0), np.full((3, 2), 2.0))])
            values: dict[str, Any] = {"t": 0.5 * step, "name": f"s{step}", "x": x, "y": np.arange(5, dtype="u2")}
            maker.step(values, {f"a{part}": "text", "y/units": "m"} if step == 0 else None)
        maker.close()
    return path


def runs(folder: Path) -> list[Path]:
    corpus = [CORPUS / "bp5" / name for name in CORPUS_SETS]
    return [
        write_run(folder / "made.bp"),
        *(GOLDEN / name for name in GOLDEN_SETS),
        *(path for path in corpus if path.exists()),
    ]


def mutate(chance: random.Random, run: Path, folder: Path) -> tuple[str, int, int]:
    """A copy with one wrong file; which, and the bytes of it that may be wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(run, folder)
    name = chance.choice([name for name in FILES if (run / name).stat().st_size])
    data = bytearray((run / name).read_bytes())
    at = chance.randrange(len(data))
    how = chance.randrange(6)
    if how == 0:
        data = data[:at]
        end = len(data) + (1 << 40)
    elif how == 1:
        end = min(at + 8, len(data))
        word = chance.choice(WORDS)
        data[at:end] = word.to_bytes(8, "little")[: end - at]
    elif how == 2:
        end = min(at + chance.randrange(1, 40), len(data))
        data[at:end] = chance.randbytes(end - at)
    else:
        end = at + 1
        data[at] = chance.choice([0, 1, 255, data[at] ^ 1 << chance.randrange(8), chance.randrange(256)])
    (folder / name).write_bytes(bytes(data))
    return name, at, end


def reach(step: Step, name: str, following: int) -> tuple[int, int]:
    """The bytes of a file that a step's values depend on."""
    if name == "md.0":
        return step.position, step.position + step.length
    return int(step.pieces[:, ::2].min()), following


def is_touched(steps: list[Step], number: int, name: str, begin: int, end: int) -> bool:
    step = steps[number]
    following = int(steps[number + 1].pieces[:, ::2].min()) if number + 1 < len(steps) else 1 << 50
    low, high = reach(step, name, following)
    return begin < high and low < end


def test_wrong_bytes_are_errors_or_rows_and_stay_in_their_step(tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("PBIO_SEED", 5)))
    known = []
    for run in runs(tmp_path):
        with Folder(str(run)) as folder:
            dataset = open_dataset(folder)
        table = read(run, mode="PERMISSIVE")
        known.append((run, table.schema, table.to_pylist(), list(dataset.steps), dataset.index.header.flatten))
    was = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, was[1]))
    try:
        for number in range(MUTATIONS):
            check_one(chance, number, *chance.choice(known), tmp_path / "wrong.bp")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, was)


def check_one(
    chance: random.Random,
    number: int,
    run: Path,
    schema: pa.Schema,
    rows: list[dict[str, Any]],
    steps: list[Step],
    flatten: bool,
    folder: Path,
) -> None:
    name, begin, end = mutate(chance, run, folder)
    said = f"mutation {number} of {run.name}: {name} {begin}..{end}"
    try:
        if chance.randrange(3) == 0:  # columns, elements or blocks as they then seem to be
            shape = chance.choice(["steps", "blocks", "variables", "attributes", "elements"])
            more = {"variables": "x", "onUnfilled": "ignore"} if shape == "elements" else {}
            read(folder, rows=shape, mode=chance.choice(["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]), **more)
            return
        found = read(folder, schema=schema, mode="PERMISSIVE", onUnfilled="ignore").to_pylist()
    except PbioError:
        return
    except BaseException as error:
        error.add_note(said)
        raise
    if name in ("md.0", "data.0") and not flatten:
        assert len(found) == len(rows), said
        for i, (row, right) in enumerate(zip(found, rows, strict=True)):
            assert is_touched(steps, i, name, begin, end) or repr(row) == repr(right), f"{said}, step {i}"


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_empty_file_is_an_error_or_damage(tmp_path: Path, name: str) -> None:
    run = write_run(tmp_path / "run.bp")
    (run / name).write_bytes(b"")
    with pytest.raises(PbioError):
        read(run)
    (run / name).unlink()
    with pytest.raises(PbioError):
        read(run)
