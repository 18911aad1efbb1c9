"""Every record of the corpus, turned into rows and written again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow
from pbio_spark.wire import ItemKind, Scanner, decode, encode
from tests.columns.encode.test_generate import encode_rows
from tests.columns.expected import record_to_row
from tests.columns.records import same
from tests.corpus import ffs_files
from tests.wire.test_corpus import FILES, STREAMS, content

# Characters as arrays, because strings end at their first NUL.
PRESENTATION = Presentation(char_arrays_as="array", recursive_depth=3)
MANY = 1_000
"""From so many records on, a kernel is compiled."""


def records_by_format(path: Path) -> Iterator[tuple[Format, list[bytes]]]:
    scanner = Scanner(content(path), path.name)
    found: dict[bytes, tuple[Format, list[bytes]]] = {}
    for item in scanner.items():
        if item.kind is ItemKind.DATA:
            form = scanner.format_of(item)
            found.setdefault(form.id, (form, []))[1].append(scanner.read(item))
    yield from found.values()


@pytest.mark.parametrize("path", ffs_files(*FILES, STREAMS))
def test_writes_every_record_again(path: Path) -> None:
    for form, records in records_by_format(path):
        values = [decode(form, record, text=None) for record in records]
        rows = [record_to_row(form, value, PRESENTATION) for value in values]
        batch = pa.RecordBatch.from_pylist(rows, record_to_arrow(form.record, PRESENTATION))
        again = encode_rows(form, batch, 0, checked=len(records) < MANY)
        if any(map(form.is_recursive, (struct.name for struct in form.structs))):
            # Rows end where recursion does, and share nothing.
            for record, row in zip(again, rows, strict=True):
                assert same(record_to_row(form, decode(form, record, text=None), PRESENTATION), row)
        else:
            assert again == [encode(form, value) for value in values]
