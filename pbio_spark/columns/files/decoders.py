"""`Decoders`: the converter of each format in a file, and one decoder for all formats that are decoded alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from ecode.outcome import Statics
from morph import Rejection
from pbio_spark.columns.decode.converter import Converter, Decoder, SharedPlans
from pbio_spark.columns.decode.plan import Plan
from pbio_spark.columns.files.compile import compile_converter, plan_to_shared
from pbio_spark.columns.files.names import warn_of_new_columns
from pbio_spark.columns.files.plan import ReadPlan
from pbio_spark.formats import Format

if TYPE_CHECKING:
    from pbio_spark.columns.programs.converter import AnyConverter, FilterDecoder, ProgramDecoder

AnyDecoder: TypeAlias = "Decoder | FilterDecoder | ProgramDecoder"


class Decoders:
    """The decoders of one file's records, by the number of their format; made when the first record needs them."""

    def __init__(self, plan: ReadPlan, name: str, data_schema: pa.Schema) -> None:
        """
        Args:
            name: of the file.
            data_schema: the columns from fields of records.
        """
        self._plan, self._name, self._data_schema = plan, name, data_schema
        self._converters: dict[int, AnyConverter | Rejection] = {}
        self._decoders: dict[tuple[int, ...], AnyDecoder] = {}
        self._shared: SharedPlans | None = None
        self.is_ordered = plan.selection.request is not None and plan.selection.request.ordered
        given = (getattr(converter, "statics", None) for converter in plan.converters.values())
        self._state: Statics = next((statics for statics in given if statics is not None), {})

    def find(self, number: int, form: Format) -> AnyDecoder | Rejection:
        """The decoder of a format, which other formats may share. Raises what `compile_converter` raises."""
        converter = self._converters.get(number)
        if converter is None:
            converter = self._converters[number] = self._converter(form)
        if isinstance(converter, Rejection):
            return converter
        key = _key(converter)
        decoder = self._decoders.get(key)
        if decoder is None:
            if isinstance(converter, Converter):
                decoder = converter.decoder()
            else:
                decoder = converter.decoder(self._plan.limits.most_bytes)
            self._decoders[key] = decoder
        return decoder

    def rejection(self, number: int) -> Rejection | None:
        """Why records of a format reach no wanted type; None if they do, or none has been met."""
        converter = self._converters.get(number)
        return converter if isinstance(converter, Rejection) else None

    def plan(self, number: int) -> Plan | None:
        """The plan that decodes records of a format; None if programs read them, or none has been met."""
        converter = self._converters.get(number)
        return converter.plan if isinstance(converter, Converter) else None

    def route(self, number: int) -> str | None:
        """How records of a format are read; None if none has been."""
        converter = self._converters.get(number)
        return None if converter is None or isinstance(converter, Rejection) else converter.route

    def target(self, number: int) -> str | None:
        """The wanted type that records of a format reach; None if none has been read, or none is wanted by name."""
        converter = self._converters.get(number)
        return None if converter is None or isinstance(converter, Rejection) else converter.target

    def _converter(self, form: Format) -> AnyConverter | Rejection:
        plan, selection = self._plan, self._plan.selection
        converter = plan.converters.get(form.id)
        # Only IDs of version 2 are hashes: other IDs may mean different formats in two files.
        if converter is None or (not isinstance(converter, Rejection) and converter.format != form):
            if selection.query:
                warn_of_new_columns(
                    selection.query, self._name, form, self._data_schema, selection.presentation, selection.aliases
                )
            self._shared = self._shared or plan_to_shared(plan)
            converter = compile_converter(plan, form, self._shared, fused=False)
        if isinstance(converter, Rejection | Converter):
            return converter
        if self.is_ordered and converter.statics is None:
            # One state for records of all formats.
            converter = converter.with_state(self._state)
        return converter


def _key(converter: AnyConverter) -> tuple[int, ...]:
    """The identities of everything that decides how records are decoded: equal for formats that share a decoder."""
    if isinstance(converter, Converter):
        return (id(converter.compiled),)
    programs, inner = converter.programs, getattr(converter, "inner", None)
    if inner is None or programs.initial or programs.statics is not None:
        return (id(converter),)
    parts = programs.program, programs.names, programs.texts, programs.blocks, programs.samples
    return (*map(id, parts), *_key(inner))
