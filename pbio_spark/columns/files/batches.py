"""Chunks of a file -> record batches: each record decoded by the converter of its format, bad ones by mode."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ecode.errors import valid_text
from ecode.native.table import address_of
from morph import Rejection
from pbio_spark.columns.decode.converter import Decoded
from pbio_spark.columns.decode.explain import explain
from pbio_spark.columns.files.chunks import DAMAGE, Chunk
from pbio_spark.columns.files.decoders import AnyDecoder, Decoders
from pbio_spark.columns.files.left_out import LeftOut
from pbio_spark.columns.files.null_check import forbids_nulls, unexpected_nulls
from pbio_spark.columns.files.plan import FilePart, ReadPlan
from pbio_spark.columns.programs.routes import rejection_to_error
from pbio_spark.errors import PbioError, after_record
from pbio_spark.formats import Format
from pbio_spark.formats.store import missing_hint
from pbio_spark.wire import TruncatedError
from pbio_spark.wire.foreign import unknown_format

log = logging.getLogger("pbio_spark.columns")

MODE_HINT = "the option mode decides what becomes of bad records"
CORRUPT_BYTES = 1 << 20
"""The most bytes of a bad record that its row keeps."""


class BatchMaker:
    """Turns the chunks of one file into batches. Chunks number formats by their place in `formats`, which grows."""

    def __init__(self, plan: ReadPlan, part: FilePart, formats: list[Format]) -> None:
        self.plan = plan
        self.part = part
        self.formats = formats
        self._left_out = LeftOut()
        self._data_schema = plan.selection.data_schema
        self._decoders = Decoders(plan, part.name, self._data_schema)
        self._forbids_nulls = forbids_nulls(self._data_schema)

    def chunk_to_batches(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """The rows of a chunk: one batch, or several if the records exceed the size of one."""
        first, step = 0, len(chunk.positions)
        while first < len(chunk.positions):
            stop = min(first + step, len(chunk.positions))
            if self._decoders.is_ordered:
                # Programs that keep state see the records in order, whatever their formats are.
                others = np.flatnonzero(chunk.formats[first:stop] != chunk.formats[first])
                stop = first + int(others[0]) if len(others) else stop
            batch, done = self._some_to_batch(chunk, first, stop)
            yield batch
            # Records are repeated only a few times when others of the chunk were too much.
            first, step = done, max(2 * (done - first), 1)

    def _some_to_batch(self, chunk: Chunk, first: int, stop: int) -> tuple[pa.RecordBatch, int]:
        """The rows of some entries of a chunk, and the first entry left for another batch."""
        count = len(chunk.positions)
        row_of = np.full(count, -1, np.int64)
        status = np.zeros(count, np.int32)
        wanted = np.ones(count, np.bool_)
        errors: dict[int, PbioError] = {}
        batches: list[pa.RecordBatch] = []
        rejected: list[tuple[Rejection, npt.NDArray[np.int64]]] = []
        rows = 0
        for decoder, sound in self._by_decoder(chunk, first, stop, wanted, rejected):
            is_all = len(sound) == count
            starts, ends = (at if is_all else at[sound] for at in (chunk.starts, chunk.ends))
            decoded = self._checked(self._decode(decoder, starts, ends), chunk, sound)
            done = len(decoded.status)
            if is_all and done == count and not decoded.status.any():
                own = sound if decoded.rows is None else decoded.rows
                bad = _Bad(own, decoded.status, decoded.errors)
                return self._finish(decoded.batch, chunk, np.flatnonzero(own >= 0), bad), count
            if done < len(sound):
                stop = min(stop, int(sound[done]))
            sound = sound[:done]
            status[sound] = decoded.status
            own = np.arange(len(sound)) if decoded.rows is None else decoded.rows
            row_of[sound] = np.where(own < 0, -1, own + rows)
            if decoded.refused is not None:
                wanted[sound[decoded.refused]] = False
            for i, error in decoded.errors.items():
                # The decoder may be that of several formats, and name another.
                form = self.formats[chunk.formats[sound[i]]]
                error.format = f"{form.name} ({form.id.hex()})"
                errors[int(sound[i])] = error
            batches.append(decoded.batch)
            rows += decoded.batch.num_rows
        for rejection, having in rejected:
            wanted[having] = not self._is_dropped(rejection, int((having < stop).sum()))
        row_of[status != 0] = -1
        if stop == count and chunk.error is not None:
            is_tail = isinstance(chunk.error, TruncatedError) and chunk.resumed is None
            wanted[-1] = not self._is_ignored(chunk.error, is_tail=is_tail)
            if wanted[-1] or not is_tail:
                self._left_out.damages.append(chunk.left_out)
            else:
                self._left_out.tail = chunk.left_out[0]
        bad = _Bad(row_of, status, errors)
        kept = self._keep(chunk, first + np.flatnonzero(wanted[first:stop]), bad)
        data = pa.concat_batches(batches) if batches else self._nulls()
        taken = row_of[kept]
        if len(taken) != rows or (np.diff(taken) != 1).any() or (taken[:1] != 0).any():
            data = data.take(pa.array(taken, mask=taken < 0))
        return self._finish(data, chunk, kept, bad), stop

    def _by_decoder(
        self,
        chunk: Chunk,
        first: int,
        stop: int,
        wanted: npt.NDArray[np.bool_],
        rejected: list[tuple[Rejection, npt.NDArray[np.int64]]],
    ) -> Iterable[tuple[AnyDecoder, npt.NDArray[np.int64]]]:
        """Each decoder with its sound entries. Clears `wanted` for formats that are not selected; fills `rejected`."""
        found: dict[int, tuple[AnyDecoder, list[npt.NDArray[np.int64]]]] = {}
        are_right = chunk.rights.all()
        for number, having in _by_format(chunk.formats[first:stop], first):
            if number >= 0 and not self._is_selected(self.formats[number]):
                wanted[having] = False
                continue
            sound = having if are_right else having[chunk.rights[having]]
            if not len(sound):
                continue
            decoder = self._decoders.find(number, self.formats[number])
            if isinstance(decoder, Rejection):
                rejected.append((decoder, having))
            else:
                found.setdefault(id(decoder), (decoder, []))[1].append(sound)
        return [
            (decoder, parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts)))
            for decoder, parts in found.values()
        ]

    def log_omissions(self) -> None:
        """Log how many records have been left out."""
        self._left_out.log(self.part.name)

    def _is_selected(self, form: Format) -> bool:
        only = self.plan.selection.only_name
        if only is not None and form.name != only:
            raise PbioError(
                "PBIO_SEVERAL_FORMATS",
                f"besides records of {only}, the file holds records of {form.name}",
                file=self.part.name,
                hint="say which to read with the option formatName",
            )
        return self.plan.selection.has(form)

    def _is_dropped(self, rejection: Rejection, count: int) -> bool:
        """Whether records that reach no wanted type are left out; otherwise they are bad records."""
        request = self.plan.selection.request
        on_reject = request.on_reject if request is not None else "fail"
        if on_reject == "fail":
            raise rejection_to_error(rejection)
        if on_reject == "drop":
            self._left_out.rejected += count
        return on_reject == "drop"

    def _decode(self, decoder: AnyDecoder, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Decoded:
        """Decode records, or only the first of them if one batch cannot hold the result of all."""
        try:
            return decoder.decode(starts, ends)
        except OverflowError:
            if len(starts) == 1:
                return Decoded(self._nulls(), np.full(1, -1, np.int32))
            half = len(starts) // 2
            return self._decode(decoder, starts[:half], ends[:half])

    def _checked(self, decoded: Decoded, chunk: Chunk, entries: npt.NDArray[np.int64]) -> Decoded:
        """The decoded batch, with records that have nulls where the schema allows none marked as bad.

        Args:
            entries: the records' numbers in the chunk.
        """
        found = unexpected_nulls(decoded.batch) if self._forbids_nulls else None
        if not found:
            return decoded
        errors = dict(decoded.errors)
        records = np.arange(decoded.batch.num_rows) if decoded.rows is None else np.flatnonzero(decoded.rows >= 0)
        for row, path in found.items():
            record = int(records[row])
            if decoded.status[record] == 0:
                decoded.status[record] = -1
                form = self.formats[chunk.formats[entries[record]]]
                errors[record] = PbioError(
                    "PBIO_UNEXPECTED_NULL",
                    "the record has no value where the schema has NOT NULL",
                    format=f"{form.name} ({form.id.hex()})",
                    field=path,
                    hint="leave NOT NULL out, or give the column a value with the option defaults",
                )
        return replace(decoded, errors=errors)

    def _is_ignored(self, error: PbioError, *, is_tail: bool) -> bool:
        """Whether damage is ignored: neither an error nor a row."""
        if is_tail:
            if self.plan.errors.tail == "planned":
                raise PbioError(
                    "PBIO_BAD_INDEX",
                    f"the file no longer matches the plan to read it in parts: {error.reason}",
                    file=error.file,
                    offset=error.offset,
                    hint="if it has changed meanwhile, run the query again; otherwise remove the file's outline, or "
                    "rebuild it with `pbio index`",
                )
            return self.plan.errors.tail == "ignore"
        if self.plan.errors.ignore_corrupt_files:
            log.warning("%s", error)
        return self.plan.errors.ignore_corrupt_files

    def _keep(
        self,
        chunk: Chunk,
        entries: npt.NDArray[np.int64],
        bad: _Bad,
    ) -> npt.NDArray[np.int64]:
        """The entries that become rows. Raises the error of the first bad one under FAILFAST."""
        are_bad = bad.row_of[entries] < 0
        if not are_bad.any():
            return entries
        if self.plan.errors.mode == "FAILFAST":
            error = self._error(chunk, int(entries[are_bad][0]), bad)
            error.hint = error.hint or MODE_HINT
            raise error
        if self.plan.errors.mode == "DROPMALFORMED":
            self._left_out.bad += int(are_bad.sum())
            log.info("%s", self._error(chunk, int(entries[are_bad][0]), bad))
            return entries[~are_bad]
        return entries

    def _error(self, chunk: Chunk, entry: int, bad: _Bad) -> PbioError:
        """The error of an entry, with its record."""
        return self._reason(chunk, entry, bad).at(record=self.name_entry(chunk, entry))

    def name_entry(self, chunk: Chunk, entry: int) -> int | str | None:
        """The ordinal of an entry, or words that say where it is; None if errors should not name it."""
        if not chunk.is_counted:
            return "record number unknown"
        ordinal = chunk.ordinal + entry
        return ordinal if chunk.formats[entry] != DAMAGE else after_record(ordinal)

    def _reason(self, chunk: Chunk, entry: int, bad: _Bad) -> PbioError:
        if chunk.formats[entry] == DAMAGE:
            assert chunk.error is not None
            return chunk.error
        if chunk.refused is not None:
            return chunk.refused
        number = int(chunk.formats[entry])
        offset, record = self._record(chunk, entry)
        if entry in bad.errors:
            return bad.errors[entry].at(file=self.part.name, offset=offset)
        rejection = self._decoders.rejection(number)
        if rejection is not None:
            return rejection_to_error(rejection).at(file=self.part.name, offset=offset)
        form = self.formats[number] if number >= 0 else None
        plan = self._decoders.plan(number)
        encoding = self.plan.selection.presentation.encoding
        if form is None and self.plan.store is not None:
            return unknown_format(record, missing_hint(self.plan.store), file=self.part.name, offset=offset)
        return explain(record, form, plan, int(bad.status[entry]), encoding, self.part.name, offset)

    def _record(self, chunk: Chunk, entry: int) -> tuple[int, bytes]:
        """The offset of an entry's item in the file, and the record's bytes."""
        position = int(chunk.positions[entry])
        size = int(chunk.ends[entry] - address_of(chunk.data)) - position
        head = 0 if chunk.formats[entry] == DAMAGE else 8
        return chunk.offset + position, chunk.data[position + head : position + size].tobytes()

    def _nulls(self) -> pa.RecordBatch:
        arrays = [pa.nulls(1, f.type) for f in self._data_schema]
        return pa.RecordBatch.from_struct_array(
            pa.Array.from_buffers(pa.struct(list(self._data_schema)), 1, [None], children=arrays)
        )

    def _finish(
        self,
        data: pa.RecordBatch,
        chunk: Chunk,
        kept: npt.NDArray[np.int64],
        bad: _Bad,
    ) -> pa.RecordBatch:
        """Add the special columns to those of the records."""
        selection = self.plan.selection
        # A batch without columns, and one without a record, may have another number of rows.
        if data.num_rows == len(kept) and data.num_columns and data.schema == selection.schema:
            return data
        columns: dict[str, Any] = dict(zip(data.schema.names, data.columns, strict=True))
        for name, value in zip(selection.partition_columns, self.part.partition, strict=True):
            columns[name] = pa.repeat(value, len(kept))
        if selection.corrupt_column is not None and selection.corrupt_column in selection.schema.names:
            columns[selection.corrupt_column] = self._corrupt(chunk, kept, bad)
        if selection.metadata_column is not None:
            columns[selection.metadata_column] = self._metadata(chunk, kept)
        arrays = [columns[name] for name in selection.schema.names]
        return pa.RecordBatch.from_struct_array(
            pa.Array.from_buffers(pa.struct(list(selection.schema)), len(kept), [None], children=arrays)
        )

    def _corrupt(self, chunk: Chunk, kept: npt.NDArray[np.int64], bad: _Bad) -> pa.Array:
        column = self.plan.selection.corrupt_column
        assert column is not None
        type_ = self.plan.schema.field(column).type
        if (bad.row_of[kept] >= 0).all():
            return pa.nulls(len(kept), type_)
        values = [self._corrupt_value(chunk, int(e), type_, bad) if bad.row_of[e] < 0 else None for e in kept]
        return pa.array(values, type_)

    def _corrupt_value(self, chunk: Chunk, entry: int, type_: pa.DataType, bad: _Bad) -> Any:
        offset, record = self._record(chunk, entry)
        if not pa.types.is_struct(type_):
            return record[:CORRUPT_BYTES]
        number = int(chunk.formats[entry])
        length = len(record)
        if chunk.refused is not None:
            length = int(chunk.ends[entry] - address_of(chunk.data) - chunk.positions[entry]) - 8
        if number == DAMAGE:
            length = chunk.left_out[0]
        return {
            "offset": offset,
            "length": length,
            "reason": str(self._error(chunk, entry, bad)),
            "format_id": self.formats[number].id.hex() if number >= 0 else None,
            "bytes": record[:CORRUPT_BYTES],
        }

    def _metadata(self, chunk: Chunk, kept: npt.NDArray[np.int64]) -> pa.Array:
        column = self.plan.selection.metadata_column
        assert column is not None
        makers = self.metadata_arrays(chunk, kept)
        parts = list(self.plan.schema.field(column).type)
        return pa.StructArray.from_arrays([makers[part.name]() for part in parts], fields=parts)

    def metadata_arrays(self, chunk: Chunk, kept: npt.NDArray[np.int64]) -> dict[str, Callable[[], pa.Array]]:
        """Functions that make the parts of the metadata column, for some entries of a chunk."""
        n = len(kept)
        numbers = chunk.formats[kept]
        address = address_of(chunk.data)
        known = pa.array(numbers, pa.int32(), mask=numbers < 0)

        def of_format(names: Sequence[str | None]) -> pa.Array:
            return pa.DictionaryArray.from_arrays(known, pa.array(names, pa.string())).cast(pa.string())

        return {
            "file_path": lambda: pa.repeat(pa.scalar(valid_text(self.part.name)), n),
            "offset": lambda: pa.array(chunk.offset + chunk.positions[kept]),
            "length": lambda: pa.array(chunk.ends[kept] - address - chunk.positions[kept]),
            "ordinal": lambda: pa.array(chunk.ordinal + kept, mask=np.full(n, not chunk.is_counted)),
            "format_id": lambda: of_format([form.id.hex() for form in self.formats]),
            "format_name": lambda: of_format([valid_text(form.name) for form in self.formats]),
            "machine": lambda: of_format([form.machine for form in self.formats]),
            "way": lambda: of_format([self._decoders.route(number) for number in range(len(self.formats))]),
            "target": lambda: of_format([self._decoders.target(number) for number in range(len(self.formats))]),
        }


def _by_format(numbers: npt.NDArray[np.int32], first: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Format numbers in ascending order, each with its entries; `numbers[0]` is of the entry `first`."""
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), first + np.arange(len(numbers))
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    edges = np.flatnonzero(np.diff(ordered)) + 1
    begins = [0, *edges.tolist()]
    yield from zip(ordered[begins].tolist(), np.split(first + order, edges), strict=True)


@dataclass(frozen=True, slots=True)
class _Bad:
    """The results for the entries of a chunk: rows (-1: none), kernels' status, and programs' errors."""

    row_of: npt.NDArray[np.int64]
    status: npt.NDArray[np.int32]
    errors: Mapping[int, PbioError]
