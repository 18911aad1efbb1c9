"""`pbio space derive`, `replace`, `set`, `parameters`, and what `describe` says of derived channels."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from ecode.types import INT32, STRING, Field, record
from pbio_spark.channels import ChannelSpace, Source
from tests.cli.conftest import Ran

Pbio: TypeAlias = Callable[..., Ran]

NOTE = record("note", [Field("n", INT32), Field("text", STRING)])
KEEPS = "{ state.sum += input.n; return 1; }"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    ChannelSpace.create(str(tmp_path / "space"), source=Source("probe")).create_channel("notes", NOTE)
    return tmp_path / "space"


def submit(root: Path, *numbers: int, producer: str | None = None) -> None:
    notes = ChannelSpace.open(str(root), source=Source("probe")).channel("notes")
    notes.submit([{"n": n, "text": ""} for n in numbers], producer=producer)


def described(pbio: Pbio, root: Path, name: str) -> list[str]:
    return [" ".join(line.split()) for line in pbio("space", "describe", root, name).out.splitlines()]


def test_every_option_of_a_modulator_is_recorded(pbio: Pbio, root: Path) -> None:
    options = ["--filter", KEEPS, "--dequeue", "{ return 1; }", "--period", "{ return 0; }", "--every", "60"]
    options += ["--state", '{"sum": 0, "last": [0.5]}', "--param", "least=1", "--param", 'unit="kPa"']
    options += ["--param", "bounds=[1, 2]", "--service", "clock", "--service", "double heat(int sensor)"]
    options += ["--max-cost", "500", "--max-traps", "7", "--when", "subscribed"]
    assert pbio("space", "derive", root, "sums", "--from", "notes", *options).out.startswith("sums: channel 2, made of")
    how = ChannelSpace.open(str(root)).channel("sums").info.derivation
    assert how is not None
    assert (how.filter, how.dequeue, how.period, how.every) == (KEEPS, "{ return 1; }", "{ return 0; }", 60_000_000)
    assert how.parameters.values == {"least": 1, "unit": "kPa", "bounds": [1, 2]}
    assert (how.state.values, how.services) == ({"sum": 0, "last": [0.5]}, ("clock", "double heat(int sensor)"))
    assert (how.max_cost, how.max_traps, how.when) == (500, 7, "subscribed")
    lines = described(pbio, root, "sums")
    assert "when: subscribed (it has no subscribers)" in lines
    for line in ("every: 60 s", "service: clock", 'param.unit: "kPa"', 'initial state: {"sum": 0, "last": [0.5]}'):
        assert line in lines


def test_describe_shows_what_code_costs_and_how_a_channel_was_made(pbio: Pbio, root: Path) -> None:
    pbio(
        "space",
        "derive",
        root,
        "few",
        "--from",
        "notes",
        "--filter",
        "{ return input.n > param.least; }",
        "--param",
        "least=1",
    )
    submit(root, 1, 2)
    pbio("space", "set", root, "few", "least=0")
    submit(root, 1, 2)
    pbio("space", "replace", root, "few", "--filter", "{ return 0; }")
    lines = [" ".join(line.split()) for line in pbio("space", "describe", root, "few", "--versions").out.splitlines()]
    assert any(re.fullmatch(r"cost: \d+ units of work an event, and 1,000,000 are allowed", line) for line in lines)
    at = lines.index("version time change events how")
    assert [line.split(" ", 2)[0] for line in lines[at + 1 : at + 4]] == ["2", "4", "6"]
    assert [line.split(" ", 2)[2] for line in lines[at + 1 : at + 4]] == [
        "created 1 filter: { return input.n > param.least; }",
        "parameters 2 least: 0",
        "replaced 0 filter: { return 0; }",
    ]


def test_describe_shows_state_by_producer_and_counts_by_source(pbio: Pbio, root: Path) -> None:
    pbio("space", "derive", root, "sums", "--from", "notes", "--filter", KEEPS, "--state", '{"sum": 0}')
    submit(root, 1, 2, producer="p")
    submit(root, 5)
    lines = described(pbio, root, "sums")
    at = lines.index("state for 2 producers (42 characters):")
    assert [line.split(" ", 2)[0] for line in lines[at + 1 : at + 4]] == ["producer", "-", "p"]
    assert '{"sum": 5}' in lines[at + 2]
    assert lines[at + 4] == "source status since seen made refused trapped bytes of"
    assert lines[at + 5].startswith("probe accepted 2 3 3 0 0 ")


def test_replace_and_set(pbio: Pbio, root: Path) -> None:
    pbio("space", "derive", root, "few", "--from", "notes", "--filter", "{ return input.n > 1; }")
    replaced = pbio("space", "replace", root, "few", "--filter", "{ return input.n < param.n; }", "--param", "n=3")
    assert replaced.out == "few: derived so from commit 3 on\n"
    assert pbio("space", "set", root, "few", "n=2").out == "few: these values hold from commit 4 on\n"
    assert "derived from: notes, so since commit 4" in described(pbio, root, "few")
    assert pbio("space", "set", root, "few", "n=1", "--lazy", "3600").code == 0
    assert pbio("space", "parameters", root, "few").out == "n=1\n"
    for wrong, code in (("n=2.5", 1), ('n="a"', 1), ("m=2", 1), ("n", 2), ("=1", 2), ("n=abc", 2), ("n=[", 2)):
        assert pbio("space", "set", root, "few", wrong).code == code, wrong
    assert pbio("space", "set", root, "few", "n=1", "n=2").code == 2
    assert pbio("space", "replace", root, "notes", "--filter", "{ return 1; }").code == 1
    assert pbio("space", "replace", root, "few", "--filter", KEEPS, "--state", "{").code == 2


def test_blocks_of_parameters(pbio: Pbio, root: Path) -> None:
    assert pbio("space", "parameters", root).out.split() == ["block", "changed", "channels", "parameters"]
    assert pbio("space", "parameters", root, "box", "n=1", 'unit="m"').out == "box: a block of n, unit\n"
    assert "PBIO_CHANNEL_EXISTS" in pbio("space", "parameters", root, "box", "n=1").err
    options = ["--from", "notes", "--filter", "{ return input.n > param.n; }", "--parameters", "box"]
    pbio("space", "derive", root, "some", *options)
    assert pbio("space", "derive", root, "more", *options, "--param", "n=1").code == 2
    assert pbio("space", "set", root, "box", "n=4").code == 0
    assert pbio("space", "parameters", root, "box").out == 'n=4\nunit="m"\n'
    assert pbio("space", "parameters", root).out.splitlines()[1].split(None, 3) == ["box", "4", "some", "n, unit"]
    assert "parameters: block box" in described(pbio, root, "some")
    assert pbio("space", "parameters", root, "box", "--drop").code == 1
    pbio("space", "drop", root, "some")
    assert pbio("space", "parameters", root, "box", "--drop").out == "box: dropped\n"
    assert pbio("space", "parameters", root, "box").code == 1
    assert pbio("space", "parameters", root, "--drop").code == 2


def test_programs_come_from_files_too(pbio: Pbio, root: Path, tmp_path: Path) -> None:
    program = tmp_path / "high.c"
    program.write_text("{ return input.n > 1; }\n")
    pbio("space", "derive", root, "high", "--from", "notes", "--filter", f"@{program}")
    how = ChannelSpace.open(str(root)).channel("high").info.derivation
    assert how is not None
    assert how.filter == "{ return input.n > 1; }\n"
    ran = pbio("space", "derive", root, "low", "--from", "notes", "--filter", f"@{program}x")
    assert "cannot read '@" in ran.err
    assert "No such file" in ran.err


def test_values_in_place_of_a_block_of_parameters(pbio: Pbio, root: Path) -> None:
    ran = pbio("space", "derive", root, "high", "--from", "notes", "--parameters", '{"least": 1}')
    assert "--param NAME=VALUE on the command line" in ran.err
