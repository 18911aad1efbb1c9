"""A record type as a tree of elements: what both directions, careful and compiled, follow (grid-events 6).

Structures are nested elements, arrays repeated ones; in an array of arrays, the inner ones are repeated elements
`item`. What only serves other fields, such as counts, has no element; a null has none either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ecode.suggest import did_you_mean
from ecode.types import Array, Basic, Field, Kind, Pointer, Record, Type
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.protocol.nodes import is_name
from pbio_spark.gateways.grid.values import scalars
from pbio_spark.gateways.grid.values.scalars import ValueSyntax

if TYPE_CHECKING:
    from pbio_spark.formats.arrow.mapping import Mapped

TIME: Final = "TimeStamp"
"""The element of every event that says when it was."""
SEQUENCE: Final = "Sequence"
"""The element that says which of its producer's events it is, for an archive to take each once."""
ACCURACY: Final = "accuracy"
"""The logical type of a field `<name>_accuracy`, which becomes the attribute `accuracy` of `<name>`."""
ITEM: Final = "item"

CHANNELS: Final = "urn:pbio-spark:channels"
"""The name space of what a gateway adds to events."""
POSITION: Final = "Position"
"""The element in it with an event's position, for consumers that come back."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value in one element.

    Attributes:
        scalar: how it is written.
        units, accuracy: the attributes, as the field's notes have them.
    """

    scalar: ValueSyntax
    units: str | None = None
    accuracy: str | None = None


@dataclass(frozen=True, slots=True)
class RepeatedElement:
    """An array: repeated elements.

    Attributes:
        item: each of them.
        length: how many there must be; None if any number may be.
    """

    item: ElementPlan
    length: int | None = None


@dataclass(frozen=True, slots=True)
class ElementGroup:
    """A structure.

    Attributes:
        members: its fields that have elements, by name, in order.
        is_pair: whether it is an entry of a map, whose value is a pair.
    """

    members: dict[str, FieldPlan]
    is_pair: bool = False


ElementPlan: TypeAlias = Leaf | RepeatedElement | ElementGroup


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """A field of a structure.

    Attributes:
        part: what it is.
        is_required: whether its value cannot be null.
        default: its value where it is absent.
        accuracy: the value of the field with its accuracy, if there is one.
    """

    part: ElementPlan
    is_required: bool = False
    default: Any = None
    accuracy: ValueSyntax | None = None


