"""The bytes of nulls in the image of a structure: for null columns, and for fields without a column."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pyarrow as pa

from ecode.suggest import did_you_mean
from ecode.types import CHAR, STRING, Array, Basic, Default, Kind, Notes, Pointer, Ref, Struct, Type
from pbio_spark.columns.encode.null_value import NullValue
from pbio_spark.columns.encode.plan import BatchColumn
from pbio_spark.columns.lossless import exactly, text_to_number
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.schema import decimal_type, is_decimal_in_place
from pbio_spark.formats.body.slots import slot_content, slot_size
from pbio_spark.formats.format import Format
from pbio_spark.wire.images import images_of

_TIMES = {"timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"), "date": pa.date32()}


class NullImages:
    """The images of nulls in records of a format."""

    def __init__(self, form: Format, value: NullValue | None) -> None:
        self.value = value
        self._record = form.record
        self._images = images_of(form)
        self._lengths = {s.name: s.record_length for s in form.structs}
        self._offsets = {s.name: {f.name: f.offset for f in s.fields} for s in form.structs}
        self._pointer_size = form.pointer_size

    def zeros(self, type_: Type) -> bytes:
        return bytes(slot_size(type_, self._lengths, self._pointer_size))

    def bit_place(self, struct: Struct, bit: int) -> tuple[int, int]:
        """The place of a null bit in the image of a structure: the offset of the byte, and the bit's value."""
        mask = struct.null_bits
        assert mask is not None
        return self._offsets[struct.name][mask.name] + bit // 8, 1 << bit % 8

    def image(self, type_: Type, notes: Notes, path: str) -> bytes | None:
        """The image of a null of a type, at the path of its column (`a.b`); None if it has none."""
        match type_:
            case Basic(Kind.STRING) | Pointer():
                return self.zeros(type_)
            case Ref(name):
                return self._struct(self._record.struct(name), path)
        if self.value is None:
            return None
        if self.value.is_blank:
            return self.zeros(type_)
        value = self.value.of(path)
        if value is None:
            return None
        match type_:
            case Array(dims=(*outer, 16)) if is_decimal_in_place(type_, notes):
                number = _whole(value, notes)
                count, _ = slot_content(Array(CHAR, tuple(outer)))
                return None if number is None else number.to_bytes(16, "little", signed=True) * count
            case Array(element=element) if not type_.is_dynamic and element != CHAR:
                null = self.image(element, notes, path)
                return null and null * slot_content(Array(CHAR, type_.dims))[0]
            case Array(dims=(int(extent),)) if isinstance(value, str):
                return value.encode().ljust(extent, b"\0") if len(value.encode()) <= extent else None
            case Array():
                return None if isinstance(value, str) and type_.element == CHAR else self.zeros(type_)
            case Basic():
                return self._number(type_, notes, value, is_own=self.value.is_own(path))

    def is_unfit(self, type_: Type, notes: Notes, path: str) -> bool:
        """Whether the user gave a value that the type lacks; a number for all does not apply to dates and so on."""
        if self.value is None or self.value.of(path) is None or self.image(type_, notes, path) is not None:
            return False
        return self.value.is_own(path) or _is_number(type_, notes)

    def check(self, columns: Iterable[BatchColumn]) -> None:
        """Raise PBIO_BAD_OPTION for values of unknown columns, or of columns that can be null anyway."""
        if self.value is None:
            return
        types = {column.names: column.type for column in columns}
        for path, value in self.value.by_column:
            if path not in types:
                reason = f"option 'nullValue' names {path!r}, which is not a column"
                raise PbioError("PBIO_BAD_OPTION", reason, hint=did_you_mean(path, types))
            if pa.types.is_struct(types[path]) or pa.types.is_string(types[path]):
                raise PbioError(
                    "PBIO_BAD_OPTION",
                    f"option 'nullValue' gives {value!r} to a column that can already be null",
                    field=f"$.{path}",
                    hint="replace its nulls with coalesce(), or leave it out of nullValue",
                )

    def _struct(self, struct: Struct, path: str) -> bytes | None:
        blank, offsets = bytearray(self._lengths[struct.name]), self._offsets[struct.name]
        unseen = struct.null_marks
        for field in struct.fields:
            if field.notes.null_bit is not None:
                at, bit = self.bit_place(struct, field.notes.null_bit)
                blank[at] |= bit
            elif field.name not in unseen:
                null, at = self.image(field.type, field.notes, f"{path}.{field.name}"), offsets[field.name]
                if null is None:
                    return None
                blank[at : at + len(null)] = null
        return bytes(blank)

    def _number(self, basic: Basic, notes: Notes, value: Default, *, is_own: bool) -> bytes | None:
        if not is_own and not _is_number(basic, notes):
            return None
        if basic.kind is Kind.BOOLEAN:
            value = bool(value) if value in (0, 1) and not isinstance(value, str) else None
        elif basic.kind is not Kind.FLOAT:
            value = _whole(value, notes)
        elif isinstance(value, bool):
            value = None
        try:
            return None if value is None else self._images.number_to_bytes(basic, value)
        except ValueError:
            return None


def _is_number(type_: Type, notes: Notes) -> bool:
    """Whether a type is of plain numbers, without a logical type."""
    if isinstance(type_, Array):
        return is_decimal_in_place(type_, notes) or (type_.element != CHAR and _is_number(type_.element, notes))
    is_basic = isinstance(type_, Basic) and type_ != STRING and type_.kind is not Kind.BOOLEAN
    return is_basic and notes.logical not in _TIMES and not notes.symbols


def _whole(value: Default, notes: Notes) -> int | None:
    """A value as a whole number in the units of the field; None if it has none."""
    if isinstance(value, str) and notes.symbols:
        return dict(notes.symbols).get(value)
    if isinstance(value, str) and notes.logical in _TIMES:
        try:
            return int(pa.scalar(value).cast(_TIMES[notes.logical]).value)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    decimal = decimal_type(notes.logical) or pa.decimal128(38, 0)
    try:
        number = exactly(*text_to_number(value if isinstance(value, str) else repr(value)), decimal)
    except ValueError:
        return None
    if number is None or (notes.symbols and number not in dict(notes.symbols).values()):
        return None
    return int(number)
