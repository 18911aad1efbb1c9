"""The private names of numba: each is used in one function here, and nowhere else.

A release of numba may change them without notice. So `pyproject.toml` allows only releases that this module has run
with, and `tests/ecode/native/test_internals.py` shows that each function does what kernels need.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any


def symbol(compiled: Any) -> str:
    """The symbol of a compiled function's entry in its machine code."""
    name: str = compiled.fndesc.llvm_func_name
    return name


def object_file(compiled: Any) -> bytes:
    """The object file that holds the machine code of a compiled function."""
    code: bytes = compiled.library._get_compiled_object()
    return code


def compiler_warning() -> type[Warning]:
    """The class of all warnings that numba gives while it compiles."""
    from numba.core.errors import NumbaWarning

    warning: type[Warning] = NumbaWarning
    return warning


def copy_bytes(builder: Any, to: Any, from_: Any, count: Any) -> None:
    """Emits a copy of `count` bytes between pointers."""
    from numba.core import cgutils

    cgutils.raw_memcpy(builder, to, from_, count, 1)


def zero_bytes(builder: Any, to: Any, count: Any) -> None:
    """Emits `count` zero bytes at a pointer."""
    from numba.core import cgutils

    cgutils.memset(builder, to, count, 0)


def stack_slot(builder: Any, type_: Any) -> Any:
    """Emits a stack slot for one value, allocated once per call and zero at first."""
    from numba.core import cgutils

    return cgutils.alloca_once_value(builder, type_(None))


def kernel_dispatcher(rewrite: Callable[[str], str]) -> Callable[..., Any]:
    """A dispatcher like that of `numba.njit`, for a target of its own: `dispatcher(function, targetoptions=...)`.

    Args:
        rewrite: turns the text of each LLVM module into the text that LLVM gets.
    """
    import llvmlite.binding as llvm
    from numba.core import cgutils
    from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
    from numba.core.cpu import CPUContext
    from numba.core.dispatcher import Dispatcher
    from numba.core.registry import CPUTarget, cpu_target
    from numba.core.runtime import rtsys

    class Library(JITCodeLibrary):  # type: ignore[misc]
        def add_ir_module(self, ir_module: Any) -> None:
            """Like numba's own method; every text that LLVM gets for a kernel passes through here."""
            self._raise_if_finalized()
            module = llvm.parse_assembly(rewrite(cgutils.normalize_ir_text(str(ir_module))))
            module.name = ir_module.name
            module.verify()
            self.add_llvm_module(module)

        def add_linking_library(self, library: Any) -> None:
            assert isinstance(library, Library), f"{library.name} is not compiled with wrapping arithmetic"
            super().add_linking_library(library)

    class Codegen(JITCPUCodegen):  # type: ignore[misc]
        _library_class = Library

    class Context(CPUContext):  # type: ignore[misc]
        def init(self) -> None:
            super().init()
            self._internal_codegen = Codegen("ecode.native")

        def post_lowering(self, mod: Any, library: Any) -> None:
            """Does nothing: kernels allocate nothing and need no numba runtime."""

    class Target(CPUTarget):  # type: ignore[misc]
        @cached_property
        def typing_context(self) -> Any:
            return _typing_context()

        @cached_property
        def target_context(self) -> Any:
            return Context(self.typing_context, self._target_name)

    lean = _pipeline()

    class Kernels(Dispatcher):
        targetdescr = Target("cpu")

        def __init__(self, function: Any, *, targetoptions: dict[str, Any], pipeline_class: Any = lean) -> None:
            super().__init__(function, targetoptions=targetoptions, pipeline_class=pipeline_class)

    # numba compiles its runtime with the first context that is refreshed, which must not be the one of kernels.
    rtsys.initialize(cpu_target.target_context)
    return Kernels


def _typing_context() -> Any:
    """A typing context that caches the types of calls.

    For each `a + b` numba tries a dozen templates, most of them numpy's. A kernel of 80 fields has 10,000 calls and
    operators, and 200 different ones.
    """
    from numba.core import types, typing

    class Typing(typing.Context):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._known: dict[tuple[Any, Any], Any] = {}

        def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
            if (
                kws
                or not isinstance(func, types.Function)
                or not all(isinstance(type_, types.Number | types.Boolean) for type_ in args)
            ):
                return super().resolve_function_type(func, args, kws)
            known = self._known.get((func, args))
            if known is None:
                known = self._known[func, args] = super().resolve_function_type(func, args, kws)
            return known

    return Typing()


def _pipeline() -> type[Any]:
    """The pipeline of numba without its passes for closures, exceptions, arrays, dead branches and single assignments.

    These passes find nothing in a kernel, and LLVM prunes branches and makes single assignments itself, which numba
    spends a quarter of its time on. Without them a variable has one type for all its assignments: `_one_type_pass`
    refuses those that would change a value.
    """
    from numba.core import typed_passes, untyped_passes
    from numba.core.compiler import CompilerBase
    from numba.core.compiler_machinery import PassManager

    class Lean(CompilerBase):  # type: ignore[misc]
        def define_pipelines(self) -> list[Any]:
            passes = PassManager("kernels")
            for one in (
                untyped_passes.TranslateByteCode,
                untyped_passes.FixupArgs,
                untyped_passes.IRProcessing,
                typed_passes.NopythonTypeInference,
                _one_type_pass(),
                typed_passes.IRLegalization,
                typed_passes.NativeLowering,
                typed_passes.NoPythonBackend,
            ):
                passes.add_pass(one, one.__name__)
            passes.finalize()
            return [passes]

    return Lean


def _one_type_pass() -> type[Any]:
    """A pass that refuses a kernel in which an assignment changes a value: numba's one type for int64 and uint64 is
    float64."""
    from numba.core import ir, types
    from numba.core.compiler_machinery import AnalysisPass, register_pass
    from numba.core.types.misc import unliteral

    constants = {bool: types.boolean, int: types.int64, float: types.float64}

    def keeps(to: Any, of: Any) -> bool:
        if isinstance(of, types.Boolean):
            return isinstance(to, types.Boolean | types.Integer)
        if isinstance(to, types.Integer) and isinstance(of, types.Integer):
            return bool(to.minval <= of.minval and of.maxval <= to.maxval)
        return isinstance(to, types.Float) and isinstance(of, types.Float) and of.bitwidth <= to.bitwidth

    @register_pass(mutates_CFG=False, analysis_only=True)
    class OneType(AnalysisPass):  # type: ignore[misc]
        _name = "one_type"

        def __init__(self) -> None:
            super().__init__()

        def run_pass(self, state: Any) -> bool:
            for block in state.func_ir.blocks.values():
                for made in block.find_insts(ir.Assign):
                    to = unliteral(state.typemap[made.target.name])
                    if isinstance(made.value, ir.Var):
                        of = unliteral(state.typemap[made.value.name])
                    elif isinstance(made.value, ir.Const) and type(made.value.value) in constants:
                        of = constants[type(made.value.value)]
                    else:
                        continue  # the value of an expression, in a variable of its own
                    if to != of and not keeps(to, of):
                        raise AssertionError(f"{made.target.name} is {to}, and cannot hold every {of}: {made.loc}")
            return False

    return OneType
