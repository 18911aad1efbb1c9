"""Kernels are compiled with arithmetic that wraps: LLVM is promised nothing that a number from outside could break."""

import re
from pathlib import Path

import numba
import numpy as np
import pytest

from ecode.native import Table, compile_kernel, memory, wrapping
from ecode.native import compile as compiler

LEAST, MOST = -(2**63), 2**63 - 1

SOURCE = """
@inline
def below(a, b, length):
    i = (a & 0x7fffffffffffffff) + (b & 0x7fffffffffffffff)
    return 0 if 0 <= i < length else 1


@inline
def further(a):
    return a + 1 > a


def kernel(count, table):
    exact = load_int64(table)
    nsw = load_int64(table + 8)
    inbounds = load_int64(table + 16)
    out = load_int64(table + 24)
    store_int64(out, below(exact, nsw, inbounds))
    store_int64(out + 8, 1 if further(exact) else 0)
    store_int64(out + 16, 1 if exact * 2 == exact << 1 and (exact << 1) > exact else 0)
    store_int64(out + 24, 1 if -nsw > 0 else 0)
    total = 0
    for i in range(count):
        total += load_uint8(out + i) + find_zero(out + 8 * i, 8)
    return total
"""


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What numba emits for kernels from now on, and what LLVM gets of it."""
    seen: list[tuple[str, str]] = []
    given = wrapping.without_promises

    def record(text: str) -> str:
        seen.append((text, given(text)))
        return seen[-1][1]

    monkeypatch.setenv("ECODE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "_compiled", {})
    monkeypatch.setattr(wrapping, "without_promises", record)
    return seen


def words(text: str) -> set[str]:
    """The words of instructions, without quoted names and literals."""
    return set(re.findall(r"[a-z]+", re.sub(r'"[^"]*"', "", text)))


PROMISES = {"nsw", "nuw", "nusw", "inbounds", "exact", "disjoint", "nneg", "samesign", "assume"}


def test_no_module_that_llvm_gets_promises_anything(texts: list[tuple[str, str]]) -> None:
    compile_kernel(SOURCE)
    assert len(texts) >= 3, "the kernel, its helpers and the intrinsics that are functions"
    assert any("nsw" in words(emitted) for emitted, _ in texts), "numba does; or this test sees nothing"
    for _, given in texts:
        assert not PROMISES & words(given)
        assert {"add", "load"} & words(given)
    assert any('%"nsw' in given for _, given in texts), "names stay as they are"


def test_what_the_intrinsics_are_made_of_promises_nothing(texts: list[tuple[str, str]]) -> None:
    wrapping.wraps(memory.find_zero.py_func).compile((numba.int64, numba.int64))
    ((emitted, given),) = texts
    assert "nsw" in words(emitted)
    assert not PROMISES & words(given)


@pytest.mark.parametrize(
    "text",
    [
        "%x = sdiv exact i64 %a, %b",
        "%x = trunc nsw i64 %a to i32",
        "%x = or disjoint i64 %a, %b",
        "%x = icmp samesign ult i64 %a, %b",
        "call void @llvm.assume(i1 %a)",
        'call void @"llvm.assume"(i1 %a)',
    ],
)
def test_a_promise_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(AssertionError, match="promises"):
        wrapping.without_promises(text)


@pytest.mark.parametrize("a", [MOST, MOST - 1, LEAST, 0, 5])
@pytest.mark.parametrize("b", [MOST, MOST - 1, LEAST, -5, 1])
def test_sums_wrap_and_checks_stay(a: int, b: int) -> None:
    out = np.zeros(4, np.int64)
    compile_kernel(SOURCE)(0, Table([a, b, 4, out]))

    def wrap(x: int) -> int:
        return (x + 2**63) % 2**64 - 2**63

    index = wrap((a & MOST) + (b & MOST))
    doubled = wrap(a * 2)
    assert out.tolist() == [not 0 <= index < 4, wrap(a + 1) > a, doubled > a, wrap(-b) > 0]


NARROW = """
def kernel(count, table):
    a = load_int64(table)
    b = load_int64(table + 8)
    out = load_int64(table + 16)
    store_int64(out, as_int64(add_int32(a, b)))
    store_int64(out + 8, as_int64(subtract_int32(a, b)))
    store_int64(out + 16, as_int64(multiply_int32(a, b)))
    total = as_int32(a)
    i = 0
    while i < count:
        total = add_int32(total, load_int32(out + 24 + 4 * i))
        i += 1
    store_int64(out, as_int64(total)) if count > 0 else store_int64(out + 24, 0)
    return 0
"""


@pytest.mark.parametrize("a", [2**31 - 1, -(2**31), 2**40 + 7, -1, 0, 46341])
@pytest.mark.parametrize("b", [2**31 - 1, -(2**31), -(2**40), 3, 46341])
def test_narrow_sums_are_of_the_low_bits(a: int, b: int) -> None:
    def wrap(x: int) -> int:
        return (x + 2**31) % 2**32 - 2**31

    out = np.zeros(4, np.int64)
    compile_kernel(NARROW)(0, Table([a, b, out]))
    assert out.tolist() == [wrap(a + b), wrap(a - b), wrap(a * b), 0]
    many = np.random.default_rng(1).integers(-(2**31), 2**31, 1003)
    out = np.concatenate([np.zeros(3, np.int64), many.astype(np.int32)[: 2 * (len(many) // 2)].view(np.int64)])
    compile_kernel(NARROW)(1002, Table([a, b, out]))
    assert out[0] == wrap(a + int(many[:1002].sum()))


def test_numba_compiles_for_others_as_ever() -> None:
    compile_kernel(SOURCE)
    assert "nsw" in words(_unoptimised(numba.njit(lambda a, b: a * b + 1)))


def _unoptimised(function: object) -> str:
    """The text that numba makes of a foreign function."""
    import llvmlite.binding as llvm

    seen: list[str] = []
    parse = llvm.parse_assembly

    def record(text: str, context: object = None) -> object:
        seen.append(text)
        return parse(text, context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llvm, "parse_assembly", record)
        function.compile((numba.int64, numba.int64))  # type: ignore[attr-defined]
    return "\n".join(seen)
