"""Damaged files through the compiled kernels: sound batches or a PbioError, never a crash."""

from __future__ import annotations

import io
import os
import random

from pbio_spark.columns.files.compile import compile_converter
from pbio_spark.columns.files.plan import FilePart, ReadPlan
from pbio_spark.columns.files.read import read_batches
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow
from pbio_spark.wire import Scanner
from tests.columns.files.test_read import DEPTH, content_of, mixed
from tests.corpus import CORPUS
from tests.plans import changed, plan_of

FILES = 200_000 if os.environ.get("PBIO_LONG") else 4_000
LARGEST = 50_000


def contents() -> list[bytes]:
    """Small files: our own, and those of the corpus where it is."""
    files = sorted((CORPUS / "ffs").glob("generated/*.ffs")) + sorted((CORPUS / "ffs").glob("foreign/*.ffs"))
    return [mixed()[0], *(content for path in files if 4 < len(content := content_of(path)) <= LARGEST)]


def readers(content: bytes, presentation: Presentation = DEPTH) -> list[ReadPlan]:
    """A reader, compiled, for each format of a file."""
    scanner = Scanner(content)
    list(scanner.items())
    found = []
    for form in scanner.formats.values():
        plan = plan_of(record_to_arrow(form.record, presentation), presentation, ids=(form.id,))
        found.append(changed(plan, converters={form.id: compile_converter(plan, form, fused=False)}))
    return found


def damaged(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4))):
        changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(changed[: chance.randrange(len(changed))] if chance.random() < 0.1 else changed)


def test_damaged_files_end_in_batches_or_errors() -> None:
    chance = random.Random(20)
    files = [(content, plan) for content in contents() for plan in readers(content)]
    outcomes = {"read": 0, "refused": 0}
    for _ in range(FILES):
        content, plan = chance.choice(files)
        plan = changed(plan, mode=chance.choice(("FAILFAST", "DROPMALFORMED")))
        try:
            for batch in read_batches(plan, FilePart("damaged"), io.BytesIO(damaged(content, chance))):
                batch.validate(full=True)
        except PbioError:
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
    assert min(outcomes.values()) > FILES // 10
