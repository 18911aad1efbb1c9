"""A step of a derivation, compiled for events of one format: encoded events -> derived events.

A step is a filter, a transform or both, as a kernel; or interpreted, if the source grants functions that only Python
can call. Both behave alike: events come in order, and an event on which a program traps leaves the state unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

import ecode
from ecode.types import Record
from morph import Rejection
from pbio_spark.channels.commits.derivation import ParameterBlock, block_to_record
from pbio_spark.channels.commits.groups import Int64s
from pbio_spark.channels.derive.plain import PlainProgram
from pbio_spark.channels.publish.submission import WHOLE
from pbio_spark.columns import (
    BLANK,
    AnyConverter,
    Converter,
    Decoded,
    Encoded,
    Encoder,
    FilterConverter,
    FilterDecoder,
    GatherableFilter,
    ProgramConverter,
    RecordRoute,
    Request,
    Selection,
    decode_apart,
    find_route,
    format_to_encoder,
    gather,
    plan_read,
    rejection_to_error,
    runs_apart,
    samples_of,
    select_apart,
    select_together,
    statics_of,
    with_parameters,
    with_samples,
    with_state,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.store import FormatStore

PARAMETERS_TYPE, STATE_TYPE = "parameter_block", "state_block"
HEAD = 8
"""The bytes of an item before its record (ffs-wire-format 2.2)."""

MOST_RECORDS = 1 << 16
"""How many events transforms process at once."""

_MOST_APART = 1 << 26
"""How many bytes of fields transforms may produce at once, from the events of all producers."""

MOST_SELECTED = 1 << 19
"""How many events filters process at once: they produce a few bytes for each."""

DAMAGED = "the event is damaged"

Statics: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, slots=True)
class Stage:
    """What a derivation does with events of one type.

    Attributes:
        input: the type that the programs see; events of other formats are converted.
        output: the transform's type; None without a transform, when events stay unchanged.
        filter, transform: E-code.
        parameters, state: the types of `param` and `state`, and the initial values of state.
        functions: the functions that the source grants.
        work: units of work that the programs may take for an event.
        is_ordered: whether each producer's events come in order, so that programs may keep state.
        is_tight: whether the source allows less than was checked when the channel was derived.
    """

    input: Format
    output: Format | None
    filter: str | None
    transform: str | None
    parameters: ParameterBlock
    state: ParameterBlock
    functions: tuple[ecode.Function, ...]
    work: int
    is_ordered: bool
    is_tight: bool = False

    @property
    def parameters_type(self) -> Record | None:
        return block_to_record(self.parameters, PARAMETERS_TYPE) if self.parameters else None

    @property
    def state_type(self) -> Record | None:
        return block_to_record(self.state, STATE_TYPE, is_fixed=True) if self.state else None

    @property
    def request(self) -> Request:
        """The stage as a request for records."""
        return Request(
            ((self.input.name, self.input.record),),
            columns=None if self.output is None else self.output.record,
            policy=WHOLE,
            keep=self.filter,
            make=self.transform,
            parameters=self.parameters_type,
            work=self.work,
            functions=self.functions,
            state=self.state_type,
            ordered=self.is_ordered,
        )


class Lying:
    """Encoded events, and where some of them lie in memory, which is found once for all steps that run over them.

    Attributes:
        encoded: all of them.
        ordinals: int64, of the selected events.
    """

    def __init__(self, encoded: Encoded, ordinals: Int64s) -> None:
        self.encoded, self.ordinals = encoded, ordinals
        self._places: dict[int, tuple[Int64s, Int64s]] = {}
        self._length: int | None = None
        self._taken: dict[tuple[int, ...], list[tuple[Int64s, Encoded]]] = {}

    def places(self, head: int) -> tuple[Int64s, Int64s]:
        """The addresses of each event's first byte after so many, and of the byte after it."""
        if head not in self._places:
            first, offsets, ordinals = self.encoded.buffer.address, self.encoded.offsets, self.ordinals
            if len(ordinals) and (np.diff(ordinals) == 1).all():  # mostly: a view costs less
                offsets = offsets[ordinals[0] : ordinals[-1] + 2]
                self._places[head] = offsets[:-1] + (first + head), offsets[1:] + first
            else:
                self._places[head] = offsets[ordinals] + (first + head), offsets[ordinals + 1] + first
        return self._places[head]

    def take(self, ordinals: Int64s) -> Encoded:
        """Some of the events, copied: once, if several steps take the same."""
        ends = ordinals[[0, -1]].tolist() if len(ordinals) else []
        alike = self._taken.setdefault((len(ordinals), *ends), [])
        known = next((encoded for others, encoded in alike if np.array_equal(others, ordinals)), None)
        if known is None:
            known = self._copied(ordinals)
            alike.append((ordinals, known))
        return known

    def _copied(self, ordinals: Int64s) -> Encoded:
        offsets = self.encoded.offsets
        if self._length is None and 2 * len(self.ordinals) < len(offsets):
            self._length = 0  # not worth it for a producer's few events
        if self._length is None:
            lengths = np.diff(offsets)
            self._length = int(lengths[0]) if len(lengths) and (lengths == lengths[0]).all() else 0
        if not self._length:
            return self.encoded.take(ordinals)
        all_ = np.frombuffer(self.encoded.buffer, f"V{self._length}", len(offsets) - 1, int(offsets[0]))
        return Encoded(pa.py_buffer(all_.take(ordinals)), np.arange(len(ordinals) + 1) * self._length)


