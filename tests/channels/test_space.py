"""Spaces and channels: created, opened, listed, dropped, and refused where there is something else."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ecode.types import record
from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from tests.channels.publish.test_publisher import WIDER, code_of
from tests.channels.spaces import COUNT, READING, again, values


def test_channels_are_created_listed_dropped_and_created_again(space: ChannelSpace) -> None:
    channel = space.create_channel("counts", COUNT)
    space.create_channel("arrow", pa.schema([("x", pa.float64()), ("tags", pa.list_(pa.string()))]))
    channel.submit([{"n": 1}, {"n": 2}], producer="p", sequence=0)
    other = again(space)
    assert [(info.name, info.events) for info in other.channels()] == [("arrow", 0), ("counts", 2)]
    with pytest.raises(PbioError, match="PBIO_CHANNEL_EXISTS"):
        other.create_channel("counts", READING)
    with pytest.raises(PbioError, match="did you mean 'counts'"):
        other.channel("count")
    other.drop_channel("counts")
    assert code_of(channel, {"n": 3}) == "PBIO_UNKNOWN_CHANNEL"
    anew = space.create_channel("counts", WIDER)
    assert anew.submit({"who": 1, "n": 1}, producer="p", sequence=0).events == 1  # numbers restart, too
    assert [row["n"] for row in values(anew)] == [1]
    for name in ("", "a\nb", "x" * 201):
        with pytest.raises(PbioError, match="PBIO_BAD_OPTION"):
            space.create_channel(name, COUNT)


def test_a_space_is_made_in_an_empty_folder_only(tmp_path: Path, space: ChannelSpace) -> None:
    for name in ("mine.txt", "_log/00000000000000000000.json", "data/mine.csv"):
        folder = tmp_path / name.replace("/", " ")
        (folder / name).parent.mkdir(parents=True)
        (folder / name).touch()
        with pytest.raises(PbioError, match=r"PBIO_NOT_EMPTY.*such as " + name):
            ChannelSpace.create(str(folder))
        assert [path for path in folder.rglob("*") if path.is_file()] == [folder / name]
    with pytest.raises(PbioError, match=r"PBIO_CHANNEL_SPACE.*inside"):
        ChannelSpace.create(f"{space.root}/data/inner")
    assert not Path(space.root, "data", "inner").exists()
    with pytest.raises(PbioError, match=r"PBIO_CHANNEL_SPACE.*already(.|\n)*`ChannelSpace.open\(path\)`"):
        ChannelSpace.create(space.root)
    interrupted = tmp_path / "interrupted"
    for name in ("_formats", "_log", "data"):
        (interrupted / name).mkdir(parents=True)
    (interrupted / ".0123.tmp").touch()
    (tmp_path / "empty").mkdir()
    for folder in (interrupted, tmp_path / "empty"):
        assert ChannelSpace.open(ChannelSpace.create(str(folder)).root).channels() == []


def test_the_error_says_why_a_folder_is_not_a_channel_space(tmp_path: Path, space: ChannelSpace) -> None:
    reasons = {
        "nowhere": "folder not found",
        "": "the folder holds other files",
        "space/data": f"inside the channel space {space.root},",
        "empty": "the folder is empty",
        "file": "the path is a file",
    }
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for place, reason in reasons.items():
        with pytest.raises(PbioError, match=rf"PBIO_NO_SPACE\].*{reason}"):
            ChannelSpace.open(str(tmp_path / place))


def test_what_exists_is_opened_if_it_is_the_same(tmp_path: Path, space: ChannelSpace) -> None:
    assert ChannelSpace.create(space.root, exist_ok=True).id == space.id
    made = ChannelSpace.create(str(tmp_path / "new"), exist_ok=True)
    assert ChannelSpace.open(made.root).id == made.id
    counts = space.create_channel("counts", COUNT, exist_ok=True)
    counts.submit({"n": 1})
    same = again(space).create_channel("counts", record("count", COUNT.fields), exist_ok=True)
    assert values(same) == [{"n": 1}]

    derive = partial(
        again(space).derive_channel, "few", "counts", filter="{ return input.n < param.most; }", exist_ok=True
    )
    few = derive(parameters={"most": 3})
    space.set_parameters("few", {"most": 5})
    assert derive(parameters={"most": 3}, max_cost=99, keep="subscribed").info == again(space).channel("few").info
    assert few.info.id == again(space).channel("few").info.id


def test_what_exists_is_not_opened_as_something_else(space: ChannelSpace) -> None:
    space.create_channel("counts", COUNT)
    space.derive_channel("few", "counts", filter="{ return input.n < 3; }")
    with pytest.raises(PbioError, match=r"PBIO_CHANNEL_EXISTS.* of another type"):
        space.create_channel("counts", READING, exist_ok=True)
    with pytest.raises(PbioError, match=r"PBIO_CHANNEL_EXISTS.* derived in another way"):
        space.create_channel("few", COUNT, exist_ok=True)
    for filter, parameters in (("{ return input.n < 4; }", {}), ("{ return input.n < 3; }", {"most": 3})):  # noqa: A001
        with pytest.raises(PbioError, match=r"PBIO_CHANNEL_EXISTS.* derived in another way"):
            space.derive_channel("few", "counts", filter=filter, parameters=parameters, exist_ok=True)


def test_channels_of_one_schema_have_one_type(space: ChannelSpace) -> None:
    class SparkSchema:
        def jsonValue(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
            return {"type": "struct", "fields": [{"name": "x", "type": "double", "nullable": True, "metadata": {}}]}

    schema = pa.schema([("x", pa.float64())])
    made = [
        space.create_channel("a", schema),
        space.create_channel("b", SparkSchema()),
        space.create_channel("c", schema),
    ]
    assert len({channel.info.format for channel in made}) == 1
    made[1].submit({"x": 0.5})
    assert values(made[1]) == [{"x": 0.5}]


def test_a_space_is_created_once_and_opened_only_where_one_is(tmp_path: Path, space: ChannelSpace) -> None:
    with pytest.raises(PbioError, match="PBIO_CHANNEL_SPACE"):
        ChannelSpace.create(space.root)
    with pytest.raises(PbioError, match="PBIO_NO_SPACE"):
        ChannelSpace.open(str(tmp_path))
    marker = Path(space.root) / "_space.json"
    for text in ("", "{", '{"version": 2, "id": "a"}', '{"version": 1}'):
        marker.write_text(text)
        with pytest.raises(PbioError, match="PBIO_BAD_LOG"):
            again(space)


def test_a_space_that_is_gone_or_replaced_says_so(space: ChannelSpace) -> None:
    channel = space.create_channel("counts", COUNT)
    assert (channel.info.name, len(space.channels())) == ("counts", 1)
    shutil.rmtree(space.root)
    for look in (lambda: channel.info, lambda: channel.format, space.channels):
        with pytest.raises(PbioError, match=r"PBIO_NO_SPACE.* not found"):
            look()
    ChannelSpace.create(space.root)
    with pytest.raises(PbioError, match=r"PBIO_NO_SPACE.* another space"):
        space.channels()
