"""Format stores: they return the stored formats whole, and never a false one."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable
from pathlib import Path
from threading import Barrier

import pytest

from ecode.types import INT32, INT64, Field, record
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.store import FolderStore, FormatStore, MemoryStore

ONE = record_to_format(record("one", [Field("a", INT32)]))
TWO = record_to_format(record("two", [Field("a", INT64)]))
SERVED = b"\1\2\3\4\0\0\0\0"

Make = Callable[[], FormatStore]


@pytest.fixture(params=["memory", "folder", "fsspec"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FormatStore:
    match request.param:
        case "memory":
            return MemoryStore()
        case "folder":
            return FolderStore(str(tmp_path))
    return FolderStore(f"memory://{uuid.uuid4().hex}")


def test_formats_come_back(store: FormatStore) -> None:
    assert store.get(ONE.id) is None
    assert list(store) == []
    for form in (ONE, TWO, ONE, Format.from_body(ONE.body, SERVED)):
        store.put(form)
    assert store.get(ONE.id) == ONE
    assert store.get(SERVED) == Format.from_body(ONE.body, SERVED)
    assert {form.id for form in store} == {ONE.id, TWO.id, SERVED}


def test_bodies_that_lie_do_not_get_in(store: FormatStore) -> None:
    with pytest.raises(PbioError, match="PBIO_BAD_ID"):
        store.put(Format.from_body(ONE.body, TWO.id))
    assert store.get(TWO.id) is None


def test_one_id_has_one_body(store: FormatStore) -> None:
    store.put(Format.from_body(ONE.body, SERVED))
    with pytest.raises(PbioError, match="PBIO_FORMAT_CONFLICT"):
        store.put(Format.from_body(TWO.body, SERVED))
    assert store.get(SERVED) == Format.from_body(ONE.body, SERVED)


def test_stores_on_one_folder_see_each_others_formats(tmp_path: Path) -> None:
    first, second = FolderStore(str(tmp_path)), pickle.loads(pickle.dumps(FolderStore(str(tmp_path))))
    assert second.get(ONE.id) is None
    first.put(ONE)
    assert second.get(ONE.id) == ONE
    assert [path.name for path in (tmp_path / "_formats").iterdir()] == [ONE.id.hex()]
    assert (tmp_path / "_formats" / ONE.id.hex()).read_bytes() == ONE.body


def test_many_formats_are_found_in_order(store: FormatStore) -> None:
    forms = [record_to_format(record("many", [Field(f"a{n}", INT32)])) for n in range(40)]
    for form in forms:
        store.put(form)
    asked = pickle.loads(pickle.dumps(store)) if isinstance(store, FolderStore) else store
    wanted = [form.id for form in reversed(forms)]
    assert asked.find([ONE.id, *wanted[:20], b"", TWO.id, *wanted[20:], wanted[0]]) == [*reversed(forms), forms[-1]]
    assert asked.find(iter([ONE.id])) == []


def test_formats_of_a_bucket_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    root = f"memory://{uuid.uuid4().hex}"
    for form in (ONE, TWO):
        FolderStore(root).put(form)
    store, both = FolderStore(root), Barrier(2, timeout=60)
    load = store._load

    def late(format_id: bytes) -> Format | None:
        both.wait()
        return load(format_id)

    monkeypatch.setattr(store, "_load", late)
    assert store.find([ONE.id, TWO.id]) == [ONE, TWO]


def test_a_damaged_format_among_many_is_an_error() -> None:
    root = f"memory://{uuid.uuid4().hex}"
    store = FolderStore(root)
    for form in (ONE, TWO):
        store.put(form)
    store._fs.pipe_file(store._path(ONE.id), TWO.body)
    with pytest.raises(PbioError, match=r"PBIO_BAD_ID") as caught:
        FolderStore(root).find([TWO.id, b"\0" * 12, ONE.id])
    assert ONE.id.hex() in str(caught.value.file)


def test_a_slower_writer_does_not_replace_a_body(tmp_path: Path) -> None:
    """Two senders put different bodies under one ID at once: the second finds out, and the first's stays."""
    first, second = FolderStore(str(tmp_path)), FolderStore(str(tmp_path))
    create = second._create

    def late(path: str, body: bytes) -> None:
        first.put(Format.from_body(ONE.body, SERVED))
        create(path, body)

    second._create = late  # type: ignore[method-assign]
    with pytest.raises(PbioError, match="PBIO_FORMAT_CONFLICT"):
        second.put(Format.from_body(TWO.body, SERVED))
    assert FolderStore(str(tmp_path)).get(SERVED) == Format.from_body(ONE.body, SERVED)


@pytest.mark.parametrize("body", [b"", b"garbage", TWO.body, ONE.body[:-4]])
def test_damaged_files_are_errors_with_their_path(tmp_path: Path, body: bytes) -> None:
    folder = tmp_path / "_formats"
    folder.mkdir()
    (folder / ONE.id.hex()).write_bytes(body)
    with pytest.raises(PbioError, match=r"PBIO_BAD_(ID|BODY)") as caught:
        FolderStore(str(tmp_path)).get(ONE.id)
    assert caught.value.file == str(folder / ONE.id.hex())


def test_other_files_in_the_folder_are_not_formats(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path))
    store.put(ONE)
    for name in (".left-over.tmp", "README", ONE.id.hex().upper(), "00"):
        (tmp_path / "_formats" / name).write_bytes(b"x")
    assert list(FolderStore(str(tmp_path))) == [ONE]


@pytest.mark.parametrize("format_id", [b"", b"\0", b"\0" * 13])
def test_an_id_of_no_length_that_ids_have_is_of_no_format(store: FormatStore, format_id: bytes) -> None:
    assert store.get(format_id) is None
