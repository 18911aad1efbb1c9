"""Elements of variables -> Arrow, by the rules for values of records: their own type, and what they may become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ecode.errors import valid_text
from ecode.types import NO_NOTES, Basic, Field, Kind, record
from pbio_spark.bp5.meta.metadata import Array
from pbio_spark.bp5.meta.variables import STRING, Variable
from pbio_spark.columns import field_to_conversion
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_ddl
from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow

Leaf: TypeAlias = Callable[[Array, pa.Buffer | None], pa.Array]
"""Elements in native order, and the validity bitmap -> Arrow. Raises PBIO_VALUE_BEYOND_TYPE, PBIO_BAD_STRING."""

_COMPLEX = {12: 4, 13: 8}
_KINDS = {"i": Kind.INTEGER, "u": Kind.UNSIGNED, "f": Kind.FLOAT}


def scaled(values: Array, scale: float | None) -> Array:
    """Numbers times a scale, as doubles, or complex numbers of doubles."""
    if scale is None or values.dtype.kind not in "iufc":
        return values
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64) * scale


def kind_of_scaled(kind: np.dtype[Any], scale: float | None) -> np.dtype[Any]:
    """The numpy type of the result of `scaled`, in native order."""
    if scale is None or kind.kind not in "iufc":
        return kind.newbyteorder("=")
    return np.dtype(np.complex128 if kind.kind == "c" else np.float64)


def natural_type(kind: np.dtype[Any], variable: Variable, unsigned_long_as: str) -> pa.DataType:
    """The Arrow type of an element of a variable.

    Args:
        kind: its numpy type; ignored for strings.
    """
    if variable.type == STRING:
        return pa.string()
    return _natural(kind, unsigned_long_as)


def _natural(kind: np.dtype[Any], unsigned_long_as: str) -> pa.DataType:
    if kind.subdtype is not None:
        inner, shape = kind.subdtype
        found = _natural(inner, unsigned_long_as)
        for _ in shape:
            found = pa.list_(found)
        return found
    if kind.names is not None:
        return pa.struct([(valid_text(name), _natural(kind[name], unsigned_long_as)) for name in kind.names])
    if kind.kind == "c":
        part = pa.float32() if kind.itemsize == 8 else pa.float64()
        return pa.struct([("re", part), ("im", part)])
    if kind.kind == "V":
        return pa.binary()
    presentation = Presentation(unsigned_long_as=unsigned_long_as)  # type: ignore[arg-type]
    return record_to_arrow(record("value", [Field("value", _basic(kind))]), presentation).field(0).type


def _name(type_: pa.DataType) -> str:
    """Spark's name of a type."""
    return arrow_to_ddl(pa.schema([("value", type_)])).removeprefix("value ")


def _basic(kind: np.dtype[Any]) -> Basic:
    return Basic(_KINDS[kind.kind], kind.itemsize)


def leaf_of(kind: np.dtype[Any], variable: Variable, want: pa.DataType, unsigned_long_as: str) -> Leaf:
    """The conversion of elements to a wanted type. Raises PBIO_INCOMPATIBLE_TYPE."""
    try:
        if variable.type == STRING:
            return _strings(want)
        return _leaf(kind, want, unsigned_long_as)
    except PbioError as error:
        raise error.at(field=variable.name) from None


_OTHER_TYPE = "ask for another type in .schema(...), or leave the column out"


def _cannot(what: object, want: pa.DataType) -> PbioError:
    return PbioError(
        "PBIO_INCOMPATIBLE_TYPE",
        f"{what} cannot become {want}",
        hint=_OTHER_TYPE,
    )


def _leaf(kind: np.dtype[Any], want: pa.DataType, unsigned_long_as: str) -> Leaf:
    if kind.subdtype is not None:
        return _static_array(*kind.subdtype, want, unsigned_long_as)
    if kind.names is not None:
        return _structure(kind, want, unsigned_long_as)
    if kind.kind == "c":
        return _complex(kind, want, unsigned_long_as)
    if kind.kind == "V":
        return _bytes(kind, want)
    conversion = field_to_conversion(_basic(kind), NO_NOTES, want, unsigned_long_as)
    if isinstance(conversion, str):
        raise PbioError("PBIO_INCOMPATIBLE_TYPE", conversion, hint=_OTHER_TYPE)
    made = conversion

    def convert(values: Array, validity: pa.Buffer | None) -> pa.Array:
        if not made.is_checked and made.store == f"{_NUMPY.get(values.dtype.kind, '?')}{8 * values.dtype.itemsize}":
            data = pa.py_buffer(np.ascontiguousarray(values))
            return pa.Array.from_buffers(want, len(values), [validity, data])
        if made.store == "binary":
            return pa.array([value.tobytes() for value in values.astype(">u8")], pa.binary())
        array, wrong = made.to_array(values, validity)
        if wrong is not None:
            own = _natural(kind, "decimal")
            raise PbioError(
                "PBIO_VALUE_BEYOND_TYPE",
                f"{values[wrong][0]} is not a value of type {want}",
                hint=None if own == want else f"{_name(own)} holds all values of the variable",
            )
        return array

    return convert


