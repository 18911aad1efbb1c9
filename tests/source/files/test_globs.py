"""Globs and hidden names as Spark itself reads them: the same text files, listed by both."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pbio_spark.errors import PbioError
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.options.options import Options

pytestmark = pytest.mark.spark

NAMES = (
    *("a1.t", "a2.t", "b1.t", "^x.t", "-x.t", "x{y}.t", "x,y.t", "x*y.t", "x]y.t", "x.y.t", "x(1)+|$.t"),
    *(".hidden.t", "_hidden.t", "c.t._COPYING_", "s/a.t", "s/b.t", "t/a.t", "t/_b.t", "u v/a.t"),
)
GLOBS = (
    *("[^a]*.t", "[!a]*.t", "[a-b]1.t", "[b-]*.t", "[-]x.t", "[\\^]x.t", "[\\]a]*", "*.t", "*", "?1.t"),
    *("{a,{b,c}}1.t", "{a1,b1}.t", "{a{1,2},b1}.t", "{s,t}/a.t", "{s/a,t/a}.t", "{s/{a,b},t/a}.t", "*/a.t"),
    *("x\\*y.t", "x\\{y\\}.t", "x\\,y.t", "x,y.t", "{x\\,y,a1}.t", "x.?.t", "x(1)+|$.t", "x[(]1)*", "u v/*", "u?v/*.t"),
    *("**", "**/a.t", "t/*", "[s-t]/*.t", "a1.t", "s", "{s,t}"),
    *("nothing*", "{nothing,none}", "[a", "{a", "a\\", "[b-a]*"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("globs")
    for name in NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


@pytest.mark.parametrize("glob", GLOBS)
def test_a_glob_reads_what_spark_reads(spark: SparkSession, folder: Path, glob: str) -> None:
    assert ours(f"{folder}/{glob}", Options()) == sparks(spark, f"{folder}/{glob}", {})


@pytest.mark.parametrize("glob", ["[^a]*", "*.t", "{a,{b,c}}1.t", "x\\*y.t", "a1.t", "x?y.t", "*"])
@pytest.mark.parametrize("recursive", [False, True])
def test_a_path_glob_filter_lets_the_same_files_pass(
    spark: SparkSession, folder: Path, glob: str, recursive: bool
) -> None:
    given = {"pathGlobFilter": glob, "recursiveFileLookup": str(recursive)}
    # Without recursiveFileLookup Spark would find fault with folders beside `k=v` folders; ours does not enter them.
    where = folder if recursive else folder / "s"
    options = Options(path_glob_filter=glob, recursive_file_lookup=recursive)
    assert ours(str(where), options) == sparks(spark, str(where), given)


def ours(path: str, options: Options) -> set[str] | None:
    try:
        return {file.path for file in list_files([path], options)}
    except PbioError as error:
        if error.code in ("PBIO_PATH_NOT_FOUND", "PBIO_BAD_PATH"):
            return None
        raise


def sparks(spark: SparkSession, path: str, options: dict[str, str]) -> set[str] | None:
    try:
        files = spark.read.options(**options).text(path).inputFiles()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise
    except Py4JJavaError as error:
        if "Illegal file pattern" in str(error):
            return None
        raise
    return {unquote(urlparse(file).path) for file in files}
