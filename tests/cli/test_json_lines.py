"""JSON lines that cannot become records: the error names file, line and field, and hints at options of the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Ran


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"a":18446744073709551615}', ["line 1: 18446744073709551615 is beyond", "field $.a", '"uint64"']),
        ('{"a":1}\n{"a":-9223372036854775809}', ["line 2: -9223372036854775809 is beyond", '"decimal(38,0)"']),
        ('{"a":{"b":[1,99999999999999999999]}}', ["line 1: 99999999999999999999", "field $.a.b[]"]),
        ('{"a":1}\n\n{"a":"x"}', ["[PBIO_CANNOT_MERGE] line 3: 'x' does not have the type", "int64", "field $.a"]),
        ('{"a":{"b":1}}\n{"a":3}', ["line 2: 3 does not have the type", "field $.a"]),
        ('{"a":9007199254740993}\n{"a":2.5}', ["line 2: 2.5 and 9007199254740993", "field $.a", "decimal(38,6)"]),
        ('{"a":2.5}\n{"a":9007199254740993}', ["line 2: 9007199254740993 cannot be combined with the fractions"]),
        ('{"a":1}\n{"a":1,"a":2}', ["[PBIO_BAD_VALUE] line 2 is not", "duplicate key 'a'"]),
        ('{"a":{"b":1,"b":1}}', ["duplicate key 'b'"]),
        ('{"a":"\\ud800"}', ["line 1: ", "cannot be a value of a column"]),
        ("[" * 100_000, ["line 1 is not the JSON of a record"]),
        ('{"a":1}\n\n{"a":null}', ["[PBIO_CANNOT_BE_NULL] line 3: null", "--nulls mask", "--null-value"]),
        ('{"a":1}\n{"a":1,"b":2}', ["[PBIO_CANNOT_BE_NULL] line 1: null", "field $.b"]),
        ('{"total (EUR)":1}', ["[PBIO_BAD_NAME]", "rename the field in the JSON"]),
    ],
    ids=range(14),
)
def test_what_has_no_type_is_named(pbio: Callable[..., Ran], tmp_path: Path, lines: str, said: list[str]) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text(lines)
    ran = pbio("convert", source, "-o", tmp_path / "rows.ffs")
    assert ran.code == 1
    assert ran.err.startswith("[PBIO_")
    assert "rows.jsonl" in ran.err
    assert [text for text in said if text not in ran.err] == []
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("type_", "line", "said"),
    [
        ('"int"', '{"a":18446744073709551615}', "line 3: a value of a is not of type int32: a number is beyond it"),
        ('"string[]"', '{"a":"abc"}', 'is not of type list<element: string>: "abc" is not a list'),
        ('"q"}, "q": {"n": "int"', '{"a":3}', "3 is not an object"),
        ('"int"', '{"a":null}', "such as '*date', '*double' or '*(string[])' in --type"),
    ],
    ids=range(4),
)
def test_what_a_type_does_not_hold_is_named(
    pbio: Callable[..., Ran], tmp_path: Path, type_: str, line: str, said: str
) -> None:
    source = tmp_path / "rows.jsonl"
    good = {'"int"': '{"a":1}', '"string[]"': '{"a":["x"]}'}.get(type_, '{"a":{"n":1}}')
    source.write_text(f"{good}\n\n{line}\n")
    ran = pbio("convert", source, "-o", tmp_path / "rows.ffs", "--type", f'{{"t": {{"a": {type_}}}}}')
    assert ran.code == 1
    assert "line 3" in ran.err
    assert said in ran.err


def test_a_type_holds_what_lines_cannot_say(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    source, made, back = tmp_path / "rows.jsonl", tmp_path / "rows.ffs", tmp_path / "back.jsonl"
    source.write_text('{"a": 18446744073709551615, "d": null, "s": null}\n{"a": 0, "d": "2026-01-31", "s": ["x"]}\n')
    type_ = '{"t": {"a": "uint64", "d": "*date", "s": "*(string[])"}}'
    assert pbio("convert", source, "-o", made, "--type", type_).err == ""
    assert pbio("convert", made, "-o", back).err == ""
    assert back.read_text().replace('"18446744073709551615"', "18446744073709551615").replace('"0"', "0") == (
        source.read_text()
    )
    ran = pbio("convert", source, "-o", made, "--type", type_, "--nulls", "mask")
    assert ran.code == 2
    assert "'*(string[])'" in ran.err


def test_publishing_names_the_file_and_the_line(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    space, rows = tmp_path / "space", tmp_path / "rows.jsonl"
    assert pbio("space", "init", space).code == 0
    ran = pbio("space", "create", space, "small", "--type", '{"small": {"n": "int", "at": "*timestamp"}}')
    assert "at: *int64  timestamp" in ran.out
    rows.write_text('\n{"n": 1, "at": null}\n{"at": null}\n')
    ran = pbio("space", "publish", space, "small", rows)
    assert "line 3: 'n' is None" in ran.err
    assert f"at: {rows}" in ran.err
    assert "'*float64'" in ran.err
    assert "Spark" not in ran.err
    rows.write_text('{"n": 1, "n": 2}\n')
    assert "duplicate key 'n'" in pbio("space", "publish", space, "small", rows).err
    ran = pbio("space", "publish", space, rows, "small")
    assert f"pbio space publish {space} small {rows}" in ran.err


def test_a_name_after_a_file_is_for_other_commands(pbio: Callable[..., Ran], readings: Path) -> None:
    ran = pbio("cat", f"{readings}#reading")
    assert ran.code == 1
    assert "FILE#NAME is for `pbio match`" in ran.err
