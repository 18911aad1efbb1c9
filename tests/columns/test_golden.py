"""The conformance files of this project through the kernels: the rows of the plain codec, and the same bytes again."""

from __future__ import annotations

import io
import os

import pyarrow as pa
import pytest

from pbio_spark.columns.files.plan import FilePart
from pbio_spark.columns.files.read import read_batches
from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow
from pbio_spark.wire import ItemKind, Scanner, decode
from tests.columns.encode.test_generate import encode_rows
from tests.columns.expected import record_to_row
from tests.columns.records import same
from tests.plans import plan_of
from tests.wire.test_golden import FOLDER, dump_to_bytes

# Characters as arrays, because strings end at their first NUL.
SHOWN = Presentation(char_arrays_as="array", recursive_depth=3)
FORMATS = slice(None) if os.environ.get("PBIO_LONG") else slice(0, 4, 3)
"""The first four are of body version 2; le64 and be32 differ in everything that a kernel sees."""
NAMES = sorted(path.stem for path in (FOLDER / "wire").glob("layout_*.hex") if "long_doubles" not in path.stem)


def content_of(name: str) -> bytes:
    return dump_to_bytes((FOLDER / "wire" / f"{name}.hex").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_kernels_read_and_write_as_the_plain_codec(name: str) -> None:
    content = content_of(name)
    scanner = Scanner(content)
    records = [(scanner.format_of(item), scanner.read(item)) for item in scanner.items() if item.kind is ItemKind.DATA]
    for form in list(scanner.formats.values())[FORMATS]:
        images = [image for of, image in records if of == form]
        expected = [record_to_row(form, decode(form, image, text=None), SHOWN) for image in images]
        schema = record_to_arrow(form.record, SHOWN)
        plan = plan_of(schema, SHOWN, ids=(form.id,))
        rows = [
            row for batch in read_batches(plan, FilePart("a.ffs"), io.BytesIO(content)) for row in batch.to_pylist()
        ]
        assert same(rows, expected)
        if not any(form.is_recursive(struct.name) for struct in form.structs):
            batch = pa.RecordBatch.from_pylist(rows, schema)
            assert encode_rows(form, batch, 0, checked=True) == images


def test_there_are_files_for_kernels() -> None:
    assert len(NAMES) == 12
