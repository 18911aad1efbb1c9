"""What a kernel may call: loads, stores, copies and searches on raw addresses.

All of this is inlined into the kernel and checks nothing. The generated text around it makes sure that the address is
inside the record: look for the check there.

    load_T(address)           T: int8 .. int64, uint8 .. uint64, float32, float64; at any alignment. Unsigned numbers of
                              up to 32 bits load as int64, because numba combines an int64 and an unsigned to a float
    load_T_swapped(address)   the same from the other byte order
    load_float64_mixed(address), store_float64_mixed(address, value)
                              two little-endian words, the high one first, as old ARM has them
    store_T(address, value), store_T_swapped(address, value)
    copy(to, from_, n)        n bytes that do not overlap
    zero(to, n)               n zero bytes
    find_zero(address, n)     distance to the first NUL byte, or n
    as_T(value)               the value as exactly that type (C's conversion: low bits, sign by the source)
    call_kernel(entry, n, t)  the kernel whose machine code is at that address, with a count and a table
    min(a, b), max(a, b)      of two int64: numba's own are compiled for its own target, where sums do not wrap
"""

from __future__ import annotations

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ecode.native.internals import copy_bytes, stack_slot, zero_bytes
from ecode.native.wrapping import wraps

EXPORTS: dict[str, Any] = {}

_BYTE = ir.IntType(8)
_BYTES = _BYTE.as_pointer()
_SCALARS = {
    "int8": types.int8,
    "int16": types.int16,
    "int32": types.int32,
    "int64": types.int64,
    "uint8": types.uint8,
    "uint16": types.uint16,
    "uint32": types.uint32,
    "uint64": types.uint64,
    "float32": types.float32,
    "float64": types.float64,
}


def _value_type(type_: Any) -> Any:
    if isinstance(type_, types.Float):
        return ir.FloatType() if type_.bitwidth == 32 else ir.DoubleType()
    return ir.IntType(type_.bitwidth)


def _pointer(builder: Any, address: Any, target: Any) -> Any:
    """An address as a pointer. The first term of a sum becomes the pointer and the rest an offset from it: only then
    can LLVM see how a loop walks an array, and vectorise it."""
    if isinstance(address, ir.Instruction) and address.opname == "add":
        base, offset = address.operands
        start = _pointer(builder, base, _BYTE)
        return builder.bitcast(builder.gep(start, [offset]), target.as_pointer())
    return builder.inttoptr(address, target.as_pointer())


def _define(name: str, type_: Any) -> None:
    value_type, bits = _value_type(type_), ir.IntType(type_.bitwidth)
    is_widened = name.startswith("u") and type_.bitwidth < 64

    def turn(builder: Any, value: Any, is_swapped: bool, is_mixed: bool) -> Any:
        if is_swapped:
            value = builder.bswap(value)
        if is_mixed:
            half = ir.Constant(bits, 32)
            value = builder.or_(builder.shl(value, half), builder.lshr(value, half))
        return value

    def load(is_swapped: bool, is_mixed: bool = False) -> Any:
        def typed(typing: Any, address: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                value = builder.load(_pointer(builder, arguments[0], bits), align=1)
                value = turn(builder, value, is_swapped, is_mixed)
                return builder.zext(value, ir.IntType(64)) if is_widened else builder.bitcast(value, value_type)

            return (types.int64 if is_widened else type_)(types.int64), generate

        return intrinsic(typed)

    def store(is_swapped: bool, is_mixed: bool = False) -> Any:
        def typed(typing: Any, address: Any, value: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                value = turn(builder, builder.bitcast(arguments[1], bits), is_swapped, is_mixed)
                builder.store(value, _pointer(builder, arguments[0], bits), align=1)
                return context.get_dummy_value()

            return types.void(types.int64, type_), generate

        return intrinsic(typed)

    def convert(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return arguments[0]

        return type_(type_), generate

    EXPORTS[f"load_{name}"], EXPORTS[f"store_{name}"] = load(False), store(False)
    EXPORTS[f"as_{name}"] = intrinsic(convert)
    # One byte has no byte order; the second name saves the generators a case.
    EXPORTS[f"load_{name}_swapped"] = load(type_.bitwidth > 8)
    EXPORTS[f"store_{name}_swapped"] = store(type_.bitwidth > 8)
    if name == "float64":
        is_big = sys.byteorder == "big"
        EXPORTS["load_float64_mixed"], EXPORTS["store_float64_mixed"] = load(is_big, True), store(is_big, True)


for _name, _type in _SCALARS.items():
    _define(_name, _type)


_load_byte, _load_word = EXPORTS["load_uint8"], EXPORTS["load_uint64"]


@intrinsic
def copy(typing: Any, to: Any, from_: Any, n: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, from_, n = arguments
        copy_bytes(builder, builder.inttoptr(to, _BYTES), builder.inttoptr(from_, _BYTES), n)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def zero(typing: Any, to: Any, n: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, n = arguments
        zero_bytes(builder, builder.inttoptr(to, _BYTES), n)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _first_zero_byte(typing: Any, word: Any) -> Any:
    """The index of the first zero byte of a word in memory order, or 8."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (word,) = arguments
        lows, highs = (ir.Constant(word.type, pattern * 0x0101010101010101) for pattern in (0x01, 0x80))
        # The lowest bit set belongs to the first zero byte; higher ones may be borrows and do not matter.
        zeros = builder.and_(builder.and_(builder.sub(word, lows), builder.not_(word)), highs)
        first = builder.cttz(zeros, ir.Constant(ir.IntType(1), 0))
        return builder.lshr(first, ir.Constant(word.type, 3))

    return types.int64(types.uint64), generate


def _define_choice(name: str, operator: str) -> None:
    def typed(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, b = arguments
            return builder.select(builder.icmp_signed(operator, a, b), a, b)

        return types.int64(types.int64, types.int64), generate

    EXPORTS[name] = intrinsic(typed)


_define_choice("min", "<")
_define_choice("max", ">")


@wraps
def find_zero(address: Any, n: Any) -> Any:
    i = 0
    while i + 8 <= n:
        first = _first_zero_byte(_load_word(address + i))
        if first < 8:
            return i + first
        i += 8
    while i < n and _load_byte(address + i) != 0:
        i += 1
    return i


@intrinsic
def call_kernel(typing: Any, entry: Any, count: Any, table: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        entry, count, table = arguments
        word = ir.IntType(64)
        # The calling convention of numba, as in `kernel._entry`.
        type_ = ir.FunctionType(ir.IntType(32), [word.as_pointer(), _BYTES.as_pointer(), word, word])
        result, exception = (stack_slot(builder, one) for one in (word, _BYTES))
        builder.call(builder.inttoptr(entry, type_.as_pointer()), [result, exception, count, table])
        return builder.load(result)

    return types.int64(types.int64, types.int64, types.int64), generate


EXPORTS |= {"copy": copy, "zero": zero, "find_zero": find_zero, "call_kernel": call_kernel}
