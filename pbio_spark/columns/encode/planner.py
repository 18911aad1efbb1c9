"""Format x Arrow schema -> `EncodePlan`: the node for each rule of the mapping, and for fields without a column.

Which column fills which field, and by which rule, is decided in `formats.arrow.mapping`. What a field without a column
becomes:

* a control field is the length of its arrays;
* any other is its default, from the notes;
* without a default, null where the format can say that (pointers, strings, bits), else what `null_value` says;
* else the schema is refused, before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from ecode.types import CHAR, Array, Basic, Field, Kind, Notes, Pointer, Ref, Struct, Type, references
from pbio_spark.columns.decode.plan import Load, number_at, slot_at
from pbio_spark.columns.encode.null_value import NullValue
from pbio_spark.columns.encode.nulls import NullImages
from pbio_spark.columns.encode.numbers import is_narrower_decimal, number_bounds, number_to_load
from pbio_spark.columns.encode.plan import (
    BatchColumn,
    Chars,
    Count,
    Deref,
    EncodePlan,
    Extent,
    Flag,
    Items,
    Node,
    NullMarks,
    Number,
    Preset,
    Structure,
    Text,
    in_order,
    names_control,
)
from pbio_spark.errors import PbioError, step_to_text
from pbio_spark.formats.arrow.mapping import FieldRule, Mapped, map_written, refuse_written
from pbio_spark.formats.arrow.schema import BINARY, shown
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
    """The plan that turns batches of a schema into records of a format; `null_value` replaces nulls that it cannot
    represent.

    With `is_complete`, every field needs a column, a default, or an array that it counts; a structure that contains
    itself may end.

    Raises:
        PbioError: PBIO_INCOMPATIBLE_TYPE (a column's type is not its field's), PBIO_UNKNOWN_COLUMN (the format has no
            such field), PBIO_CANNOT_BE_NULL (a field has no column), PBIO_NAME_COLLISION (two columns have one name),
            PBIO_BAD_OPTION (a null value for what is not a column).
    """
    planner = _Planner(format, null_value, is_complete)
    try:
        nodes, blank = planner.struct(format.record.structs[0], map_written(format.record, schema), None, _Where())
        planner.nulls.check(planner.columns)
    except PbioError as error:
        raise error.at(format=format.name) from None
    return EncodePlan(format, schema, tuple(planner.columns), nodes, blank, null_value, tuple(planner.without_null))


@dataclass(frozen=True, slots=True)
class _Where:
    """The path of a column or field: for messages, and for options."""

    text: str = "$"
    names: str = ""

    @classmethod
    def of(cls, mapped: Mapped) -> _Where:
        return cls(mapped.where, ".".join(mapped.path))

    def below(self, name: str) -> _Where:
        return _Where(self.text + step_to_text(name), f"{self.names}.{name}" if self.names else name)


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
        self.columns: list[BatchColumn] = []
        self.without_null: list[tuple[int, str]] = []

    def struct(
        self, struct: Struct, mapped: tuple[Mapped, ...], parent: int | None, where: _Where
    ) -> tuple[tuple[Node, ...], bytes]:
        """The nodes of a structure whose fields the given columns fill, and its blank."""
        columns = {}
        for child, one in enumerate(mapped):
            assert one.field is not None
            columns[one.field.name] = self._column(_Where.of(one), one.arrow, parent, child, one.nullable), one
        return self.fields(struct, columns, where)

    def fields(
        self, struct: Struct, filled: Mapping[str, tuple[int, Mapped]], where: _Where
    ) -> tuple[tuple[Node, ...], bytes]:
        columns = {name: column for name, (column, _) in filled.items()}
        blank = bytearray(self.lengths[struct.name])
        nodes: list[Node] = []
        controls = struct.controls
        unseen = struct.null_marks
        for field in struct.fields:
            here, bit = _Place(self.offsets[struct.name][field.name], struct, columns), field.notes.null_bit
            if field.name in unseen:
                continue
            if field.name in columns:
                column, mapped = filled[field.name]
                if bit is not None:
                    self.said_null.add(column)
                    nodes.append(Flag(column, *self.nulls.bit_place(struct, bit)))
                node, part = self.value(mapped, column, here)
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
                more, part = self.missing(field, here, where.below(shown(field.name)))
                nodes += more
            blank[here.offset : here.offset + len(part)] = part
        for name in sorted(controls - columns.keys()):
            load = self._control(name, struct)
            counted = tuple(node for node in nodes if names_control(node, load))
            if counted:
                nodes.append(Count(load, self._greatest(struct, name), counted))
        return in_order(nodes), bytes(blank)

    def _marks(self, struct: Struct, name: str, array: Items) -> NullMarks:
        """The node of the field that says which elements of an array are null."""
        offset = self.offsets[struct.name][name]
        where = offset if isinstance(array.place, int) else slot_at(self.format, offset)
        assert isinstance(array.item, Number)
        return NullMarks(array.columns, array.item.column, where, array.extents, array.column_major)

    def value(self, mapped: Mapped, column: int, place: _Place) -> tuple[Node, bytes]:
        """The node of a field, or of a part of it, and the blank of its memory."""
        match mapped.rule, mapped.type:
            case FieldRule.STRING, Basic() as basic:
                return Text(column, slot_at(self.format, place.offset)), self._zeros(basic)
            case ((FieldRule.NUMBER | FieldRule.SYMBOL), Basic() as basic):
                return self._number(mapped, basic, column, place)
            case ((FieldRule.STRUCT | FieldRule.ITEM), Ref() as ref):
                return self._structure(mapped, ref, column, place)
            case FieldRule.POINTER, Pointer() as pointer:
                node, blank = self.value(mapped.parts[0], column, place.at(0))
                return Deref(column, slot_at(self.format, place.offset), blank, node), self._zeros(pointer)
            case ((FieldRule.CHARS | FieldRule.DECIMAL), Array() as array):
                where = slot_at(self.format, place.offset) if array.is_dynamic else place.offset
                return self._chars(mapped, array, column, place, where)
            case ((FieldRule.LIST | FieldRule.ROWS | FieldRule.MAP), Array() as array):
                return self._array(mapped, array, column, place)
        raise AssertionError(mapped.rule)

    def _number(self, mapped: Mapped, basic: Basic, column: int, place: _Place) -> tuple[Node, bytes]:
        load: str | None = "int64"
        if mapped.rule is FieldRule.SYMBOL:
            self.columns[column] = replace(self.columns[column], symbols=mapped.notes.symbols)
        else:
            load = number_to_load(basic, mapped.notes, mapped.arrow)
        if load is None:
            refuse_written(mapped)
        low, high = number_bounds(basic, load)
        null = self._null_of(basic, mapped.notes, column)
        where = number_at(self.format, basic, place.offset)
        return Number(column, load, where, low, high, null is not None), null or self._zeros(basic)

    def _structure(self, mapped: Mapped, ref: Ref, column: int, place: _Place) -> tuple[Node, bytes]:
        struct, where = self.format.record.struct(ref.name), _Where.of(mapped)
        if mapped.rule is FieldRule.ITEM:
            (item,) = mapped.parts
            assert item.field is not None
            nodes, blank = self.fields(struct, {item.field.name: (column, item)}, where)
            return Structure(None, place.offset, nodes, False), blank
        nodes, blank = self.struct(struct, mapped.parts, column, where)
        return Structure(column, place.offset, nodes, self._null_of(ref, mapped.notes, column) is not None), blank

    def _array(self, mapped: Mapped, array: Array, column: int, place: _Place) -> tuple[Node, bytes]:
        where = slot_at(self.format, place.offset) if array.is_dynamic else place.offset
        dims, part, column_major = array.dims, mapped.parts[0], self.format.column_major
        stride, control = None, None
        if mapped.rule is FieldRule.ROWS:
            *outer, last_dim = dims
            dims = tuple(outer)
            if isinstance(last_dim, str):
                stride, control = self._control(last_dim, place.struct), place.columns.get(last_dim)
            if (stride is not None and control is None) or (column_major and part.rule is FieldRule.DECIMAL):
                refuse_written(mapped)
        columns = [column]
        for _ in dims:
            columns.append(self._element(columns[-1]))
        *lists, last = columns
        if mapped.notes.null_items is not None:
            self.said_null.add(last)
        if mapped.rule is FieldRule.MAP:
            assert isinstance(array.element, Ref)
            nodes, blank = self.struct(
                self.format.record.struct(array.element.name), mapped.parts, last, _Where.of(mapped)
            )
            item: Node = Structure(None, 0, nodes, False)
        elif mapped.rule is FieldRule.ROWS:
            assert isinstance(part.type, Array)
            item, blank = self._chars(part, part.type, last, place.at(0), 0, column_major)
        else:
            item, blank = self.value(part, last, place.at(0))
        null = self._null_of(array, mapped.notes, column)
        room = self._zeros(array) if array.is_dynamic else blank * slot_content(Array(CHAR, dims))[0]
        node = Items(
            tuple(lists),
            where,
            tuple(self._extent(dim, place) for dim in dims),
            b"" if stride else blank,
            stride,
            control,
            column_major and len(array.dims) > 1,
            item,
            null is not None,
        )
        return node, room

    def _element(self, column: int) -> int:
        """The column of a list's elements, or of a map's entries."""
        of = self.columns[column]
        where = _Where(f"{of.path}[]", of.names)
        if pa.types.is_map(of.type):
            return self._column(where, pa.struct([of.type.key_field, of.type.item_field]), column, None)
        return self._column(where, of.type.value_type, column, None, of.type.value_field.nullable)

    def _chars(
        self, mapped: Mapped, array: Array, column: int, place: _Place, where: int | Load, apart: bool = False
    ) -> tuple[Node, bytes]:
        """One run of characters as text, binary or decimal."""
        arrow, (extent,) = mapped.arrow, array.dims
        null = self._null_of(array, mapped.notes, column)
        blank = null or self._zeros(array)
        if mapped.rule is FieldRule.DECIMAL:
            if not is_narrower_decimal(arrow, mapped.notes):
                refuse_written(mapped)
            assert isinstance(where, int)
            return Number(column, "bytes", Load(where, "int128"), None, None, null is not None), blank
        is_padded = (pa.types.is_string(arrow) or pa.types.is_large_string(arrow)) and mapped.notes.logical != BINARY
        control = place.columns.get(extent) if isinstance(extent, str) else None
        extents = self._extent(extent, place)
        return Chars(column, where, extents, is_padded, control, apart, null is not None), blank

    def missing(self, field: Field, place: _Place, where: _Where) -> tuple[list[Node], bytes]:
        """The nodes and the blank of a field without a column."""
        if field.notes.default is not None:
            try:
                return self._default(field.type, field.notes, place)
            except ValueError:
                reason = f"the field's default {field.notes.default!r} cannot be written as {field.type}"
                raise PbioError("PBIO_BAD_VALUE", reason, field=where.text, hint="add the column") from None
        if isinstance(field.type, Ref):
            nodes, blank = self.fields(self.format.record.struct(field.type.name), {}, where)
            return [Structure(None, place.offset, nodes, False)], blank
        ends = any(map(self.format.is_recursive, references(field.type)))
        if self.is_complete and not ends and not field.notes.hidden:
            raise PbioError(
                "PBIO_UNKNOWN_COLUMN",
                f"no column fills this field, {field.type}",
                field=where.text,
                hint="the format needs all of its fields: add the column",
            )
        null = self.nulls.image(field.type, field.notes, where.names)
        if null is None:
            raise PbioError(
                "PBIO_CANNOT_BE_NULL",
                f"no column fills this field, and {field.type} cannot be null",
                field=where.text,
                hint="add the column, or set the option nullValue",
            )
        return [], null

    def _default(self, type_: Type, notes: Notes, place: _Place) -> tuple[list[Node], bytes]:
        """The default of a field; ValueError if the field cannot hold it."""
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
        """`null` for the field of a column; notes if `null_value` does not fit it."""
        of = self.columns[column]
        if column in self.said_null:
            return self._zeros(type_)
        if of.nullable and self.nulls.is_unfit(type_, notes, of.names):
            self.without_null.append((column, notes.logical or str(type_)))
        return self.nulls.image(type_, notes, of.names)

    def _column(
        self, where: _Where, type_: pa.DataType, parent: int | None, child: int | None, nullable: bool = True
    ) -> int:
        self.columns.append(BatchColumn(where.text, where.names, type_, parent, child, nullable=nullable))
        return len(self.columns) - 1

    def _extent(self, dim: int | str, place: _Place) -> Extent:
        return dim if isinstance(dim, int) else self._control(dim, place.struct)

    def _control(self, name: str, struct: Struct) -> Load:
        # Counts are unsigned whatever their type (ffs-wire-format 7.4).
        unsigned = Basic(Kind.UNSIGNED, self._integer(struct, name).size)
        return number_at(self.format, unsigned, self.offsets[struct.name][name])

    def _greatest(self, struct: Struct, name: str) -> int:
        """The greatest count that fits a control field, signed or not."""
        control = self._integer(struct, name)
        return (1 << min(8 * control.size - (control.kind is Kind.INTEGER), 63)) - 1

    def _integer(self, struct: Struct, name: str) -> Basic:
        (control,) = (field.type for field in struct.fields if field.name == name)
        assert isinstance(control, Basic)
        return control

    def _zeros(self, type_: Type) -> bytes:
        return self.nulls.zeros(type_)
