"""Kernels: compiled once, cached privately, shipped to processes that never see a compiler."""

import errno
import logging
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecode.native import Kernel, Lines, Table, cache, compile_kernel
from ecode.native import compile as compiler
from ecode.native.compile import is_compiled
from tests.odd.permissions import bound_by_permissions

SOURCE = """
@inline
def text(address, n):
    return find_zero(address, n)


def kernel(count, table):
    words = load_int64(table)
    out = load_int64(table + 8)
    total = 0
    for i in range(count):
        value = load_float64_swapped(words + 8 * i)
        store_float64(out + 8 * i, value + 1.0)
        total += text(words + 8 * i, 8)
    return total
"""


@pytest.fixture
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ECODE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "_compiled", {})
    return tmp_path / "cache"


def run(kernel: Kernel) -> tuple[int, list[float]]:
    words = np.array([1.5, -2.0], ">f8")
    out = np.zeros(2)
    return kernel(2, Table([words, out])), out.tolist()


EXPECTED = (3, [2.5, -1.0])  # 3f f8 00 ... and c0 00 ...: two bytes and one before the first NUL


def test_compile_and_call(private_cache: Path) -> None:
    kernel = compile_kernel(SOURCE)
    assert run(kernel) == EXPECTED
    assert str(kernel) == SOURCE
    assert compile_kernel(SOURCE) is kernel


def test_cache_survives_the_process_and_damage(private_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compile_kernel(SOURCE)
    monkeypatch.setattr(compiler, "_compiled", {})
    assert is_compiled(SOURCE)
    assert compile_kernel(SOURCE) == kernel
    (entry,) = private_cache.iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    monkeypatch.setattr(compiler, "_compiled", {})
    assert not is_compiled(SOURCE)
    assert run(compile_kernel(SOURCE)) == EXPECTED


def test_a_cache_that_others_may_write_is_not_read(private_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_kernel(SOURCE)
    os.chmod(private_cache, 0o777)
    assert cache.folder() is None
    monkeypatch.setenv("ECODE_CACHE_DIR", "")
    assert cache.folder() is None


@pytest.mark.parametrize("why", ["read-only", "shared", "file", "no home"])
def test_a_cache_that_cannot_be_used_costs_time_and_says_so_once(
    why: str, private_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cache, "_warned", [])
    if why == "file":
        private_cache.write_text("")
    else:
        private_cache.mkdir(mode=0o500 if why == "read-only" else 0o777)
        private_cache.chmod(0o500 if why == "read-only" else 0o777)
    if why == "no home":
        for name in ("ECODE_CACHE_DIR", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", "/proc/none")
    with bound_by_permissions(), caplog.at_level(logging.WARNING):
        assert run(compile_kernel(SOURCE)) == EXPECTED
        assert run(compile_kernel(f"{SOURCE}# another\n")) == EXPECTED
    (record,) = caplog.records
    assert "ECODE_CACHE_DIR" in record.message
    caplog.clear()
    monkeypatch.setattr(cache, "_warned", [])
    monkeypatch.setenv("ECODE_CACHE_DIR", "")
    assert run(compile_kernel(f"{SOURCE}# and another\n")) == EXPECTED
    assert not caplog.records


def test_a_full_disk_leaves_no_half_kernel(private_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(cache.os, "replace", full)
    assert run(compile_kernel(SOURCE)) == EXPECTED
    assert list(private_cache.iterdir()) == []


def test_shipped_kernel_needs_no_numba(private_cache: Path) -> None:
    words = np.array([1.5, -2.0], ">f8")
    script = (
        "import pickle, sys, numpy as np; from ecode.native import Table\n"
        "kernel, words = pickle.load(sys.stdin.buffer)\n"
        "words, out = np.frombuffer(words), np.zeros(2)\n"
        "print(kernel(2, Table([words, out])), out.tolist(), 'numba' in sys.modules)"
    )
    shipped = pickle.dumps((compile_kernel(SOURCE), words.tobytes()))
    done = subprocess.run([sys.executable, "-c", script], input=shipped, capture_output=True, check=True)
    assert done.stdout.decode().strip() == "3 [2.5, -1.0] False"


def test_another_machine_compiles_from_the_text(private_cache: Path) -> None:
    foreign = replace(compile_kernel(SOURCE), code=b"not for here", symbol="elsewhere", identity="another processor")
    assert run(pickle.loads(pickle.dumps(foreign))) == EXPECTED


def test_traceback_shows_generated_text(private_cache: Path) -> None:
    with pytest.raises(Exception, match="no_such_function"):
        compile_kernel("def kernel(count, table):\n    return no_such_function(count)\n")


def test_text() -> None:
    text = Lines()
    with text.block("if a:"):
        text.line("b", "c")
    text.line("d")
    assert str(text) == "if a:\n    b\n    c\nd"


TWO_HELPERS = """
@inline
def helper(n, table):
    total = n
    for i in range(n):
        total = total * 3 + load_int64(table) * FACTOR
        store_int64(table, total)
    for i in range(n):
        total = total * 5 + load_int64(table) * FACTOR
        store_int64(table, total)
    return total


def kernel(count, table):
    return helper(count, table) + helper(count + 1, table) + helper(count + 2, table)
"""


def test_helpers_of_one_name_in_kernels_of_two_processes_stay_apart(tmp_path: Path) -> None:
    sources = [TWO_HELPERS.replace("FACTOR", factor) for factor in ("7", "11")]
    kernels = []
    for source in sources:
        program = (
            "import pickle, sys; from ecode.native import compile_kernel; "
            f"sys.stdout.buffer.write(pickle.dumps(compile_kernel({source!r})))"
        )
        environment = {**os.environ, "ECODE_CACHE_DIR": ""}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment)
        kernels.append(pickle.loads(done.stdout))
    first, second = (kernel(3, Table([5])) for kernel in kernels)
    assert first != second
    assert second == _interpreted(sources[1], 3, 5)


def _interpreted(source: str, count: int, word: int) -> int:
    memory = {0: word}
    namespace: dict[str, Any] = {
        "inline": lambda function: function,
        "load_int64": memory.get,
        "store_int64": memory.__setitem__,
    }
    exec(source, namespace)
    wrapped = namespace["kernel"](count, 0) & (1 << 64) - 1
    return int(wrapped - (wrapped >> 63 << 64))


def test_kernels_share_a_helper_that_is_compiled_once(private_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever numbers it is given, as literals or not; each kernel has its machine code and needs no other's."""
    monkeypatch.setattr(compiler, "_shared", {})
    helper = "@shared\ndef twice_and_more(a, b):\n    return 2 * a + b\n\n\n"
    head = f"{helper}def kernel(count, table):\n    return "
    texts = [head + "twice_and_more(count, 5)", head + "twice_and_more(2, count) + twice_and_more(3, 4)"]
    kernels = [compile_kernel(text) for text in texts]
    (shared,) = compiler._shared.values()
    assert len(shared.overloads) == 1
    assert [kernel(10, Table([0])) for kernel in kernels] == [25, 24]
    loads = "import pickle, sys; from ecode.native import Table; print(pickle.load(sys.stdin.buffer)(10, Table([0])))"
    done = subprocess.run(
        [sys.executable, "-c", loads], input=pickle.dumps(kernels[1]), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "24"
