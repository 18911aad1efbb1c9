"""`Encoder`: a plan and its kernel, ready to travel; and running it over record batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ecode.native import Kernel, Table, compile_kernel
from ecode.native.table import TableEntry
from ecode.suggest import did_you_mean
from pbio_spark.columns.encode.generate import encode_plan_to_text
from pbio_spark.columns.encode.null_value import NullValue
from pbio_spark.columns.encode.parts import ColumnData, batch_to_parts, room_of
from pbio_spark.columns.encode.plan import EncodePlan
from pbio_spark.columns.encode.planner import format_to_encode_plan
from pbio_spark.columns.encode.text import HEADER, Reason
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.python_rows import time_to_text
from pbio_spark.formats.format import Format
from pbio_spark.wire.images import align

KEEP_NULLS = (
    "the option nulls=mask keeps all nulls, nulls=pointer so that readers in C see them too; nullValue says what they "
    "become instead, for all numbers or by column"
)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Consecutive records.

    Attributes:
        buffer: the bytes.
        offsets: int64, one more than records: where each starts, then where the last ends.
    """

    buffer: pa.Buffer
    offsets: npt.NDArray[np.int64]

    def take(self, numbers: npt.NDArray[np.int64]) -> Encoded:
        """Some of the records, by their numbers from 0."""
        _, offsets, data = self.to_array().take(pa.array(numbers)).buffers()
        ends = np.frombuffer(offsets, np.int64)[: len(numbers) + 1]
        return Encoded(pa.py_buffer(b"") if data is None else data, ends)

    def to_array(self) -> pa.Array:
        """The records as large binary values."""
        return pa.Array.from_buffers(
            pa.large_binary(), len(self.offsets) - 1, [None, pa.py_buffer(self.offsets), self.buffer]
        )


class RecordBuffer:
    """Memory for the records of several batches, which is reused, since new memory costs as much as encoding.

    Attributes:
        used: the bytes of the records in it.
    """

    __slots__ = ("_memory", "_offsets", "used")

    def __init__(self, size: int = 0) -> None:
        """`size` is the initial size in bytes; the memory grows as needed."""
        self._memory = pa.allocate_buffer(size)
        self._offsets: list[npt.NDArray[np.int64]] = []
        self.used = 0

    def after(self, most: int) -> pa.Buffer:
        """Memory for `most` bytes after those in use, until `keep` or the next call."""
        if self.used + most > self._memory.size:
            memory = pa.allocate_buffer(max(self.used + most, 2 * self.used))
            if self.used:
                np.frombuffer(memory, np.uint8)[: self.used] = np.frombuffer(self._memory, np.uint8)[: self.used]
            self._memory = memory
        return self._memory.slice(self.used, most)

    def bytes(self) -> npt.NDArray[np.uint8]:
        """The bytes in use, to change."""
        return np.frombuffer(self._memory, np.uint8)[: self.used]

    def keep(self, offsets: npt.NDArray[np.int64]) -> None:
        """Keep what was written there; `offsets`, which is taken over, has 0 and the end of each record."""
        written = int(offsets[-1])
        if self.used:
            offsets += self.used
        self._offsets.append(offsets)
        self.used += written

    def clear(self) -> None:
        """Start again. The results of `encoded` become invalid."""
        self._offsets.clear()
        self.used = 0

    def encoded(self) -> Encoded:
        """All records since the beginning, in this memory."""
        first, *others = self._offsets or [np.zeros(1, np.int64)]
        offsets = np.concatenate([first, *(one[1:] for one in others)]) if others else first
        return Encoded(self._memory.slice(0, self.used), offsets)


