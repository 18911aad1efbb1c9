"""The structures of parameters: checked, and renamed where two share a name but differ in shape."""

from __future__ import annotations

from ecode.errors import ParameterError
from ecode.limits import Limits
from ecode.semantics.layout import C_LAYOUT, MEMORY_LAYOUT
from ecode.suggest import did_you_mean
from ecode.syntax_to_typed.context import Context
from ecode.types import Array, Basic, Field, Kind, Pointer, Record, Ref, Struct, Type, references


def add_record(context: Context, param: str, record: Record) -> Ref:
    """Registers the structures of a record type; returns its name in the typed tree. `param` is for messages.

    Raises:
        ParameterError: the record type is invalid: an unknown structure, a size field that is not an integer, a
            structure that contains itself, or a record beyond `Limits.local_bytes`.
    """
    record = record.flattened()
    by_name = {struct.name: struct for struct in record.structs}
    for struct in record.structs:
        _check_struct(param, struct, by_name)
    _check_no_recursion(param, record, by_name)
    renamed = {name: _place(context, struct, record, param) for name, struct in by_name.items()}
    for struct in record.structs:
        fields = tuple(Field(f.name, _rename(f.type, renamed), f.notes) for f in struct.fields)
        context.structs[renamed[struct.name]] = Struct(renamed[struct.name], fields)
    top = Ref(renamed[record.name])
    _check_size(param, top, context, context.limits)
    return top


def _place(context: Context, struct: Struct, record: Record, param: str) -> str:
    """The name of a structure in the typed tree: its own, if unused or used for an equal structure."""
    known = context.structs.get(struct.name)
    if known is None or _subrecord(context, struct.name) == record.subrecord(struct.name):
        return struct.name
    return context.new_struct(f"{param}.{struct.name}")


def _subrecord(context: Context, name: str) -> Record | None:
    try:
        return Record((context.structs[name], *context.structs.values())).subrecord(name)
    except KeyError:
        return None


def _rename(type_: Type, renamed: dict[str, str]) -> Type:
    match type_:
        case Array():
            return Array(_rename(type_.element, renamed), type_.dims)
        case Pointer():
            return Pointer(_rename(type_.target, renamed))
        case Ref():
            return Ref(renamed[type_.name])
    return type_


def _check_struct(param: str, struct: Struct, by_name: dict[str, Struct]) -> None:
    for field in struct.fields:
        where = f"{param}: field {struct.name}.{field.name}"
        for name in references(field.type):
            if name not in by_name:
                hint = did_you_mean(name, by_name) or "add it to the structures of the record type"
                raise ParameterError(f"{where} refers to the structure {name!r}, which the record type lacks", hint)
        type_: Type = field.type
        while isinstance(type_, Array | Pointer):
            if isinstance(type_, Array):
                for dim in type_.dims:
                    if isinstance(dim, int) and dim < 0:
                        raise ParameterError(f"{where} has a negative extent")
                    if isinstance(dim, str) and not _is_size(struct.find(dim)):
                        raise ParameterError(
                            f"{where} has the extent {dim!r}, which is not an integer field beside it",
                            f"add Field({dim!r}, INT32) to {struct.name}, or give its field of this name that type",
                        )
            type_ = type_.element if isinstance(type_, Array) else type_.target


def _is_size(field: Field | None) -> bool:
    return field is not None and isinstance(field.type, Basic) and field.type.kind in (Kind.INTEGER, Kind.UNSIGNED)


def _in_place(type_: Type) -> str | None:
    """The structure that a value of the type contains in place."""
    while isinstance(type_, Array) and not type_.is_dynamic:
        type_ = type_.element
    return type_.name if isinstance(type_, Ref) else None


def _check_no_recursion(param: str, record: Record, by_name: dict[str, Struct]) -> None:
    finished: set[str] = set()
    for start in by_name:
        path: list[str] = []
        # An explicit stack: a description may nest deeper than Python does.
        stack = [(start, iter(by_name[start].fields))]
        path.append(start)
        while stack:
            name, rest = stack[-1]
            inner = next((_in_place(f.type) for f in rest if _in_place(f.type)), None)
            if inner is None:
                finished.add(name)
                stack.pop()
                path.pop()
            elif inner in path:
                raise ParameterError(f"{param}: structure {inner!r} contains itself", "use a pointer to it")
            elif inner not in finished:
                if len(path) > 100:
                    raise ParameterError(
                        f"{param}: structures are nested more than 100 levels deep",
                        hint="use pointers in place of nested structures",
                    )
                path.append(inner)
                stack.append((inner, iter(by_name[inner].fields)))


def _check_size(param: str, type_: Ref, context: Context, limits: Limits) -> None:
    size = max(C_LAYOUT.size(type_, context.structs), MEMORY_LAYOUT.size(type_, context.structs))
    if size > limits.local_bytes:
        raise ParameterError(
            f"{param}: a record takes {size:,} bytes, more than {limits.local_bytes:,}",
            hint="use arrays whose size is a field, or pointers",
        )
