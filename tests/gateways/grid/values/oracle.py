"""A second decoder of events, slow and independent: `xml.etree`, and the Arrow types of a record type's columns."""

from __future__ import annotations

import base64
import xml.etree.ElementTree as ElementTree
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ecode.types import Record
from pbio_spark.formats.arrow.schema import record_to_arrow


def read(xml: str, record: Record) -> dict[str, Any]:
    """The values of an event's element. It does not check."""
    root = ElementTree.fromstring(xml)
    space = root.tag.rpartition("}")[0] + "}"
    return {field.name: value(field.type, root.findall(space + field.name), space) for field in record_to_arrow(record)}


def value(type_: pa.DataType, found: list[ElementTree.Element], space: str) -> Any:
    """The value of a field from its elements."""
    if pa.types.is_map(type_):
        pairs = pa.struct([("key", type_.key_type), ("value", type_.item_type)])
        return [tuple(value(pairs, [one], space).values()) for one in found]
    if pa.types.is_list(type_):
        is_nested = pa.types.is_list(type_.value_type)
        return [value(type_.value_type, one.findall(space + "item") if is_nested else [one], space) for one in found]
    if not found:
        return None
    (element,) = found
    if pa.types.is_struct(type_):
        return {field.name: value(field.type, element.findall(space + field.name), space) for field in type_}
    return scalar(type_, element.text or "")


def scalar(type_: pa.DataType, text: str) -> Any:
    """The value of a text."""
    types = pa.types
    if types.is_string(type_):
        return text
    if types.is_binary(type_):
        return base64.b64decode(text)
    if types.is_boolean(type_):
        return {"true": True, "false": False}[text]
    if types.is_integer(type_):
        return int(text)
    if types.is_decimal(type_):
        return Decimal(text)
    if types.is_float32(type_):
        return float(np.float32(text.replace("INF", "inf")))
    if types.is_floating(type_):
        return float(text.replace("INF", "inf"))
    if types.is_date(type_):
        return date.fromisoformat(text)
    return datetime.fromisoformat(text)