@dataclass(frozen=True, slots=True)
class Encoder:
    """Record batches of one schema -> encoded records of one format.

    Made on the driver by `format_to_encoder`; pickles with its machine code, so that an executor only runs it.
    """

    plan: EncodePlan
    wrap: bool
    kernel: Kernel
    constants: bytes

    @property
    def source(self) -> str:
        """The text of the kernel, for display."""
        return self.kernel.source

    def checked(self) -> Encoder:
        """This encoder, unless nulls could occur that its null value cannot replace.

        Raises PBIO_BAD_OPTION, with the column.
        """
        for number, type_ in self.plan.without_null:
            column = self.plan.columns[number]
            assert self.plan.null_value is not None
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"option 'nullValue' cannot be {self.plan.null_value.of(column.names)!r}: {type_} has no such value",
                format=self.plan.format.name,
                field=column.path,
                hint=f'give this column a value of its own, nullValue={{"{column.names}": ...}}, or keep all nulls '
                "with the option nulls=mask or nulls=pointer",
            )
        return self

    def like(self, form: Format) -> Encoder:
        """This encoder for a format of equal shape (`format_to_shape`)."""
        at, end = 8 * self.wrap, 8 * self.wrap + len(form.id)
        constants = self.constants[:at] + form.id + self.constants[end:]
        return replace(self, plan=replace(self.plan, format=form), constants=constants)

    def encode_as(self, batch: pa.RecordBatch, formats: Sequence[Format], counts: npt.NDArray[np.int64]) -> Encoded:
        """The records of a batch, whose formats all have the shape of this encoder's.

        Args:
            counts: of the rows of each format; they lie together, in the order of the formats.

        Raises what `encode_into` raises, whose messages name this encoder's format.
        """
        room = RecordBuffer()
        self.encode_into(batch, room)
        encoded, data = room.encoded(), room.bytes()
        ids = np.frombuffer(b"".join(form.id for form in formats), np.uint8).reshape(len(formats), -1)
        places = encoded.offsets[:-1] + 8 * self.wrap
        for k in range(ids.shape[1]):  # a byte of all records at a time: an index of all bytes takes more memory
            data[places + k] = ids[:, k].repeat(counts)
        return encoded

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        """The records of a batch, one for each row. Raises what `encode_into` raises."""
        room = RecordBuffer()
        self.encode_into(batch, room)
        return room.encoded()

    def encode_into(self, batch: pa.RecordBatch, room: RecordBuffer) -> None:
        """Append the records of a batch, one for each row, to a buffer.

        Raises:
            PbioError: PBIO_CANNOT_BE_NULL or PBIO_BAD_VALUE, with the column and the row, for the first value that the
                format cannot represent; PBIO_INCOMPATIBLE_TYPE if the batch's schema is not the encoder's.
        """
        if not batch.schema.equals(self.plan.schema):
            raise PbioError(
                "PBIO_INCOMPATIBLE_TYPE",
                f"a batch of {batch.schema} for an encoder of {self.plan.schema}",
                hint="give batches of the schema that the encoder was made for",
            )
        parts = batch_to_parts(batch, self.plan)
        record = 8 * self.wrap + self.plan.format.header_size + align(len(self.plan.blank))
        # Eight bytes more, because padding is written as a whole word.
        most = record * batch.num_rows + room_of(self.plan, parts, batch.num_rows) + 8
        out = room.after(most)
        offsets = np.empty(batch.num_rows + 1, np.int64)
        offsets[0] = 0
        constants = np.frombuffer(self.constants, np.uint8)
        header: list[TableEntry] = [out, out.address + most - 8, offsets[1:], constants, 0, 0, 0]
        table = Table([*header, *(entry for part in parts for entry in part.entries())])
        row = self.kernel(batch.num_rows, table)
        if row:
            number, index, reason = (table[HEADER.index(n)] for n in ("refused_column", "refused_index", "reason"))
            self._refuse(row - 1, number, index, Reason(reason), parts)
        room.keep(offsets)

    def _refuse(self, row: int, number: int, index: int, reason: Reason, parts: list[ColumnData]) -> NoReturn:
        if reason is Reason.RECORD:
            raise PbioError(
                "PBIO_BAD_VALUE",
                f"row {row}: the record is too long for its format",
                format=self.plan.format.name,
                hint="write for a machine with 8-byte pointers",
            )
        column, array = self.plan.columns[number], parts[number].array
        value = array[index]
        code, why, hint = "PBIO_BAD_VALUE", "", None
        match reason:
            case Reason.NULL:
                code, why = "PBIO_CANNOT_BE_NULL", "null, but the format has no null for this field"
                hint = KEEP_NULLS
            case Reason.RANGE if column.symbols:
                symbols = [symbol for symbol, _ in column.symbols]
                why, hint = f"{_short(value)} is not a symbol of the field", did_you_mean(str(value), symbols)
            case Reason.RANGE if pa.types.is_floating(column.type):
                why, hint = f"{_short(value)} is beyond the field, which has fewer digits", "cast the column to FLOAT"
            case Reason.RANGE:
                why, hint = f"{_short(value)} is beyond the range of the field", "give the field a wider type"
            case Reason.LENGTH if not pa.types.is_nested(value.type):
                why = f"{_short(value)} has {_length(value)} bytes, for which the field has no room"
                hint = "shorten the value, or make the field a string or a longer array"
            case Reason.LENGTH:
                why = f"{_length(value)} elements do not match the length or the count of the field"
            case Reason.RAGGED:
                why = f"{_length(value)} elements are not as many as its neighbours in the array have"
                hint = "all rows of the array must have one length"
            case Reason.NUL:
                why = f"{_short(value)} holds a NUL, which would end it"
                hint = "remove the character, or make the field an array of bytes (BINARY)"
            case Reason.COUNT:
                why = f"{_length(value)} elements are more than the count of the field can say"
                hint = "give the field that counts them a wider type"
        raise PbioError(code, f"row {row}: {why}", format=self.plan.format.name, field=column.path, hint=hint)


def format_to_encoder(
    format: Format,  # noqa: A002 - the project's word for the thing
    schema: pa.Schema,
    *,
    null_value: NullValue | None = None,
    wrap: bool = False,
    is_complete: bool = False,
) -> Encoder:
    """Compile the encoder of a schema's batches.

    Args:
        null_value: the replacement of nulls that the format cannot represent. By default such nulls are refused.
        is_complete: whether every field without a default needs a column.
        wrap: whether each record becomes a data item of a file, with the item's head (ffs-wire-format 2.2).

    Raises:
        PbioError: as `format_to_encode_plan` does.
    """
    plan = format_to_encode_plan(format, schema, null_value, is_complete=is_complete)
    text = encode_plan_to_text(plan, wrap=wrap)
    return Encoder(plan, wrap, compile_kernel(text.source), text.constants)


def _short(value: pa.Scalar) -> str:
    try:
        text = repr(value.as_py())
    except ArithmeticError:  # a date that Python cannot represent
        text = time_to_text(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _length(value: pa.Scalar) -> int:
    return len(value) if isinstance(value, pa.ListScalar) else len(value.as_buffer())
