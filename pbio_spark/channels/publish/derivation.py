"""Derived channels: their events are made where the parent's are published, and committed with them (DESIGN 26).

Values of parameters are arguments of the compiled programs, so that a change costs nothing but a commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

import ecode
from ecode.suggest import did_you_mean
from ecode.types import FLOAT64, INT64, Field, Record, record
from morph import Rejection
from pbio_spark.channels.commits.commit import Derivation
from pbio_spark.channels.commits.commit_json import is_parameter
from pbio_spark.channels.commits.groups import NO_NUMBER, Groups, Int64s
from pbio_spark.channels.log.state import ChannelInfo, State
from pbio_spark.channels.publish.prepare import Prepared, read_encoded
from pbio_spark.channels.publish.submission import WHOLE, channel_format
from pbio_spark.channels.subscribe.plan import PLACE, format_to_plan, split_place
from pbio_spark.columns import (
    BLANK,
    PARAMETERS,
    Encoded,
    Encoder,
    ReadPlan,
    Request,
    format_to_encoder,
    with_parameters,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.store import FormatStore

_BLOCK = "parameter_block"
"""The name of the type of parameter blocks."""


_LEAST_KEPT = 256
_FORMATS_KEPT = 4
"""How many programs stay compiled: for each derived channel, those for so many formats of its parent's events."""


class Deriver:
    """Makes the events of derived channels, and caches what it compiled."""

    def __init__(self, formats: FormatStore) -> None:
        self._formats = formats
        self._ways: dict[_Key, tuple[ReadPlan, Encoder | None]] = {}
        """What was compiled, the most recently used last."""
        self._most = _LEAST_KEPT

    def derive(self, events: Sequence[Prepared], state: State) -> tuple[list[Prepared], tuple[tuple[int, str], ...]]:
        """The events of all channels that are derived from these, and the channels that failed, with the reasons.

        An event on which a program traps is left out. Channels that are derived alike share their events' bytes.
        """
        made: list[Prepared] = []
        refused: dict[int, str] = {}
        parents = state.parents
        self._make_room(state)
        waiting = list(events)
        for one in waiting:  # grows while it is walked
            shared: dict[tuple[bytes, str], _Shared] = {}
            for channel in sorted(parents.intersection(one.groups.rows["channel"].tolist())):
                parent = state.channels[channel]
                own = one.groups.take(np.flatnonzero(one.groups.rows["channel"] == channel))
                for child in state.children(channel):
                    key = own.rows[["start", "end"]].tobytes(), _how(child)
                    try:
                        if key not in shared:
                            shared[key] = _Shared(self._made(replace(one, groups=own), parent, child))
                    except PbioError as error:
                        refused[child.id] = str(error)
                        continue
                    shared[key].channels.append(child.id)
            found = [events for one in shared.values() for events in one.of_channels()]
            made += found
            waiting += found
        return made, tuple(refused.items())

    def warm(self, channel: int, form: Format, state: State) -> None:
        """Compile the derivations for events of a channel and a format. Those that fail are reported by `derive`."""
        self._make_room(state)
        waiting = [(state.channels[channel], form)]
        for parent, met in waiting:  # grows while it is walked
            for child in state.children(parent.id):
                assert child.derivation is not None
                own = channel_format(child, self._formats)
                with suppress(PbioError):
                    self._way(channel_format(parent, self._formats), own, child.derivation, met)
                    waiting.append((child, met if child.derivation.transform is None else own))

    def check(self, parent: Format, own: Format, derivation: Derivation) -> None:
        """Raise PBIO_BAD_PROGRAM, or whatever else prevents deriving a channel's events from the parent's own."""
        params = [ecode.Param("input", parent.record)]
        if derivation.parameters:
            params.append(ecode.Param(PARAMETERS, parameters_to_record(derivation.parameters), ecode.Mode.PARAM))
        output = [ecode.Param("output", own.record, ecode.Mode.OUT)]
        programs = {}
        for what, source, more in (("filter", derivation.filter, []), ("transform", derivation.transform, output)):
            if source is None:
                continue
            try:
                program = programs[what] = ecode.compile(source, [*params, *more])
            except ecode.EcodeError as error:
                reason = f"the {what} does not compile: {error.summary}"
                is_lacking = not derivation.parameters and "unknown name 'param'" in str(error)
                hint = "give parameters={...} to derive_channel" if is_lacking else error.hint or None
                raise PbioError("PBIO_BAD_PROGRAM", reason, hint=hint) from error
            if program.statics:
                raise PbioError(
                    "PBIO_BAD_PROGRAM",
                    f"the {what} keeps state ({', '.join(program.statics)}), and the channel has many writers",
                    hint="keep state in a subscriber",
                )
        try:
            ecode.check_source(programs, derivation.max_cost, raise_by="max_cost=")
        except ecode.CostError as error:
            raise PbioError("PBIO_BAD_PROGRAM", error.message, hint=error.hint) from error
        self._way(parent, own, derivation, parent)

    def _made(self, events: Prepared, parent: ChannelInfo, child: ChannelInfo) -> list[Prepared]:
        """The events of a channel, made of those of its parent, which lie together."""
        assert child.derivation is not None
        own = channel_format(child, self._formats)
        plan, encoder = self._way(channel_format(parent, self._formats), own, child.derivation, events.format)
        rows = events.groups.rows
        start, first = int(rows["start"][0]), int(rows["ordinal"][0])
        items = events.encoded.buffer.slice(start, int(rows["end"][-1]) - start)
        made = []
        for batch in read_encoded(plan, items, f"channel {child.name}"):
            fields, ordinals = split_place(batch)
            if encoder is None:
                form, encoded = events.format, events.encoded.take(ordinals + first)
            else:
                form, encoded = own, encoder.encode(fields)
            groups = _groups_of(events.groups, ordinals + first, encoded, child.id, form)
            made.append(Prepared(form, encoded, groups))
        return made

    def _way(self, parent: Format, own: Format, how: Derivation, form: Format) -> tuple[ReadPlan, Encoder | None]:
        """The reader of a derivation's input, and the encoder of what its transform makes."""
        block = parameters_to_record(how.parameters) if how.parameters else None
        key = parent.id.hex(), own.id.hex(), how.filter, how.transform, block, how.max_cost, form
        way = self._ways.pop(key, None) or self._compiled(parent, own, how, block, form)
        self._ways[key] = way
        while len(self._ways) > self._most:
            self._ways.pop(next(iter(self._ways)), None)
        plan, encoder = way
        if not how.parameters:
            return plan, encoder
        values = dict(how.parameters)
        converters = {
            known: found if isinstance(found, Rejection) else with_parameters(found, values)
            for known, found in plan.converters.items()
        }
        return replace(plan, converters=converters), encoder

    def _make_room(self, state: State) -> None:
        """Cache what all channels need at once, for a few formats each; with less, everything is compiled each time."""
        derived = sum(info.derivation is not None for info in state.channels.values())
        self._most = max(_LEAST_KEPT, _FORMATS_KEPT * derived)

    def _compiled(
        self, parent: Format, own: Format, how: Derivation, block: Record | None, form: Format
    ) -> tuple[ReadPlan, Encoder | None]:
        request = Request(
            ((parent.name, parent.record),),
            columns=None if how.transform is None else own.record,
            policy=WHOLE,
            keep=how.filter,
            make=how.transform,
            parameters=block,
            work=how.max_cost,
        )
        # Without a transform events stay as they are: it only matters which ones are kept.
        schema: pa.Schema = pa.schema([]) if how.transform is None else record_to_arrow(own.record)
        plan = format_to_plan(
            form, schema.append(PLACE), self._formats, request, others=(parent,), mode="DROPMALFORMED"
        )
        # What a transform never writes is zero, as it is for the program itself.
        encoder = None if how.transform is None else format_to_encoder(own, schema, null_value=BLANK, wrap=True)
        return plan, encoder


