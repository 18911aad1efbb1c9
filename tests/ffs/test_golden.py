"""The real library reads the expected values from the conformance files of this project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ffs.test_library import values
from tests.ffs_library import read_file
from tests.golden.make import LAYOUTS, VARIANTS, content, files
from tests.wire.test_golden import FOLDER

# The library has no long doubles, and shows null bits as one more field (tests/ffs/test_written_files.py).
READ = sorted(set(LAYOUTS) - {"long_doubles", "null_bits"})
# It misreads structures with pointers from 32-bit senders (ffs-wire-format 12, item 7). Of `nested` it reads what this
# machine would write today and crashes on the rest.
WIDE = [i for i, (machine, _) in enumerate(VARIANTS) if machine.endswith("64")]
KNOWN = {"nested": [VARIANTS.index(("le64", 2))], "pointers": WIDE, "recursive": WIDE}


@pytest.mark.parametrize("name", READ)
def test_reads_the_layouts(name: str, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (FOLDER / "wire" / f"layout_{name}.jsonl").read_text("utf-8").splitlines()]
    variants, per_variant = VARIANTS, 1 + len(LAYOUTS[name][1])
    expected = values(lines)
    if known := KNOWN.get(name):
        variants = tuple(VARIANTS[i] for i in known)
        expected = [line for i in known for line in expected[i * per_variant : (i + 1) * per_variant]]
    file = tmp_path / "layout.ffs"
    file.write_bytes(content(name, variants))
    assert values(read_file(file)) == expected


def test_reads_the_indexed_file(tmp_path: Path) -> None:
    (data,) = (data for name, _, data in files() if name == "layout_indexed")
    file = tmp_path / "indexed.ffs"
    file.write_bytes(data)
    lines = (FOLDER / "wire" / "layout_indexed.jsonl").read_text("utf-8").splitlines()
    assert values(read_file(file)) == values(map(json.loads, lines))
