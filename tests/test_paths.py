"""Misleading paths, entries that are not files, and refusals of file systems."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import fsspec
import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.formats.store import FolderStore
from pbio_spark.paths import find_entry, folder_entries, from_where, full_path, locate, opened, trouble


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work" / "data").mkdir(parents=True)
    (tmp_path / "home" / "data").mkdir(parents=True)
    (tmp_path / "work" / "link").symlink_to(tmp_path / "work")
    (tmp_path / "work" / "root").symlink_to("/")
    (tmp_path / "work" / "house").symlink_to(tmp_path / "home")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


REFUSED = (
    *("", " ", "\t\n", ".", "./", "./.", "..", "../..", ".//..", "data/..", "link", "./link/."),
    *("/", "//", "/.", "/..", "/tmp/..", "root", "../work/root/", "~", "~/", "~/.", "~/data/..", "house"),
    *(
        "file:",
        "file:.",
        "file:/",
        "file://",
        "file:///",
        "FILE:///",
        "file://localhost/",
        "file:///tmp/..",
        "local://",
    ),
    *("memory://", "memory:///", "memory://a/..", "s3://", "s3://bucket", "s3a://bucket/", "s3://bucket/a/../"),
)


@pytest.mark.parametrize("path", REFUSED)
def test_roots_and_homes_are_refused(here: Path, path: str) -> None:
    for call in (locate, ChannelSpace.create, ChannelSpace.open, FolderStore):
        with pytest.raises(PbioError, match=r"\[PBIO_BAD_PATH\]"):
            call(path)


def test_a_home_by_its_full_path_is_refused(here: Path) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_PATH\].*home"):
        locate(str(here / "home"))


@pytest.mark.parametrize("path", ["a\0b", "/a\0", "\ud800", "file://tmp/out"])
def test_what_cannot_be_a_path(path: str) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_PATH\]"):
        locate(path)


@pytest.mark.parametrize("path", [None, 3, ["a"]])
def test_paths_that_are_not_valid_text(path: object) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_PATH\].*text"):
        locate(path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("data", "work/data"),
        ("./data//", "work/data"),
        ("a::b", "work/a::b"),
        ("file::memory:x", "work/:memory:x"),
        ("memory::x", "work/memory::x"),
        ("simplecache::data", "work/simplecache::data"),
        ("2026-01-31T10:00:00", "work/2026-01-31T10:00:00"),
        ("a?b#c%20d*[{ \n", "work/a?b#c%20d*[{ \n"),
        ("~nobody~/x", "work/~nobody~/x"),
        ("~/data/x", "home/data/x"),
        ("x~", "work/x~"),
        ("file:data", "work/data"),
        ("link/data", "work/link/data"),
        ("../work/data", "work/../work/data"),
        ("s3:/bucket", "work/s3:/bucket"),
    ],
)
def test_plain_paths(here: Path, path: str, plain: str) -> None:
    fs, found = locate(path)
    assert (full_path(fs, found), found) == (found, f"{here}/{plain}")
    assert locate(found)[1] == found


@pytest.mark.parametrize("path", ["/a/b c", "file:/a/b c", "file:///a/b c", "file://localhost/a/b c", "/a/./b c/"])
def test_local_urls(path: str) -> None:
    assert locate(path)[1] == "/a/b c"


def test_what_a_url_escapes_stays_escaped_as_in_spark() -> None:
    assert locate("file:///a/b%20c")[1] == "/a/b%20c"


def test_a_path_like_object(tmp_path: Path) -> None:
    assert locate(tmp_path / "x")[1] == str(tmp_path / "x")


@pytest.mark.parametrize("url", ["s3a://bucket/a::b", "S3://bucket/a::b/"])
def test_buckets(url: str) -> None:
    fs, plain = locate(url)
    assert (plain, full_path(fs, plain)) == ("bucket/a::b", "s3://bucket/a::b")


@pytest.mark.parametrize("url", ["xyzzy://a/b", "zip://a/b", "simplecache://a/b", "jar://x/y", "hdfss://a/b"])
def test_unknown_protocols(url: str) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_PATH_NOT_FOUND\]"):
        locate(url)


@pytest.mark.parametrize("url", ["hdfs://host:8020/a", "sftp://host/a"])
def test_protocols_that_lack_something(url: str) -> None:
    with pytest.raises(PbioError, match=r"\[PBIO_(FILE_SYSTEM|MISSING_EXTRA)\]"):
        locate(url)


def test_a_relative_path_does_not_start_in_the_folder_of_a_spark_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark Connect starts Python processes there, and removes the folder with the session."""
    id_ = "0b2c7d3e-5b1a-4c8e-9d55-2f6a1e8b7c90"
    of_session = tmp_path / f"userFiles-{id_}" / id_
    of_session.mkdir(parents=True)
    monkeypatch.chdir(of_session)
    monkeypatch.setenv("PWD", str(tmp_path))
    assert locate("rel/files")[1] == f"{tmp_path}/rel/files"
    for elsewhere in ("", str(of_session), str(tmp_path / "gone")):
        monkeypatch.setenv("PWD", elsewhere)
        with pytest.raises(PbioError, match=r"PBIO_BAD_PATH.*a folder that Spark removes with the session"):
            locate("rel/files")


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(PbioError, match="PBIO_PATH_NOT_FOUND"):
        locate("data")


