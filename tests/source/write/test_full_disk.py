"""A disk that is full, or a file that may not grow, in the middle of writing."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import pbio_spark as pbio
from pbio_spark.errors import PbioError
from tests.source.by_hand import save
from tests.source.local import load

ROWS = pa.RecordBatch.from_pydict({"n": list(range(5_000)), "text": ["abc"] * 5_000})


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Have the system refuse to make files longer than so many bytes."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


@pytest.mark.parametrize("index", ["sidecar", "ffs"])
def test_a_write_that_finds_no_room_says_so_and_leaves_what_was_there(tmp_path: Path, index: str) -> None:
    save(tmp_path, ROWS.slice(0, 1))
    with pytest.raises(PbioError, match="PBIO_NO_ROOM") as caught, files_of_at_most(2_000):
        save(tmp_path, ROWS, overwrite=True, index=index)
    assert (caught.value.file or "").startswith(str(tmp_path))
    assert caught.value.hint
    assert [row["n"] for row in load(tmp_path)] == [0]


def write(path: Path, form: pbio.Format, *, append: bool) -> None:
    with pbio.open_writer(path, form, append=append) as writer:
        for number in range(1_000):
            writer.write([{"n": number}])


@pytest.mark.parametrize("append", [False, True])
def test_a_writer_that_finds_no_room_names_its_file(tmp_path: Path, append: bool) -> None:
    form, path = pbio.Format.of(pbio.record("r", [pbio.Field("n", pbio.INT64)])), tmp_path / "a.ffs"
    if append:
        with pbio.open_writer(path, form) as writer:
            writer.write([{"n": 0}])
    with pytest.raises(PbioError, match="PBIO_NO_ROOM") as caught, files_of_at_most(2_000):
        write(path, form, append=append)
    assert (caught.value.file, caught.value.hint is not None) == (str(path), True)
    assert [row["n"] for row in load(path, truncatedTail="ignore")][:2] == ([0, 0] if append else [0, 1])
