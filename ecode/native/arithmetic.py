"""C's arithmetic where Python's differs, and the C library's mathematics, for generated text.

    quotient_T(a, b), remainder_T(a, b)   T: int32, int64, uint64; b is not 0; truncates; the least int over -1 wraps
    add_int32(a, b), subtract_int32(a, b), multiply_int32(a, b)
                                                                                on the low 32 bits, wrapping: numba's
                                                                                sum of two int32 is an int64, and LLVM
                                                                                cannot vectorise a sum that it must
                                                                                narrow in each round
    saturated_T(x)                        a float as an integer: truncated, saturated, NaN is 0
    c_NAME(...)                           NAME of <math.h>

Unsigned 64-bit values travel as int64 of the same bits.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

EXPORTS: dict[str, Any] = {}

_I64, _DOUBLE = ir.IntType(64), ir.DoubleType()


def _define_division(name: str, bits: int, operation: str, is_signed: bool) -> None:
    def typed(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            width = ir.IntType(bits)
            a, b = (builder.trunc(v, width) if bits < 64 else v for v in arguments)
            if not is_signed:
                return getattr(builder, "u" + operation)(a, b)
            # The least value divided by -1 traps in hardware: divide by 1 instead, and correct the sign.
            is_minus_one = builder.icmp_signed("==", b, ir.Constant(width, -1))
            result = getattr(builder, "s" + operation)(a, builder.select(is_minus_one, ir.Constant(width, 1), b))
            mended = builder.neg(a) if operation == "div" else ir.Constant(width, 0)
            result = builder.select(is_minus_one, mended, result)
            return builder.sext(result, _I64) if bits < 64 else result

        return types.int64(types.int64, types.int64), generate

    EXPORTS[name] = intrinsic(typed)


for _bits, _signed, _type in ((32, True, "int32"), (64, True, "int64"), (64, False, "uint64")):
    _define_division(f"quotient_{_type}", _bits, "div", _signed)
    _define_division(f"remainder_{_type}", _bits, "rem", _signed)


def _define_narrow(name: str, operation: str) -> None:
    def typed(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, operation)(*arguments)

        return types.int32(types.int32, types.int32), generate

    EXPORTS[f"{name}_int32"] = intrinsic(typed)


for _name, _operation in (("add", "add"), ("subtract", "sub"), ("multiply", "mul")):
    _define_narrow(_name, _operation)


def _define_saturation(name: str, bits: int, is_signed: bool) -> None:
    def typed(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            width = ir.IntType(bits)
            operation = f"llvm.fpto{'s' if is_signed else 'u'}i.sat.i{bits}.f64"
            function = builder.module.globals.get(operation)
            if function is None:
                function = ir.Function(builder.module, ir.FunctionType(width, [_DOUBLE]), operation)
            result = builder.call(function, arguments)
            if bits == 64:
                return result
            return builder.sext(result, _I64) if is_signed else builder.zext(result, _I64)

        return types.int64(types.float64), generate

    EXPORTS[name] = intrinsic(typed)


for _bits in (8, 16, 32, 64):
    _define_saturation(f"saturated_int{_bits}", _bits, True)
    _define_saturation(f"saturated_uint{_bits}", _bits, False)


def _define_external(name: str, returns: Any, *parameters: Any) -> None:
    signature = returns(*parameters)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(
            context.get_value_type(signature.return_type), [context.get_value_type(t) for t in signature.args]
        )
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        return builder.call(function, arguments)

    if len(parameters) == 1:

        def one(typing: Any, x: Any) -> Any:
            return signature, generate

        EXPORTS[f"c_{name}"] = intrinsic(one)
    else:

        def two(typing: Any, x: Any, y: Any) -> Any:
            return signature, generate

        EXPORTS[f"c_{name}"] = intrinsic(two)


_ONE = """
    acos asin atan cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 log log10 log2 log1p logb
    fabs cbrt sqrt erf erfc lgamma tgamma ceil floor nearbyint rint round trunc
"""
for _name in _ONE.split():
    _define_external(_name, types.float64, types.float64)
for _name in "atan2 hypot pow fmod remainder copysign".split():  # noqa: SIM905
    _define_external(_name, types.float64, types.float64, types.float64)
for _name in ("lrint", "lround"):
    _define_external(_name, types.int64, types.float64)
_define_external("ilogb", types.int32, types.float64)
_define_external("ldexp", types.float64, types.float64, types.int32)
_define_external("scalbn", types.float64, types.float64, types.int32)
_define_external("scalbln", types.float64, types.float64, types.int64)
