"""`pbio diff`, `pbio match`, `pbio lineage`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from ecode.types import INT32, INT64, Array, Field, Notes, Ref, Struct, record
from pbio_spark.formats import Format
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter
from tests.cli.conftest import Ran
from tests.corpus import CORPUS, ffs_json
from tests.morph.samples import NEW, OLD, TO_OLD

Pbio: TypeAlias = Callable[..., Ran]

OLD_FORMAT = record_to_format(OLD, "be32")
NEW_FORMAT = evolve(OLD_FORMAT, record_to_format(NEW, "x86-64"), TO_OLD)
OLD_ID, NEW_ID = OLD_FORMAT.id.hex(), NEW_FORMAT.id.hex()


def written(path: Path, *formats: Format) -> Path:
    """A file with an empty record of each format."""
    with FileWriter(path) as writer:
        for format_ in formats:
            writer.data(format_, {f.name: None if isinstance(f.type, Array) else 0 for f in format_.record.fields})
    return path


@pytest.fixture
def monitors(tmp_path: Path) -> tuple[Path, Path]:
    """A file of each of the paper's two formats; the new one carries the transform."""
    return written(tmp_path / "old.ffs", OLD_FORMAT), written(tmp_path / "new.ffs", NEW_FORMAT)


def test_diff_shows_edits_and_both_ways(pbio: Pbio, readings: Path) -> None:
    old, new = (line.split()[1] for line in pbio("formats", readings).out.splitlines()[1:])
    assert pbio("diff", f"{readings}#{old}", f"{readings}#{new}").out.splitlines() == [
        "  n: int32",
        "  v: float64[n]",
        "  unit: string",
        "+ station: char[4]",
        "A read as B: diff 0, Mr 0.25 (1 of 4)",
        "B read as A: diff 1, Mr 0.00 (0 of 3)",
    ]


def test_diff_wants_one_format_of_each(pbio: Pbio, readings: Path, tmp_path: Path) -> None:
    ran = pbio("diff", readings, readings)
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_SEVERAL_FORMATS] the name fits 2 record types")
    ran = pbio("diff", f"{readings}#raeding", f"{readings}#reading")
    assert "unknown format 'raeding'" in ran.err
    assert "did you mean 'reading'?" in ran.err
    assert "the file holds no format" in pbio("diff", written(tmp_path / "empty.ffs"), readings).err
    assert pbio("diff", tmp_path / "nowhere.ffs", readings).code == 1


def test_logical_types_are_shown(pbio: Pbio, tmp_path: Path) -> None:
    at = Field("at", INT64, Notes(logical="timestamp"))
    inner = Struct("inner", (at,))
    old, new = record("r", [at]), record("r", [at, Field("in", Ref("inner"))], [inner])
    path = tmp_path / "all.ffs"
    with FileWriter(path) as writer:
        for type_ in (old, new):
            writer.describe(record_to_format(type_))
    assert pbio("diff", f"{path}#r@1", f"{path}#r@2").out.splitlines()[0] == "  at: int64 (timestamp)"
    fields = [json.loads(line)["fields"]["at"] for line in pbio("formats", "--json", path).out.splitlines()]
    assert fields == ["int64 (timestamp)"] * 2


def test_a_path_may_hold_the_sign(pbio: Pbio, tmp_path: Path) -> None:
    path = written(tmp_path / "a#b.ffs", OLD_FORMAT)
    assert pbio("diff", path, f"{path}#MonitoringMsg").out.splitlines()[-1] == "B read as A: a perfect match"


def test_match_is_a_table(pbio: Pbio, monitors: tuple[Path, Path]) -> None:
    old, new = monitors
    headers, row = (line.split() for line in pbio("match", new, old).out.splitlines())
    assert headers == ["name", "incoming", "reaches", "transforms", "how"]
    assert row == ["NewMonitoringMsg@1", NEW_ID, OLD_ID, "1", "a", "perfect", "match"]


def test_match_reports_a_transform_that_leads_nowhere(pbio: Pbio, monitors: tuple[Path, Path], tmp_path: Path) -> None:
    """No file describes the older format, whose ID alone the newer one carries."""
    _, new = monitors
    wanted = written(tmp_path / "wanted.ffs", record_to_format(OLD, "x86-64"))
    ran = pbio("match", "--any-name", "--mismatch-threshold", "1", new, wanted)
    assert f"[MORPH_MISSING_BODY] {OLD_ID}: " in ran.out