def zoo(folder: Path) -> None:
    """One of each kind of thing that a name can stand for."""
    (folder / "file").write_bytes(b"xy")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(folder / "socket"))
    for name, target in (("to_file", "file"), ("to_folder", "folder"), ("dangling", "nothing"), ("loop", "loop")):
        (folder / name).symlink_to(target)
    (folder / "to_device").symlink_to("/dev/zero")


def test_kinds_of_entries(tmp_path: Path) -> None:
    zoo(tmp_path)
    fs, root = locate(str(tmp_path))
    kinds = {name: entry.kind for name, entry in folder_entries(fs, root).items()}
    expected = {"file": "file", "to_file": "file", "folder": "folder", "to_folder": "folder"}
    assert kinds == expected | dict.fromkeys(("pipe", "socket", "to_device"), "other")
    for name, kind in kinds.items():
        entry = find_entry(fs, f"{root}/{name}")
        assert entry is not None
        assert (entry.kind, entry.name) == (kind, name)
    assert find_entry(fs, f"{root}/dangling") is None
    linked = folder_entries(fs, root)["to_file"]
    assert (linked.size, linked.identity) == (2, folder_entries(fs, root)["file"].identity)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("folder", "PBIO_NOT_FFS"),
        ("pipe", "PBIO_NOT_FFS"),
        ("socket", "PBIO_FILE_SYSTEM"),
        ("to_device", "PBIO_NOT_FFS"),
        ("loop", "PBIO_PATH_NOT_FOUND"),
        ("file/x", "PBIO_PATH_NOT_FOUND"),
        ("x" * 300, "PBIO_PATH_NOT_FOUND"),
    ],
)
def test_only_files_are_opened(tmp_path: Path, name: str, code: str) -> None:
    zoo(tmp_path)
    with pytest.raises(PbioError, match=code), opened(str(tmp_path / name)):
        pass


def test_a_missing_file_is_for_the_caller_to_judge(tmp_path: Path) -> None:
    for name in ("nothing", "dangling"):
        with pytest.raises(FileNotFoundError), opened(str(tmp_path / name)):
            pass


def test_names_that_are_not_valid_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    (tmp_path / name).write_bytes(b"x")
    fs, root = locate(str(tmp_path))
    assert list(folder_entries(fs, root)) == [name]
    with opened(f"{root}/{name}") as source:
        assert source.read() == b"x"


def test_what_a_foreign_library_raises() -> None:
    foreign = type("ClientError", (Exception,), {"__module__": "botocore.exceptions"})
    fs = fsspec.filesystem("memory")
    with pytest.raises(PbioError, match=r"\[PBIO_FILE_SYSTEM\].*ClientError: denied"), trouble(fs, "/a"):
        raise foreign("denied")
    with pytest.raises(ZeroDivisionError), trouble(fs, "/a"):
        raise ZeroDivisionError
    with pytest.raises(PbioError, match=r"\[PBIO_NO_PERMISSION\]"), trouble(fs, "/a"):
        raise PermissionError("denied")


def test_a_message_says_where_a_relative_path_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert from_where("build/space") == f" from {tmp_path}"
    assert from_where("/build") == from_where("s3://b/x") == from_where("file:///x") == from_where("~/x") == ""
