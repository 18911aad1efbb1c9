"""The compiled walk finds the records that the plain scanner finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pbio_spark.columns.files.walk import Stop, Walker
from pbio_spark.wire import ItemKind, Scanner
from tests.corpus import ffs_files

FILES = ("generated/*.ffs", "foreign/*.ffs", "golden/file_output.*.bin", "golden/index_output.*.bin")


@pytest.mark.parametrize("path", ffs_files(*FILES))
@pytest.mark.parametrize("most", [1, 7, 100_000])
def test_walk_finds_what_the_scanner_finds(path: Path, most: int) -> None:
    content = path.read_bytes()
    scanner = Scanner(content)
    items = [item for item in scanner.items() if item.kind is ItemKind.DATA]
    walker = Walker()
    walker.learn(list(scanner.formats.values()))
    data = np.frombuffer(content, np.uint8)
    address = data.__array_interface__["data"][0]
    found: list[tuple[int, int, int, bytes]] = []
    position = 4
    while position < len(content):
        walked = walker.walk(data, position, most)
        assert walked.rights.all()
        found += [
            (int(at), int(start) - address, int(end) - address, walker.formats[form].id)
            for at, start, end, form in zip(walked.positions, walked.starts, walked.ends, walked.formats, strict=True)
        ]
        position = walked.next
        if walked.stop is Stop.OTHER:  # a format item
            (item,) = list(Scanner(content, offset=position, formats=scanner.formats).items(position + 1))
            assert item.kind is ItemKind.FORMAT
            position = item.end
        elif walked.stop is Stop.END:
            break
    expected = [
        (item.offset, item.payload + scanner.formats[item.format_id].header_size, item.end, item.format_id)
        for item in items
    ]
    assert found == expected
