"""Derived channels: their events are made where the parent's are published, and committed with them (DESIGN 26).

Values of parameters are compiled into the programs, so that a change costs one compilation and events nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

import ecode
from ecode.lexer import INCLUDE
from ecode.suggest import did_you_mean
from ecode.types import FLOAT64, INT64, Field, Record, record
from pbio_spark.channels.entries import Derivation, is_parameter
from pbio_spark.channels.groups import NO_NUMBER, Groups, Int64s
from pbio_spark.channels.prepare import Prepared, read_encoded
from pbio_spark.channels.state import ChannelInfo, State
from pbio_spark.channels.submission import WHOLE, channel_format
from pbio_spark.channels.wanted import PLACE, format_to_wanted, split_place
from pbio_spark.columns.encoder import Encoded, Encoder, format_to_encoder
from pbio_spark.columns.read import Wanted
from pbio_spark.columns.ways import Request
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow_schema import record_to_arrow
from pbio_spark.formats.store import FormatStore

_BLOCK = "parameter_block"
"""The name of the type of parameter blocks."""

_HEAD = re.compile(rf"(?:\s+|//[^\n]*|/\*.*?\*/|{INCLUDE.pattern})*", re.DOTALL)
"""What stands in front of a program's block."""

_MOST_WAYS = 256
"""How many compiled derivations are remembered: parameters that change make more and more."""


class Deriver:
    """Makes the events of derived channels; remembers what it compiled."""

    def __init__(self, formats: FormatStore) -> None:
        self._formats = formats
        self._ways: dict[tuple[str, str, str, Format], tuple[Wanted, Encoder]] = {}

    def derive(self, events: Sequence[Prepared], state: State) -> tuple[list[Prepared], tuple[tuple[int, str], ...]]:
        """The events of all channels that are derived from these, and which could not be made, with the reasons.

        An event on which a program traps is left out.
        """
        made: list[Prepared] = []
        refused: dict[int, str] = {}
        waiting = list(events)
        for one in waiting:  # grows while it is walked
            for channel in set(one.groups.rows["channel"].tolist()) & state.parents:
                parent = state.channels[channel]
                own = one.groups.take(np.flatnonzero(one.groups.rows["channel"] == channel))
                for child in state.children(channel):
                    try:
                        found = self._made(replace(one, groups=own), parent, child)
                    except PbioError as error:
                        refused[child.id] = str(error)
                        continue
                    made += found
                    waiting += found
        return made, tuple(refused.items())

    def warm(self, channel: int, form: Format, state: State) -> None:
        """Compile what events of a channel and a format become. What cannot be made of them is told by `derive`."""
        parent = state.channels[channel]
        for child in state.children(channel):
            assert child.derivation is not None
            own = channel_format(child, self._formats)
            with suppress(PbioError):
                self._way(channel_format(parent, self._formats), own, child.derivation, form)
                self.warm(child.id, own, state)

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
                reason = f"the {what} is no program for these events\n{error}"
                is_lacking = not derivation.parameters and "there is no 'param'" in str(error)
                hint = "give parameters={...} to derive_channel" if is_lacking else None
                raise PbioError("PBIO_BAD_PROGRAM", reason, hint=hint) from error
            if program.statics:
                raise PbioError(
                    "PBIO_BAD_PROGRAM",
                    f"the {what} keeps state ({', '.join(program.statics)}), and the channel has many writers",
                    hint="keep state in a subscriber",
                )
        self._way(parent, own, derivation, parent)

    def _made(self, events: Prepared, parent: ChannelInfo, child: ChannelInfo) -> list[Prepared]:
        """The events of a channel, made of those of its parent, which lie together."""
        assert child.derivation is not None
        own = channel_format(child, self._formats)
        wanted, encoder = self._way(channel_format(parent, self._formats), own, child.derivation, events.format)
        rows = events.groups.rows
        start = int(rows["start"][0])
        items = events.encoded.buffer.slice(start, int(rows["end"][-1]) - start)
        made = []
        for batch in read_encoded(wanted, items, f"channel {child.name}"):
            fields, ordinals = split_place(batch)
            encoded = encoder.encode(fields)
            groups = _groups_of(events.groups, ordinals + rows["ordinal"][0], encoded, child.id, own)
            made.append(Prepared(own, encoded, groups))
        return made

    def _way(self, parent: Format, own: Format, how: Derivation, form: Format) -> tuple[Wanted, Encoder]:
        # 2 and 2.0 are equal, and not the same to a program.
        key = parent.id.hex(), own.id.hex(), repr(how), form
        known = self._ways.get(key)
        if known is None:
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
            wanted = format_to_wanted(
                form, schema.append(PLACE), self._formats, request, others=(parent,), mode="DROPMALFORMED"
            )
            # What a transform never writes is zero, as it is for the program itself.
            encoder = format_to_encoder(own, schema, null_value=0, wrap=True)
            known = self._ways[key] = wanted, encoder
        return known


def _groups_of(parent: Groups, ordinals: Int64s, encoded: Encoded, channel: int, own: Format) -> Groups:
    """Whose some derived events are: those of the events that they were made of."""
    first = np.searchsorted(ordinals, parent.rows["ordinal"])
    end = np.searchsorted(ordinals, parent.rows["ordinal"] + parent.rows["count"])
    kept = np.flatnonzero(first < end)
    first, end = first[kept], end[kept]
    groups = parent.take(kept)
    times = {
        i: known[ordinals[first[i] : end[i]] - groups.rows["ordinal"][i]] for i, known in groups.event_times.items()
    }
    rows = groups.rows
    rows["channel"], rows["format"], rows["sequence"] = channel, 0, NO_NUMBER
    rows["ordinal"], rows["count"] = first, end - first
    rows["start"], rows["end"] = encoded.offsets[first], encoded.offsets[end]
    for i, known in times.items():
        rows["event_time"][i] = known[0]
    return Groups(rows, (own.id.hex(),), groups.producers, {}, times)


def check_parameters(
    values: Mapping[str, int | float], known: tuple[tuple[str, int | float], ...] | None = None
) -> tuple[tuple[str, int | float], ...]:
    """The parameters of these values; with `known` ones, those with some values changed, their types kept.

    Raises PBIO_BAD_OPTION.
    """
    if not isinstance(values, Mapping):
        raise PbioError("PBIO_BAD_OPTION", f"{str(values)[:80]!r} are no parameters", hint='such as {"least": 70.0}')
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
    r"""A program with `param` and its values in front of its block, behind its includes.

    >>> with_parameters("{ return input.n > param.least; }", (("least", 3),))
    '{ parameter_block param; param.least = 3; { return input.n > param.least; }\n}'
    """
    if source is None or not parameters:
        return source
    head = _HEAD.match(source)
    assert head is not None
    start = head.end()
    values = " ".join(f"param.{name} = {value!r};" for name, value in parameters)
    return f"{source[:start]}{{ {_BLOCK} param; {values} {source[start:]}\n}}"
