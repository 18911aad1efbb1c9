"""`pbio verify` goes on after damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from fsspec.implementations.local import LocalFileSystem

from ecode.types import INT64, STRING, Field, record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter, ItemKind, Scanner
from pbio_spark.wire.hints.sidecar import Outline, Point, write_sidecar
from tests.cli.conftest import Ran

Pbio: TypeAlias = Callable[..., Ran]


@pytest.mark.parametrize("known", ["nothing", "index", "outline"])
def test_verify_lists_all_damage(pbio: Pbio, tmp_path: Path, known: str) -> None:
    """Numbers of records are right where an index or an outline tells them, and else are not told."""
    form = record_to_format(record("reading", [Field("n", INT64), Field("s", STRING)]))
    path = tmp_path / "a.ffs"
    with FileWriter(path, indexed=known == "index") as writer:
        for n in range(200):
            writer.data(form, {"n": n, "s": "x" * (n % 7)})
    places = [item for item in Scanner(path.read_bytes()).items() if item.kind is ItemKind.DATA]
    data = bytearray(path.read_bytes())
    for n in (3, 50, 51, 120):
        data[places[n].offset] ^= 0xFF
    for n in (110, 150):
        data[places[n].payload + form.header_size + 8] = 0xFF  # a pointer
    data = data if known == "outline" else data[: places[198].offset + 9]
    path.write_bytes(data)
    if known == "outline":
        stat, points = path.stat(), (Point(places[100].offset, 100),)
        outline = Outline(stat.st_size, stat.st_mtime, (form,), (200,), points, True)
        write_sidecar(LocalFileSystem(), str(path), outline)
    ran = pbio("verify", path)
    assert ran.code == 1
    lost = [(places[end].offset - places[start].offset, end - start) for start, end in ((3, 4), (50, 52), (120, 121))]
    lost += [(9, 0)] if known != "outline" else []
    for size, count in lost[:3]:
        records = f"{count} record{'s' if count > 1 else ''}" if known == "index" else "an unknown number of records"
        assert f"  hint: damage in 1 place leaves out {size} bytes, with {records}; sound items follow" in ran.err
    assert f"damage in {len(lost)} places leaves out {sum(size for size, _ in lost)} bytes, with " in ran.err
    assert ran.err.count("[PBIO_BAD_ITEM] after record 2: ") == 1
    for n, is_told in ((110, known != "nothing"), (150, known == "index")):
        which = f"record {n}" if is_told else "the record"
        assert f"[PBIO_BAD_POINTER] {which} at offset {places[n].offset}: " in ran.err
    assert ("[PBIO_BAD_ITEM] after record 119: " in ran.err) == (known != "nothing")
    assert ("[PBIO_TRUNCATED] after record 197: " in ran.err) == (known == "index")
