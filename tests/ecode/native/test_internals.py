"""The internals of numba that kernels need, in the installed version; `pyproject.toml` allows only tested ones."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import numba
import numpy as np
import pytest

from ecode.native import Table, compile_kernel, internals, memory
from ecode.native.wrapping import OPTIONS, without_promises

ROOT = Path(__file__).parents[3]


def compiled(rewrite: object = str) -> object:
    dispatcher = internals.kernel_dispatcher(rewrite)(lambda a: a + 1, targetoptions=OPTIONS)  # type: ignore[arg-type]
    dispatcher.compile((numba.int64,))
    (result,) = dispatcher.overloads.values()
    return result


def test_the_symbol_of_a_compiled_function_is_in_its_object_file() -> None:
    result = compiled()
    code = internals.object_file(result)
    assert code.startswith((b"\x7fELF", b"\xcf\xfa\xed\xfe"))
    assert internals.symbol(result).encode() in code


def test_every_text_that_llvm_gets_is_rewritten_first() -> None:
    texts: list[str] = []

    def rewrite(text: str) -> str:
        texts.append(text)
        return text

    symbol = internals.symbol(compiled(rewrite))
    assert any(symbol in text for text in texts)


LOOPS = """
def kernel(count, table):
    total, last = 0, -1.5
    for i in range(count):
        value = load_float64(load_int64(table) + 8 * i)
        if value > last and i % 3 != 1:
            last = value
            total += i if value < 4.0 else -(i * 3 // 2)
        elif not value == value:
            break
    store_int64(load_int64(table + 8), total)
    store_float64(load_int64(table + 8) + 8, last)
    return 0 if total >= 0 else 1
"""


def test_the_short_pipeline_and_remembered_types_make_the_machine_code_of_numbas_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from numba.core import typing
    from numba.core.compiler import Compiler

    def code(**pipeline: type) -> bytes:
        namespace = dict(memory.EXPORTS)
        exec(LOOPS, namespace)
        kernel = internals.kernel_dispatcher(without_promises)(namespace["kernel"], targetoptions=OPTIONS, **pipeline)
        kernel.compile((numba.int64, numba.int64))
        (result,) = kernel.overloads.values()
        # The symbol has a number in it, which is one more for each function.
        return re.sub(rb"B\d+v\d+", b"", internals.object_file(result))

    ours = code()
    monkeypatch.setattr(internals, "_typing_context", typing.Context)
    assert len(ours) > 500
    assert code(pipeline_class=Compiler) == ours


@pytest.mark.parametrize("first", ["load_uint64(table)", "load_float64(table)", "1.5"])
def test_a_kernel_in_which_a_variable_would_change_a_value_is_refused(first: str) -> None:
    """For int64 and uint64 numba finds float64, which holds neither."""
    text = f"def kernel(count, table):\n    a = {first}\n    if count:\n        a = count\n    return as_int64(a)\n"
    with pytest.raises(AssertionError, match=r"a is float64, and cannot hold every u?int64"):
        compile_kernel(text)


def test_a_variable_of_a_kernel_may_be_wider_than_what_it_gets() -> None:
    text = "def kernel(count, table):\n    a = load_int8(table)\n    if count:\n        a = count\n    return a\n"
    assert compile_kernel(text)(0, Table([-1])) == -1


def test_a_kernel_cannot_call_what_numba_compiles_for_others() -> None:
    elsewhere = numba.njit(lambda a: a + 2)
    dispatcher = internals.kernel_dispatcher(str)(lambda a: elsewhere(a), targetoptions=OPTIONS)
    with pytest.raises((AssertionError, NotImplementedError), match=r"wrapping arithmetic|lowering"):
        dispatcher.compile((numba.int64,))


def test_copies_and_zeros_cover_the_bytes_that_they_name_and_no_others() -> None:
    given, copied, zeroed = np.arange(1, 9, dtype=np.uint8), np.zeros(8, np.uint8), np.full(8, 7, np.uint8)
    source = """
def kernel(count, table):
    copy(load_int64(table + 8) + 1, load_int64(table), count)
    zero(load_int64(table + 16) + 2, count)
    return 0
"""
    compile_kernel(source)(3, Table([given, copied, zeroed]))
    assert copied.tolist() == [0, 1, 2, 3, 0, 0, 0, 0]
    assert zeroed.tolist() == [7, 7, 0, 0, 0, 7, 7, 7]


def test_compiler_warnings_are_those_of_numba() -> None:
    assert issubclass(numba.NumbaPerformanceWarning, internals.compiler_warning())
    assert issubclass(internals.compiler_warning(), Warning)


@pytest.mark.parametrize("package", ["numba", "llvmlite"])
def test_the_dependency_has_both_bounds_and_the_installed_version_is_between_them(package: str) -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (bounds,) = (one for one in dependencies if re.match(rf"{package}\b", one))
    least, most = re.fullmatch(rf"{package}>=([\d.]+),<([\d.]+)", bounds).groups()  # type: ignore[union-attr]
    parts = [tuple(map(int, text.split(".")[:2])) for text in (least, version(package), most)]
    assert parts[0] <= parts[1] < parts[2]


def test_no_other_module_uses_what_numba_keeps_to_itself() -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for package in ("ecode", "morph", "pbio_spark")
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"numba\.core|\b_get_compiled_object\b|llvm_func_name", path.read_text(encoding="utf-8"))
    }
    assert users == {"ecode/native/internals.py"}
