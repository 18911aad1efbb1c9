"""Interpreted steps: for functions that only Python can call, and to verify kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import ecode
from ecode.types import STRING, Array, Basic, Pointer, Record, Ref, Struct, Type
from pbio_spark.channels.commits.derivation import block_to_inputs
from pbio_spark.columns import PARAMETERS, Encoded, RecordRoute
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.wire.decode import decode
from pbio_spark.wire.encode import encode
from pbio_spark.wire.writer import record_to_item

if TYPE_CHECKING:
    from pbio_spark.channels.derive.step import Came, Lying, Stage, Statics, Tally


@dataclass(frozen=True)
class PlainProgram:
    """A step that is interpreted."""

    format: Format
    route: RecordRoute
    stage: Stage

    @cached_property
    def row(self) -> ecode.Row:
        """The filter and the transform, one after the other."""
        named = {"filter": self.route.keep, "transform": self.route.make}
        programs = {name: program for name, program in named.items() if program is not None}
        return ecode.Row(tuple(programs.values()), tuple(programs) if len(programs) > 1 else ())

    def __reduce__(self) -> tuple[object, ...]:
        return PlainProgram, (self.format, self.route, self.stage)  # the row is not pickled

    @property
    def statics(self) -> Statics:
        return self.row.statics

    def run(self, events: Lying, values: Mapping[str, Any], statics: Statics | None, tally: Tally) -> Iterator[Came]:
        from pbio_spark.channels.derive.step import HEAD, Came

        given = {PARAMETERS: block_to_inputs(values)} if values else {}
        kept, made = [], []
        data, offsets = memoryview(events.encoded.buffer), events.encoded.offsets
        for ordinal in events.ordinals.tolist():
            start, end = offsets[ordinal : ordinal + 2].tolist()
            try:
                output = self.event(bytes(data[start + HEAD : end]), given, statics)
            except (ecode.EcodeError, PbioError) as error:
                tally.add(1, str(error))
                continue
            if output is not None:
                kept.append(ordinal)
                made.append(output)
        left = np.array(kept, np.int64)
        if self.stage.output is None:
            yield Came(left, None)
            return
        parts = [record_to_item(encode(self.stage.output, output)) for output in made]
        yield Came(left, Encoded(pa.py_buffer(b"".join(parts)), np.cumsum([0, *map(len, parts)])))

    def event(self, record: bytes, given: Mapping[str, Any], statics: Statics | None) -> dict[str, Any] | None:
        """The result of one event: the transform's values, or an empty dict without a transform; None if the event is
        left out. Raises ecode.Trap, ecode.ParameterError and PbioError, with the state unchanged."""
        values: dict[str, Any] = decode(self.format, record, text=None)
        for _, program in self.route.transforms:
            values = program.run({program.params[0].name: _fitted(values, program.params[0].type)}).outputs["output"]
        inputs = {"input": _fitted(values, self.stage.input.record), **given}
        outcome = self.row.run(inputs, statics, self.stage.work)
        if not outcome.passed:
            return None
        return {} if self.stage.output is None else outcome.output


def _is_number(type_: Type) -> bool:
    return isinstance(type_, Basic) and type_ != STRING


def _marks(values: Mapping[str, Any], struct: Struct) -> dict[str, list[int]]:
    """The values of the hidden fields that mark nulls, for a copy of the structure."""
    made: dict[str, list[int]] = {}
    bits = struct.null_bits
    if bits is not None and isinstance(bits.type, Array) and isinstance(bits.type.dims[0], int):
        made[bits.name] = [0] * bits.type.dims[0]
        for field in struct.fields:
            if field.notes.null_bit is not None and field.name in values and values[field.name] is None:
                byte, bit = divmod(field.notes.null_bit, 8)
                made[bits.name][byte] |= 1 << bit
    for field in struct.fields:
        items = values.get(field.name)
        if field.notes.null_items is not None and isinstance(field.type, Array) and len(field.type.dims) == 1:
            made[field.notes.null_items] = [int(item is None) for item in items or ()]
    return made


def _fitted(value: Any, type_: Type | Record, record: Record | None = None) -> Any:
    """A decoded value in the form that a program takes: only the fields of its type, and zero for a null number."""
    match type_:
        case Record():
            return _fitted(value, Ref(type_.name), type_)
        case Ref() if record is not None:
            struct = record.struct(type_.name)
            fields = struct.fields
            given = {**(value or {}), **_marks(value or {}, struct)}
            # A field that is left out is absent to the program, as a null is to kernels.
            there = [f for f in fields if given.get(f.name) is not None or (f.name in given and not _is_number(f.type))]
            return {f.name: _fitted(given[f.name], f.type, record) for f in there}
        case Array():
            inner = Array(type_.element, type_.dims[1:]) if len(type_.dims) > 1 else type_.element
            return [] if value is None else [_fitted(one, inner, record) for one in value]
        case Pointer():
            return None if value is None else _fitted(value, type_.target, record)
        case Basic() if value is None and type_ != STRING:
            return 0
    return value
