"""In a bucket `a//b`, `a/./b` and `x/../a/b` are other objects than `a/b`: none is ever taken for another."""

from __future__ import annotations

from collections.abc import Callable

import fsspec
import pyarrow as pa
import pytest

import pbio_spark as pbio
from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.formats.store import FolderStore
from pbio_spark.paths import folder_entries, locate
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.options.options import Options
from pbio_spark.source.write.writer import PbioWriter

SCHEMA = pa.schema([("n", pa.int32())])
LOAD = pbio.Format.of(pbio.parse_record({"Load": {"n": "int32"}}))
ODD = ["data//x.ffs", "data/./x.ffs", "other/../data/x.ffs", "/data/x.ffs", "data//", "data/..", "data//*.ffs"]


def put(path: str, n: int) -> None:
    """Put a file of one record, whatever its key."""
    with pbio.open_writer("memory://made/x.ffs", LOAD) as writer:
        writer.write({"n": n})
    protocol, _, key = path.partition("://")
    fsspec.filesystem(protocol).pipe_file(key, fsspec.filesystem("memory").cat_file("/made/x.ffs"))


def numbers(path: str, **options: str) -> list[int]:
    return [row["n"] for row in pbio.read(path, **options)]


def write(path: str) -> None:
    with pbio.open_writer(path, LOAD) as writer:
        writer.write({"n": 1})


CALLS: dict[str, Callable[[str], object]] = {
    "locate": locate,
    "read": lambda path: list(pbio.read(path)),
    "list": lambda path: list_files([path], Options()),
    "write": write,
    "save": lambda path: PbioWriter(path, Options(), SCHEMA, overwrite=True),
    "create": ChannelSpace.create,
    "open": ChannelSpace.open,
    "store": lambda path: FolderStore(path).put(LOAD),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_key_that_no_path_names_is_refused(bucket: str, call: str) -> None:
    put(f"{bucket}/data/x.ffs", 1)
    for number, odd in enumerate(ODD[:4]):
        put(f"{bucket}/{odd}", 2 + number)
    before = fsspec.filesystem("s3").find(bucket)
    for odd in ODD:
        with pytest.raises(PbioError, match=r"\[PBIO_BAD_PATH\]") as caught:
            CALLS[call](f"{bucket}/{odd}")
        assert caught.value.hint is not None
        assert f"you mean {bucket}" in caught.value.hint
        assert not set(caught.value.hint.split()) & {f"{bucket}/{one}," for one in ODD}
    fsspec.filesystem("s3").invalidate_cache()
    assert fsspec.filesystem("s3").find(bucket) == before


def test_what_the_path_may_mean_is_in_the_hint() -> None:
    with pytest.raises(PbioError) as caught:
        locate("s3://bucket/a//./b/../c")
    assert (caught.value.hint or "").startswith("if you mean s3://bucket/a/c, write that")


@pytest.mark.parametrize("glob", ["{data/,other//}x.ffs", "data/{./,sub/}*.ffs"])
def test_braces_make_no_such_key(bucket: str, glob: str) -> None:
    put(f"{bucket}/data/x.ffs", 1)
    put(f"{bucket}/data/./x.ffs", 2)
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_PATH\]"):
        numbers(f"{bucket}/{glob}")


@pytest.mark.parametrize("recursive", ["false", "true"])
@pytest.mark.parametrize("root", ["bucket", "memory"])
def test_objects_that_no_path_leads_to_are_no_silent_miss(
    request: pytest.FixtureRequest, bucket: str, root: str, recursive: str
) -> None:
    root = bucket if root == "bucket" else f"memory://{bucket[-8:]}-{recursive}"
    put(f"{root}/data/k=0/x.ffs", 1)
    put(f"{root}/data/k=1/x.ffs", 2)
    assert sorted(numbers(f"{root}/data", recursiveFileLookup=recursive)) == [1, 2]
    put(f"{root}/data/k=1//x.ffs", 3)
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_PATH\].*no path leads to them") as caught:
        numbers(f"{root}/data", recursiveFileLookup=recursive)
    assert "data/k=1//" in caught.value.reason
    assert numbers(f"{root}/data/k=1/x.ffs") == [2]


def test_the_mark_of_a_folder_is_no_object_without_a_name(bucket: str) -> None:
    """The consoles of stores make an empty object `folder/` for a folder."""
    put(f"{bucket}/data/x.ffs", 1)
    store = fsspec.filesystem("s3")
    name = bucket.removeprefix("s3://").partition("/")
    store.call_s3("put_object", Bucket=name[0], Key=f"{name[2]}/data/", Body=b"")
    fs, plain = locate(f"{bucket}/data")
    fs.invalidate_cache()
    assert f"{plain}/" in fs.ls(plain, detail=False)
    assert list(folder_entries(fs, plain)) == ["x.ffs"]
    store.call_s3("put_object", Bucket=name[0], Key=f"{name[2]}/data/", Body=b"not empty")
    fs.invalidate_cache()
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_PATH\]"):
        folder_entries(fs, plain)
