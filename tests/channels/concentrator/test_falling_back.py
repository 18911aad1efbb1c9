"""A concentrator that is missing, dies or is replaced: nothing is lost or duplicated, and writers need not notice."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

import pbio_spark.channels.concentrator.client as client_module
from pbio_spark.channels import Channel, ChannelSpace, Concentrator, Published
from pbio_spark.channels.concentrator.through import Use
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History
from pbio_spark.errors import PbioError
from tests.channels.concentrator import mortal as mortal_module
from tests.channels.spaces import COUNT, again, values
from tests.children import end, start, wait_for_lines
from tests.conftest import ROOT

pytestmark = pytest.mark.usefixtures("sockets")


@contextmanager
def mortal(root: str, moment: str, tmp_path: Path, by: int = signal.SIGKILL) -> Iterator[BaseProcess]:
    out = tmp_path / "mortal"
    process = start(out, mortal_module.main, root, moment, by)
    wait_for_lines(process, out, 1)
    try:
        yield process
    finally:
        end(process)


@pytest.fixture
def counts(space: ChannelSpace) -> Channel:
    space.create_channel("counts", COUNT)
    return space.channel("counts")


@pytest.mark.parametrize(
    ("moment", "store"),
    [("taken", "disk"), ("trying", "disk"), ("committed", "disk"), ("trying", "bucket"), ("committed", "bucket")],
)
def test_a_publication_without_an_answer_is_neither_lost_nor_doubled(
    tmp_path: Path, moment: str, store: str, request: pytest.FixtureRequest
) -> None:
    root = str(tmp_path / "space") if store == "disk" else request.getfixturevalue("bucket")
    space = ChannelSpace.create(root)
    counts = space.create_channel("counts", COUNT)
    with mortal(space.root, moment, tmp_path) as concentrator:
        # Without numbers only the log tells whether they are published.
        assert counts.submit([{"n": 1}, {"n": 2}]) == Published(2, 2, 0)
        concentrator.join()
        assert concentrator.exitcode == -signal.SIGKILL
    assert counts.submit([{"n": 3}], producer="p", sequence=0) == Published(3, 1, 0)
    if store == "disk":
        with mortal(space.root, moment, tmp_path):
            assert counts.submit([{"n": 3}, {"n": 4}], producer="p", sequence=0) == Published(4, 1, 1)
    assert [one["n"] for one in values(counts)] == [1, 2, 3, 4][: 4 if store == "disk" else 3]


PATIENCE = 0.2
"""Seconds that a concentrator that is stopped may hold a writer up here."""


@contextmanager
def kept_awake(process: BaseProcess) -> Iterator[None]:
    """Resume a process whenever it is stopped."""
    assert process.pid is not None
    is_over = threading.Event()

    def wake(number: int) -> None:
        while not is_over.wait(0.01):
            os.kill(number, signal.SIGCONT)

    thread = threading.Thread(target=wake, args=(process.pid,))
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def be_impatient(channel: Channel, *, is_welcome: bool = True) -> None:
    """Let a writer wait but for a moment from now on; it has been welcomed already, or is not known yet."""
    client = channel.space._through._client
    assert client is not None
    if is_welcome:
        connection = client.connection()
        assert connection is not None
        client.keep(connection)
    client.timeout = PATIENCE
    for connection in client._idle:
        client_module._limit(connection._socket, PATIENCE)


@pytest.mark.parametrize("moment", ["taken", "trying", "linking", "committed"])
@pytest.mark.parametrize("use", ["auto", "required"])
def test_one_that_is_stopped_neither_holds_writers_up_nor_doubles_events(
    counts: Channel, tmp_path: Path, moment: str, use: Use
) -> None:
    root = counts.space.root
    with mortal(root, moment, tmp_path, signal.SIGSTOP) as concentrator:
        writer = ChannelSpace.open(root, concentrator=use).channel("counts")
        be_impatient(writer)
        wanted = [1, 2, 3]
        try:
            assert writer.submit([{"n": 1}, {"n": 2}]) == Published(2, 2, 0)
            assert (use, moment) != ("required", "taken")
        except PbioError as error:
            if (use, error.code) != ("required", "PBIO_CONCENTRATOR"):
                raise
            wanted = [3]
        with kept_awake(concentrator):
            # It has done all that was before this.
            ChannelSpace.open(root, concentrator="required").channel("counts").submit([{"n": 3}])
    assert [one["n"] for one in values(counts)] == wanted


@pytest.mark.parametrize("moment", ["linking", "committed"])
def test_nor_does_one_that_is_stopped_in_a_bucket(bucket: str, tmp_path: Path, moment: str) -> None:
    counts = ChannelSpace.create(bucket).create_channel("counts", COUNT)
    with mortal(bucket, moment, tmp_path, signal.SIGSTOP) as concentrator:
        writer = ChannelSpace.open(bucket).channel("counts")
        be_impatient(writer)
        assert writer.submit([{"n": 1}, {"n": 2}]) == Published(2, 2, 0)
        with kept_awake(concentrator):
            ChannelSpace.open(bucket, concentrator="required").channel("counts").submit([{"n": 3}])
    assert [one["n"] for one in values(counts)] == [1, 2, 3]


def test_one_that_is_stopped_is_left_alone_for_a_while(
    counts: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = counts.space.root
    with mortal(root, "never", tmp_path) as concentrator:
        used, large, new = (ChannelSpace.open(root).channel("counts") for _ in range(3))
        used.submit([{"n": 0}])
        large.submit([{"n": 1}])
        for channel in used, large, new:
            be_impatient(channel, is_welcome=channel is not new)
        assert concentrator.pid is not None
        os.kill(concentrator.pid, signal.SIGSTOP)
        with caplog.at_level(logging.WARNING):
            used.submit([{"n": 2}])
            large.submit([{"n": n} for n in range(3, 40_003)])  # more than a socket holds
            new.submit([{"n": 40_003}])
            said = caplog.text.count("has not answered for 0.2 s"), caplog.text.count("does not answer within 0.2 s")
            assert said == (2, 1)
            for n, channel in enumerate([used, large, new]):
                channel.submit([{"n": 40_004 + n}])
            assert caplog.text.count("publishing without the concentrator") == 3  # none asks again so soon
        with kept_awake(concentrator):
            ChannelSpace.open(root, concentrator="required").channel("counts").submit([{"n": 40_007}])
    assert [one["n"] for one in values(counts)] == [*range(40_008)]


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "soon"])
def test_a_time_that_none_can_keep_is_refused(counts: Channel, timeout: Any) -> None:
    with pytest.raises(PbioError) as caught:
        ChannelSpace.open(counts.space.root, concentrator_timeout=timeout)
    assert caught.value.code == "PBIO_BAD_OPTION"


def test_it_is_unknown_only_where_the_log_cannot_be_read(
    counts: Channel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*_: object) -> bytes:
        raise PbioError("PBIO_FILE_SYSTEM", "broken")

    for moment, code in (("committed", "PBIO_OUTCOME_UNKNOWN"), ("taken", "PBIO_FILE_SYSTEM")):
        with mortal(counts.space.root, moment, tmp_path), monkeypatch.context() as patch:
            patch.setattr(Folder, "read", fails)
            with pytest.raises(PbioError, match="broken") as caught:
                counts.submit([{"n": 1}])
            assert caught.value.code == code
    assert values(counts) == [{"n": 1}]


def test_one_that_was_killed_leaves_no_trace_and_two_do_not_run_at_once(counts: Channel, tmp_path: Path) -> None:
    root = counts.space.root
    with mortal(root, "never", tmp_path) as concentrator:
        assert counts.submit([{"n": 1}]).version == 2
        with pytest.raises(PbioError, match=f"process {concentrator.pid} is already the concentrator") as caught:
            Concentrator(again(counts.space))
        assert caught.value.code == "PBIO_CONCENTRATOR"
        end(concentrator)
        assert counts.submit([{"n": 2}]).version == 3
        with Concentrator(again(counts.space)) as second:
            assert counts.submit([{"n": 3}]).version == 4
            assert second.totals.publications == 1
        assert not any(Path(second.place.folder).iterdir())
    assert counts.submit([{"n": 4}]).version == 5
    assert len(values(counts)) == 4


def test_required_means_that_there_is_one(counts: Channel, tmp_path: Path) -> None:
    root = counts.space.root
    with pytest.raises(PbioError, match="pbio space concentrate") as caught:
        ChannelSpace.open(root, concentrator="required")
    assert caught.value.code == "PBIO_CONCENTRATOR"
    with pytest.raises(PbioError, match=r"did you mean 'required'\?"):
        ChannelSpace.open(root, concentrator="requird")  # type: ignore[arg-type]
    with pytest.raises(PbioError, match="no concentrator can see"):
        ChannelSpace.create("memory://required", concentrator="required")
    with Concentrator(again(counts.space)) as concentrator:
        required = ChannelSpace.open(root, concentrator="required").channel("counts")
        required.submit([{"n": 1}])
        ChannelSpace.open(root, concentrator="off").channel("counts").submit([{"n": 2}])
        assert concentrator.totals.publications == 1
    with pytest.raises(PbioError) as caught:
        required.submit([{"n": 3}])
    assert caught.value.code == "PBIO_CONCENTRATOR"
    with Concentrator(again(counts.space)) as concentrator:
        required.submit([{"n": 4}])
        assert concentrator.totals.publications == 1
    assert [one["n"] for one in values(counts)] == [1, 2, 4]


@pytest.mark.parametrize("by", ["link", "relative path", "URL"])
def test_a_space_is_found_by_whatever_name(
    counts: Channel, tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(counts.space.root)
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(tmp_path)
    name = {"link": str(tmp_path / "link"), "relative path": root.name, "URL": root.as_uri()}[by]
    with Concentrator(again(counts.space)) as concentrator:
        ChannelSpace.open(name).channel("counts").submit([{"n": 1}])
        assert concentrator.totals.publications == 1


def test_a_copy_of_a_space_is_another_one(counts: Channel, tmp_path: Path) -> None:
    subprocess.run(["cp", "-r", counts.space.root, str(tmp_path / "copy")], check=True)
    copy = ChannelSpace.open(str(tmp_path / "copy"))
    assert copy.id == counts.space.id
    with Concentrator(again(counts.space)) as concentrator:
        copy.channel("counts").submit([{"n": 1}])
        assert concentrator.totals.publications == 0
    assert (len(values(copy.channel("counts"))), len(values(counts))) == (1, 0)


def test_a_long_path_of_a_space_does_not_matter_and_one_of_sockets_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = ChannelSpace.create(str(tmp_path / ("a" * 200) / ("b" * 200)))
    with Concentrator(again(space)):
        pass
    (tmp_path / "c").mkdir(0o700)
    monkeypatch.setenv("PBIO_RUNTIME_DIR", str(tmp_path / "c" / ("d" * 90)))
    with pytest.raises(PbioError, match="too long"):
        Concentrator(again(space))


def test_a_folder_that_others_can_enter_is_not_used(
    counts: Channel, sockets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sockets.chmod(0o755)
    with pytest.raises(PbioError, match="not private to you"):
        Concentrator(again(counts.space))
    sockets.chmod(0o700)
    with Concentrator(again(counts.space)) as concentrator:
        sockets.chmod(0o755)
        with caplog.at_level(logging.WARNING):
            counts.submit([{"n": 1}])
        assert "another user" in caplog.text
        assert concentrator.totals.publications == 0
    assert len(values(counts)) == 1


def test_one_of_another_version_is_left_alone(
    counts: Channel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client_module, "PROTOCOL", [99, 3])
    with Concentrator(again(counts.space)) as concentrator, caplog.at_level(logging.WARNING):
        for n in range(3):
            counts.submit([{"n": n}])
        assert concentrator.totals.publications == 0
        with pytest.raises(PbioError, match="cannot use the concentrator of this space: it speaks version"):
            ChannelSpace.open(counts.space.root, concentrator="required")
    assert caplog.text.count("it speaks version") == 2  # asked again only where one is required
    assert len(values(counts)) == 3


def test_channels_come_and_go_meanwhile(counts: Channel) -> None:
    writer = again(counts.space)
    a = writer.channel("counts")
    with Concentrator(again(counts.space)) as concentrator:
        a.submit([{"n": 1}])
        counts.space.create_channel("new", COUNT)
        writer.channel("new").submit([{"n": 2}])
        a.submit([{"n": 3}])
        counts.space.drop_channel("counts")
        with pytest.raises(PbioError, match="unknown channel 'counts'") as caught:
            a.submit([{"n": 4}])
        assert caught.value.code == "PBIO_UNKNOWN_CHANNEL"
        counts.space.create_channel("counts", COUNT)
        with pytest.raises(PbioError, match="has been dropped"):
            a.submit([{"n": 5}])
        writer.channel("counts").submit([{"n": 6}])
        assert concentrator.totals.publications == 4
    assert [one["n"] for one in values(writer.channel("counts"))] == [6]


def test_a_recreated_space_is_another_one(counts: Channel, tmp_path: Path) -> None:
    root = counts.space.root
    with Concentrator(again(counts.space)) as concentrator:
        counts.submit([{"n": 1}])
        subprocess.run(["rm", "-r", root], check=True)
        new = ChannelSpace.create(root).create_channel("counts", COUNT)
        new.submit([{"n": 2}])
        with pytest.raises(PbioError) as caught:
            counts.submit([{"n": 3}])
        assert caught.value.code in ("PBIO_BAD_LOG", "PBIO_NO_SPACE")
        assert concentrator.failure is not None
    assert values(new) == [{"n": 2}]


def test_a_writer_that_did_not_read_the_log_for_long_starts_from_a_checkpoint(
    counts: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = again(counts.space).channel("counts")
    read: list[int] = []
    entry = History.entry
    monkeypatch.setattr(History, "entry", lambda self, version: read.append(version) or entry(self, version))
    with Concentrator(again(counts.space)):
        for n in range(320):
            assert writer.submit([{"n": n}], producer="p", sequence=n).version == n + 2
    assert writer.space.history.state.version == 1
    read.clear()
    assert writer.last_sequence("p") == 319
    assert len(read) < 40
    assert writer.submit([{"n": 320}]).version == 322


def test_a_process_that_forks_does_not_share_its_connection(counts: Channel) -> None:
    with Concentrator(again(counts.space)) as concentrator:
        counts.submit([{"n": 0}])
        code = f"""
import os
from pbio_spark.channels import ChannelSpace
counts = ChannelSpace.open({counts.space.root!r}, concentrator="required").channel("counts")
counts.submit([{{"n": 1}}])
children = []
for child in range(3):
    number = os.fork()
    if not number:
        for n in range(20):
            assert counts.submit([{{"n": n}}], producer=f"p{{child}}", sequence=n).events == 1
        os._exit(0)
    children.append(number)
for n in range(20):
    assert counts.submit([{{"n": n}}], producer="parent", sequence=n).events == 1
for number in children:
    assert os.waitpid(number, 0)[1] == 0
"""
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, env=os.environ)
        assert concentrator.totals.publications == 82
    assert len(values(counts)) == 82
