"""Every name of a space's files is made and parsed in `log.layout`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecode.types import INT32, Field, record
from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.log import layout

CHANNELS = Path(layout.__file__).parents[1]
versions = st.integers(1, 10**20 - 1)


@given(versions)
def test_the_name_of_a_version_is_parsed_as_the_version(version: int) -> None:
    commit, checkpoint = layout.commit_path(version), layout.checkpoint_path(version)
    assert layout.name_to_commit(layout.name_of(commit)) == version
    assert layout.name_to_checkpoint(layout.name_of(checkpoint)) == version
    assert layout.name_to_commit(layout.name_of(checkpoint)) is layout.name_to_fold(layout.name_of(commit)) is None
    assert layout.is_checkpoint_path(checkpoint)
    assert not layout.is_checkpoint_path(commit)


@given(st.integers(1, 10**19), st.sampled_from([100, 10_000]))
def test_the_name_of_a_fold_is_parsed_as_its_span(first: int, count: int) -> None:
    assert layout.name_to_fold(layout.name_of(layout.fold_path(first, count))) == (first, first + count - 1)


@given(st.integers(1, 10**6), st.text(min_size=1), st.text(min_size=1))
def test_a_subscriber_is_found_by_channel_and_by_name(channel: int, name: str, other: str) -> None:
    path = layout.subscriber_path(channel, name)
    assert layout.name_to_channel(layout.name_of(path)) == channel
    assert layout.is_subscriber_named(path, other) == (name == other)
    assert layout.name_to_channel(layout.name_of(layout.missing_path(channel, name))) is None


@pytest.mark.parametrize(
    ("path", "is_named"),
    [
        (layout.new_data_path, True),
        (layout.new_groups_path, True),
        (layout.new_numbers_path, True),
        (layout.new_states_path, True),
        (lambda: layout.commit_path(1), False),
        (lambda: layout.NEWEST, False),
        (layout.new_temporary_path, False),
        (lambda: f"{layout.LOG}/{layout.name_of(layout.new_data_path())}", False),
        (lambda: f"{layout.DATA}/x/{layout.name_of(layout.new_data_path())}", False),
        (lambda: f"{layout.new_data_path()}\n", False),
    ],
)
def test_only_whole_paths_are_recognised(path: Callable[[], str], is_named: bool) -> None:
    assert layout.is_named_by_commits(path()) == is_named


def test_a_space_holds_only_names_of_the_layout(tmp_path: Path) -> None:
    space = ChannelSpace.create(f"{tmp_path}/space")
    channel = space.create_channel("counts", record("count", [Field("n", INT32)]))
    channel.submit([{"n": 1}], producer="p", sequence=0)
    channel.subscribe(start="earliest", name="reader").acknowledge()
    space.history.checkpoint()
    files = [path.relative_to(space.root) for path in Path(space.root).rglob("*") if path.is_file()]
    assert {path.parts[0] for path in files} == {layout.SPACE, *layout.FOLDERS}
    assert all(layout.is_own(*path.parts) for path in files if len(path.parts) == 2)
    assert space.folder.strangers() == []


def test_no_other_module_of_channels_spells_a_name() -> None:
    spelled = re.compile(
        r"""["'`/](_log|_subscribers|_formats|_space\.json|_newest)\b|\.(fold|checkpoint|missing)["'`]"""
    )
    found = {
        path.relative_to(CHANNELS).as_posix()
        for path in CHANNELS.rglob("*.py")
        if spelled.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"log/layout.py"}
