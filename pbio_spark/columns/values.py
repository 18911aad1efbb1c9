"""Records that travel as binary values, each a whole record with its header, to structures and back.

>>> from ecode.types import INT32, Field, record
>>> from pbio_spark.columns.files.compile import plan_read
>>> from pbio_spark.columns.files.plan import Selection
>>> from pbio_spark.formats.layout import record_to_format
>>> from pbio_spark.wire import encode
>>> form = record_to_format(record("ping", [Field("n", INT32)]))
>>> reader = ValueReader(plan_read(Selection(pa.schema([("n", pa.int32())])), [form]))
>>> reader.read(pa.array([encode(form, {"n": 7}), None])).to_pylist()
[{'n': 7}, None]
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pbio_spark.columns.encode.encoder import Encoder
from pbio_spark.columns.files.batches import BatchMaker
from pbio_spark.columns.files.chunks import Chunk
from pbio_spark.columns.files.plan import FilePart, ReadPlan
from pbio_spark.columns.files.walk import ITEM_HEAD, Walked, Walker, values_kernel
from pbio_spark.errors import PbioError
from pbio_spark.wire.container import legible_id

_NAME = "binary values"
_PLACE, _BAD = "\0place", "\0bad"
ID_LENGTH = 12
"""The bytes of the longest format ID."""


_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)


def as_binary(values: pa.Array) -> pa.Array:
    """A column of bytes, or of text for its bytes in UTF-8, as `binary` or `large_binary`.

    Raises PBIO_INCOMPATIBLE_TYPE for a column of another type.
    """
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return values
    if not any(is_type(values.type) for is_type in (*_BINARY, *_TEXT)):
        reason = f"records are in a column of bytes, not of {values.type}"
        raise PbioError("PBIO_INCOMPATIBLE_TYPE", reason, hint="name the column that holds the records")
    return values.cast(pa.large_binary())


class ValueReader:
    """Reads values as a plan says; remembers formats and converters from one call to the next.

    What is null or of a format that is not selected becomes null; so does a bad record under PERMISSIVE, unless the
    plan has a column for bad records.
    """

    def __init__(self, plan: ReadPlan) -> None:
        self._has_column = plan.selection.corrupt_column is not None
        schema = plan.schema.append(pa.field(_PLACE, pa.struct([("ordinal", pa.int64())])))
        bad = plan.selection.corrupt_column or _BAD
        schema = schema if self._has_column else schema.append(pa.field(_BAD, pa.binary()))
        selection = replace(plan.selection, schema=schema, metadata_column=_PLACE, corrupt_column=bad)
        self._plan = replace(plan, selection=selection)
        self._type = pa.struct(list(plan.schema))
        self._names = plan.schema.names
        self._kernel = values_kernel()
        self._walker = Walker(plan.walk)
        self._walker.learn(plan.formats)
        self._maker = _ValueMaker(self._plan, FilePart(_NAME), self._walker.formats)

    def read(self, values: pa.Array, origins: pa.StructArray | None = None) -> pa.StructArray:
        """One structure for each of the binary values.

        Args:
            origins: what errors say of where each value comes from, such as its topic, partition and offset.

        Raises:
            PbioError: under FAILFAST what is wrong with the first bad record; PBIO_INCOMPATIBLE_TYPE.
        """
        count = len(values)
        rows = np.arange(count) if not values.null_count else np.flatnonzero(values.is_valid().to_numpy(False))
        values = as_binary(values)
        present = values.drop_null() if values.null_count else values
        maker, most = self._maker, self._plan.limits.most_records
        maker.formats, maker.rows, maker.origins = self._walker.formats, rows, origins
        batches: list[pa.RecordBatch] = []
        for first in range(0, len(rows), most):
            part = present.slice(first, most)
            walked = self._walked(part)
            maker.starts = walked.positions + ITEM_HEAD
            batches += maker.chunk_to_batches(_chunk(part, walked, first))
        return self._in_place(batches, rows, count)

    def _walked(self, values: pa.Array) -> Walked:
        """What the values are; formats that nobody has described so far are looked for."""
        walked = self._walker.walk_values(values, self._kernel)
        store, unknown = self._plan.store, np.flatnonzero(walked.formats < 0)
        if store is None or not len(unknown):
            return walked
        ids = {legible_id(values[row].as_buffer()[:ID_LENGTH].to_pybytes()) for row in unknown.tolist()} - {b""}
        found = store.find(sorted(ids)) if ids else []
        if not found:
            return walked
        self._walker.learn(found)
        return self._walker.walk_values(values, self._kernel)

    def _in_place(self, batches: list[pa.RecordBatch], rows: npt.NDArray[np.int64], count: int) -> pa.StructArray:
        """The structures where their values were, and nulls between them."""
        if len(batches) == 1 and batches[0].num_rows == count:
            # Each value has its row, so they are in order.
            (batch,) = batches
            if self._has_column or batch.column(_BAD).null_count == count:
                return pa.StructArray.from_arrays([batch.column(n) for n in self._names], fields=list(self._type))
        table = pa.Table.from_batches(batches, self._plan.schema).combine_chunks()
        columns = {
            name: column.combine_chunks() for name, column in zip(table.schema.names, table.columns, strict=True)
        }
        ordinals = columns[_PLACE].field(0).to_numpy(zero_copy_only=False)
        is_good = np.ones(len(ordinals), np.bool_)
        if not self._has_column:
            is_good = columns[_BAD].is_null().to_numpy(zero_copy_only=False)
        data = pa.StructArray.from_arrays([columns[part.name] for part in self._type], fields=list(self._type))
        found = np.full(count, -1, np.int64)
        found[rows[ordinals[is_good]]] = np.flatnonzero(is_good)
        if count == len(data) and (found >= 0).all():
            return data
        return data.take(pa.array(found, mask=found < 0))


class _ValueMaker(BatchMaker):
    """Makes batches of values, and says of bad ones which they are.

    Attributes:
        rows: where the values lie that are not null.
        starts: where the bytes of those begin that are read now.
        origins: see `ValueReader.read`.
    """

    rows: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    origins: pa.StructArray | None

    def _error(self, chunk: Chunk, entry: int, bad: Any) -> PbioError:
        error = super()._error(chunk, entry, bad)
        value = chunk.ordinal + entry
        row = int(self.rows[value])
        inside = None if error.offset is None else max(0, error.offset - int(self.starts[entry]))
        error.file, error.offset, error.record = f"binary value {row} of its batch", inside, None
        if self.origins is not None:
            origin = self.origins[row].as_py()
            said = [f"{name} {value}" for name, value in origin.items()] if isinstance(origin, dict) else [str(origin)]
            error.file = ", ".join(said)
            error.offset, error.record = None, None if inside is None else f"byte {inside} of the record"
        return error

    def _corrupt_value(self, chunk: Chunk, entry: int, type_: pa.DataType, bad: Any) -> Any:
        found = super()._corrupt_value(chunk, entry, type_, bad)
        # The place in what is read as a file means nothing to the user: the columns beside it say where it was.
        return {**found, "offset": None} if isinstance(found, dict) else found


def _as_said(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the nullability and the time zone of a schema. Raises PBIO_INCOMPATIBLE_TYPE if that is another."""
    if batch.schema.equals(schema):
        return batch
    if batch.schema.names != schema.names:
        given, said = (", ".join(names)[:200] for names in (batch.schema.names, schema.names))
        raise PbioError(
            "PBIO_INCOMPATIBLE_TYPE",
            f"the column has the fields {given}, but to_pbio was given {said}",
            hint="give to_pbio the column's own schema, in the order of its fields",
        )
    for have, want in zip(batch.schema, schema, strict=True):
        if _bare(have.type) != _bare(want.type):
            raise PbioError(
                "PBIO_INCOMPATIBLE_TYPE",
                f"the column is {str(have.type)[:200]}, but to_pbio was given {str(want.type)[:200]}",
                field=f"$.{want.name}",
                hint="give to_pbio the column's own schema, or cast the column",
            )
    try:
        return batch.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError) as error:
        reason = f"the column does not have the schema given to to_pbio: {str(error)[:200]}"
        raise PbioError("PBIO_CANNOT_BE_NULL", reason, hint="leave NOT NULL out of the schema") from None


