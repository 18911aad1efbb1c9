"""Derived channels: their events are made where the parent's are published, and committed with them (DESIGN 26).

Values of parameters are compiled into the programs, so that a change costs one compilation and events nothing.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

import ecode
from ecode.suggest import did_you_mean
from ecode.types import FLOAT64, INT64, Field, Record, record
from pbio_spark.channels.entries import Derivation, is_parameter
from pbio_spark.channels.state import ChannelInfo, State
from pbio_spark.channels.submission import WHOLE, Prepared, channel_format
from pbio_spark.columns.encoder import Encoder, format_to_encoder
from pbio_spark.columns.read import Part, Wanted, read_batches
from pbio_spark.columns.ways import Request
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow_schema import record_to_arrow
from pbio_spark.formats.store import FormatStore

_BLOCK = "parameters"
"""The name of the type of parameter blocks."""

_MOST_WAYS = 256
"""How many compiled derivations are remembered: parameters that change make more and more."""


class Deriver:
    """Makes the events of derived channels; remembers what it compiled."""

    def __init__(self, formats: FormatStore) -> None:
        self._formats = formats
        self._ways: dict[tuple[str, str, Derivation, Format], tuple[Wanted, Encoder]] = {}

    def derive(self, events: Sequence[Prepared], state: State) -> tuple[list[Prepared], tuple[tuple[int, str], ...]]:
        """The events of all channels that are derived from these, and which could not be made, with the reasons.

        An event on which a program traps is left out.
        """
        made: list[Prepared] = []
        refused: dict[int, str] = {}
        waiting = [(one, child) for one in events for child in state.children(one.channel)]
        for one, child in waiting:  # grows while it is walked
            assert child.derivation is not None
            parent = state.channels[child.derivation.parent]
            try:
                found = self._made(one, parent, child, child.derivation)
            except PbioError as error:
                refused[child.id] = str(error)
                continue
            made += found
            waiting += [(each, grandchild) for each in found for grandchild in state.children(child.id)]
        return made, tuple(refused.items())

    def check(self, parent: Format, own: Format, derivation: Derivation) -> None:
        """Raise PBIO_BAD_PROGRAM, or what else keeps the parent's own events from becoming those of a channel."""
        params = [ecode.Param("input", parent.record)]
        if derivation.parameters:
            params.append(ecode.Param("param", parameters_to_record(derivation.parameters)))
        output = [ecode.Param("output", own.record, ecode.Mode.OUT)]
        for what, source, more in (("filter", derivation.filter, []), ("transform", derivation.transform, output)):
            if source is None:
                continue
            try:
                program = ecode.compile(source, [*params, *more])
            except ecode.EcodeError as error:
                raise PbioError("PBIO_BAD_PROGRAM", f"the {what} is no program for these events\n{error}") from error
            if program.statics:
                raise PbioError(
                    "PBIO_BAD_PROGRAM",
                    f"the {what} keeps state ({', '.join(program.statics)}), and the channel has many writers",
                    hint="keep state in a subscriber",
                )
        self._way(parent, own, derivation, parent)

    def _made(self, events: Prepared, parent: ChannelInfo, child: ChannelInfo, how: Derivation) -> list[Prepared]:
        own = channel_format(child, self._formats)
        wanted, encoder = self._way(channel_format(parent, self._formats), own, how, events.format)
        # A part never begins at offset 0, where a file has its magic.
        data = b"\0" + events.encoded.buffer.to_pybytes()
        batches = read_batches(wanted, Part(f"channel {child.name}", 1, len(data)), io.BytesIO(data))
        return [
            replace(events, channel=child.id, format=own, encoded=encoder.encode(batch), sequence=None)
            for batch in batches
        ]

    def _way(self, parent: Format, own: Format, how: Derivation, form: Format) -> tuple[Wanted, Encoder]:
        key = parent.id.hex(), own.id.hex(), how, form
        if key not in self._ways:
            if len(self._ways) >= _MOST_WAYS:
                self._ways.clear()
            request = Request(
                ((parent.name, parent.record),),
                columns=None if how.transform is None else own.record,
                policy=WHOLE,
                keep=with_parameters(how.filter, how.parameters),
                make=with_parameters(how.transform, how.parameters),
                records=(parameters_to_record(how.parameters),) if how.parameters else (),
            )
            schema: pa.Schema = record_to_arrow(own.record)
            wanted = Wanted(schema, formats=(form, parent), store=self._formats, mode="DROPMALFORMED", request=request)
            converter = wanted.converter(form, fused=False)
            # What a transform never writes is zero, as it is for the program itself.
            encoder = format_to_encoder(own, schema, null_value=0, wrap=True)
            self._ways[key] = replace(wanted, converters={form.id: converter}), encoder
        return self._ways[key]


def check_parameters(
    values: Mapping[str, int | float], known: tuple[tuple[str, int | float], ...] | None = None
) -> tuple[tuple[str, int | float], ...]:
    """The parameters of these values; with `known` ones, those with some values changed, their types kept.

    Raises PBIO_BAD_OPTION.
    """
    for name, value in values.items():
        if not is_parameter(name, value):
            raise PbioError("PBIO_BAD_OPTION", f"{value!r} cannot be the value of a parameter {name[:80]!r}")
    if known is None:
        return tuple(values.items())
    made = dict(known)
    for name, value in values.items():
        if name not in made:
            raise PbioError("PBIO_BAD_OPTION", f"there is no parameter {name!r}", hint=did_you_mean(name, made))
        if isinstance(value, float) and isinstance(made[name], int):
            raise PbioError("PBIO_BAD_OPTION", f"the parameter {name!r} is a whole number, not {value}")
        made[name] = type(made[name])(value)
    return tuple(made.items())


def parameters_to_record(parameters: tuple[tuple[str, int | float], ...]) -> Record:
    """The type of a parameter block."""
    return record(_BLOCK, [Field(name, FLOAT64 if isinstance(value, float) else INT64) for name, value in parameters])


def with_parameters(source: str | None, parameters: tuple[tuple[str, int | float], ...]) -> str | None:
    """A program with `param` and its values in front of its block, behind its includes.

    >>> with_parameters("{ return input.n > param.least; }", (("least", 3),))
    '{ parameters param; param.least = 3; { return input.n > param.least; }}'
    """
    if source is None or not parameters:
        return source
    start = source.index("{")
    values = " ".join(f"param.{name} = {value!r};" for name, value in parameters)
    return f"{source[:start]}{{ {_BLOCK} param; {values} {source[start:]}}}"
