"""Attribute lists: named values with an opaque handle (ecode-language 13.1).

A value that was not set, or was set with another type, reads as 0 or absent; a null list traps.
"""

from __future__ import annotations

from typing import Any

from ecode.environment import Charge, Function
from ecode.errors import TrapKind
from ecode.interpreter.memory import Trapped
from ecode.types import FLOAT32, FLOAT64, INT32, INT64, STRING, Basic

_KINDS: dict[str, tuple[str, Basic]] = {
    "int": ("attr_ivalue", INT32),
    "long": ("attr_lvalue", INT64),
    "float": ("attr_fvalue", FLOAT32),
    "double": ("attr_dvalue", FLOAT64),
    "string": ("attr_svalue", STRING),
}
# Bytes of a list, and of each attribute in it, in generated code.
LIST_BYTES, ENTRY_BYTES = 16, 48
AttributeList = dict[bytes, tuple[str, Any]]


def _list(handle: AttributeList | None) -> AttributeList:
    if handle is None:
        raise Trapped(TrapKind.INDEX_OUT_OF_RANGE)
    return handle


def _name(name: bytes | None) -> bytes:
    if name is None:
        raise Trapped(TrapKind.INDEX_OUT_OF_RANGE)
    return bytes(name)


def _set(kind: str, handle: AttributeList | None, name: bytes | None, value: Any) -> None:
    _list(handle)[_name(name)] = (kind, value)


def _get(kind: str, handle: AttributeList | None, name: bytes | None) -> Any:
    found_kind, value = _list(handle).get(_name(name), (kind, None))
    absent = None if kind == "string" else 0
    return absent if found_kind != kind or value is None else value


def _copy(handle: AttributeList | None) -> AttributeList:
    return dict(_list(handle))


def _is_set(handle: AttributeList | None, name: bytes | None) -> int:
    return int(_name(name) in _list(handle))


def _free(handle: AttributeList | None) -> None:
    _list(handle).clear()


def _search_charge(handle: AttributeList | None, name: bytes | None, *_: Any) -> tuple[int, int]:
    """Generated code searches the attributes in order."""
    return len(_list(handle)) * (len(_name(name)) + 1), 0


def _set_charge(handle: AttributeList | None, name: bytes | None, value: Any) -> tuple[int, int]:
    return _search_charge(handle, name)[0], 0 if _name(name) in _list(handle) else ENTRY_BYTES


def _copy_charge(handle: AttributeList | None) -> tuple[int, int]:
    count = len(_list(handle))
    return count * ENTRY_BYTES // 8, LIST_BYTES + count * ENTRY_BYTES


def _functions() -> tuple[Function, ...]:
    handle, setters, getters = "attr_list", [], []
    for kind, (getter, type_) in _KINDS.items():

        def set_(handle: Any, name: Any, value: Any, kind: str = kind) -> None:
            _set(kind, handle, name, value)

        def get(handle: Any, name: Any, kind: str = kind) -> Any:
            return _get(kind, handle, name)

        setters.append(Function(f"set_{kind}_attr", None, (handle, STRING, type_), set_, charge=Charge(_set_charge)))
        getters.append(Function(getter, type_, (handle, STRING), get, charge=Charge(_search_charge)))
    made = Charge(lambda: (0, LIST_BYTES))
    return (
        Function("create_attr_list", handle, (), dict, charge=made),
        Function("copy_attr_list", handle, (handle,), _copy, charge=Charge(_copy_charge)),
        Function("free_attr_list", None, (handle,), _free),
        Function("attr_set", INT32, (handle, STRING), _is_set, charge=Charge(_search_charge)),
        *setters,
        *getters,
    )


ATTRIBUTES: tuple[Function, ...] = _functions()