def _bare(type_: pa.DataType) -> pa.DataType:
    """A type without nullability and time zone."""
    types = pa.types
    if types.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp(type_.unit, "UTC")
    if types.is_list(type_):
        return pa.list_(_bare(type_.value_type))
    if types.is_map(type_):
        return pa.map_(_bare(type_.key_type), _bare(type_.item_type))
    return pa.struct([(part.name, _bare(part.type)) for part in type_]) if types.is_struct(type_) else type_


def structs_to_values(encoder: Encoder, structs: pa.StructArray) -> pa.Array:
    """One binary value, a whole record, for each structure; null stays null. Raises what `Encoder.encode` raises."""
    batch = _as_said(pa.RecordBatch.from_struct_array(structs.drop_null()), encoder.plan.schema)
    values = encoder.encode(batch).to_array().cast(pa.binary())
    if not structs.null_count:
        return values
    places = np.cumsum(structs.is_valid().to_numpy(zero_copy_only=False)) - 1
    return values.take(pa.array(places, mask=structs.is_null().to_numpy(zero_copy_only=False)))


def _chunk(values: pa.Array, walked: Walked, first: int) -> Chunk:
    """Values as a chunk of a file, which they would be with a head before each."""
    data = values.buffers()[2]
    memory = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return Chunk(memory, 0, walked.positions, walked.starts, walked.ends, walked.formats, walked.rights, first)
