"""Errors for misspelled keyword arguments of public calls suggest the right names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pbio_spark as pbio
from pbio_spark.errors import PbioError

LOAD = pbio.parse_record({"Load": {"host": "string", "load": "float64"}})


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> pbio.ChannelSpace:
    space = pbio.ChannelSpace.create(tmp_path_factory.mktemp("keywords") / "space")
    space.create_channel("c", LOAD)
    return space


@pytest.mark.parametrize(
    ("call", "wrong", "right"),
    [
        (lambda space, **odd: space.channel("c").subscribe(**odd), "filtr", "filter"),
        (lambda space, **odd: space.channel("c").subscribe(**odd), "demodulater", "demodulator"),
        (lambda space, **odd: space.channel("c").submit([], **odd), "produser", "producer"),
        (lambda space, **odd: space.create_channel("d", LOAD, **odd), "kep", "keep"),
        (lambda space, **odd: space.derive_channel("d", "c", **odd), "filtr", "filter"),
        (lambda space, **odd: space.publish([], **odd), "delivry", "delivery"),
        (lambda space, **odd: space.vacuum(**odd), "grase", "grace"),
        (lambda space, **odd: pbio.ChannelSpace.open(space.root, **odd), "concentator", "concentrator"),
        (lambda space, **odd: pbio.ChannelSpace.create(space.root, **odd), "exists_ok", "exist_ok"),
        (lambda space, **odd: pbio.ChannelSpace.open("s3://bucket/space", **odd), "concentator", "concentrator"),
        (lambda space, **odd: pbio.ChannelSpace.open(space.root, **odd), "concentrator_timout", "concentrator_timeout"),
        (lambda _, **odd: pbio.Modulator(**odd), "filtr", "filter"),
        (lambda _, **odd: pbio.Columns(**odd), "produser", "producer"),
        (lambda _, **odd: pbio.Source(**odd), "nam", "name"),
        (lambda _, **odd: pbio.GridConsumer.open("127.0.0.1:9", **odd), "reply_tiem", "reply_time"),
        (lambda _, **odd: pbio.GridProducer.open({"a": LOAD}, **odd).__enter__(), "limit", "limits"),
        (lambda space, **odd: pbio.PbioSerializer(pbio.FolderStore(space.root), **odd), "setings", "settings"),
        (lambda _, **odd: pbio.read_arrow("nowhere", **odd), "colums", "columns"),
        (lambda _, **odd: pbio.open_writer("nowhere", LOAD, **odd), "apend", "append"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_misspelled_keyword_is_told(
    space: pbio.ChannelSpace, call: Callable[..., Any], wrong: str, right: str
) -> None:
    with pytest.raises(PbioError, match=f"unknown (argument|option) '{wrong}'") as caught:
        call(space, **{wrong: "x"})
    assert caught.value.hint == f"did you mean '{right}'?"


def test_a_local_folder_has_no_options_of_a_server(tmp_path: Path) -> None:
    for make in (pbio.ChannelSpace.create, pbio.FolderStore):
        with pytest.raises(PbioError, match="unknown argument 'endpoint_url'") as caught:
            make(tmp_path / "space", endpoint_url="http://127.0.0.1:9")
        assert "local disk" in (caught.value.hint or "")
    assert not (tmp_path / "space").exists()
    pbio.ChannelSpace.create(tmp_path / "space", auto_mkdir=True)


def test_what_a_file_system_does_not_know_is_an_error_of_ours() -> None:
    with pytest.raises(PbioError, match=r"PBIO_BAD_OPTION.*'no_such_setting'"):
        pbio.ChannelSpace.open("s3://bucket/space", no_such_setting=1, endpoint_url="http://127.0.0.1:9")


@pytest.mark.parametrize("empty", ["{}", " { } ", "{ /* later */ }", "{ // later\n }"])
def test_an_empty_filter_keeps_nothing_and_is_refused(space: pbio.ChannelSpace, tmp_path: Path, empty: str) -> None:
    with pbio.open_writer(tmp_path / "a.ffs", LOAD) as writer:
        writer.write({"host": "a", "load": 1.0})
    for call in (
        lambda: pbio.read_arrow(tmp_path / "a.ffs", filter=empty),
        lambda: space.channel("c").subscribe(filter=empty),
        lambda: space.derive_channel("none", "c", filter=empty),
        lambda: space.channel("c").subscribe(modulator=pbio.Modulator(filter=empty)),
    ):
        with pytest.raises(PbioError, match=r"PBIO_BAD_PROGRAM.* the filter is empty"):
            call()


def test_many_comments_at_the_start_of_a_filter_cost_no_work(space: pbio.ChannelSpace) -> None:
    """Where a comment ends must not be tried in all ways: for 60 of them, that would never end."""
    assert space.channel("c").subscribe(filter="{" + "/* of the licence */\n" * 60 + "return 1; }")


def test_submissions_and_what_is_wrapped_keep_their_names() -> None:
    assert pbio.Channel.subscribe.__name__ == "subscribe"
    assert (pbio.Channel.subscribe.__doc__ or "").startswith("Subscribe")
    assert pbio.Columns(producer="p") == pbio.Columns(None, "p")
