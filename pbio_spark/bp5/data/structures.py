"""The format of a structure -> numpy's type of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ecode.types import Array, Basic, Kind, Ref, Type
from pbio_spark.bp5.meta.variables import Variable
from pbio_spark.bp5.trouble import VERIFY
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.wire.images import images_of

_KINDS = {
    Kind.INTEGER: "i",
    Kind.UNSIGNED: "u",
    Kind.FLOAT: "f",
    Kind.BOOLEAN: "u",
    Kind.ENUMERATION: "u",
    Kind.CHAR: "u",
}

_LEAVE_OUT = "leave it out: read other variables with the option variables"


def structure_to_dtype(form: Format, variable: Variable) -> np.dtype[Any]:
    """numpy's type of the elements of an array of structures. Raises PBIO_BAD_BP5, PBIO_UNSUPPORTED_BP5."""
    if form.is_variant:
        reason = f"the structure {form.name!r} has strings or pointers"
        raise PbioError("PBIO_UNSUPPORTED_BP5", reason, field=variable.name, hint=_LEAVE_OUT)
    order = ">" if form.byte_order == "big" else "<"
    return _structure(form, form.name, order, variable, variable.size)


def _structure(form: Format, name: str, order: str, variable: Variable, size: int | None = None) -> np.dtype[Any]:
    image = images_of(form).struct(name)
    size = image.length if size is None else size
    if size < image.length:
        reason = f"elements of {size} bytes are shorter than their structure's {image.length}"
        raise PbioError("PBIO_BAD_BP5", reason, field=variable.name, hint=VERIFY)
    return np.dtype(
        {
            "names": [field.name for field in image.fields],
            "formats": [_dtype(form, field.type, order, variable) for field in image.fields],
            "offsets": [field.offset for field in image.fields],
            "itemsize": size,
        }
    )


def _dtype(form: Format, type_: Type, order: str, variable: Variable) -> Any:
    match type_:
        case Basic(kind, size) if kind in _KINDS and not (kind is Kind.FLOAT and size == 16):
            return np.dtype(f"{order}{_KINDS[kind]}{size}")
        case Ref(name):
            return _structure(form, name, order, variable)
        case Array(element, dims):
            return np.dtype((_dtype(form, element, order, variable), tuple(int(dim) for dim in dims)))
    raise PbioError(
        "PBIO_UNSUPPORTED_BP5",
        f"structures with {type_} are not read",
        field=variable.name,
        hint=_LEAVE_OUT,
    )
