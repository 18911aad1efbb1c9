"""A record type from an undescribed event: all that its message contains, without guesses."""

from __future__ import annotations

from ecode.types import INT64, STRING, Field, Notes, Record, Struct
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.protocol.nodes import XmlElement
from pbio_spark.gateways.grid.values.plan import TIME


def node_to_record(event: XmlElement, name: str) -> Record:
    """The type of an event: strings, with the units that it has, and its time.

    Raises PBIO_UNSUPPORTED_TYPE for nested or repeated elements.

    >>> print(node_to_record(XmlElement("t", children=(XmlElement("a", text="1"), XmlElement("TimeStamp"))), "t"))
    t {
      a: string
      TimeStamp: int64
    }
    """
    fields: list[Field] = []
    for child in event.children:
        if child.children or any(field.name == child.name for field in fields):
            reason = f"no type can be made for the element {child.name[:80]!r}, which holds more than one value"
            raise PbioError("PBIO_UNSUPPORTED_TYPE", reason, hint="create the channel first")
        if child.name == TIME:
            fields.append(Field(TIME, INT64, Notes(logical="timestamp")))
        else:
            fields.append(Field(child.name, STRING, Notes(units=child.get("units"))))
    return Record((Struct(name, tuple(fields)),))
