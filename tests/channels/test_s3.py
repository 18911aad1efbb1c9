"""A space in a bucket: commits by conditional requests, against the S3 server of moto, which sometimes fails."""

from __future__ import annotations

from datetime import timedelta

import fsspec
import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.upkeep.check import problems
from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.store import FolderStore
from pbio_spark.tables import open_writer
from tests.channels.spaces import COUNT, READING, again, everything, values


def test_all_there_is_works_in_a_bucket(bucket: str) -> None:
    space = ChannelSpace.create(bucket)
    counts = space.create_channel("counts", COUNT)
    few = space.derive_channel("few", "counts", filter="{ return input.n > 2; }")
    for n in range(5):
        counts.submit({"n": n}, producer="p", sequence=n)
    other = again(space)
    assert other.channel("counts").submit([{"n": 4}, {"n": 5}], producer="p", sequence=4).events == 1
    events = everything(counts)
    assert [event.values["n"] for event in events] == list(range(6))
    assert [row["n"] for row in values(few)] == [3, 4, 5]
    reader = counts.subscribe(lambda event: None, start="earliest", name="reader")
    assert reader.run() == 6
    assert [(one.channel, one.name, one.position) for one in other.subscribers()] == [
        (counts.info.id, "reader", reader.position)
    ]
    assert space.compact() == 6
    assert other.vacuum(linger=timedelta(0)).files == 6
    assert everything(counts) == events
    assert list(problems(other)) == []


def test_a_bucket_is_never_made(bucket: str) -> None:
    nowhere = "s3://no-such-bucket/x"
    form = record_to_format(COUNT)
    with pytest.raises(PbioError, match=r"PBIO_PATH_NOT_FOUND.*bucket does not exist"):
        ChannelSpace.create(nowhere)
    with pytest.raises(PbioError, match="PBIO_PATH_NOT_FOUND"):
        FolderStore(nowhere).put(form)
    with pytest.raises(PbioError, match="PBIO_PATH_NOT_FOUND"), open_writer(f"{nowhere}/a.ffs", form) as writer:
        writer.write({"n": 1})
    assert fsspec.filesystem("s3").ls("") == [bucket.removeprefix("s3://").partition("/")[0]]


def test_what_others_do_in_a_bucket_is_seen_at_once(bucket: str) -> None:
    """A file system caches its listings, and does not notice other processes."""
    folder, store = Folder(bucket), FolderStore(bucket)
    known, new = record_to_format(COUNT), record_to_format(READING)
    store.put(known)
    folder.create("data/a", b"a")
    assert (list(store), folder.names("data"), folder.size("data/a")) == ([known], ["a"], 1)
    another = fsspec.filesystem("s3", skip_instance_cache=True)
    another.pipe_file(f"{bucket}/data/b", b"b")
    another.rm_file(f"{bucket}/data/a")
    another.pipe_file(f"{bucket}/_formats/{new.id.hex()}", new.body)
    assert (folder.names("data"), folder.size("data/a")) == (["b"], None)
    assert folder.open("data/b").read() == b"b"
    assert store.get(new.id) == new
    assert set(store) == {known, new}


def test_what_a_file_system_remembers_of_the_bucket_hides_nothing(bucket: str) -> None:
    space = ChannelSpace.create(bucket)
    space.create_channel("counts", COUNT).submit({"n": 1})
    fsspec.filesystem("s3").find(bucket)  # as any program may, and then the process knows what there was
    elsewhere = fsspec.filesystem("s3", skip_instance_cache=True)  # another process
    new = record_to_format(READING)
    elsewhere.pipe_file(f"{bucket}/_formats/{new.id.hex()}", new.body)
    elsewhere.pipe_file(f"{bucket}/data/{'0' * 32}.pbio", b"there")
    for one in (space, again(space)):
        assert one.formats.get(new.id) == new
        assert new in list(one.formats)
        assert one.folder.read(f"data/{'0' * 32}.pbio") == b"there"
        assert f"{'0' * 32}.pbio" in one.folder.names("data")
        with one.folder.open(f"data/{'0' * 32}.pbio") as file:
            assert file.read() == b"there"
