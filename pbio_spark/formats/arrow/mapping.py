"""Record type x Arrow schema -> the tree that says which field fills which column, and by which rule.

Decoding, encoding and the columns of program outputs follow this tree. The rule of a value, its `FieldRule`, is
decided here and nowhere else, from its type in the record and its type in the schema; `names` finds the field of a
column.

Each direction has a table of its own that says which numbers fit a column.

    >>> from ecode.types import INT32, record
    >>> spec = ColumnSpec(pa.schema([("n", pa.int32()), ("x", pa.int8())]))
    >>> tree = map_columns(record("r", [Field("N", INT32)]), spec)
    >>> [(one.rule.value, one.where, one.field and one.field.name) for one in tree]
    [('number', '$.n', 'N'), ('absent', '$.x', None)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

import pyarrow as pa

from ecode.suggest import did_you_mean
from ecode.types import (
    CHAR,
    NO_NOTES,
    STRING,
    Array,
    Basic,
    Default,
    Field,
    Kind,
    Notes,
    Pointer,
    Record,
    Ref,
    Struct,
    Type,
)
from pbio_spark.errors import PbioError, step_to_text
from pbio_spark.formats.arrow.names import Names, Path, ambiguous_name, dims_of
from pbio_spark.formats.arrow.schema import DEFAULT, ITEM, Presentation, is_decimal_in_place, shown

Symbols: TypeAlias = tuple[tuple[str, int], ...]

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

WIDEN = "ask for a wider type, or leave the column out"


class FieldRule(StrEnum):
    """The source of a column or of a part of one; in writing, its target."""

    ABSENT = "absent"
    """No field: the default of the column, else null."""
    COUNT = "count"
    """The length of an array that the record type counts by another field, or by none."""
    NUMBER = "number"
    """A number, date, time, truth value or decimal in one basic field."""
    SYMBOL = "symbol"
    """The name of a number."""
    STRING = "string"
    """The target of a slot, up to a NUL."""
    CHARS = "chars"
    """A run of characters as one text or binary value."""
    DECIMAL = "decimal"
    """Sixteen characters in place that are a number."""
    POINTER = "pointer"
    """The target of a slot; the part is the target."""
    STRUCT = "struct"
    """A structure in place; the parts are the wanted columns."""
    ITEM = "item"
    """A structure that represents its only visible field: the element of a ragged array."""
    LIST = "list"
    """An array, one list for each dimension; the part is the element."""
    ROWS = "rows"
    """An array of characters whose last dimension is one string: one list fewer than it has dimensions."""
    MAP = "map"
    """An array of structures whose visible fields are the parts, key and value."""


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """The wanted columns, and what helps to fill them. Survives pickling.

    Attributes:
        schema: the columns, in order; types must be as Spark's `to_arrow_schema` makes them.
        presentation: what PBIO leaves open: encoding, unsigned longs, strings in char arrays.
        aliases: path (`a.b`) -> another name of the field that fills the column.
        defaults: path -> the value where a record type has no such field.
        symbols: path -> the names of an enumeration's values, for a record type that has none.
        counts: see `record_to_counts`.
    """

    schema: pa.Schema
    presentation: Presentation = DEFAULT
    aliases: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Default] = field(default_factory=dict)
    symbols: Mapping[str, Symbols] = field(default_factory=dict)
    counts: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mapped:
    """A node of the tree: a column or a part of one, and the field or part of a field that belongs to it.

    Attributes:
        rule: how one becomes the other.
        path, where: its path, for lookups and for people.
        arrow, nullable: the type of the column or part, and whether the schema lets it be null.
        type: of the field or part; of a count, that of the array.
        notes: of the field; an enumeration has the symbols that other record types give it.
        field: the column's; None for elements and targets, and for a column without a field.
        parts: see `FieldRule`.
        default: of a column that no field fills.
        axis: of a count: which dimension of the array.
    """

    rule: FieldRule
    path: Path
    where: str
    arrow: pa.DataType
    type: Type | None = None
    notes: Notes = NO_NOTES
    field: Field | None = None
    parts: tuple[Mapped, ...] = ()
    nullable: bool = True
    default: Default = None
    axis: int = 0

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def dimension(self) -> int | str:
        """For a count: the extent, or the field that holds it."""
        assert self.type is not None
        return dims_of(self.type)[self.axis]


def map_columns(record: Record, spec: ColumnSpec) -> tuple[Mapped, ...]:
    """The tree of columns to be read from records: a node for each column of the schema, in its order.

    Raises:
        PbioError: PBIO_INCOMPATIBLE_TYPE or PBIO_AMBIGUOUS_NAME, with the path of the column.
    """
    return _Reading(record, spec).columns(record.structs[0], spec.schema, (), "$")


def map_written(record: Record, schema: pa.Schema) -> tuple[Mapped, ...]:
    """The mapping of columns to be written as records: names are exact, and each column needs a field.

    Raises:
        PbioError: PBIO_INCOMPATIBLE_TYPE, PBIO_AMBIGUOUS_NAME; PBIO_UNKNOWN_COLUMN for a column without a field;
            PBIO_NAME_COLLISION if two columns have one name.
    """
    return _Writing(record).columns(record.structs[0], schema, (), "$")


class _Mapper:
    """The walk that both directions have in common: the rule of each value."""

    def __init__(self, record: Record) -> None:
        self.structs = {struct.name: struct for struct in record.structs}

    def columns(self, struct: Struct, wanted: Iterable[pa.Field], path: Path, where: str) -> tuple[Mapped, ...]:
        """The nodes of the columns that the fields of a structure fill."""
        raise NotImplementedError

    def is_list(self, arrow: pa.DataType) -> bool:
        raise NotImplementedError

    def is_text(self, arrow: pa.DataType) -> bool:
        raise NotImplementedError

    def refuse(self, node: Mapped, what: str) -> NoReturn:
        """Raise PBIO_INCOMPATIBLE_TYPE; `what` describes the field."""
        raise NotImplementedError

    def column(self, found: Field, want: pa.Field, path: Path, where: str) -> Mapped:
        node = Mapped(FieldRule.NUMBER, path, where, want.type, found.type, found.notes, found, (), want.nullable)
        return self.value(node)

    def value(self, node: Mapped) -> Mapped:
        """A node with its rule and parts."""
        match node.type:
            case Basic(Kind.STRING):
                if not self.is_text(node.arrow):
                    self.refuse(node, "a string")
                return replace(node, rule=FieldRule.STRING)
            case Basic():
                return self.number(node)
            case Ref(name):
                return self._structure(node, self.structs[name])
            case Pointer(target):
                return replace(node, rule=FieldRule.POINTER, parts=(self._part(node, target, node.arrow),))
            case Array():
                return self._array(node, node.type)
        raise AssertionError(node.type)

    def number(self, node: Mapped) -> Mapped:
        is_name = pa.types.is_string(node.arrow) and bool(node.notes.symbols)
        return replace(node, rule=FieldRule.SYMBOL) if is_name else node

    def _part(self, of: Mapped, type_: Type, arrow: pa.DataType, where: str = "") -> Mapped:
        return self.value(Mapped(FieldRule.NUMBER, of.path, where or of.where, arrow, type_, of.notes))

    def _structure(self, node: Mapped, struct: Struct) -> Mapped:
        visible = visible_fields(struct)
        if node.notes.logical == ITEM and len(visible) == 1:
            item = self.column(visible[0], pa.field("", node.arrow, node.nullable), node.path, node.where)
            return replace(node, rule=FieldRule.ITEM, parts=(item,))
        if not pa.types.is_struct(node.arrow):
            self.refuse(node, "a structure")
        return replace(node, rule=FieldRule.STRUCT, parts=self.columns(struct, list(node.arrow), node.path, node.where))

    def _array(self, node: Mapped, array: Array) -> Mapped:
        dims, arrow, where = array.dims, node.arrow, node.where
        # Rows of characters are strings: the last dimension belongs to the element.
        has_texts = array.element == CHAR and self._depth(arrow) < len(dims)
        if has_texts and len(dims) == 1:
            return self._chars(node, array)
        if pa.types.is_map(arrow) and isinstance(array.element, Ref) and len(dims) == 1:
            return self._map(node, self.structs[array.element.name])
        for _ in dims[:-1] if has_texts else dims:
            if not self.is_list(arrow):
                self.refuse(node, f"an array of {len(dims)} dimensions")
            arrow, where = arrow.value_type, where + "[]"
        element = Array(CHAR, dims[-1:]) if has_texts else array.element
        return replace(
            node, rule=FieldRule.ROWS if has_texts else FieldRule.LIST, parts=(self._part(node, element, arrow, where),)
        )

    def _depth(self, arrow: pa.DataType) -> int:
        depth = 0
        while self.is_list(arrow):
            arrow, depth = arrow.value_type, depth + 1
        return depth

    def _chars(self, node: Mapped, array: Array) -> Mapped:
        if is_decimal_in_place(array, node.notes):
            return replace(node, rule=FieldRule.DECIMAL)
        if not self.is_text(node.arrow):
            self.refuse(node, "an array of characters")
        return replace(node, rule=FieldRule.CHARS)

    def _map(self, node: Mapped, struct: Struct) -> Mapped:
        visible = visible_fields(struct)
        if len(visible) != 2:
            self.refuse(node, f"an array of structures of {len(visible)} fields")
        wanted = (node.arrow.key_field, node.arrow.item_field)
        parts = (
            self.column(f, w, (*node.path, w.name), f"{node.where}[]{step_to_text(w.name)}")
            for f, w in zip(visible, wanted, strict=True)
        )
        return replace(node, rule=FieldRule.MAP, parts=tuple(parts))


class _Reading(_Mapper):
    def __init__(self, record: Record, spec: ColumnSpec) -> None:
        super().__init__(record)
        self.spec, self.names = spec, Names(spec.aliases)

    def columns(self, struct: Struct, wanted: Iterable[pa.Field], path: Path, where: str) -> tuple[Mapped, ...]:
        return tuple(self._wanted(struct, want, (*path, want.name), where + step_to_text(want.name)) for want in wanted)

    def _wanted(self, struct: Struct, want: pa.Field, path: Path, where: str) -> Mapped:
        found, key = self.names.find(struct, want.name, path), ".".join(path)
        default = self.spec.defaults.get(key)
        if found is not None:
            return replace(self.column(found, want, path, where), default=default)
        absent = Mapped(FieldRule.ABSENT, path, where, want.type, nullable=want.nullable, default=default)
        counted = self.names.counted(struct, self.spec.counts.get(key, ()), path)
        if counted is None:
            return absent
        array, axis = counted
        return replace(absent, rule=FieldRule.COUNT, type=array.type, field=array, axis=axis)

    def number(self, node: Mapped) -> Mapped:
        assert isinstance(node.type, Basic)
        if node.type.kind is Kind.ENUMERATION and not node.notes.symbols and pa.types.is_string(node.arrow):
            symbols = self.spec.symbols.get(".".join(node.path), ())
            if not symbols:
                raise PbioError(
                    "PBIO_INCOMPATIBLE_TYPE",
                    f"the versions name the values of {node.type} differently, or not at all",
                    field=node.where,
                    hint="ask for numbers: BIGINT",
                )
            node = replace(node, notes=replace(node.notes, symbols=symbols))
        return super().number(node)

    def is_list(self, arrow: pa.DataType) -> bool:
        return bool(pa.types.is_list(arrow))

    def is_text(self, arrow: pa.DataType) -> bool:
        return bool(pa.types.is_string(arrow) or pa.types.is_binary(arrow))

    def refuse(self, node: Mapped, what: str) -> NoReturn:
        hint = "ask for STRING, or leave the column out" if node.type == STRING else WIDEN
        refuse_type(node.where, f"{what} cannot become {node.arrow}", hint)


class _Writing(_Mapper):
    def columns(self, struct: Struct, wanted: Iterable[pa.Field], path: Path, where: str) -> tuple[Mapped, ...]:
        unseen = struct.null_marks
        fields: dict[str, list[Field]] = {}
        for one in struct.fields:
            if one.name not in unseen:
                fields.setdefault(shown(one.name), []).append(one)
        found: dict[str, tuple[Field, pa.Field]] = {}
        for want in wanted:
            here, near = where + step_to_text(want.name), fields.get(want.name, [])
            if not near:
                raise PbioError(
                    "PBIO_UNKNOWN_COLUMN",
                    f"structure {struct.name} has no such field",
                    field=here,
                    hint=did_you_mean(want.name, fields),
                )
            if len(near) > 1:
                raise ambiguous_name(want.name, near, here)
            if want.name in found:
                raise PbioError(
                    "PBIO_NAME_COLLISION", "two columns have this name", field=here, hint="rename one of them"
                )
            found[want.name] = near[0], want
        return tuple(
            self.column(one, want, (*path, name), where + step_to_text(name)) for name, (one, want) in found.items()
        )

    def is_list(self, arrow: pa.DataType) -> bool:
        return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow))

    def is_text(self, arrow: pa.DataType) -> bool:
        types = pa.types
        return bool(
            types.is_string(arrow)
            or types.is_binary(arrow)
            or types.is_large_string(arrow)
            or types.is_large_binary(arrow)
        )

    def refuse(self, node: Mapped, what: str) -> NoReturn:
        refuse_written(node)


def refuse_type(where: str, reason: str, hint: str = WIDEN) -> NoReturn:
    """Raise PBIO_INCOMPATIBLE_TYPE for a column that cannot be read."""
    raise PbioError("PBIO_INCOMPATIBLE_TYPE", reason, field=where, hint=hint)


def refuse_written(node: Mapped) -> NoReturn:
    """Raise PBIO_INCOMPATIBLE_TYPE for a column that cannot be written."""
    what = f"{node.type} ({node.notes.logical})" if node.notes.logical else str(node.type)
    raise PbioError(
        "PBIO_INCOMPATIBLE_TYPE",
        f"a column of type {node.arrow} cannot be written as {what}",
        field=node.where,
        hint="cast the column",
    )


def visible_fields(struct: Struct) -> tuple[Field, ...]:
    """The fields of a structure that become columns: all but counts and the like."""
    return tuple(f for f in struct.fields if not f.notes.hidden)