_Key: TypeAlias = tuple[str, str, str | None, str | None, Record | None, int, Format]


@dataclass(slots=True)
class _Shared:
    """Events of all channels that are derived alike."""

    made: list[Prepared]
    channels: list[int] = field(default_factory=list)

    def of_channels(self) -> list[Prepared]:
        """The same events, with groups for each channel."""
        return [replace(one, groups=one.groups.shared(self.channels)) for one in self.made]


def _how(child: ChannelInfo) -> str:
    """What two channels of one parent share if they have the same events."""
    assert child.derivation is not None
    # Not the parameters themselves: 2 and 2.0 are equal, and not the same to a program.
    return repr((child.format, replace(child.derivation, parent=0)))


def _groups_of(parent: Groups, ordinals: Int64s, encoded: Encoded, channel: int, form: Format) -> Groups:
    """The groups of derived events: their producers are those of the events that they were derived from."""
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
    return Groups(rows, (form.id.hex(),), groups.producers, {}, times)


def check_parameters(
    values: Mapping[str, int | float], known: tuple[tuple[str, int | float], ...] | None = None
) -> tuple[tuple[str, int | float], ...]:
    """The parameters of these values; with `known` ones, those with some values changed, their types kept.

    Raises PBIO_BAD_OPTION.
    """
    if not isinstance(values, Mapping):
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"not a mapping of parameters: {str(values)[:80]!r}",
            hint='an example is {"least": 70.0}',
        )
    for name, value in values.items():
        if not is_parameter(name, value):
            raise PbioError("PBIO_BAD_OPTION", f"a parameter {name[:80]!r} cannot have the value {value!r}")
    if known is None:
        return tuple(values.items())
    made = dict(known)
    for name, value in values.items():
        if name not in made:
            raise PbioError("PBIO_BAD_OPTION", f"unknown parameter {name!r}", hint=did_you_mean(name, made))
        if isinstance(value, float) and isinstance(made[name], int):
            raise PbioError("PBIO_BAD_OPTION", f"the parameter {name!r} takes whole numbers, not {value}")
        made[name] = type(made[name])(value)
    return tuple(made.items())


def parameters_to_record(parameters: tuple[tuple[str, int | float], ...]) -> Record:
    """The type of a parameter block."""
    return record(_BLOCK, [Field(name, FLOAT64 if isinstance(value, float) else INT64) for name, value in parameters])
