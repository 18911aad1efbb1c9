"""Format x Arrow schema -> `EncodePlan`: the partner walk of what there is and what the format wants.

Columns find their field by name. What a field without a column becomes:

* a control field is the length of its arrays;
* any other is its default, from the notes;
* without a default, null where the format can say that (pointers, strings, bits), else what `null_value` says;
* else the schema is refused, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

import pyarrow as pa

from ecode.suggest import did_you_mean
from ecode.types import CHAR, Array, Basic, Field, Kind, Notes, Pointer, Ref, Struct, Type, references
from pbio_spark.columns.decode.plan import Load, number_at, slot_at
from pbio_spark.columns.encode.null_value import NullValue
from pbio_spark.columns.encode.nulls import NullImages
from pbio_spark.columns.encode.numbers import is_narrower_decimal, number_bounds, number_to_load
from pbio_spark.columns.encode.plan import (
    Chars,
    Column,
    Count,
    Deref,
    EncodePlan,
    Extent,
    Flag,
    Group,
    Items,
    Marks,
    Node,
    Number,
    Preset,
    Text,
    in_order,
    is_list,
    is_text,
    names_control,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.schema import BINARY, ITEM, decimal_type, is_decimal_in_place, shown
from pbio_spark.formats.body.opt_info import null_fields
from pbio_spark.formats.body.slots import slot_content
from pbio_spark.formats.format import Format
from pbio_spark.wire.images import images_of


def format_to_encode_plan(
    format: Format,  # noqa: A002
    schema: pa.Schema,
    null_value: NullValue | None = None,
    *,
    is_complete: bool = False,
) -> EncodePlan:
    """The plan that turns batches of a schema into records of a format; `null_value` is for what cannot be null there.

    With `is_complete`, every field needs a column, or has a default, or counts an array; but a structure that contains
    itself may end.

    Raises:
        PbioError: PBIO_INCOMPATIBLE_TYPE (a column's type is not its field's), PBIO_UNKNOWN_COLUMN (the format has no
            such field), PBIO_CANNOT_BE_NULL (a field has no column), PBIO_NAME_COLLISION (two columns have one name),
            PBIO_BAD_OPTION (a null value for what is no column).
    """
    planner = _Planner(format, null_value, is_complete)
    try:
        nodes, blank = planner.struct(format.name, list(schema), None, "$")
        planner.nulls.check(planner.columns)
    except PbioError as error:
        raise error.at(format=format.name) from None
    return EncodePlan(format, schema, tuple(planner.columns), nodes, blank, null_value, tuple(planner.without_null))


@dataclass(frozen=True, slots=True)
class _Place:
    """An offset in the image, and the structure whose fields may be extents there with the columns that fill them."""

    offset: int
    struct: Struct
    columns: Mapping[str, int]

    def at(self, offset: int) -> _Place:
        return _Place(offset, self.struct, self.columns)


class _Planner:
    def __init__(self, format_: Format, null_value: NullValue | None, is_complete: bool) -> None:
        self.format = format_
        self.is_complete = is_complete
        self.nulls = NullImages(format_, null_value)
        self.said_null: set[int] = set()
        self.images = images_of(format_)
        self.lengths = {s.name: s.record_length for s in format_.structs}
        self.offsets = {s.name: {f.name: f.offset for f in s.fields} for s in format_.structs}
        self.columns: list[Column] = []
        self.without_null: list[tuple[str, str]] = []

    def struct(
        self, name: str, given: Iterable[pa.Field], parent: int | None, path: str
    ) -> tuple[tuple[Node, ...], bytes]:
        """The nodes of a structure whose fields the given columns fill, and its blank."""
        struct = self.format.record.struct(name)
        unseen = null_fields(struct)
        fields = {shown(field.name): field.name for field in struct.fields if field.name not in unseen}
        columns: dict[str, int] = {}
        for child, column in enumerate(given):
            here = f"{path}.{column.name}"
            if column.name not in fields:
                raise PbioError(
                    "PBIO_UNKNOWN_COLUMN",
                    f"structure {name} has no such field",
                    field=here,
                    hint=did_you_mean(column.name, fields),
                )
            if fields[column.name] in columns:
                raise PbioError("PBIO_NAME_COLLISION", "two columns have this name", field=here)
            columns[fields[column.name]] = self._column(here, column.type, parent, child, column.nullable)
        return self.fields(struct, columns, path)

    def fields(self, struct: Struct, columns: Mapping[str, int], path: str) -> tuple[tuple[Node, ...], bytes]:
        blank = bytearray(self.lengths[struct.name])
        nodes: list[Node] = []
        controls = {dim for field in struct.fields for dim in _dims(field.type)}
        unseen = null_fields(struct)
        for field in struct.fields:
            here, bit = _Place(self.offsets[struct.name][field.name], struct, columns), field.notes.null_bit
            if field.name in unseen:
                continue
            if field.name in columns:
                column = columns[field.name]
                if bit is not None:
                    self.said_null.add(column)
                    nodes.append(Flag(column, *self.nulls.bit_place(struct, bit)))
                node, part = self.value(field.type, field.notes, column, here)
                nodes.append(node)
                if field.notes.null_items is not None:
                    assert isinstance(node, Items)
                    nodes.append(self._marks(struct, field.notes.null_items, node))
            elif field.name in controls:
                continue
            elif bit is not None and field.notes.default is None and not self.is_complete:
                at, value = self.nulls.bit_place(struct, bit)
                blank[at] |= value
                continue
            else:
                more, part = self.missing(field, here, f"{path}.{shown(field.name)}")
                nodes += more
            blank[here.offset : here.offset + len(part)] = part
        for name in sorted(controls - columns.keys()):
            load = self._control(name, struct)
            counted = tuple(node for node in nodes if names_control(node, load))
            if counted:
                nodes.append(Count(load, self._greatest(struct, name), counted))
        return in_order(nodes), bytes(blank)

    def _marks(self, struct: Struct, name: str, array: Items) -> Marks:
        """The node of the field that says which elements of an array are null."""
        offset = self.offsets[struct.name][name]
        where = offset if isinstance(array.place, int) else slot_at(self.format, offset)
        assert isinstance(array.item, Number)
        return Marks(array.columns, array.item.column, where, array.extents, array.column_major)

    def value(self, type_: Type, notes: Notes, column: int, place: _Place) -> tuple[Node, bytes]:
        """The node of a field, or of a part of it, and the blank of the room that it takes."""
        arrow = self.columns[column].type
        match type_:
            case Basic(Kind.STRING):
                if not is_text(arrow):
                    self._refuse(column, type_, notes)
                return Text(column, slot_at(self.format, place.offset)), self._zeros(type_)
            case Basic():
                return self._number(type_, notes, column, place)
            case Ref(name):
                return self._structure(type_, name, notes, column, place)
            case Pointer(target):
                node, blank = self.value(target, notes, column, place.at(0))
                return Deref(column, slot_at(self.format, place.offset), blank, node), self._zeros(type_)
            case Array():
                return self._array(type_, notes, column, place)

    def _number(self, basic: Basic, notes: Notes, column: int, place: _Place) -> tuple[Node, bytes]:
        arrow = self.columns[column].type
        if notes.symbols and pa.types.is_string(arrow):
            old = self.columns[column]
            self.columns[column] = replace(old, symbols=notes.symbols)
            load: str | None = "int64"
        else:
            load = number_to_load(basic, notes, arrow)
        if load is None:
            self._refuse(column, basic, notes)
        low, high = number_bounds(basic, load)
        null = self._null_of(basic, notes, column)
        where = number_at(self.format, basic, place.offset)
        return Number(column, load, where, low, high, null is not None), null or self._zeros(basic)

    def _structure(self, type_: Ref, name: str, notes: Notes, column: int, place: _Place) -> tuple[Node, bytes]:
        arrow, path = self.columns[column].type, self.columns[column].path
        struct = self.format.record.struct(name)
        visible = [field.name for field in struct.fields if not field.notes.hidden]
        if notes.logical == ITEM and len(visible) == 1:
            nodes, blank = self.fields(struct, {visible[0]: column}, path)
            return Group(None, place.offset, nodes, False), blank
        if not pa.types.is_struct(arrow):
            self._refuse(column, type_, notes)
        nodes, blank = self.struct(name, list(arrow), column, path)
        return Group(column, place.offset, nodes, self._null_of(type_, notes, column) is not None), blank

    def _array(self, array: Array, notes: Notes, column: int, place: _Place) -> tuple[Node, bytes]:
        arrow = self.columns[column].type
        marks_elements = notes.null_items is not None
        where = slot_at(self.format, place.offset) if array.is_dynamic else place.offset
        element, dims, last_dim = array.element, array.dims, array.dims[-1]
        stride, control = None, None
        has_rows = element == CHAR and _depth(arrow) < len(dims)
        if has_rows:
            if len(dims) == 1:
                return self._chars(array, notes, column, place, where)
            if self.format.column_major and decimal_type(notes.logical) is not None:
                self._refuse(column, array, notes)
            # Rows of characters are texts: the last dimension belongs to the element.
            element, dims = Array(CHAR, dims[-1:]), dims[:-1]
            if isinstance(last_dim, str):
                stride, control = self._control(last_dim, place.struct), place.columns.get(last_dim)
                if control is None:
                    self._refuse(column, array, notes)
        columns = [column]
        for _ in dims:
            inner = self._element(columns[-1])
            if inner is None:
                self._refuse(column, array, notes)
            columns.append(inner)
        *lists, last = columns
        if marks_elements:
            self.said_null.add(last)
        if pa.types.is_map(arrow) and isinstance(element, Ref):
            item, blank = self._entry(element.name, last)
        elif has_rows:
            assert isinstance(element, Array)
            item, blank = self._chars(element, notes, last, place.at(0), 0, self.format.column_major)
        else:
            item, blank = self.value(element, notes, last, place.at(0))
        null = self._null_of(array, notes, column)
        room = self._zeros(array) if array.is_dynamic else blank * slot_content(Array(CHAR, dims))[0]
        node = Items(
            tuple(lists),
            where,
            tuple(self._extent(dim, place) for dim in dims),
            b"" if stride else blank,
            stride,
            control,
            self.format.column_major and len(array.dims) > 1,
            item,
            null is not None,
        )
        return node, room

    def _element(self, column: int) -> int | None:
        """The column of a list's elements."""
        of = self.columns[column]
        if pa.types.is_map(of.type):
            return self._column(f"{of.path}[]", pa.struct([of.type.key_field, of.type.item_field]), column, None)
        if is_list(of.type):
            return self._column(f"{of.path}[]", of.type.value_type, column, None, of.type.value_field.nullable)
        return None

    def _entry(self, name: str, column: int) -> tuple[Node, bytes]:
        """The entry of a map: a structure whose two visible fields are key and value, whatever their names."""
        struct, of = self.format.record.struct(name), self.columns[column]
        visible = [field.name for field in struct.fields if not field.notes.hidden]
        if len(visible) != 2:
            self._refuse(column, Ref(name), Notes())
        columns = {
            field: self._column(f"{of.path}.{part.name}", part.type, column, child, part.nullable)
            for child, (field, part) in enumerate(zip(visible, of.type, strict=True))
        }
        nodes, blank = self.fields(struct, columns, of.path)
        return Group(None, 0, nodes, False), blank

    def _chars(
        self, array: Array, notes: Notes, column: int, place: _Place, where: int | Load, apart: bool = False
    ) -> tuple[Node, bytes]:
        """One run of characters as text, binary or decimal."""
        arrow, (extent,) = self.columns[column].type, array.dims
        null = self._null_of(array, notes, column)
        blank = null or self._zeros(array)
        if is_decimal_in_place(array, notes) and isinstance(where, int):
            if not is_narrower_decimal(arrow, notes):
                self._refuse(column, array, notes)
            return Number(column, "bytes", Load(where, "int128"), None, None, null is not None), blank
        if not is_text(arrow):
            self._refuse(column, array, notes)
        is_padded = (pa.types.is_string(arrow) or pa.types.is_large_string(arrow)) and notes.logical != BINARY
        control = place.columns.get(extent) if isinstance(extent, str) else None
        extents = self._extent(extent, place)
        return Chars(column, where, extents, is_padded, control, apart, null is not None), blank

    def missing(self, field: Field, place: _Place, path: str) -> tuple[list[Node], bytes]:
        """What a field becomes that no column fills."""
        if field.notes.default is not None:
            try:
                return self._default(field.type, field.notes, place)
            except ValueError:
                reason = f"the field's default {field.notes.default!r} cannot be written as {field.type}"
                raise PbioError("PBIO_BAD_VALUE", reason, field=path, hint="add the column") from None
        if isinstance(field.type, Ref):
            nodes, blank = self.fields(self.format.record.struct(field.type.name), {}, path)
            return [Group(None, place.offset, nodes, False)], blank
        ends = any(map(self.format.is_recursive, references(field.type)))
        if self.is_complete and not ends and not field.notes.hidden:
            raise PbioError(
                "PBIO_UNKNOWN_COLUMN",
                f"no column fills this field, {field.type}",
                field=path,
                hint="the format wants all of its fields: add the column",
            )
        null = self.nulls.image(field.type, field.notes, path)
        if null is None:
            raise PbioError(
                "PBIO_CANNOT_BE_NULL",
                f"no column fills this field, and {field.type} cannot be null",
                field=path,
                hint="add the column, or set the option nullValue",
            )
        return [], null

    def _default(self, type_: Type, notes: Notes, place: _Place) -> tuple[list[Node], bytes]:
        """The default of a field; ValueError if it is no value of it."""
        default = notes.default
        if isinstance(type_, Basic) and type_.kind is not Kind.STRING:
            number = dict(notes.symbols)[default] if isinstance(default, str) else default
            return [], self.images.number_to_bytes(type_, number)
        text = str(default).encode()
        if 0 not in text:
            match type_:
                case Basic():
                    return [Preset(slot_at(self.format, place.offset), text)], self._zeros(type_)
                case Array(Basic(Kind.CHAR), (int(extent),)) if len(text) <= extent:
                    return [], text.ljust(extent, b"\0")
        raise ValueError(text)

    def _null_of(self, type_: Type, notes: Notes, column: int) -> bytes | None:
        """`null` for the field of a column; remembered where `null_value` is none of its values."""
        of = self.columns[column]
        if column in self.said_null:
            return self._zeros(type_)
        if of.nullable and self.nulls.is_unfit(type_, notes, of.path):
            self.without_null.append((of.path, notes.logical or str(type_)))
        return self.nulls.image(type_, notes, of.path)

    def _column(
        self, path: str, type_: pa.DataType, parent: int | None, child: int | None, nullable: bool = True
    ) -> int:
        self.columns.append(Column(path, type_, parent, child, nullable=nullable))
        return len(self.columns) - 1

    def _extent(self, dim: int | str, place: _Place) -> Extent:
        return dim if isinstance(dim, int) else self._control(dim, place.struct)

    def _control(self, name: str, struct: Struct) -> Load:
        # Counts are unsigned whatever their type (ffs-wire-format 7.4).
        unsigned = Basic(Kind.UNSIGNED, self._integer(struct, name).size)
        return number_at(self.format, unsigned, self.offsets[struct.name][name])

    def _greatest(self, struct: Struct, name: str) -> int:
        """The greatest count that a control field holds, whether a reader takes it as signed or not."""
        control = self._integer(struct, name)
        return (1 << min(8 * control.size - (control.kind is Kind.INTEGER), 63)) - 1

    def _integer(self, struct: Struct, name: str) -> Basic:
        (control,) = (field.type for field in struct.fields if field.name == name)
        assert isinstance(control, Basic)
        return control

    def _zeros(self, type_: Type) -> bytes:
        return self.nulls.zeros(type_)

    def _refuse(self, column: int, type_: Type, notes: Notes) -> NoReturn:
        of = self.columns[column]
        what = f"{type_} ({notes.logical})" if notes.logical else str(type_)
        raise PbioError(
            "PBIO_INCOMPATIBLE_TYPE",
            f"a column of type {of.type} cannot be written as {what}",
            field=of.path,
            hint="cast the column",
        )


def _dims(type_: Type) -> Iterator[str]:
    """The control fields that a type names."""
    while isinstance(type_, Array | Pointer):
        if isinstance(type_, Array):
            yield from (dim for dim in type_.dims if isinstance(dim, str))
        type_ = type_.element if isinstance(type_, Array) else type_.target


def _depth(arrow: pa.DataType) -> int:
    return 1 + _depth(arrow.value_type) if is_list(arrow) and not pa.types.is_map(arrow) else 0