@dataclass(frozen=True, slots=True)
class Came:
    """The results for some events.

    Attributes:
        ordinals: of the events with a result.
        encoded: the results; None if the events stay unchanged.
    """

    ordinals: Int64s
    encoded: Encoded | None


@dataclass(slots=True)
class Tally:
    """How often programs trapped, and the reason of the first trap.

    Attributes:
        runs: how many of the traps ended a run of `period` rather than an event.
        emitted: how many events `period` made.
    """

    trapped: int = 0
    reason: str = ""
    runs: int = 0
    emitted: int = 0

    def add(self, count: int, reason: str) -> None:
        self.trapped += count
        self.reason = self.reason or reason

    def add_traps(self, traps: Mapping[int, PbioError | None]) -> None:
        """The events on which programs trapped, with the reasons; None for one that is damaged."""
        if traps:
            self.add(len(traps), next((str(error) for error in traps.values() if error), DAMAGED))


class StageStep(Protocol):
    """A compiled stage, for events of one format."""

    @property
    def statics(self) -> Statics:
        """What its programs keep before the first event: `state`, and their own static variables."""

    def run(self, events: Lying, values: Mapping[str, Any], statics: Statics | None, tally: Tally) -> Iterator[Came]:
        """Run over events in order.

        Args:
            values: of the parameters.
            statics: what the programs keep, which is updated; None if they keep nothing.
            tally: counts the events on which a program trapped.
        """


def compiled(stage: Stage, form: Format, formats: FormatStore) -> StageStep:
    """The step for events of a format. Raises PBIO_BAD_PROGRAM, PBIO_REJECTED and what else compiling raises."""
    encoder = None
    if stage.output is not None:
        # Fields that a transform never writes are zero, as they are for the program itself.
        schema = record_to_arrow(stage.output.record)
        encoder = format_to_encoder(stage.output, schema, null_value=BLANK, wrap=True)
    is_plain = any(function.native is None and not function.is_sampled for function in stage.functions)
    route = find_route(form, stage.request, (form, stage.input), formats)
    if isinstance(route, Rejection):
        raise rejection_to_error(route)
    if is_plain or stage.is_tight:
        _check_cost(route, stage.work)
    if is_plain:
        return PlainProgram(form, route, stage)
    schema = pa.schema([]) if stage.output is None else schema
    selection = Selection(schema, request=stage.request)
    plan = plan_read(selection, (form, stage.input), coming=[form], store=formats)
    converter = plan.converters[form.id]
    if isinstance(converter, Rejection):
        raise rejection_to_error(converter)
    return NativeStep(form, converter, encoder, stage.functions, GatherableFilter(form, route.keep))


def _check_cost(route: RecordRoute, most: int) -> None:
    """Raise PBIO_BAD_PROGRAM if the programs always take more than a source allows."""
    named = (("filter", route.keep), ("transform", route.make))
    try:
        ecode.check_source({name: program for name, program in named if program is not None}, most)
    except ecode.CostError as error:
        raise PbioError("PBIO_BAD_PROGRAM", f"at this source, {error.message}", hint=error.hint) from error