def test_match_tells_by_its_exit_code_that_something_is_rejected(pbio: Pbio, monitors: tuple[Path, Path]) -> None:
    old, new = monitors
    ran = pbio("match", old, new)
    assert ran.code == 1
    assert "rejected" in ran.out
    assert pbio("match", "--any-name", "--mismatch-threshold", "1", old, new).code == 0
    assert pbio("match", "--any-name", "--mismatch-threshold", "1", "--diff-threshold", "2", old, new).code == 1


def test_formats_of_one_record_type_are_one(pbio: Pbio, tmp_path: Path) -> None:
    """The same two types from three machines: two lines wherever types are shown, and a version names one."""
    types = [record("r", [Field("a", INT32)]), record("r", [Field("a", INT32), Field("b", INT32)])]
    machines = ("x86-64", "i386", "sparc")
    path = written(tmp_path / "all.ffs", *(record_to_format(type_, m) for type_ in types for m in machines))
    assert [line.split()[0] for line in pbio("lineage", path).out.splitlines()] == ["r@2", "r@1"]
    rows = [line.split() for line in pbio("match", path, f"{path}#r@1").out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["r@1", "r@2"]
    assert "+ b: int32" in pbio("diff", f"{path}#r@1", f"{path}#r@2").out
    assert "did you mean 'r@2'" in pbio("diff", f"{path}#r@1", f"{path}#r@22").err


def test_match_shows_what_may_only_have_changed_its_name(pbio: Pbio, tmp_path: Path) -> None:
    old = record("r", [Field("id", INT32), Field("temp", INT32)])
    new = record("r", [Field("id", INT32), Field("temperature", INT32)])
    path = written(tmp_path / "all.ffs", record_to_format(old), record_to_format(new))
    for options in ((), ("--explain",)):
        ran = pbio("match", *options, f"{path}#r@1", f"{path}#r@2")
        assert ran.out.splitlines()[-1] == (
            "r@1: temperature may be called temp there; map it with fieldAliases if it means the same in the same "
            "unit, else with a transform"
        )
    assert "may be called" not in pbio("match", f"{path}#r@1", f"{path}#r@1").out


def test_match_explains(pbio: Pbio, monitors: tuple[Path, Path]) -> None:
    old, new = monitors
    assert pbio("match", "--explain", new, old).out.splitlines() == [
        f"NewMonitoringMsg {NEW_ID} reaches {OLD_ID} through {OLD_ID}: a perfect match",
        "     wanted                    from                      transforms  diff  Mr",
        f"  *  {OLD_ID}  {OLD_ID}  1           0     0.00  perfect",
        f"  FFS itself chooses {OLD_ID}",
    ]


def test_lineage_is_a_tree_or_a_graph(pbio: Pbio, monitors: tuple[Path, Path]) -> None:
    old, new = monitors
    tree = pbio("lineage", new).out.splitlines()
    assert tree == [f"NewMonitoringMsg@1 ({NEW_ID})", f"  ? ({OLD_ID})"]
    assert pbio("lineage", new, old).out.splitlines()[1] == f"  MonitoringMsg@1 ({OLD_ID})"
    dot = pbio("lineage", "--dot", new, old).out
    assert f'  "{NEW_ID}" -> "{OLD_ID}";' in dot


def test_the_corpus_as_a_person_would_want_it(pbio: Pbio) -> None:
    """Every version of `evolution` reaches the oldest; the machine it was written on does not matter."""
    ffs_json("formats.json")  # skips where the corpus is not
    folder = CORPUS / "ffs"
    oldest = f"{folder}/generated/evolution.ffs#0200001b"
    for path in sorted(folder.glob("*/evolution*.ffs")):
        ran = pbio("match", "--explain", path, oldest)
        assert ran.code == 0, path
        assert [line.strip() for line in ran.out.splitlines() if "FFS" in line] == [
            "FFS itself chooses 0200001b54f71865393441e7",
            "FFS itself skips it",
            "FFS itself skips it",
        ]
    for path in sorted(folder.glob("*/transform*.ffs")):
        ran = pbio("match", f"{path}#reading", oldest)
        assert (ran.code, ran.out.splitlines()[1].split()[3:]) == (0, ["1", "a", "perfect", "match"])
