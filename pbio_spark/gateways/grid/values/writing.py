"""The values of an event -> elements, carefully: the slow twin of `compiled`, and what explains a value it refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError, path_to_text
from pbio_spark.gateways.grid.protocol.nodes import XmlElement, to_text
from pbio_spark.gateways.grid.values.plan import (
    ACCURACY,
    ITEM,
    SEQUENCE,
    TIME,
    ElementGroup,
    ElementPlan,
    EventPlan,
    FieldPlan,
    Leaf,
    RepeatedElement,
)
from pbio_spark.gateways.grid.values.times import text_to_microseconds, time_to_text

Steps = tuple[str | int, ...]


def event_to_node(
    plan: EventPlan, values: Mapping[str, Any], time: datetime | None = None, sequence: int | None = None
) -> XmlElement:
    """The element of an event.

    Args:
        values: by field; those that are absent are null.
        time: of the event, where its values do not say.
        sequence: its number, where its type has no field for it.

    Raises:
        PbioError: PBIO_BAD_VALUE, with the path, for values that are not of their fields; PBIO_UNKNOWN_COLUMN for
            values without a field; PBIO_CANNOT_BE_NULL.
    """
    return _Writing(plan).event(values, time, sequence)


class _Writing:
    def __init__(self, plan: EventPlan) -> None:
        self.plan = plan

    def event(self, values: Mapping[str, Any], time: datetime | None, sequence: int | None) -> XmlElement:
        if not isinstance(values, Mapping):
            raise PbioError(
                "PBIO_BAD_VALUE",
                f"expected a mapping of fields to values, not {str(values)[:80]!r}",
                hint="give each event as a dict, such as {'load': 0.5}",
            )
        own = self.plan.members.get(TIME)
        if own is not None and values.get(TIME) is None and time is not None:
            assert isinstance(own.part, Leaf)
            is_text = own.part.scalar.what == "text"
            values = {**values, TIME: time_to_text(time) if is_text else time}
        children = self.group(self.plan.group, values, ())
        if own is None and time is not None:
            children += (self.node(TIME, time_to_text(time)),)
        if TIME not in {child.name for child in children}:
            raise PbioError("PBIO_BAD_VALUE", "the event has no time", field=path_to_text((TIME,)), hint="give time=")
        if sequence is not None and SEQUENCE not in self.plan.members:
            children += (self.node(SEQUENCE, str(sequence)),)
        return XmlElement(self.plan.name, self.plan.namespace, "", (), children)

    def node(
        self, name: str, text: str = "", attributes: Any = (), children: tuple[XmlElement, ...] = ()
    ) -> XmlElement:
        return XmlElement(name, self.plan.namespace, text, tuple(attributes), children)

    def group(self, group: ElementGroup, values: Any, steps: Steps) -> tuple[XmlElement, ...]:
        if group.is_pair:
            if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != 2:
                raise _bad("expected a pair of key and value", steps)
            values = dict(zip(group.members, values, strict=True))
        if not isinstance(values, Mapping):
            raise _bad(f"expected a mapping of fields to values, not {str(values)[:80]!r}", steps)
        known = {*group.members, *(f"{name}_{ACCURACY}" for name, one in group.members.items() if one.accuracy)}
        for name in values:
            if name not in known:
                where = path_to_text((*steps, str(name)))
                hint = did_you_mean(str(name), known)
                raise PbioError("PBIO_UNKNOWN_COLUMN", "the type has no such field", field=where, hint=hint)
        made: list[XmlElement] = []
        for name, member in group.members.items():
            value = values.get(name)
            if value is not None:
                attributes = self.attributes(name, member, values, (*steps, name))
                made += self.elements(name, member.part, value, attributes, (*steps, name))
            elif member.is_required:
                where = path_to_text((*steps, name))
                raise PbioError(
                    "PBIO_CANNOT_BE_NULL",
                    "the field has no value",
                    field=where,
                    hint="give every field of the event's type a value",
                )
        return tuple(made)

    def attributes(
        self, name: str, member: FieldPlan, values: Mapping[str, Any], steps: Steps
    ) -> tuple[tuple[str, str], ...]:
        said = values.get(f"{name}_{ACCURACY}") if member.accuracy else None
        if said is None or member.accuracy is None:
            return ()
        try:
            return (("accuracy", member.accuracy.write(said)),)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise _bad(str(error), (*steps, "@accuracy")) from None

    def elements(
        self, name: str, part: ElementPlan, value: Any, attributes: tuple[tuple[str, str], ...], steps: Steps
    ) -> list[XmlElement]:
        if not isinstance(part, RepeatedElement):
            return [self.element(name, part, value, attributes, steps)]
        if isinstance(value, Mapping):
            value = list(value.items())
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise _bad(f"expected a list, not {str(value)[:80]!r}", steps)
        if part.length is not None and len(value) != part.length:
            raise _bad(f"expected {part.length} elements, not {len(value)}", steps)
        return [self.element(name, part.item, one, (), (*steps, number)) for number, one in enumerate(value)]

    def element(
        self, name: str, part: ElementPlan, value: Any, attributes: tuple[tuple[str, str], ...], steps: Steps
    ) -> XmlElement:
        if value is None:
            reason = "an element of an array is null, which XML cannot show"
            raise PbioError("PBIO_CANNOT_BE_NULL", reason, field=path_to_text(steps))
        match part:
            case Leaf():
                try:
                    text = part.scalar.write(value)
                    to_text(text)
                    if name == TIME and len(steps) == 1 and part.scalar.what == "text":
                        text_to_microseconds(text)
                except (ValueError, TypeError, ArithmeticError, OverflowError) as error:
                    raise _bad(f"{error}: {str(value)[:40]!r}", steps) from None
                except PbioError as error:
                    raise error.at(field=path_to_text(steps)) from None
                units = (("units", part.units),) if part.units else ()
                accuracy = (("accuracy", part.accuracy),) if part.accuracy and not attributes else ()
                return self.node(name, text, (*units, *accuracy, *attributes))
            case ElementGroup():
                return self.node(name, "", (), self.group(part, value, steps))
        return self.node(name, "", (), tuple(self.elements(ITEM, part, value, (), steps)))


def _bad(reason: str, steps: Steps) -> PbioError:
    return PbioError("PBIO_BAD_VALUE", reason, field=path_to_text(steps))
