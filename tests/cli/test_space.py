"""`pbio space`: its output and its exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest

from ecode.types import INT32, STRING, Field, record
from pbio_spark.channels import ChannelSpace, Submission
from pbio_spark.formats.layout import record_to_format
from pbio_spark.tables import open_writer
from tests.channels.clock import Clock
from tests.cli.conftest import OLD, Ran

Pbio: TypeAlias = Callable[..., Ran]

NOTE = record("note", [Field("n", INT32), Field("text", STRING)])


ALARM = "alarm {\n  level: int32\n  text: string\n}\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    space = ChannelSpace.create(str(tmp_path / "space"))
    notes = space.create_channel("notes", NOTE)
    space.derive_channel("few", "notes", filter="{ return input.n > param.least; }", parameters={"least": 1})
    happened = datetime(2024, 5, 6, tzinfo=UTC)
    notes.submit([{"n": n, "text": f"note {n}"} for n in range(3)], producer="p", sequence=5, event_time=happened)
    notes.subscribe(name="reader", start="earliest")
    return tmp_path / "space"


def test_hints_are_for_a_shell(pbio: Callable[..., Ran], tmp_path: Path) -> None:
    space, said = tmp_path / "space", '{"L": {"a": "int32"}}'
    assert pbio("space", "init", space).code == 0
    assert pbio("space", "create", space, "c", "--type", said).code == 0
    for call, hint in (
        (("init", space), "`pbio space ls` lists its channels"),
        (("create", space, "c", "--type", said), "`pbio space describe` shows it"),
        (("tail", space, "c", "--start", "never"), "or a time such as 2026-01-31T12:00:00Z"),
    ):
        ran = pbio("space", *call)
        assert (ran.code, hint in ran.err) == (1, True), ran.err
        assert not {"ChannelSpace", "datetime", "exist_ok"} & set(re.findall(r"\w+", ran.err))
    twice = pbio("space", "set", space, "c", 'm={"a": 1, "a": 2}')
    assert (twice.code, "duplicate key 'a'" in twice.err) == (2, True)


def test_init_and_ls(pbio: Pbio, tmp_path: Path, root: Path) -> None:
    assert pbio("space", "init", tmp_path / "new").code == 0
    assert ChannelSpace.open(str(tmp_path / "new")).channels() == []
    again = pbio("space", "init", tmp_path / "new")
    assert (again.code, again.err.partition("]")[0]) == (1, "[PBIO_CHANNEL_SPACE")
    lines = [line.split() for line in pbio("space", "ls", root).out.splitlines()]
    assert lines[0] == ["channel", "published", "bytes", "last", "status", "subscribers"]
    assert [(line[0], line[1], *line[3:]) for line in lines[1:]] == [
        ("few", "1", "3", "accepted", "0"),
        ("notes", "3", "3", "direct", "1"),
    ]


def test_create_and_drop(pbio: Pbio, tmp_path: Path, root: Path, readings: Path) -> None:
    said = '{"alarm": {"level": "int32", "text": "string"}}'
    (tmp_path / "alarm.json").write_text(said)
    assert pbio("space", "create", root, "a", "--type", said).out == "a: channel 4 of\n" + ALARM
    assert pbio("space", "create", root, "b", "--type", f"@{tmp_path}/alarm.json").out == "b: channel 5 of\n" + ALARM
    space = ChannelSpace.open(str(root))
    assert space.channel("a").info.format == space.channel("b").info.format
    assert "PBIO_SEVERAL_FORMATS" in pbio("space", "create", root, "c", "--like", readings).err
    form = record_to_format(OLD, "be32")
    assert pbio("space", "create", root, "c", "--like", f"{readings}#{form.id.hex()}").code == 0
    assert ChannelSpace.open(str(root)).channel("c").format == form
    for wrong, code in (("{", "PBIO_BAD_TYPE"), ('{"alarm": {"level": "int33"}}', "PBIO_BAD_TYPE")):
        assert code in pbio("space", "create", root, "d", "--type", wrong).err
    assert pbio("space", "create", root, "d").code == 2
    assert "does not exist" in pbio("space", "create", root, "d", "--type", f"@{tmp_path}/none").err.lower()
    assert pbio("space", "drop", root, "b").out == "b: dropped\n"
    assert "PBIO_UNKNOWN_CHANNEL" in pbio("space", "drop", root, "b").err
    assert [info.name for info in ChannelSpace.open(str(root)).channels()] == ["a", "c", "few", "notes"]


def test_describe(pbio: Pbio, root: Path) -> None:
    notes = pbio("space", "describe", root, "notes").out
    assert "subscribers" not in pbio("space", "describe", root, "few").out
    assert "published: 3 events" in notes
    assert notes.splitlines()[3:6] == ["producers with sequence numbers: 1", "producer  last", "p            7"]
    assert "text  string" in notes
    few = pbio("space", "describe", root, "few").out
    for line in (
        "derived from: notes, so since commit 2",
        "status: accepted",
        "filter: { return input.n > param.least; }",
        "param.least: 1",
    ):
        assert line in few.splitlines()
    assert "did you mean 'notes'" in pbio("space", "describe", root, "note").err


def test_describe_lists_some_of_many_producers(pbio: Pbio, root: Path) -> None:
    space = ChannelSpace.open(str(root))
    event = [{"n": 0, "text": ""}]
    space.publish([Submission("notes", event, producer=f"q{number:02}", sequence=number) for number in range(22)])
    lines = pbio("space", "describe", root, "notes").out.splitlines()
    start = lines.index("producers with sequence numbers: 23")
    assert [line.split() for line in lines[start + 2 : start + 4]] == [["p", "7"], ["q00", "0"]]
    assert lines[start + 21 : start + 23] == ["q18         18", "and 3 more"]


def test_describe_shows_which_subscribers_lag_and_which_have_expired(
    pbio: Pbio, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)

    def subscribers() -> list[list[str]]:
        lines = pbio("space", "describe", root, "notes").out.splitlines()
        return [line.split() for line in lines[lines.index("subscribers, and what they have not acknowledged:") + 1 :]]

    notes = ChannelSpace.open(str(root)).channel("notes")
    notes.subscribe(name="reader")
    some = notes.subscribe(name="some", start="earliest")
    next(some.events())
    some.acknowledge()
    notes.submit([{"n": 4, "text": ""}, {"n": 5, "text": ""}])
    notes.subscribe(lambda event: None, name="all", start="earliest").run()
    assert subscribers()[0] == ["subscriber", "at", "commits", "events", "seen", "status"]
    assert [(*line[:4], line[5]) for line in subscribers()[1:]] == [
        ("all", "5.0.0", "0", "0", "there"),
        ("reader", "2.0.0", "2", "5", "there"),
        ("some", "3.0.1", "2", "4", "there"),
    ]
    assert subscribers()[1][4] == "2023-11-14T22:13:20+00:00"
    for _ in range(2):
        assert "forgotten" not in pbio("space", "vacuum", root).out
        clock.go(days=4)
    assert {line[0]: line[5] for line in subscribers()[1:]} == dict.fromkeys(("all", "reader", "some"), "expired")
    assert "some: expired subscriber removed" in pbio("space", "vacuum", root).out
    assert "subscribers" not in pbio("space", "describe", root, "notes").out


def test_tail(pbio: Pbio, root: Path) -> None:
    lines = [json.loads(line) for line in pbio("space", "tail", root, "notes").out.splitlines()]
    assert [line["event"] for line in lines] == [{"n": n, "text": f"note {n}"} for n in range(3)]
    assert [(line["position"], line["producer"], line["sequence"]) for line in lines] == [
        (f"3.0.{n}", "p", n + 5) for n in range(3)
    ]
    assert lines[0]["event_time"] == "2024-05-06T00:00:00+00:00"
    assert pbio("space", "tail", root, "notes", "--start", "latest").out == ""
    assert len(pbio("space", "tail", root, "notes", "--start", "3.0.1").out.splitlines()) == 2
    assert len(pbio("space", "tail", root, "notes", "--start", "2020-01-01").out.splitlines()) == 3
    assert len(pbio("space", "tail", root, "notes", "--filter", "{ return input.n == 1; }").out.splitlines()) == 1
    assert "PBIO_BAD_OPTION" in pbio("space", "tail", root, "notes", "--start", "soon").err


def test_the_last_events(pbio: Pbio, root: Path) -> None:
    def numbers(*options: str) -> list[int]:
        lines = pbio("space", "tail", root, "notes", *options).out.splitlines()
        return [json.loads(line)["event"]["n"] for line in lines]

    assert numbers("-n", "2") == [1, 2]
    assert numbers("-n", "9") == [0, 1, 2]
    assert numbers("-n", "0") == []
    assert numbers("-n", "1", "--start", "3.0.1", "--filter", "{ return input.n < 2; }") == [1]
    assert pbio("space", "tail", root, "notes", "-n", "-1").code == 2


def test_what_was_published_before_is_not_published_again(pbio: Pbio, root: Path, tmp_path: Path) -> None:
    lines = tmp_path / "notes.jsonl"
    lines.write_text('{"n": 7, "text": "a"}\n{"n": 8, "text": "b"}\n')
    publish = ("space", "publish", root, "notes", lines, "--producer", "me", "--sequence", "4")
    when = ("--event-time", "2026-01-31T12:00:00+01:00")
    assert pbio(*publish, *when).out == "notes: events published: 2, in commit 4\n"
    assert pbio(*publish, *when).out == "notes: no events to publish; published before: 2\n"
    lines.write_text(lines.read_text() + '{"n": 9, "text": "c"}\n')
    assert pbio(*publish).out == "notes: events published: 1, in commit 5; published before: 2\n"
    shown = [json.loads(line) for line in pbio("space", "tail", root, "notes", "-n", "3").out.splitlines()]
    assert [(line["event"]["n"], line["sequence"], line["producer"]) for line in shown] == [
        (7, 4, "me"),
        (8, 5, "me"),
        (9, 6, "me"),
    ]
    assert [line.get("event_time") for line in shown] == [*["2026-01-31T11:00:00+00:00"] * 2, None]
    late = pbio(*publish[:4], lines, "--wait", "0.01")
    assert (late.code, "PBIO_NOT_DELIVERED" in late.err) == (1, True)
    assert "not a time: 'noon'" in pbio(*publish, "--event-time", "noon").err
    assert "producer" in pbio(*publish[:5], "--sequence", "1").err


def test_verify(pbio: Pbio, root: Path) -> None:
    sound = pbio("space", "verify", root)
    assert (sound.code, sound.out) == (0, f"{root}: sound (commits: 3, channels: 2, events: 4)\n")
    (path,) = (root / "data").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    damaged = pbio("space", "verify", root)
    assert damaged.code == 1
    assert path.name in damaged.err
    assert "pbio space verify" not in damaged.err
    assert "PBIO_NO_SPACE" in pbio("space", "verify", root.parent).err


def test_compact_and_vacuum(pbio: Pbio, root: Path) -> None:
    ChannelSpace.open(str(root)).channel("notes").submit({"n": 9, "text": "another"})
    assert pbio("space", "compact", root).out == f"{root}: 2 files combined\n"
    assert pbio("space", "vacuum", root).out == f"{root}: 0 files removed (0 bytes)\n"
    assert "2 files removed" in pbio("space", "vacuum", root, "--grace", "0").out
    assert len(pbio("space", "tail", root, "notes").out.splitlines()) == 4
    assert pbio("space", "verify", root).code == 0


def test_events_with_dates_that_python_lacks_are_shown(pbio: Pbio, root: Path, tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int32()), ("day", pa.date32())])
    table = pa.table([pa.array([0, 1, 2], pa.int32()), pa.array([0, 2932897, 1], pa.date32())], schema=schema)
    channel = ChannelSpace.open(str(root)).create_channel("days", schema)
    channel.submit(table)
    for options in ((), ("-n", "3")):
        lines = pbio("space", "tail", root, "days", *options).out.splitlines()
        assert [json.loads(line)["event"]["day"] for line in lines] == ["1970-01-01", "10000-01-01", "1970-01-02"]
    assert pbio("space", "verify", root).code == 0
    with open_writer(tmp_path / "days.ffs", channel.format) as writer:
        writer.write(table)
    ran = pbio("space", "publish", root, "days", tmp_path / "days.ffs")
    assert (ran.code, ran.err.partition("]")[0]) == (1, "[PBIO_BAD_VALUE")
    assert "days.ffs, record 1, field $.day" in ran.err
    assert channel.info.events == 3
