"""The shape of a format: all that decides the bytes of its records, apart from its ID."""

from __future__ import annotations

from typing import TypeAlias

from pbio_spark.formats.body.layouts import Layouts
from pbio_spark.formats.format import Format, without_name

Shape: TypeAlias = "tuple[Layouts, int]"


def format_to_shape(form: Format) -> Shape:
    """Equal for formats that differ only in their names and IDs: they encode equal columns to equal bytes, but for the
    ID in the header, which has the same length. Notes, such as defaults and how nulls are kept, are part of it.

    >>> from ecode.types import FLOAT64, INT32, Field, record
    >>> ada, bob = (Format.of(record(name, [Field("n", INT32)])) for name in ("ada", "bob"))
    >>> format_to_shape(ada) == format_to_shape(bob), ada == bob
    (True, False)
    >>> format_to_shape(ada) == format_to_shape(Format.of(record("ada", [Field("n", FLOAT64)])))
    False
    """
    return without_name(form.layouts) or form.layouts, len(form.id)