_NUMPY = {"i": "int", "u": "uint", "f": "float"}


def _strings(want: pa.DataType) -> Leaf:
    if want not in (pa.string(), pa.binary()):
        raise _cannot("string", want)

    def convert(values: Array, validity: pa.Buffer | None) -> pa.Array:
        raw = pa.array(values.tolist(), pa.binary())
        try:
            return raw.cast(want)
        except pa.ArrowInvalid:
            raise PbioError("PBIO_BAD_STRING", "a string is not UTF-8", hint="read it as BINARY") from None

    return convert


def _bytes(kind: np.dtype[Any], want: pa.DataType) -> Leaf:
    if want != pa.binary():
        raise _cannot("a long double", want)

    def convert(values: Array, validity: pa.Buffer | None) -> pa.Array:
        data = pa.py_buffer(np.ascontiguousarray(values))
        return pa.Array.from_buffers(pa.binary(kind.itemsize), len(values), [validity, data]).cast(want)

    return convert


def _complex(kind: np.dtype[Any], want: pa.DataType, unsigned_long_as: str) -> Leaf:
    if not pa.types.is_struct(want) or [part.name for part in want] != ["re", "im"]:
        raise _cannot("a complex number", want)
    part = np.dtype(f"f{kind.itemsize // 2}")
    real, imaginary = (_leaf(part, field.type, unsigned_long_as) for field in want)

    def convert(values: Array, validity: pa.Buffer | None) -> pa.Array:
        children = [real(np.ascontiguousarray(values.real), None), imaginary(np.ascontiguousarray(values.imag), None)]
        return pa.Array.from_buffers(want, len(values), [validity], children=children)

    return convert


def _structure(kind: np.dtype[Any], want: pa.DataType, unsigned_long_as: str) -> Leaf:
    names = {valid_text(name): name for name in kind.names or ()}
    if not pa.types.is_struct(want) or not {part.name for part in want} <= names.keys():
        raise _cannot(f"a structure of {', '.join(names)}", want)
    leaves = [(names[field.name], _leaf(kind[names[field.name]], field.type, unsigned_long_as)) for field in want]

    def convert(values: Array, validity: pa.Buffer | None) -> pa.Array:
        children = [leaf(values[name], None) for name, leaf in leaves]
        return pa.Array.from_buffers(want, len(values), [validity], children=children)

    return convert


def _static_array(inner: np.dtype[Any], shape: Sequence[int], want: pa.DataType, unsigned_long_as: str) -> Leaf:
    types = [want]
    for _ in shape:
        if not pa.types.is_list(types[-1]):
            raise _cannot(f"an array of {len(shape)} dimensions", want)
        types.append(types[-1].value_type)
    leaf = _leaf(inner, types[-1], unsigned_long_as)

    def convert(values: Array, validity: pa.Buffer | None) -> pa.Array:
        found = leaf(np.ascontiguousarray(values).reshape(-1), None)
        for level in range(len(shape) - 1, -1, -1):
            count = len(found) // shape[level] if shape[level] else 0
            offsets = pa.py_buffer((np.arange(count + 1) * shape[level]).astype(np.int32))
            found = pa.Array.from_buffers(
                types[level], count, [validity if level == 0 else None, offsets], children=[found]
            )
        return found

    return convert


def wider(old: pa.DataType, new: pa.DataType) -> pa.DataType | None:
    """The common type of two types, as two writing runs may have; None if there is none.

    >>> print(wider(pa.int16(), pa.int64()), wider(pa.int32(), pa.float64()), wider(pa.int64(), pa.float64()))
    int64 double None
    """
    if old == new:
        return old
    if pa.types.is_list(old) and pa.types.is_list(new):
        inner = wider(old.value_type, new.value_type)
        return None if inner is None else pa.list_(inner)
    if pa.types.is_struct(old) and pa.types.is_struct(new) and [f.name for f in old] == [f.name for f in new]:
        parts = [(a.name, wider(a.type, b.type)) for a, b in zip(old, new, strict=True)]
        return pa.struct(parts) if all(part for _, part in parts) else None
    first, second = _rank(old), _rank(new)
    if first is None or second is None:
        return None
    (kind, bits), (other, others) = first, second
    if kind == other:
        return old if bits >= others else new
    known = {kind: bits, other: others}
    if "decimal" not in known:
        return pa.float64() if known["integer"] <= 32 else None
    return None if "float" in known else pa.decimal128(max(20, known["decimal"]), 0)


def _rank(type_: pa.DataType) -> tuple[str, int] | None:
    if pa.types.is_signed_integer(type_):
        return "integer", type_.bit_width
    if pa.types.is_floating(type_):
        return "float", type_.bit_width
    return ("decimal", type_.precision) if pa.types.is_decimal128(type_) and not type_.scale else None
