"""The records of the library's benchmark equal those that the library itself sends."""

from __future__ import annotations

import pytest

from benchmarks.records.ffs_rates import SIZES, STRUCTS, event, sample
from tests.ffs_library import Context


@pytest.mark.parametrize("size", SIZES)
def test_native_records_are_the_librarys_own(size: int) -> None:
    context = Context()
    made = context.register(STRUCTS)
    records = sample(size, "le64", 4)
    assert records.format.id == made.id
    assert records.record(3) == context.encode(made, event(3, size))
    assert 0.9 * size < records.stride <= size


@pytest.mark.parametrize("size", SIZES)
def test_records_of_the_other_byte_order_mean_the_same(size: int) -> None:
    context = Context()
    records = sample(size, "be64", 4)
    context.load(records.format.id, records.format.body)
    for how in ("buffer", "place"):
        assert context.decode(records.record(3), how) == event(3, size)
