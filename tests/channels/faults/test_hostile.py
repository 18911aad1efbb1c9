"""Invalid arguments and invalid contents of a space: a PbioError, and the log stays as it was."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ecode.types import FLOAT64, INT32, Array, Field, Ref, Struct, record
from pbio_spark.channels import Channel, ChannelSpace, Columns, Position, Submission
from pbio_spark.channels.log.layout import commit_path
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.errors import PbioError
from tests.channels.spaces import COUNT, again, everything, values


@pytest.fixture
def counts(space: ChannelSpace) -> Channel:
    return space.create_channel("counts", COUNT)


def refusal(code: str) -> Any:
    return pytest.raises(PbioError, match=rf"\[{code}\]")


LATE = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))
EARLY = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))


@pytest.mark.parametrize("number", [-1, 2**63, 1.5, True, "1"])
def test_a_transaction_that_no_reader_would_accept(counts: Channel, number: Any) -> None:
    with refusal("PBIO_BAD_OPTION"):
        counts.space.publish([Submission("counts", [{"n": 1}])], transaction=("app", number))
    assert values(again(counts.space).channel("counts")) == []


@pytest.mark.parametrize(
    "said",
    [
        {"event_time": LATE},
        {"event_time": EARLY},
        {"producer": "p", "sequence": 1.5},
        {"producer": "p", "sequence": "1"},
        {"producer": 5},
        {"producer": "\ud800"},
        {"delivery": "sync", "sync_timeout": "soon"},
    ],
)
def test_what_events_cannot_say_of_themselves(counts: Channel, said: dict[str, Any]) -> None:
    with refusal("PBIO_BAD_OPTION"):
        counts.submit({"n": 1}, **said)
    assert values(again(counts.space).channel("counts")) == []


@pytest.mark.parametrize("keep", ["foo", timedelta.max, timedelta(-1), 5])
def test_how_events_cannot_be_kept(counts: Channel, keep: Any) -> None:
    with refusal("PBIO_BAD_OPTION"):
        counts.space.create_channel("more", COUNT, keep=keep)
    assert [info.name for info in again(counts.space).channels()] == ["counts"]


def test_what_readers_would_refuse_is_not_committed(counts: Channel) -> None:
    with refusal("PBIO_BAD_OPTION"):
        counts.space.derive_channel("few", "counts", filter="{ return 1; } // \ud800")
    with refusal("PBIO_BAD_OPTION"):
        counts.space.create_channel("\ud800", COUNT)
    assert [info.name for info in again(counts.space).channels()] == ["counts"]


def test_a_type_without_fields_and_parameters_of_what_has_none(counts: Channel) -> None:
    with refusal("PBIO_BAD_OPTION"):
        counts.space.create_channel("nothing", record("nothing", []))
    with refusal("PBIO_BAD_OPTION"):
        counts.space.set_parameters("counts", {})


def test_an_impossible_position_is_the_next_possible_one(counts: Channel) -> None:
    counts.submit([{"n": 1}, {"n": 2}])
    counts.subscribe(start=Position(2, 0, -5), name="reader")
    assert [str(one.position) for one in counts.space.subscribers()] == ["2.0.0"]


def test_rows_may_come_one_by_one(counts: Channel) -> None:
    assert counts.submit({"n": n} for n in range(3)).events == 3
    assert values(counts) == [{"n": n} for n in range(3)]


DEEP = record(
    "deep",
    [
        Field("n", INT32),
        Field("one", Ref("one")),
        Field("v", Array(INT32, (3,))),
    ],
    [Struct("one", (Field("x", INT32), Field("y", FLOAT64)))],
)


@pytest.mark.parametrize(
    "changed",
    [
        {"n": 1.5},
        {"n": np.float32(1.5)},
        {"n": Decimal("1.5")},
        {"n": float("inf")},
        {"one": {"x": 0.5, "y": 0.5}},
        {"v": [1, 2, 3.5]},
    ],
)
def test_a_number_that_is_not_whole_is_not_cut_off(space: ChannelSpace, changed: dict[str, Any]) -> None:
    deep = space.create_channel("deep", DEEP)
    sound = {"n": 1.0, "one": {"x": 2, "y": 0.5}, "v": [1, 2, 3]}
    deep.submit(sound)
    with refusal("PBIO_BAD_VALUE"):
        deep.submit(sound | changed)
    assert values(deep) == [sound]


def test_rows_that_are_none_and_columns_of_one_name(counts: Channel) -> None:
    with refusal("PBIO_BAD_VALUE"):
        counts.submit([1, 2])
    twice = [pa.array([1]), pa.array([2])]
    for columns in (pa.RecordBatch, pa.Table):
        with refusal("PBIO_NAME_COLLISION"):
            counts.submit(columns.from_arrays(twice, names=["n", "n"]))


def test_a_time_that_eight_bytes_do_not_hold_is_not_another_one(counts: Channel) -> None:
    rows = pa.record_batch({"n": pa.array([1], pa.int32()), "t": pa.array([2**60], pa.timestamp("s", "UTC"))})
    with refusal("PBIO_BAD_VALUE"):
        counts.submit(rows, columns=Columns(event_time="t"))


@pytest.mark.parametrize(
    "source", ["/* {x} */ // {\n{ return input.n > param.n; }", "{ return input.n > param.n; } // }"]
)
def test_comments_around_a_program_with_parameters(space: ChannelSpace, source: str) -> None:
    own = space.create_channel("own", record("parameters", [Field("n", INT32)]))
    few = space.derive_channel("few", "own", filter=source, parameters={"n": 1})
    own.submit([{"n": 1}, {"n": 2}])
    assert values(few) == [{"n": 2}]


# What a space should not hold


def replaced_by_a_link(path: Path) -> None:
    outside = path.parent.parent.parent / "outside"
    path.rename(outside)
    path.symlink_to(outside)


def replaced_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("replace", [replaced_by_a_link, replaced_by_a_pipe, replaced_by_a_folder])
@pytest.mark.parametrize("what", ["_log/*2.json", "data/*", "_formats/*", "_space.json"])
def test_only_files_of_the_space_itself_are_read(counts: Channel, replace: Callable[[Path], None], what: str) -> None:
    counts.submit({"n": 1})
    (path,) = Path(counts.space.root).glob(what)
    replace(path)
    with pytest.raises(PbioError, match="a link, a folder or a device"):
        everything(again(counts.space).channel("counts"))


def test_a_text_among_numbers_needs_no_memory(counts: Channel) -> None:
    counts.submit({"n": 1})
    path = Path(counts.space.root, commit_path(2))
    said = json.loads(path.read_bytes())
    groups = said["data"]["groups"]
    said["data"]["groups"] = {name: [0] * 50_000 for name in groups if name != "formats"} | {
        "formats": groups["formats"]
    }
    said["data"]["groups"]["channel"][0] = "9" * 1_000_000  # as an array of strings: 200 GB
    path.write_text(json.dumps(said))
    with refusal("PBIO_BAD_LOG"):
        again(counts.space).channel("counts")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (0, 2),  # an ID that another channel has
        (1, "few"),  # a name that another channel has
        (6, 2**62),  # a last commit that there is not
        (7, {"parent": 2, "filter": None, "transform": None, "parameters": {}}),  # each derived from the other
        (11, 2**62),  # events that are gone, and events that were never published
    ],
)
def test_a_checkpoint_that_contradicts_itself_is_left_aside(counts: Channel, column: int, value: Any) -> None:
    space = counts.space
    space.derive_channel("few", "counts", filter="{ return input.n > 1; }")
    counts.submit([{"n": 1}, {"n": 2}])
    space.history.checkpoint()
    (path,) = Path(space.root).glob("_log/*.checkpoint")
    said = json.loads(path.read_bytes())
    said["channels"][0][column] = value
    path.write_text(json.dumps(said))
    assert values(again(space).channel("counts")) == [{"n": 1}, {"n": 2}]
    assert again(space).channel("counts").submit({"n": 3}).events == 1
    assert values(again(space).channel("few")) == [{"n": 2}, {"n": 3}]


def change(space: ChannelSpace, version: int, how: Callable[[dict[str, Any]], object]) -> None:
    path = Path(space.root, commit_path(version))
    said = json.loads(path.read_bytes())
    how(said)
    path.write_text(json.dumps(said))


def test_a_lost_commit_is_not_the_end_of_the_log(counts: Channel) -> None:
    counts.submit({"n": 1})
    counts.submit({"n": 2})
    Path(counts.space.root, commit_path(2)).unlink()
    with pytest.raises(PbioError, match="commit 2 is missing, but commit 3 exists"):
        again(counts.space).channel("counts")


def test_a_commit_or_a_file_that_is_there_twice(counts: Channel) -> None:
    space = counts.space
    counts.submit({"n": 1})
    counts.submit({"n": 2})
    first, second = (Path(space.root, commit_path(version)) for version in (2, 3))
    there = json.loads(first.read_bytes())["data"]["files"]
    kept = second.read_bytes()
    change(space, 3, lambda said: said["data"].update(files=there))
    assert any("names a file of another commit" in problem.reason for problem in problems(again(space)))
    change(space, 3, lambda said: said["data"].update(files=there * 2))
    with pytest.raises(PbioError, match="a data file is named twice"):
        again(space).channel("counts")
    second.write_bytes(first.read_bytes())
    with pytest.raises(PbioError, match="found commit 2 in the place of commit 3"):
        again(space).channel("counts")
    second.write_bytes(kept)
    assert values(again(space).channel("counts")) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(("producers", "numbers"), [(["p", None], [5, 2]), ([None, None], [1, 2])])
def test_a_number_needs_a_producer_whose_it_is(counts: Channel, producers: list[Any], numbers: list[int]) -> None:
    rows = pa.record_batch({"n": pa.array([1, 2], pa.int32()), "p": pa.array(producers, pa.string()), "s": numbers})
    with refusal("PBIO_CANNOT_BE_NULL"):
        counts.submit(rows, columns=Columns(producer="p", sequence="s"))
    assert counts.submit(rows, producer="q", columns=Columns(producer="p", sequence="s")).events == 2


def test_a_space_that_was_removed_recreated_or_restored_gets_nothing_of_the_old_one(counts: Channel) -> None:
    root = Path(counts.space.root)
    counts.submit({"n": 1})
    copy = shutil.copytree(root, root.with_name("copy"))
    counts.submit({"n": 2})
    shutil.rmtree(root)
    shutil.copytree(copy, root)
    with pytest.raises(PbioError, match="commit 3 is gone"):
        counts.submit({"n": 3})
    shutil.rmtree(root)
    anew = ChannelSpace.create(str(root))
    with pytest.raises(PbioError, match="commit 3 is gone"):
        counts.submit({"n": 3})
    anew.create_channel("counts", COUNT).submit([{"n": n} for n in range(3)])
    anew.channel("counts").submit({"n": 9})
    with pytest.raises(PbioError, match="belongs to another space"):
        counts.submit({"n": 3})
    assert len(values(again(anew).channel("counts"))) == 4
    assert list(problems(again(anew))) == []


def test_events_far_beyond_the_end_of_their_file(counts: Channel) -> None:
    counts.submit({"n": 1})

    def far(said: dict[str, Any]) -> None:
        said["data"]["files"][0][1] = 2**61
        said["data"]["groups"].update(start=[2**59], end=[2**60])

    change(counts.space, 2, far)
    with pytest.raises(PbioError, match=r"PBIO_BAD_LOG\].*events from byte"):
        everything(again(counts.space).channel("counts"))


def test_parameters_that_are_equal_to_python_and_not_to_a_program(counts: Channel) -> None:
    whole, real = (
        counts.space.derive_channel(name, "counts", filter="{ return input.n / param.n > 1; }", parameters={"n": n})
        for name, n in (("whole", 2), ("real", 2.0))
    )
    counts.submit({"n": 3})
    assert (values(whole), values(real)) == ([], [{"n": 3}])


def test_folders_that_a_copy_lost_are_created_again(counts: Channel) -> None:
    for name in ("data", "_subscribers", "_formats"):
        shutil.rmtree(Path(counts.space.root, name))
    counts.subscribe(name="reader")
    assert counts.submit({"n": 1}).events == 1
    assert values(again(counts.space).channel("counts")) == [{"n": 1}]


def test_places_where_no_space_can_be(counts: Channel, tmp_path: Path) -> None:
    root = Path(counts.space.root)
    (tmp_path / "file").touch()
    for place in ("file", "file/space"):
        with refusal("PBIO_NO_SPACE"):
            ChannelSpace.open(str(tmp_path / place))
        with refusal("PBIO_PATH_NOT_FOUND"):
            ChannelSpace.create(str(tmp_path / place))
    shutil.rmtree(root)
    with refusal("PBIO_NO_SPACE"):
        counts.subscribe(start="earliest", name="reader")
