"""Calls of functions as text: their native form, the log, attribute lists."""

from __future__ import annotations

from functools import partial

from ecode.analysis.work import BYTES, shortest_text
from ecode.environment import Function
from ecode.errors import NotCompilable, TrapKind
from ecode.library.attributes import ENTRY_BYTES, LIST_BYTES
from ecode.semantics.arithmetic import is_floating
from ecode.typed import Call
from ecode.typed_to_numba import numbers
from ecode.typed_to_numba.code import Code, Parts, in_order
from ecode.typed_to_numba.stored import loaded, plus
from ecode.types import FLOAT32, FLOAT64, INT64, STRING, UINT64, Basic, Pointer

# The kinds of logged arguments.
LOG_INTEGER, LOG_UNSIGNED, LOG_FLOAT, LOG_TEXT, LOG_ABSENT = range(5)
_KINDS = {"int": 1, "long": 2, "float": 3, "double": 4, "string": 5}
_GETTERS = {"attr_ivalue": "int", "attr_lvalue": "long", "attr_fvalue": "float", "attr_dvalue": "double"}


def call(code: Code, node: Call) -> Parts:
    """The parts of a call's result."""
    from ecode.typed_to_numba.nodes.expressions import value

    function, emitter = node.function, code.emitter
    arguments = list(in_order(code, *(partial(value, code, argument) for argument in node.arguments)))
    if function.name.startswith(("attr_", "set_")) or function.name.endswith("_attr_list"):
        return _attributes(code, function.name, [text for parts in arguments for text in parts], node.at)
    if function.native is None and not function.is_sampled:
        raise NotCompilable(f"{function.name!r} has no native form")
    if function.needs_strings:
        for parts, parameter in zip(arguments, function.parameters, strict=True):
            if parameter == STRING:
                emitter.trap(f"{parts[0]} == 0", TrapKind.INDEX_OUT_OF_RANGE, node.at)
    is_charged = function.charge is not None and shortest_text(node) is None
    if isinstance(node.type, Pointer) or function.is_logged or is_charged:
        arguments = [tuple(emitter.temp(text) for text in parts) for parts in arguments]
    if is_charged and function.charge is not None:
        code.spend(function.charge.native.format(*(text for parts in arguments for text in parts)), node.at)
    if function.is_logged:
        _log(code, function, node, arguments)
    if function.is_sampled:
        return (_sample(code, function),)
    assert function.native is not None
    text = function.native.format(*(text for parts in arguments for text in parts))
    if isinstance(node.type, Pointer):
        offset = emitter.temp(text)
        low, length = arguments[0]
        found = f"{offset} >= 0"
        return tuple(f"({part} if {found} else 0)" for part in (f"{low} + {offset}", low, f"{low} + {length} + 1"))
    if node.type is None:
        emitter.line(text)
        return ()
    if node.type == STRING:
        raise NotCompilable(f"{function.name!r} returns a string")
    assert isinstance(node.type, Basic)
    if is_floating(node.type):
        text = f"as_{node.type}({text})"
    else:
        text = f"as_int64({text})" if node.type.size == 8 else numbers.wrapped(f"as_int64({text})", node.type)
    return (text if function.is_pure else emitter.temp(text),)


def _sample(code: Code, function: Function) -> str:
    """The result of a sampled function, which the host passes."""
    samples, type_ = code.emitter.samples, function.returns
    assert isinstance(type_, Basic)
    samples.setdefault(function.name, type_)
    return loaded(type_, plus(code.emitter.entry("samples"), 8 * list(samples).index(function.name)))


def _log(code: Code, function: Function, call: Call, arguments: list[Parts]) -> None:
    """Appends the call to the log: the event, the function, the number of arguments, then the kind and eight bytes of
    each argument. For a string these hold its length, and its bytes follow, padded. `columns.state` reads the log."""
    emitter, nodes = code.emitter, call.arguments
    log, size = emitter.entry("log"), emitter.entry("log_size")
    number = emitter.functions.setdefault(function.name, len(emitter.functions))
    strings = [parts for node, parts in zip(nodes, arguments, strict=True) if node.type == STRING]
    needed = emitter.temp(" + ".join([str(24 + 16 * len(nodes)), *(f"(({parts[1]} + 7) & -8)" for parts in strings)]))
    code.spend(f"({needed} >> 3)", call.at)
    code.stored.charge(emitter, needed, call.at)
    emitter.out_of("log", f"log_used + {needed} > {size}", f"log_used + {needed}")
    at = emitter.temp(f"{log} + log_used")
    emitter.line(f"log_used += {needed}")
    emitter.line(
        f"store_int64({at}, event)", f"store_int64({at} + 8, {number})", f"store_int64({at} + 16, {len(nodes)})"
    )
    offset = f"{at} + 24"
    for node, parts in zip(nodes, arguments, strict=True):
        if node.type == STRING:
            address, length = parts
            offset = emitter.temp(offset)
            emitter.line(f"store_int64({offset}, {LOG_TEXT} if {address} != 0 else {LOG_ABSENT})")
            emitter.line(f"store_int64({offset} + 8, {length})", f"copy({offset} + 16, {address}, {length})")
            offset = f"{offset} + 16 + (({length} + 7) & -8)"
            continue
        assert isinstance(node.type, Basic)
        kind = LOG_FLOAT if is_floating(node.type) else LOG_UNSIGNED if node.type == UINT64 else LOG_INTEGER
        value = f"store_float64({offset} + 8, as_float64({parts[0]}))"
        emitter.line(f"store_int64({offset}, {kind})")
        emitter.line(value if kind == LOG_FLOAT else f"store_int64({offset} + 8, {parts[0]})")
        offset = f"{offset} + 16"


