"""Damaged records, where a stray access would end the process: see `records`."""

import os

from tests.guarded.memory import run_guarded

RECORDS = 1_000_000 if os.environ.get("PBIO_LONG") == "1" else 3_000


def test_kernels_refuse_what_the_codec_refuses_and_touch_nothing_else() -> None:
    assert f"{RECORDS} records" in run_guarded("tests.columns.guarded.records", 1, RECORDS)
