"""Paths, globs, hidden files, `k=v` folders."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.files.partitions import partition_schema, partition_value
from pbio_spark.source.files.planning import scan_files
from pbio_spark.source.options.options import Options


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.ffs", "a.ffs", ".hidden", "_SUCCESS", "_staging/x.ffs", "sub/c.ffs", "day=1/d.ffs", "_k=2/e.ffs"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path


def names(folder: Path, *paths: str, **options: object) -> list[str]:
    files = list_files([str(folder / path) for path in paths], Options(**options))  # type: ignore[arg-type]
    return [os.path.relpath(file.path, folder) for file in files]


def test_a_folder(folder: Path) -> None:
    (folder / "day=1" / "d.ffs").unlink()
    (folder / "_k=2" / "e.ffs").unlink()
    assert names(folder, "") == ["a.ffs", "b.ffs"]


def test_recursive(folder: Path) -> None:
    assert names(folder, "", recursive_file_lookup=True) == ["_k=2/e.ffs", "a.ffs", "b.ffs", "day=1/d.ffs", "sub/c.ffs"]


def test_files_in_the_order_given_and_once(folder: Path) -> None:
    assert names(folder, "b.ffs", "a.ffs", "b.ffs") == ["b.ffs", "a.ffs"]


@pytest.mark.parametrize(
    ("glob", "found"),
    [("*.ffs", ["a.ffs", "b.ffs"]), ("{b,a}.ffs", ["a.ffs", "b.ffs"]), ("su?", ["sub/c.ffs"]), ("[a]*", ["a.ffs"])],
)
def test_globs(folder: Path, glob: str, found: list[str]) -> None:
    assert names(folder, glob) == found


def test_a_name_that_looks_like_a_glob(folder: Path) -> None:
    (folder / "x[1].ffs").write_bytes(b"x")
    assert names(folder, "x[1].ffs") == ["x[1].ffs"]


def test_path_glob_filter(folder: Path) -> None:
    assert names(folder, "", path_glob_filter="{a,c}*", recursive_file_lookup=True) == ["a.ffs", "sub/c.ffs"]


def test_times(folder: Path) -> None:
    os.utime(folder / "a.ffs", (100, 100))
    os.utime(folder / "b.ffs", (200, 200))
    assert names(folder, "?.ffs", modified_before=200.0) == ["a.ffs"]
    assert names(folder, "?.ffs", modified_after=100.0) == ["b.ffs"]


def test_other_file_systems() -> None:
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/listing/a.ffs", b"xy")
    (file,) = list_files(["memory://listing"], Options())
    assert (file.path, file.size) == ("memory:///listing/a.ffs", 2)
    assert file.modified > 0


@pytest.mark.parametrize("path", ["nothing", "nothing*", "a.ffs/b"])
def test_nothing_there(folder: Path, path: str) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_PATH_NOT_FOUND\]"):
        names(folder, path)


def test_no_such_file_system() -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_PATH_NOT_FOUND\].*xyzzy"):
        list_files(["xyzzy://a/b"], Options())


def test_folders_of_others_are_named(tmp_path: Path) -> None:
    (tmp_path / "md.idx").touch()
    with pytest.raises(PbioError, match=r"\[PBIO_NOT_FFS\].*ADIOS2"):
        names(tmp_path, "")


def test_a_channel_space_wants_a_channel(tmp_path: Path) -> None:
    (tmp_path / "_space.json").touch()
    with pytest.raises(PbioError, match=r"\[PBIO_CHANNEL_SPACE\](.|\n)*channel"):
        names(tmp_path, "")


@pytest.mark.parametrize(
    "path", ["all/space/data", "all/space/data/x.pbio", "all/sp*/data/*.pbio", "plain.ffs,all/space/data"]
)
def test_files_inside_a_channel_space_are_not_read_past_its_log(tmp_path: Path, path: str) -> None:
    ChannelSpace.create(str(tmp_path / "all" / "space"))
    (tmp_path / "all" / "space" / "data" / "x.pbio").touch()
    (tmp_path / "plain.ffs").touch()
    with pytest.raises(PbioError, match=r"\[PBIO_CHANNEL_SPACE\](.|\n)*load the space") as caught:
        names(tmp_path, *path.split(","))
    assert caught.value.file == str(tmp_path / "all" / "space")


@pytest.mark.parametrize("recursive", ["false", "true"])
def test_a_folder_of_channel_spaces_names_one(tmp_path: Path, recursive: str) -> None:
    for name in ("a", "b"):
        ChannelSpace.create(str(tmp_path / name))
    with pytest.raises(PbioError, match=r"\[PBIO_CHANNEL_SPACE\]") as caught:
        scan_files([str(tmp_path)], Options(recursive_file_lookup=recursive == "true"), all_formats=True)
    assert caught.value.file == str(tmp_path / "a")


def hive(root: Path, *folders: str) -> Path:
    for folder in folders:
        (root / folder).mkdir(parents=True)
        (root / folder / "x.ffs").touch()
    return root


@pytest.mark.parametrize(
    ("values", "arrow"),
    [
        (["1", "-2"], pa.int32()),
        (["1", str(2**31)], pa.int64()),
        ([str(-(2**31))], pa.int32()),
        (["1", "2.5"], pa.float64()),
        ([str(10**18), "1e3"], pa.float64()),
        (["2026-01-31"], pa.date32()),
        (["2026-02-31"], pa.string()),
        (["1", "2026-01-31"], pa.string()),
        (["1", "__HIVE_DEFAULT_PARTITION__"], pa.int32()),
        (["__HIVE_DEFAULT_PARTITION__"], pa.string()),
        (["a%2Fb"], pa.string()),
        (["+5", "-5"], pa.int32()),
        ([f"8988211000000123456{i}" for i in range(3)], pa.decimal128(20, 0)),
        (["1", "9" * 38], pa.decimal128(38, 0)),
        (["9" * 39], pa.string()),
        ([str(2**53 + 1), "0.5"], pa.string()),
        (["0.1", "1.00000000000000000001"], pa.string()),
        (["1e400"], pa.string()),
        (["", "1"], pa.string()),
    ],
)
def test_types_of_partitions(tmp_path: Path, values: list[str], arrow: pa.DataType) -> None:
    files = list_files([str(hive(tmp_path, *(f"k={value}" for value in values)))], Options())
    schema = partition_schema(files)
    assert schema == pa.schema([("k", arrow)])
    for file in files:
        value = partition_value(dict(file.partition)["k"], schema.field("k"), file.path)
        assert value.type == arrow
        assert value.is_valid == ("HIVE" not in file.path)


def test_two_levels_and_escapes(tmp_path: Path) -> None:
    (file,) = list_files([str(hive(tmp_path, "a%20b=x%2Fy/c=2"))], Options())
    assert file.partition == (("a b", "x/y"), ("c", "2"))


def test_long_numbers_stay_distinct_and_an_empty_string_is_not_null(tmp_path: Path) -> None:
    texts = [f"8988211000000123456{i}" for i in range(3)]
    for values, expected in ((texts, list(map(Decimal, texts))), (["", "x"], ["", "x"])):
        files = list_files([str(hive(tmp_path / values[0], *(f"k={value}" for value in values)))], Options())
        (field,) = partition_schema(files)
        assert [partition_value(dict(file.partition)["k"], field, file.path).as_py() for file in files] == expected


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("x", pa.int32()),
        ("", pa.int32()),
        ("1.5", pa.int32()),
        ("300", pa.int8()),
        (str(2**53 + 1), pa.float64()),
        (str(2**24 + 1), pa.float32()),
        ("1e39", pa.float32()),
        ("1.55", pa.decimal128(10, 1)),
        ("1000", pa.decimal128(3, 0)),
    ],
)
def test_a_value_that_is_not_of_the_wanted_type(text: str, type_: pa.DataType) -> None:
    with pytest.raises(PbioError, match=rf"\[PBIO_BAD_PARTITIONS\].*k={text}"):
        partition_value(text, pa.field("k", type_), f"/data/k={text}/f")


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("2.0", pa.int32(), 2),
        (str(2**53), pa.float64(), 2.0**53),
        ("0.1", pa.float64(), 0.1),
        ("1.50", pa.decimal128(10, 1), Decimal("1.5")),
        ("-1", pa.decimal128(38, 2), Decimal("-1.00")),
        ("inf", pa.float64(), float("inf")),
    ],
)
def test_a_value_is_that_of_the_wanted_type(text: str, type_: pa.DataType, value: object) -> None:
    assert partition_value(text, pa.field("k", type_), "f").as_py() == value


def test_folders_that_do_not_agree(tmp_path: Path) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_PARTITIONS\]"):
        names(hive(tmp_path, "a=1", "b=1"), "")


def test_a_path_that_is_not_there_is_answered_with_what_is(tmp_path: Path) -> None:
    (tmp_path / "readings").mkdir()
    (tmp_path / "_readinks").mkdir()
    for path, hint in (
        ("readinks", "did you mean 'readings'?"),
        ("else/readings/a.ffs", f"its folder does not exist either: {tmp_path}/else/readings"),
        ("xyzzy", "check the spelling of the path, and whether this machine can reach it"),
    ):
        with pytest.raises(PbioError, match="PBIO_PATH_NOT_FOUND") as caught:
            list_files([str(tmp_path / path)], Options())
        assert caught.value.hint == hint
