"""The `pbio` command, verb by verb, as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

from ecode.types import ENUMERATION, FLOAT64, INT32, INT64, Field, Notes, record
from pbio_spark.channels import ChannelSpace
from pbio_spark.formats.layout import record_to_format
from pbio_spark.tables import read
from pbio_spark.wire import FileWriter, ItemKind, Scanner
from pbio_spark.wire.hints.sidecar import read_sidecar
from pbio_spark.wire.writer import format_to_item
from tests.cli.conftest import Ran
from tests.corpus import CORPUS, expected_items, ffs_json

Pbio: TypeAlias = Callable[..., Ran]


def test_cat_prints_records(pbio: Pbio, readings: Path) -> None:
    assert pbio("cat", "-n", 2, readings).out == (
        'reading {"n":2,"v":[1.5,-2.0],"unit":"kPa"}\nreading {"n":0,"v":[],"unit":null,"station":[97,98,99,0]}\n'
    )


def test_cat_all_prints_every_item(pbio: Pbio, readings: Path) -> None:
    shown = pbio("cat", "--all", readings).out
    assert shown.startswith("# two generations\nindex block: 4 records from number 0\nreading (be32, ID ")
    assert shown.count("string    4\n") == shown.count("string    8\n") == 1


def test_cat_json_prints_one_object_a_line(pbio: Pbio, readings: Path) -> None:
    lines = [json.loads(line) for line in pbio("cat", "--json", readings).out.splitlines()]
    assert [line["kind"] for line in lines] == ["data"] * 4
    assert lines[0]["value"] == {"n": 2, "v": [1.5, -2.0], "unit": "kPa"}


def test_cat_names_each_of_several_files(pbio: Pbio, readings: Path) -> None:
    other = readings.with_name("other.ffs")
    other.write_bytes(readings.read_bytes())
    lines = [json.loads(line) for line in pbio("cat", "--json", "--all", readings.parent).out.splitlines()]
    assert [line["path"] for line in lines if line["kind"] == "file"] == [str(other), str(readings)]
    assert pbio("cat", "-n", 1, readings, other).out.splitlines()[::2] == [f"==> {readings} <==", f"==> {other} <=="]


def test_cat_follows_the_conventions_of_the_corpus(pbio: Pbio) -> None:
    ffs_json("formats.json")  # skips where the corpus is not
    paths = sorted((CORPUS / "ffs").glob("generated/*.ffs")) + sorted((CORPUS / "ffs").glob("foreign/*.ffs"))
    ran = pbio("cat", "--json", "--all", *paths)
    assert (ran.code, ran.err) == (0, "")
    by_file: dict[str, list[Any]] = {}
    for line in map(json.loads, ran.out.splitlines()):
        if line["kind"] == "file":
            latest = by_file.setdefault(line["path"], [])
        else:
            latest.append(line)
    assert list(by_file) == list(map(str, paths))
    for path in paths:
        read, expected = by_file[str(path)], expected_items(path)
        if path.name == "transform.le32.ffs":  # here the corpus shows only the first of two opt-info blocks
            del read[0]["struct"]["opt_info"][1:]
        # The corpus shows what C has, NULL for an array without elements.
        assert json.dumps(_without_empty(read)) == json.dumps(_without_empty(expected)), path.name


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_empty(inner) for key, inner in value.items()}
    if isinstance(value, list):
        inner = [_without_empty(one) for one in value]
        return inner if any(one is not None for one in inner) else None
    return value


def test_standard_input_may_be_a_pipe_or_a_file(readings: Path) -> None:
    command = [sys.executable, "-c", "from pbio_spark.cli import main; main()", "count", "-"]
    piped = subprocess.run(command, input=readings.read_bytes(), capture_output=True, check=True)
    with readings.open("rb") as file:
        redirected = subprocess.run(command, stdin=file, capture_output=True, check=True)
    assert piped.stdout == redirected.stdout == b"4\n"


def test_json_lines_may_come_through_a_pipe(tmp_path: Path) -> None:
    space = tmp_path / "space"
    ChannelSpace.create(str(space)).create_channel("load", record("load", [Field("n", INT32)]))

    def run(lines: bytes, *verb: str | Path) -> tuple[int, str]:
        command = [sys.executable, "-c", "from pbio_spark.cli import main; main()", *map(str, verb)]
        ran = subprocess.run(command, input=lines, capture_output=True, check=False)
        return ran.returncode, ran.stdout.decode() + ran.stderr.decode()

    publish = ("space", "publish", space, "load", "-")
    assert run(b'{"n": 1}\n{"n": 2}\n', *publish) == (0, "load: events published: 2, in commit 2\n")
    assert run(b"", *publish) == (0, "load: no events to publish\n")
    code, said = run(b"hello\n", *publish)
    assert (code, said.partition("]")[0]) == (1, "[PBIO_BAD_VALUE")
    written = tmp_path / "lines.ffs"
    assert run(b'{"n": 1}\n', "convert", "-", "-o", written)[0] == 0
    assert [row["n"] for row in read(written)] == [1]


@pytest.mark.parametrize("shell", ["cat $(yes {} | head -3000) | head -1", "schema {} | true", "cat --help | true"])
def test_a_reader_that_goes_away_is_told_nothing(readings: Path, shell: str) -> None:
    script = f"{sys.executable} -c 'from pbio_spark.cli import main; main()' {shell.format(readings)}"
    ran = subprocess.run(["bash", "-c", f"{script}; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True)
    assert (ran.stdout.splitlines()[-1], ran.stderr) == ("141", "")


def test_count(pbio: Pbio, readings: Path) -> None:
    assert pbio("count", readings).out == "4\n"
    assert pbio("count", readings, readings).out == f"4  {readings}\n" * 2 + "8  total\n"


def test_formats_lists_each_with_its_records(pbio: Pbio, readings: Path) -> None:
    lines = pbio("formats", readings).out.splitlines()
    assert lines[0].split() == ["name", "ID", "machine", "fields", "records", "bytes"]
    assert [line.split()[2:5] for line in lines[1:]] == [["be32", "3", "1"], ["le64", "4", "3"]]
    assert "+0  n     integer   4" in pbio("formats", "--layout", readings).out


def test_schema_is_the_union_of_versions(pbio: Pbio, readings: Path) -> None:
    assert pbio("schema", readings).out.splitlines()[-2:] == ["  station: char[4]", "}"]
    assert pbio("schema", "--spark", readings).out == "n INT, v ARRAY<DOUBLE>, unit STRING, station STRING\n"
    assert "v: list<element: double not null>" in pbio("schema", "--arrow", readings).out
    assert [f["name"] for f in json.loads(pbio("schema", "--json", readings).out)["fields"]] == [
        "n",
        "v",
        "unit",
        "station",
    ]


def test_schema_of_a_name_that_is_not_there(pbio: Pbio, readings: Path) -> None:
    ran = pbio("schema", "--name", "readin", readings)
    assert ran.code == 1
    assert ran.err == "[PBIO_UNKNOWN_FORMAT] unknown format 'readin'\n  hint: did you mean 'reading'?\n"


def test_index_writes_what_spark_splits_by(pbio: Pbio, readings: Path) -> None:
    ran = pbio("index", readings.parent)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"{readings}: formats: 2, records: 4, places: 0\n"
    state = readings.stat()
    outline = read_sidecar(LocalFileSystem(), str(readings), state.st_size, state.st_mtime)
    assert outline is not None
    assert outline.is_whole
    assert [(f.machine, count) for f, count in zip(outline.formats, outline.counts, strict=True)] == [
        ("be32", 1),
        ("le64", 3),
    ]
    assert pbio("count", readings.parent).out == "4\n"


@pytest.mark.parametrize("verb", ["cat", "count", "formats", "schema", "verify", "index", "convert"])
@pytest.mark.parametrize("place", ["", "space", "space/data", "space/data/x.pbio"])
def test_files_of_a_channel_space_are_not_read_past_its_log(
    pbio: Pbio, tmp_path: Path, readings: Path, verb: str, place: str
) -> None:
    ChannelSpace.create(str(tmp_path / "space"))
    readings.rename(tmp_path / "space" / "data" / "x.pbio")
    options = ["-o", str(tmp_path / "out.parquet")] if verb == "convert" else []
    ran = pbio(verb, *options, tmp_path / place)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("[PBIO_CHANNEL_SPACE]")
    assert f"at: {tmp_path / 'space'}\n" in ran.err
    assert verb == "index" or "`pbio space tail`" in ran.err


def test_index_leaves_a_damaged_file_alone(pbio: Pbio, readings: Path) -> None:
    with readings.open("ab") as file:
        file.write(b"\x77")
    ran = pbio("index", readings)
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_TRUNCATED]")
    assert list(readings.parent.iterdir()) == [readings]


def test_convert_to_parquet(pbio: Pbio, readings: Path, tmp_path: Path) -> None:
    output = tmp_path / "out" / "readings.parquet"
    output.parent.mkdir()
    ran = pbio("convert", readings, "--to", "parquet", "-o", output)
    assert (ran.code, ran.out, ran.err) == (0, f"{output}: 4 rows of reading\n", "")
    rows = pq.read_table(output).to_pylist()
    assert rows[0] == {"n": 2, "v": [1.5, -2.0], "unit": "kPa", "station": None}
    assert rows[3] == {"n": 2, "v": [0.25, 0.25], "unit": None, "station": "abc"}
    assert list(output.parent.iterdir()) == [output]


def test_convert_into_a_folder_that_is_not_there(pbio: Pbio, readings: Path, tmp_path: Path) -> None:
    ran = pbio("convert", readings, "-o", tmp_path / "nodir" / "x.parquet")
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_PATH_NOT_FOUND]")
    assert ".partial" not in ran.err
    assert str(tmp_path / "nodir") in ran.err


@pytest.mark.parametrize("verb", ["cat", "count", "verify", "formats", "hexdump", "index", "match", "diff"])
def test_errors_of_every_verb_begin_with_a_code(pbio: Pbio, tmp_path: Path, verb: str) -> None:
    more = [tmp_path / "absent"] if verb in ("match", "diff") else ["--at", 0] if verb == "hexdump" else []
    ran = pbio(verb, tmp_path / "absent", *more)
    assert (ran.code, ran.err.startswith("[PBIO_PATH_NOT_FOUND]")) == (1, True)


def test_convert_wants_one_name(pbio: Pbio, readings: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ffs"
    with FileWriter(other) as writer:
        writer.data(record_to_format(record("alarm", [Field("level", INT32)])), {"level": 3})
    output = tmp_path / "out.parquet"
    ran = pbio("convert", readings, other, "-o", output)
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_SEVERAL_FORMATS] the files hold formats of several names: reading, alarm\n")
    assert not output.exists()
    assert pbio("convert", readings, other, "--name", "alarm", "-o", output).code == 0
    assert pq.read_table(output).to_pylist() == [{"level": 3}]


def test_convert_leaves_no_file_if_it_fails(pbio: Pbio, readings: Path, tmp_path: Path) -> None:
    data = readings.read_bytes()
    readings.write_bytes(data.replace(b"kPa\0", b"kPa\0"[:3] + b"\xff"))
    output = tmp_path / "out.parquet"
    ran = pbio("convert", readings, "-o", output)
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_BAD_STRING]")
    assert list(tmp_path.iterdir()) == [readings]


def test_hexdump_names_the_bytes(pbio: Pbio, readings: Path) -> None:
    at = readings.read_bytes().index(b"kPa\0")
    lines = pbio("hexdump", "--at", hex(at), readings).out.splitlines()
    assert lines[0].startswith("record 0 at offset ")
    assert lines[0].endswith("of reading (be32)")
    assert [line for line in lines if line[0] == ">"] == [line for line in lines if "6b 50 61 00" in line] != []
    whole = pbio("hexdump", "--at", int(lines[0].split()[4].rstrip(",")), readings).out
    assert "n: int32 = 2" in whole
    assert f"unit: string -> 0x{at:x}" in whole


def test_hexdump_shows_bytes_that_belong_to_no_item(pbio: Pbio, readings: Path) -> None:
    assert pbio("hexdump", readings).out.startswith(">00000000  43 56 ff a9")
    end = readings.stat().st_size
    with readings.open("ab") as file:
        file.write(b"\x77garbage")
    ran = pbio("hexdump", "--at", end, readings)
    assert ran.code == 1
    assert "77 67 61 72" in ran.out
    assert ran.err.startswith("[PBIO_BAD_ITEM]")
    assert pbio("hexdump", "--at", end + 8, readings).code == 2


def test_one_bad_file_does_not_hide_the_others(pbio: Pbio, readings: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"<xml/>")
    ran = pbio("count", tmp_path / "a", tmp_path / "absent", readings)
    assert ran.code == 1
    assert ran.out == f"4  {readings}\n4  total\n"
    assert ran.err.splitlines()[0] == "[PBIO_NOT_FFS] this looks like XML"
    assert ran.err.splitlines()[-3:-1] == [
        "[PBIO_PATH_NOT_FOUND] the path does not exist",
        f"  at: {tmp_path / 'absent'}",
    ]


def test_an_adios_folder_is_named(pbio: Pbio, tmp_path: Path) -> None:
    (tmp_path / "md.idx").touch()
    ran = pbio("cat", tmp_path)
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_NOT_FFS] this is an ADIOS2 BP folder")


def test_names_cannot_drive_the_terminal(pbio: Pbio, tmp_path: Path) -> None:
    path = tmp_path / "evil"
    path.write_bytes(b"\x43\x56\xff\xa9\x01\0\0\x06\x1b[2J\x07\0")
    assert pbio("cat", "--all", path).out == "# \\x1b[2J\\x07\n"


def test_names_in_latin_1_are_shown_as_their_bytes(pbio: Pbio, tmp_path: Path) -> None:
    path = tmp_path / "latin"
    form = record_to_format(record("Gr\udcf6\udcdfe", [Field("\udce4", INT32)]))
    with FileWriter(path) as writer:
        writer.data(form, {"\udce4": 1})
    name = r"Gr\xf6\xdfe"
    for verb in (["formats"], ["formats", "--layout"], ["schema"], ["schema", "--name", name]):
        ran = pbio(verb[0], path, *verb[1:])
        assert (ran.code, ran.err) == (0, "")
        assert name in ran.out
        assert r"\udc" not in ran.out
    for verb in (["match", f"{path}#{name}", path], ["match", path, path, "--explain"], ["diff", path, path]):
        ran = pbio(*verb)
        assert ran.code == 0
        assert r"\udc" not in ran.out + ran.err
    assert pbio("cat", path).out == name + ' {"\\udce4":1}\n'
    assert name in pbio("lineage", path).out
    assert pbio("verify", path).code == 0
    assert json.loads(pbio("cat", "--json", path).out)["value"] == {"\udce4": 1}


def test_formats_as_json(pbio: Pbio, readings: Path) -> None:
    listed = [json.loads(line) for line in pbio("formats", "--json", readings).out.splitlines()]
    assert [(one["name"], one["machine"], one["records"]) for one in listed] == [
        ("reading", "be32", 1),
        ("reading", "le64", 3),
    ]
    assert listed[1]["fields"] == {"n": "int32", "v": "float64[n]", "unit": "string", "station": "char[4]"}
    assert pbio("formats", "--json", "--layout", readings).code == 2


def test_schema_shows_what_the_sender_says_of_fields(pbio: Pbio, tmp_path: Path) -> None:
    fields = [
        Field("at", INT64, Notes(logical="timestamp")),
        Field("p", FLOAT64, Notes(units="kPa", accuracy="0.1")),
        Field("colour", ENUMERATION, Notes(symbols=(("red", 0), ("green", 1)))),
        Field("n", INT32, Notes(default=3, hidden=True)),
    ]
    with FileWriter(tmp_path / "a.ffs") as writer:
        writer.describe(record_to_format(record("t", fields)))
    assert pbio("schema", tmp_path / "a.ffs").out.splitlines() == [
        "t {",
        "  at: int64              timestamp",
        "  p: float64             unit kPa, accuracy 0.1",
        "  colour: enumeration32  red = 0, green = 1",
        "  n: int32               default 3, hidden",
        "}",
    ]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["conut", "x"], "Did you mean 'count'"),
        (["cat", "--jsn", "x"], "--json"),
        (["cat"], "Missing argument 'FILE...'. See `pbio cat --help`."),
        (["cat", "-n", "many", "x"], "'-n'"),
        (["space", "lss", "x"], "Did you mean 'ls'? See `pbio space --help`."),
        (["space", "derive", "s", "a", "--from", "b", "--param", "x"], "'x' is not NAME=VALUE"),
    ],
)
def test_wrong_usage_is_one_line(pbio: Pbio, typed: list[str], said: str) -> None:
    ran = pbio(*typed)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("pbio")
    assert said in ran.err


def test_the_version(pbio: Pbio) -> None:
    assert pbio("--version").out.startswith("pbio-spark ")


def test_a_file_that_holds_no_records_is_named(pbio: Pbio, tmp_path: Path, readings: Path) -> None:
    data = readings.read_bytes()
    scanner = Scanner(data)
    item = next(item for item in scanner.items() if item.kind is ItemKind.DATA)
    form = scanner.format_of(item)
    description = (12).to_bytes(8, "little") + len(form.body).to_bytes(8, "little") + form.id + form.body
    for name, content, said in (
        (
            "raw",
            data[item.payload : item.end] * 2,
            f"records without a file head: it starts with the format ID {form.id.hex()}",
        ),
        ("mmd.0", b"anything", "a file of an ADIOS2 BP folder"),
        ("renamed", description, "(mmd.0) of an ADIOS2 BP5 folder"),
        ("behead", format_to_item(form), "the file starts with a format"),
        ("xml", b"<xml/>", "this looks like XML"),
    ):
        (tmp_path / name).write_bytes(content)
        ran = pbio("cat", tmp_path / name)
        assert ran.code == 1
        assert ran.err.startswith("[PBIO_NOT_FFS] ")
        assert said in ran.err.splitlines()[0]
        assert ran.err.count("hint:") == 1


def test_json_lines_become_no_file_that_other_programs_cannot_read(pbio: Pbio, tmp_path: Path) -> None:
    lines, made = tmp_path / "a.jsonl", tmp_path / "made.ffs"
    lines.write_text('{"sum(x)": 1}\n')
    for more in ([], ["--type", '{"t": {"sum(x)": "int32"}}']):
        ran = pbio("convert", lines, *more, "-o", made)
        assert ran.code == 1
        assert "PBIO_BAD_NAME" in ran.err
    assert not made.exists()
