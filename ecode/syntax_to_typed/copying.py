"""Assignments of records: which types can be copied."""

from __future__ import annotations

from ecode.syntax_to_typed.context import Context
from ecode.syntax_to_typed.conversions import called
from ecode.typed import CopyRecord, Place, ValueType
from ecode.types import Array, Basic, Kind, Pointer, Ref

# Kinds of unsigned numbers: readers see characters and enumerations as such.
_UNSIGNED = {Kind.CHAR, Kind.ENUMERATION, Kind.UNSIGNED}


def copy_record(context: Context, target: Place, source: Place, at: int) -> CopyRecord:
    if not _is_copied(context, target.type, source.type):
        types = f"{called(source.type, context)} to {called(target.type, context)}"
        raise context.wrong_type(at, f"cannot copy {types}", "records are copied between equal types only")
    return CopyRecord(at, None, target, source)


def _is_copied(context: Context, left: ValueType, right: ValueType) -> bool:
    """Whether values can be copied. Their types must be equal, except that an unsigned number of the same size may
    match a character or an enumeration, as it does for readers. Pointer targets are shared, so their types must be the
    same."""
    match left, right:
        case (Ref(), Ref()):
            left_fields, right_fields = (context.structs[name].fields for name in (left.name, right.name))
            return [f.name for f in left_fields] == [f.name for f in right_fields] and all(
                _is_copied(context, a.type, b.type) for a, b in zip(left_fields, right_fields, strict=True)
            )
        case (Array(), Array()):
            return left.dims == right.dims and _is_copied(context, left.element, right.element)
        case (Basic(), Basic()) if left != right:
            return left.size == right.size and {left.kind, right.kind} <= _UNSIGNED
    return _same_shape(context, left, right, set())


def _same_shape(context: Context, left: ValueType, right: ValueType, assumed: set[tuple[str, str]]) -> bool:
    match left, right:
        case (Ref(), Ref()):
            pair = left.name, right.name
            if left == right or pair in assumed:
                return True
            assumed.add(pair)
            left_fields, right_fields = (context.structs[name].fields for name in pair)
            return [f.name for f in left_fields] == [f.name for f in right_fields] and all(
                _same_shape(context, a.type, b.type, assumed) for a, b in zip(left_fields, right_fields, strict=True)
            )
        case (Array(), Array()):
            return left.dims == right.dims and _same_shape(context, left.element, right.element, assumed)
        case (Pointer(), Pointer()):
            return _same_shape(context, left.target, right.target, assumed)
    return left == right