def _attributes(code: Code, name: str, parts: list[str], at: int) -> Parts:
    emitter, stored = code.emitter, code.stored
    parts = [emitter.temp(text) for text in parts]
    if name == "create_attr_list":
        handle = stored.allocate(emitter, "1", LIST_BYTES, at, is_limited=True)
        emitter.line(f"zero({handle}, {LIST_BYTES})")
        return (handle,)
    handle, *rest = parts
    emitter.trap(f"{handle} == 0", TrapKind.INDEX_OUT_OF_RANGE, at)
    if name == "free_attr_list":
        emitter.line(f"zero({handle}, {LIST_BYTES})")
        return ()
    if name == "copy_attr_list":
        return (_copied_list(code, handle, at),)
    key, length, *given = rest
    emitter.trap(f"{key} == 0", TrapKind.INDEX_OUT_OF_RANGE, at)
    code.spend(f"load_int64({handle} + 8) * ({length} + 1)", at)
    if name == "attr_set":
        return (f"(1 if find_attribute({handle}, {key}, {length}) != 0 else 0)",)
    if name in _GETTERS:
        kind = _GETTERS[name]
        entry = emitter.temp(f"attribute({handle}, {key}, {length}, {_KINDS[kind]})")
        type_ = {"int": INT64, "long": INT64, "float": FLOAT32, "double": FLOAT64}[kind]
        load = f"load_{type_}({entry} + 32)"
        return (f"({load} if {entry} != 0 else {numbers.constant(0, type_)})",)
    if name == "attr_svalue":
        entry = emitter.temp(f"attribute({handle}, {key}, {length}, {_KINDS['string']})")
        return tuple(f"(load_int64({entry} + {offset}) if {entry} != 0 else 0)" for offset in (32, 40))
    kind = name.split("_")[1]
    entry = emitter.temp(f"find_attribute({handle}, {key}, {length})")
    with emitter.block(f"if {entry} == 0:"):
        made = stored.allocate(emitter, "1", ENTRY_BYTES, at, is_limited=True)
        emitter.line(f"store_int64({made}, load_int64({handle}))", f"store_int64({handle}, {made})")
        emitter.line(f"store_int64({handle} + 8, load_int64({handle} + 8) + 1)")
        emitter.line(f"store_int64({made} + 8, {key})", f"store_int64({made} + 16, {length})", f"{entry} = {made}")
    emitter.line(f"store_int64({entry} + 24, {_KINDS[kind]})")
    if kind in ("float", "double"):
        emitter.line(f"store_{FLOAT32 if kind == 'float' else FLOAT64}({entry} + 32, {given[0]})")
    else:
        for i, text in enumerate(given):
            emitter.line(f"store_int64({entry} + {32 + 8 * i}, {text})")
    return ()


def _copied_list(code: Code, handle: str, at: int) -> str:
    emitter, stored = code.emitter, code.stored
    count = emitter.temp(f"load_int64({handle} + 8)")
    code.spend(f"{ENTRY_BYTES // BYTES} * {count}", at)
    copied = stored.allocate(emitter, "1", LIST_BYTES, at, is_limited=True)
    last, entry = emitter.temporary(), emitter.temporary()
    emitter.line(f"store_int64({copied}, 0)", f"store_int64({copied} + 8, {count})")
    emitter.line(f"{last} = {copied}", f"{entry} = load_int64({handle})")
    with emitter.block(f"while {entry} != 0:"):
        made = stored.allocate(emitter, "1", ENTRY_BYTES, at, is_limited=True)
        emitter.line(f"copy({made}, {entry}, {ENTRY_BYTES})", f"store_int64({made}, 0)", f"store_int64({last}, {made})")
        emitter.line(f"{last} = {made}", f"{entry} = load_int64({entry})")
    return copied