@dataclass(frozen=True, slots=True)
class EventPlan:
    """A type of events.

    Attributes:
        name, namespace: of the event.
        record: the record type of its values.
        group: the same as a tree.
    """

    name: str
    namespace: str
    record: Record
    group: ElementGroup

    @property
    def members(self) -> dict[str, FieldPlan]:
        """The members of `group`."""
        return self.group.members

    def some(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of an event that this plan has elements for, which may be only some fields."""
        return {name: value for name, value in values.items() if name.removesuffix(f"_{ACCURACY}") in self.members}

    def relaxed(self) -> EventPlan:
        """The plan for events that may lack fields."""
        members = {name: replace(member, is_required=False) for name, member in self.members.items()}
        return replace(self, group=replace(self.group, members=members))


def record_to_plan(record: Record, name: str, namespace: str) -> EventPlan:
    """The plan of a record type for an event.

    Raises:
        PbioError: PBIO_UNSUPPORTED_TYPE for fields whose names cannot be those of elements, and a `TimeStamp` that is
            neither a time nor text; PBIO_RECURSIVE_FORMAT.
    """
    from pbio_spark.formats.arrow.mapping import ColumnSpec, map_columns
    from pbio_spark.formats.arrow.schema import record_to_arrow

    if not is_name(name):
        raise _unsupported(f"{name[:80]!r} cannot be the name of an event in XML", "$")
    group = _group(map_columns(record, ColumnSpec(record_to_arrow(record))))
    time = group.members.get(TIME)
    if time is not None and not (isinstance(time.part, Leaf) and time.part.scalar in (scalars.TIME, scalars.STRING)):
        hint = 'it is a string such as "2000-11-09T21:51:45Z", or a field of type "timestamp"; a number is of any unit'
        reason = f"{TIME} must be a timestamp or a string"
        raise PbioError("PBIO_UNSUPPORTED_TYPE", reason, field=f"$.{TIME}", hint=hint)
    if time is not None and time.is_required:
        group.members[TIME] = replace(time, is_required=False)  # every event has one, whatever its values lack
    return EventPlan(name, namespace, record, group)


def _unsupported(reason: str, where: str) -> PbioError:
    hint = "an event's fields have names such as HostName: letters, digits, _, - and ., no blanks or colons"
    return PbioError("PBIO_UNSUPPORTED_TYPE", reason, field=where, hint=hint)


def _group(columns: tuple[Mapped, ...], *, is_pair: bool = False) -> ElementGroup:
    members: dict[str, FieldPlan] = {}
    accuracies: dict[str, ValueSyntax] = {}
    for node in columns:
        if not is_name(node.name):
            raise _unsupported(f"the field {node.name[:80]!r} cannot be an element in XML", node.where)
        made = _member(node)
        if node.notes.logical == ACCURACY and node.name.endswith(f"_{ACCURACY}") and isinstance(made.part, Leaf):
            accuracies[node.name.removesuffix(f"_{ACCURACY}")] = made.part.scalar
        else:
            members[node.name] = made
    for name, scalar in accuracies.items():
        if name not in members or not isinstance(members[name].part, Leaf):
            hint = did_you_mean(name, members)
            raise PbioError("PBIO_UNSUPPORTED_TYPE", f"no value {name!r} for {name}_{ACCURACY} to be of", hint=hint)
        members[name] = replace(members[name], accuracy=scalar)
    return ElementGroup(members, is_pair)


def _member(node: Mapped) -> FieldPlan:
    assert node.field is not None
    default = node.notes.default
    can_be_null = node.notes.null_bit is not None or _is_behind(node.field)
    return FieldPlan(_part(node), not can_be_null and default is None, default)


def _is_behind(field: Field) -> bool:
    """Whether a pointer leads to the value, so that it can be null."""
    match field.type:
        case Pointer() | Basic(Kind.STRING):
            return True
        case Array():
            return field.type.is_dynamic
    return False


def _part(node: Mapped) -> ElementPlan:
    from pbio_spark.formats.arrow.mapping import FieldRule

    match node.rule:
        case FieldRule.POINTER:
            return _part(node.parts[0])
        case FieldRule.ITEM:
            return _part(node.parts[0])
        case FieldRule.STRUCT:
            return _group(node.parts)
        case FieldRule.MAP:
            return RepeatedElement(_group(node.parts, is_pair=True), _extents(node.type)[0])
        case FieldRule.LIST | FieldRule.ROWS:
            extents = _extents(node.type)
            part = _part(node.parts[0])
            for extent in reversed(extents[:-1] if node.rule is FieldRule.ROWS else extents):
                part = RepeatedElement(part, extent)
            return part
    return Leaf(_scalar(node), node.notes.units, node.notes.accuracy)


def _extents(type_: Type | None) -> list[int | None]:
    """Of an array, outermost first; None for one that a field holds. (Of an extent beside such a one too, so that an
    array without elements has none.)"""
    assert isinstance(type_, Array)
    return [dim if isinstance(dim, int) else None for dim in type_.dims]


def _scalar(node: Mapped) -> ValueSyntax:
    import pyarrow as pa

    from pbio_spark.formats.arrow.mapping import FieldRule

    arrow, type_ = node.arrow, node.type
    if node.rule is FieldRule.SYMBOL:
        return scalars.symbol(node.notes.symbols)
    if node.rule is FieldRule.CHARS:
        assert isinstance(type_, Array)
        (dim,) = type_.dims
        is_binary = pa.types.is_binary(arrow)
        if isinstance(dim, str):
            return scalars.BINARY if is_binary else scalars.STRING
        return scalars.binary(dim) if is_binary else scalars.chars(dim)
    if node.rule is FieldRule.STRING:
        return scalars.STRING
    if pa.types.is_timestamp(arrow):
        return scalars.LOCAL_TIME if arrow.tz is None else scalars.TIME
    if pa.types.is_date(arrow):
        return scalars.DATE
    if pa.types.is_boolean(arrow):
        return scalars.BOOLEAN
    if pa.types.is_decimal(arrow) and (node.notes.logical or "").startswith("decimal"):
        return scalars.decimal(arrow.precision, arrow.scale)
    if pa.types.is_floating(arrow):
        return scalars.FLOAT32 if arrow.bit_width == 32 else scalars.FLOAT64
    assert isinstance(type_, Basic)
    return scalars.integer(type_)