@dataclass(frozen=True, slots=True)
class NativeStep:
    """A step as machine code, and its filter for many filters together. Pickles with it."""

    format: Format
    converter: AnyConverter
    encoder: Encoder | None
    functions: tuple[ecode.Function, ...]
    gatherable: GatherableFilter

    @property
    def statics(self) -> Statics:
        return statics_of(self.converter)

    @property
    def selects(self) -> bool:
        """Whether it is only a filter, which passes events unchanged."""
        return self.encoder is None and isinstance(self.converter, FilterConverter)

    def run(self, events: Lying, values: Mapping[str, Any], statics: Statics | None, tally: Tally) -> Iterator[Came]:
        if self.selects and statics is None:
            ((came, found),) = select([(self, values)], events)
            tally.add(found.trapped, found.reason)
            yield came
            return
        decoder = self.given(values, statics).decoder()
        if self.encoder is None and isinstance(decoder, FilterDecoder):
            yield self._selected(decoder, events, tally)
            return
        ordinals = events.ordinals
        starts, ends = events.places(self.head)
        at, step = 0, MOST_RECORDS
        while at < len(ordinals):
            try:
                decoded = decoder.decode(starts[at : at + step], ends[at : at + step])
            except OverflowError:
                if step == 1:
                    tally.add(1, "the output made from the event is too large")
                    at, step = at + 1, MOST_RECORDS
                step = max(step // 2, 1)
                continue
            done = len(decoded.status)
            yield self._came(decoded, ordinals[at : at + done], tally)
            at += done

    @property
    def head(self) -> int:
        """The bytes of an event before its record."""
        return HEAD + self.format.header_size

    def is_apart(self, events: int) -> bool:
        """Whether it can process a number of events of all producers in one call, each with its state."""
        converter = self.converter
        if self.encoder is not None and events * self.encoder.plan.format.structs[0].record_length > _MOST_APART:
            return False
        is_one = self.selects or (self.encoder is not None and isinstance(converter, ProgramConverter))
        return is_one and not isinstance(converter, Converter) and runs_apart(converter)

    def run_apart(
        self, events: Lying, stops: Int64s, values: Mapping[str, Any], states: Sequence[Statics], tally: Tally
    ) -> Came:
        """The results for several producers, one after another.

        Args:
            stops: int64, for each producer, the number of events up to its last.
            states: of each; updated in place.
        """
        converter = self.given(values)
        if isinstance(converter, ProgramConverter):
            return self._came(decode_apart(converter, *events.places(self.head), stops, states), events.ordinals, tally)
        assert isinstance(converter, FilterConverter)
        passed, traps = select_apart(converter, *events.places(self.head), stops, states)
        tally.add_traps(traps)
        return Came(np.sort(events.ordinals[passed]), None)

    def _selected(self, decoder: FilterDecoder, events: Lying, tally: Tally) -> Came:
        """The events that a filter with state keeps."""
        ordinals = events.ordinals
        starts, ends = events.places(self.head)
        kept = []
        for at in range(0, len(ordinals), MOST_SELECTED):
            passed, traps = decoder.select(starts[at : at + MOST_SELECTED], ends[at : at + MOST_SELECTED])
            kept.append(ordinals[at : at + MOST_SELECTED][passed])
            tally.add_traps(traps)
        return Came(np.concatenate([ordinals[:0], *kept]), None)

    def given(self, values: Mapping[str, Any], statics: Statics | None = None) -> AnyConverter:
        """Its programs with parameter values, state, and current results of sampled services."""
        converter = self.converter
        if values:
            converter = with_parameters(converter, values)
        if statics is not None:
            converter = with_state(converter, statics)
        sampled = samples_of(converter)
        if sampled:
            converter = with_samples(converter, {f.name: f.call() for f in self.functions if f.name in sampled})
        return converter

    def _came(self, decoded: Decoded, ordinals: Int64s, tally: Tally) -> Came:
        rows = np.arange(len(ordinals)) if decoded.rows is None else decoded.rows
        is_sound = (rows >= 0) & (decoded.status == 0)
        is_bad = ~is_sound if decoded.refused is None else ~is_sound & ~decoded.refused
        if is_bad.any():
            reason = next((str(error) for error in decoded.errors.values() if error is not None), DAMAGED)
            tally.add(int(is_bad.sum()), reason)
        sound, taken, batch = ordinals[is_sound], rows[is_sound], decoded.batch
        if self.encoder is None:
            return Came(sound, None)
        is_sorted = bool((np.diff(sound) > 0).all())
        if not is_sorted:  # one producer came after the other
            order = np.argsort(sound)
            sound, taken = sound[order], taken[order]
        if len(taken) != batch.num_rows or not is_sorted:
            batch = batch.take(pa.array(taken))
        return Came(sound, self.encoder.encode(batch))


def select(steps: Sequence[tuple[NativeStep, Mapping[str, Any]]], events: Lying) -> list[tuple[Came, Tally]]:
    """The events that each of several filters keeps, given its parameter values; all in one pass."""
    converters = [step.given(values) for step, values in steps]
    filters = [converter for converter in converters if isinstance(converter, FilterConverter)]
    assert len(filters) == len(steps)
    starts, ends = events.places(steps[0][0].head)
    kept: list[list[Int64s]] = [[] for _ in steps]
    tallies = [Tally() for _ in steps]
    gathered = gather([step.gatherable for step, _ in steps])
    for at in range(0, len(starts), MOST_SELECTED):
        end = at + MOST_SELECTED
        selected = select_together(filters, starts[at:end], ends[at:end], gathered)
        for number, (passed, traps) in enumerate(selected):
            ordinals = events.ordinals[at:end]
            kept[number].append(ordinals if len(passed) == len(ordinals) else ordinals[passed])
            tallies[number].add_traps(traps)
    return [(Came(_joined(some, events), None), tally) for some, tally in zip(kept, tallies, strict=True)]


def _joined(parts: Sequence[Int64s], events: Lying) -> Int64s:
    if sum(map(len, parts)) == len(events.ordinals):
        return events.ordinals
    return parts[0] if len(parts) == 1 else np.concatenate([events.ordinals[:0], *parts])
