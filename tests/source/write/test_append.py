"""The format name of files that are added to a folder: that of its records, so that it stays one table."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ecode.types import INT64, Field, record
from pbio_spark.errors import PbioError
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.store import FolderStore
from pbio_spark.paths import locate, opened
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.options.options import Options
from pbio_spark.source.write.write_format import LOOKED_AT
from pbio_spark.source.write.writer import OVERWRITES
from pbio_spark.wire import Scanner
from tests.source.by_hand import save
from tests.source.local import load
from tests.source.samples import OLD, write_readings


def rows(*numbers: int, k: str | None = None) -> pa.RecordBatch:
    columns = {"n": pa.array(numbers, pa.int64())}
    return pa.record_batch(columns if k is None else {**columns, "k": pa.array([k] * len(numbers))})


def names(folder: Path | str) -> set[str]:
    """Of the formats that the files describe."""
    found = set()
    for file in list_files((str(folder),), Options()):
        with opened(file.path) as source:
            scanner = Scanner(source, file.path)
            list(scanner.items())
            found |= {form.name for form in scanner.formats.values()}
    return found


def numbers(folder: Path | str, **options: Any) -> list[int]:
    return sorted(row["n"] for row in load(folder, **options))


def test_what_is_added_has_the_name_that_is_there(tmp_path: Path, bucket: str) -> None:
    for folder in (str(tmp_path / "new"), f"{bucket}/new"):
        save(folder, rows(1), formatName="reading")
        save(folder, rows(2), rows(3))
        assert numbers(folder) == [1, 2, 3]
        assert names(folder) == {"reading"}
        save(folder, rows(4), overwrite=True)
        assert names(folder) == {"record"}


def test_a_new_version_is_of_the_same_type(tmp_path: Path) -> None:
    write_readings(tmp_path / "old.ffs", OLD, range(3))
    save(tmp_path, rows(7))
    assert names(tmp_path) == {OLD.name}
    assert len(load(tmp_path)) == 4


def test_new_and_empty_folders_have_the_default(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_SUCCESS").touch()
    for name in ("empty", "new"):
        save(tmp_path / name, rows(1))
        assert names(tmp_path / name) == {"record"}


def test_files_without_records_have_a_name_too(tmp_path: Path) -> None:
    save(tmp_path, rows(), formatName="reading")
    save(tmp_path, rows(1))
    assert names(tmp_path) == {"reading"}


def test_formats_that_only_transforms_lead_to_do_not_count(tmp_path: Path) -> None:
    store, prior = tmp_path / "store", record_to_format(record("mean", [Field("n", INT64)]))
    FolderStore(str(store)).put(prior)
    transforms = '[{"to": "mean", "ecode": "{ old.n = new.n; }"}]'
    save(tmp_path / "out", rows(1), formatName="reading", transforms=transforms, formatStore=store)
    tmp_path /= "out"
    assert names(tmp_path) == {"reading", "mean"}
    save(tmp_path, rows(2))
    assert names(tmp_path) == {"reading", "mean"}
    assert numbers(tmp_path) == [1, 2]


def test_several_names_are_refused_until_one_is_said(tmp_path: Path) -> None:
    for name in ("reading", "ping"):
        save(tmp_path, rows(1), formatName=name)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PbioError, match=r"PBIO_SEVERAL_FORMATS(.|\n)*: ping, reading(.|\n)*formatName=") as caught:
        save(tmp_path, rows(2))
    assert caught.value.file == str(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    save(tmp_path, rows(2), formatName="ping")
    save(tmp_path, rows(3), writeFormat='{"reading": {"n": "int64"}}')
    assert (numbers(tmp_path, formatName="ping"), numbers(tmp_path, formatName="reading")) == ([1, 2], [1, 3])


def test_of_many_files_some_tell(tmp_path: Path) -> None:
    save(tmp_path, *(rows(n) for n in range(2 * LOOKED_AT + 1)), formatName="reading")
    save(tmp_path, rows(-1))
    assert names(tmp_path) == {"reading"}


def test_damage_and_other_files_do_not_keep_new_files_out(tmp_path: Path) -> None:
    save(tmp_path, rows(1), formatName="reading")
    (tmp_path / "notes.txt").write_text("not a data file")
    (tmp_path / "z.ffs").write_bytes(b"")
    save(tmp_path, rows(2))
    (tmp_path / "notes.txt").unlink()
    assert names(tmp_path) == {"reading"}


def test_partitions_that_are_replaced_have_the_name_of_those_that_stay(tmp_path: Path) -> None:
    dynamic: dict[str, Any] = {"partitionColumns": "k", "overwrite": True, "partitionOverwriteMode": "dynamic"}
    for k in "ab":
        save(tmp_path, rows(1, k=k), formatName="reading", partitionColumns="k")
    save(tmp_path, rows(2, k="a"), **dynamic)
    assert (names(tmp_path), numbers(tmp_path)) == ({"reading"}, [1, 2])
    by_session: dict[str, Any] = {"partitionColumns": "k", "overwrite": True, "conf": {OVERWRITES: "dynamic"}}
    with pytest.raises(PbioError, match=r"PBIO_SEVERAL_FORMATS(.|\n)*formatName=reading"):
        save(tmp_path, rows(3, k="a"), **by_session)
    assert numbers(tmp_path) == [1, 2]
    save(tmp_path, rows(3, k="a"), rows(4, k="b"), **by_session)
    assert (names(tmp_path), numbers(tmp_path)) == ({"record"}, [3, 4])


def test_a_failed_write_to_a_bucket_leaves_nothing(bucket: str) -> None:
    fs, root = locate(bucket)
    nullable = pa.record_batch({"n": pa.array([1, None])})
    with pytest.raises(PbioError, match="PBIO_CANNOT_BE_NULL"):
        save(bucket, rows(1), nullable, maxRecordsPerFile=1)
    fs.invalidate_cache()
    assert fs.find(root) == []


def one(**columns: tuple[Any, pa.DataType]) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array([value], type_) for name, (value, type_) in columns.items()})


BIG, TEXT, DAY = pa.int64(), pa.string(), pa.date32()
ID = one(id=(1, BIG), x=(1, BIG))


@pytest.mark.parametrize(
    ("there", "added", "says"),
    [
        (ID, one(id=("a", TEXT), x=(1, BIG)), r"CANNOT_MERGE.*'int64' .*'string'.*\n.*\$\.id"),
        (ID, one(id=([1], pa.list_(BIG)), x=(1, BIG)), r"CANNOT_MERGE.*'int64' .*'int64\["),
        (ID, one(id=(1, pa.timestamp("us", "UTC")), x=(1, BIG)), r"CANNOT_MERGE.*logical type.*\n.*\$\.id"),
        (
            one(s=({"a": 1}, pa.struct([("a", BIG)]))),
            one(s=({"a": "1"}, pa.struct([("a", TEXT)]))),
            r"CANNOT_MERGE.*\$\.s\.a",
        ),
        (ID, one(ID=(1, BIG), x=(1, BIG)), r"NAME_COLLISION.*'id' and 'ID'"),
    ],
)
def test_records_that_would_be_no_table_with_those_that_are_there(
    tmp_path: Path, there: pa.RecordBatch, added: pa.RecordBatch, says: str
) -> None:
    save(tmp_path, there)
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(PbioError, match=rf"(?s)\[PBIO_{says}"):
        save(tmp_path, added)
    with pytest.raises(PbioError, match=rf"(?s)\[PBIO_{says}"):
        save(tmp_path, added, formatName="record")
    assert sorted(tmp_path.rglob("*")) == files
    assert load(tmp_path) == there.to_pylist()
    save(tmp_path, added, formatName="other")
    assert load(tmp_path, formatName="other") == added.to_pylist()
    save(tmp_path, added, overwrite=True)
    assert load(tmp_path) == added.to_pylist()


def test_wider_numbers_and_other_columns_are_added(tmp_path: Path) -> None:
    save(tmp_path, one(id=(1, pa.int32())))
    save(tmp_path, one(id=(1 << 40, BIG)))
    save(tmp_path, one(more=("m", TEXT)))
    found = {(row["id"], row["more"]) for row in load(tmp_path)}
    assert found == {(1, None), (1 << 40, None), (None, "m")}


def test_a_folder_that_is_not_yet_a_table_can_grow(tmp_path: Path) -> None:
    save(tmp_path, ID)
    save(tmp_path / "other", one(id=("a", TEXT)))
    next((tmp_path / "other").glob("*.ffs")).rename(tmp_path / "text.ffs")
    save(tmp_path, one(id=(3, BIG)))
    with pytest.raises(PbioError, match=r"\[PBIO_CANNOT_MERGE\]"):
        load(tmp_path)
    wanted = load(tmp_path, readerFormat='{"record": {"id": "int64"}}', onReject="drop")
    assert sorted(row["id"] for row in wanted) == [1, 3]


def test_who_says_how_readers_get_there_may_change_a_type(tmp_path: Path) -> None:
    store = tmp_path / "store"
    was = record_to_format(record("record", [Field("id", INT64)]))
    FolderStore(str(store)).put(was)
    save(tmp_path / "out", one(id=(1, BIG)), formatName="record")
    step = f'[{{"to": "{was.id.hex()}", "ecode": "{{ old.id = 2; }}"}}]'
    save(tmp_path / "out", one(id=("2", TEXT)), transforms=step, formatStore=store)
    wanted = load(tmp_path / "out", readerFormat='{"record": {"id": "int64"}}', formatStore=store)
    assert sorted(row["id"] for row in wanted) == [1, 2]


@pytest.mark.parametrize(
    ("there", "added"),
    [
        (one(k=("a", TEXT), x=(1, BIG)), one(k=(1, BIG), x=(1, BIG))),
        (one(k=(date(2026, 1, 31), DAY), x=(1, BIG)), one(k=(1, pa.int16()), x=(1, BIG))),
        (one(k=(1, BIG), x=(1, BIG)), one(k=(date(2026, 1, 31), DAY), x=(1, BIG))),
    ],
)
@pytest.mark.parametrize("outer", ["", "o,"])
def test_folders_of_another_type(tmp_path: Path, there: pa.RecordBatch, added: pa.RecordBatch, outer: str) -> None:
    there, added = (batch.append_column("o", pa.array([None], TEXT)) for batch in (there, added))
    save(tmp_path, there, partitionColumns=f"{outer}k")
    before = load(tmp_path)
    types = [str(batch.schema.field("k").type)[:4] for batch in (added, there)]
    with pytest.raises(PbioError, match=rf"\[PBIO_BAD_PARTITIONS\].* k is of type {types[0]}.* of type {types[1][:3]}"):
        save(tmp_path, added, partitionColumns=f"{outer}k")
    assert load(tmp_path) == before
    save(tmp_path, added.set_column(0, "k", added["k"].cast(TEXT)), partitionColumns=f"{outer}k")
    assert len(load(tmp_path)) == 2


def test_folders_of_nulls_have_no_type(tmp_path: Path) -> None:
    save(tmp_path, one(k=(None, TEXT), x=(1, BIG)), partitionColumns="k")
    save(tmp_path, one(k=(7, BIG), x=(1, BIG)), partitionColumns="k")
    assert sorted(str(row["k"]) for row in load(tmp_path)) == ["7", "None"]


def test_a_column_becomes_folders_whatever_its_case(tmp_path: Path) -> None:
    save(tmp_path, one(k=(1, BIG), x=(1, BIG)), partitionColumns="k")
    save(tmp_path, one(K=(2, BIG), x=(1, BIG)), partitionColumns="k")
    assert sorted(row["k"] for row in load(tmp_path)) == [1, 2]
    with pytest.raises(PbioError, match=r"\[PBIO_BAD_OPTION\].*'kK'.*several"):
        save(tmp_path / "new", one(kk=(2, BIG), KK=(1, BIG), x=(1, BIG)), partitionColumns="kK")


@pytest.mark.parametrize("most", [2, 2**31, 2**63 - 1, 2**63, 10**30])
def test_a_file_may_have_any_number_of_records(tmp_path: Path, most: int) -> None:
    save(tmp_path / "new", rows(1, 2, 3), maxRecordsPerFile=most)
    assert numbers(tmp_path / "new") == [1, 2, 3]
    assert len(list_files((str(tmp_path / "new"),), Options())) == (2 if most == 2 else 1)
