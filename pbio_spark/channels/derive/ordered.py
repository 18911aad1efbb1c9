"""The events of channels that must be derived in order, by the committer.

Only the committer sees all events of a batch, and each producer's events in order. For each producer in a commit, with
the producer's state from the log:

1. `filter` and `transform` see each event of the parent, in order;
2. `period` runs, if it is due;
3. `dequeue` sees the events from both, in order, as they are committed to the log.

The resulting state is committed with the events. Channels derived from these follow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pyarrow as pa

import ecode
from pbio_spark.channels.commits.commit import Held
from pbio_spark.channels.commits.derivation import Derivation
from pbio_spark.channels.commits.groups import NO_NUMBER, Group, Groups
from pbio_spark.channels.derive.check import period_params, shared_params
from pbio_spark.channels.derive.deriver import Derivatives, Deriver, came_to_events, of_channel, run_step
from pbio_spark.channels.derive.period import due, run_period
from pbio_spark.channels.derive.reports import Ledger
from pbio_spark.channels.derive.step import Lying, NativeStep, Stage, Statics, Tally
from pbio_spark.channels.log.state import ChannelInfo, State
from pbio_spark.channels.publish.prepare import Prepared
from pbio_spark.columns import STATE, Encoded
from pbio_spark.errors import PbioError
from pbio_spark.wire.encode import encode
from pbio_spark.wire.writer import record_to_item

ENQUEUE, DEQUEUE, PERIOD = "enqueue", "dequeue", "period"


@dataclass(frozen=True, slots=True)
class Arrived:
    """Events of a commit, in order.

    Attributes:
        events: of one format.
        task: the number of the task that wrote them, among concurrent tasks; None if there was only one.
        is_new: whether they were derived in order, so that nothing is derived from them yet.
    """

    events: Prepared
    task: int | None = None
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class InOrder:
    """The result of deriving in order.

    Attributes:
        derived: the events and the reports.
        states: by channel and producer, the states afterwards.
        basis: by channel and producer, the states before, on which the result depends.
    """

    derived: Derivatives
    states: tuple[tuple[int, str, Held], ...] = ()
    basis: tuple[tuple[int, str, Held], ...] = ()

    def holds(self, state: State) -> bool:
        """Whether the states on which the result depends are unchanged."""
        return all(state.derived.held(channel, producer) == held for channel, producer, held in self.basis)


def derive_in_order(deriver: Deriver, arrived: Sequence[Arrived], state: State, now: int) -> InOrder:
    """The events of all channels that must be derived in order from some, and of those derived from them.

    Args:
        arrived: all events of a commit, including those derived without order.
        now: in microseconds since 1970 UTC.
    """
    return _Pass(deriver, state, now).run(arrived)


@dataclass(slots=True)
class _Pass:
    deriver: Deriver
    state: State
    now: int
    made: list[Prepared] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    states: list[tuple[int, str, Held]] = field(default_factory=list)
    basis: list[tuple[int, str, Held]] = field(default_factory=list)

    def run(self, arrived: Sequence[Arrived]) -> InOrder:
        of_channels: dict[int, list[Arrived]] = {}
        for one in arrived:
            for channel in np.unique(one.events.groups.rows["channel"]).tolist():
                own = replace(one, events=of_channel(one.events, channel))
                of_channels.setdefault(channel, []).append(own)
        waiting = sorted(of_channels)
        while waiting:
            # A channel's ID is higher than its parent's, so all events of this channel are already present.
            channel = heappop(waiting)
            for child in self.deriver.children(channel, self.state):
                events = of_channels[channel]
                if not child.is_ordered:  # the others were derived from already
                    events = [one for one in events if one.is_new]
                try:
                    found = self._child(self.state.channels[channel], child, events)
                except PbioError as error:
                    self.refused[child.id] = str(error)
                    continue
                self.made += found
                if found and child.id not in of_channels:
                    heappush(waiting, child.id)
                if found:
                    of_channels.setdefault(child.id, []).extend(Arrived(one, is_new=True) for one in found)
        derived = Derivatives(tuple(self.made), tuple(self.refused.items()), self.ledger.made, self.ledger.traps)
        return InOrder(derived, tuple(self.states), tuple(self.basis))

    def _child(self, parent: ChannelInfo, child: ChannelInfo, arrived: Sequence[Arrived]) -> list[Prepared]:
        """The events of one channel, made of those of its parent that were published or made here."""
        if child.is_ordered:
            return _Ordered(self, parent, child).run(arrived)
        if not arrived:
            return []
        made: list[Prepared] = []
        for one in arrived:
            found, tally = self.deriver.made_of(one.events, parent, child)
            self.ledger.add(child, one.events, found, tally)
            made += found
        return made


class _Ordered:
    """One channel in one commit. Computes once what all producers share."""

    def __init__(self, whole: _Pass, parent: ChannelInfo, child: ChannelInfo) -> None:
        assert child.derivation is not None
        self.whole, self.child, self.how = whole, child, child.derivation
        self.own = whole.deriver.format_of(child)
        self.enqueue, self.dequeue = whole.deriver.enqueue(parent, child), whole.deriver.dequeue(child)

    @cached_property
    def period(self) -> ecode.Program:
        """The program that makes events of its own."""
        assert self.how.period is not None
        params = [*period_params(self.own.record), *shared_params(self.how)]
        functions, limits = self.whole.deriver.granted(self.how), ecode.Limits(budget=self.how.max_cost)
        return ecode.compile(self.how.period, params, functions=functions, limits=limits)

    def run(self, arrived: Sequence[Arrived]) -> list[Prepared]:
        made: list[Prepared] = []
        states: list[tuple[int, str, Held]] = []
        known = self.whole.state.derived
        tally = Tally()
        of_producers = dict(_by_producer(arrived, self.child))
        before = {producer: known.held(self.child.id, producer) for producer in of_producers}
        # A refusal depends on these, too.
        self.whole.basis += [(self.child.id, producer, held) for producer, held in before.items()]
        steps = self._steps_apart(arrived)
        if steps is not None:
            made, afterwards = self._apart(arrived, steps, before, tally)
        else:
            afterwards = {}
            for producer, events in of_producers.items():
                found, afterwards[producer] = self._of_producer(events, producer, before[producer], tally)
                made += found
        for producer, held in before.items():
            after = afterwards[producer]
            if after != held:
                self._check_size(after)
                states.append((self.child.id, producer, after))
        self._check_sizes(states)
        self.whole.states += states
        self.whole.ledger.add_all(self.child, [one.events for one in arrived], made, tally)
        return made

    def _steps_apart(self, arrived: Sequence[Arrived]) -> list[NativeStep] | None:
        """The steps, if all programs can process the events of all producers in one call."""
        if self.how.period is not None or self.dequeue is not None:
            return None
        steps = [self.whole.deriver.step(self.enqueue, one.events.format) for one in arrived]
        count = sum(one.events.groups.events for one in arrived)
        apart = [step for step in steps if isinstance(step, NativeStep) and step.is_apart(count)]
        return apart if len(apart) == len(steps) else None

    def _apart(
        self, arrived: Sequence[Arrived], steps: Sequence[NativeStep], before: Mapping[str, Held], tally: Tally
    ) -> tuple[list[Prepared], dict[str, Held]]:
        """The results for all producers, and their states afterwards."""
        kept = {producer: Kept(self.how, held.text) for producer, held in before.items()}
        made: list[Prepared] = []
        for one, step in zip(arrived, steps, strict=True):
            groups = one.events.groups
            numbers = groups.rows["producer"]
            sorted_ = groups.take(np.argsort(numbers, kind="stable"))  # each producer's events stay in their order
            who, firsts = np.unique(sorted_.rows["producer"], return_index=True)
            stops = np.cumsum(sorted_.rows["count"])[np.append(firsts[1:], len(groups)) - 1]
            producers = ["" if number == NO_NUMBER else groups.producers[number] for number in who.tolist()]
            lying, initial = Lying(one.events.encoded, sorted_.ordinals), step.statics
            with ExitStack() as all_:
                states = [all_.enter_context(kept[producer].of(ENQUEUE, initial)) for producer in producers]
                came = step.run_apart(lying, stops, self.how.parameters.values, states, tally)
            made += came_to_events([came], one.events, self.child, self.own, lying)
        return made, {producer: Held(kept[producer].text, held.ran) for producer, held in before.items()}

    def _of_producer(
        self, events: Sequence[Prepared], producer: str, held: Held, tally: Tally
    ) -> tuple[list[Prepared], Held]:
        """The results for one producer, and its state afterwards."""
        how, kept = self.how, Kept(self.how, held.text)
        queue = self._through(self.enqueue, ENQUEUE, events, kept, tally)
        ran = held.ran
        if how.period is not None:
            is_due = due(held.ran, how.every, self.whole.now)
            ran = is_due.ran
            if is_due.runs:
                queue += self._period(kept, producer, tally)
        if self.dequeue is not None:
            queue = self._through(self.dequeue, DEQUEUE, queue, kept, tally)
        return queue, Held(kept.text, ran)

    def _through(
        self, stage: Stage, place: str, events: Sequence[Prepared], kept: Kept, tally: Tally
    ) -> list[Prepared]:
        """The results of a stage, in the order of events."""
        made: list[Prepared] = []
        for one in events:
            step = self.whole.deriver.step(stage, one.format)
            with kept.of(place, step.statics) as statics:
                made += run_step(step, one, self.child, statics, tally, self.own)
        return made

    def _period(self, kept: Kept, producer: str, tally: Tally) -> list[Prepared]:
        """The events that `period` makes of its own."""
        program, own = self.period, self.own
        with kept.of(PERIOD, program.statics) as statics:
            try:
                events = run_period(program, self.how.parameters.values, statics)
            except (ecode.EcodeError, PbioError) as error:
                tally.add(1, f"period: {error}")
                tally.runs += 1
                return []
        tally.emitted += len(events)
        if not events:
            return []
        items = [record_to_item(encode(own, values)) for values in events]
        offsets = np.cumsum([0, *map(len, items)])
        group = Group(
            self.child.id,
            0,
            0,
            int(offsets[-1]),
            0,
            len(items),
            own.id.hex(),
            producer or None,
            derivation=self.child.version,
        )
        return [Prepared(own, Encoded(pa.py_buffer(b"".join(items)), offsets), Groups.of([group]))]

    def _check_size(self, held: Held) -> None:
        most = self.whole.deriver.source.max_state
        if len(held.text) > most:
            raise PbioError(
                "PBIO_BAD_PROGRAM",
                f"the state takes {len(held.text)} characters, and the source allows {most} for a producer",
                hint="keep less, or open the space with source=Source(max_state=...)",
            )

    def _check_sizes(self, states: Sequence[tuple[int, str, Held]]) -> None:
        known, most = self.whole.state.derived, self.whole.deriver.source.max_states
        before = sum(len(known.held(channel, producer).text) for channel, producer, _ in states)
        size = known.sizes.get(self.child.id, 0) - before + sum(len(held.text) for _, _, held in states)
        if size > most:
            raise PbioError(
                "PBIO_BAD_PROGRAM",
                f"the states of all producers take {size} characters, and the source allows {most}",
                hint="keep less, or open the space with source=Source(max_states=...)",
            )


class Kept:
    """The state of a derivation's programs for one producer: the shared `state`, and their own static variables.

    As JSON text: `state`, and the static variables of each of `enqueue`, `dequeue` and `period`; those of `enqueue` are
    prefixed with the name of their program, so that they survive a replacement of code.
    """

    def __init__(self, how: Derivation, text: str) -> None:
        self._made: dict[str, Any] = json.loads(text) if text else {}
        only = "filter." if how.transform is None else "transform." if how.filter is None else ""
        self._prefixes = {ENQUEUE: only}
        if how.state and STATE not in self._made:
            self._made[STATE] = how.state.values

    @property
    def text(self) -> str:
        """All current state as text; `""` if there is none."""
        return json.dumps(self._made) if self._made else ""

    def of(self, place: str, initial: Statics) -> _Statics:
        """The state of the programs of one place, in a context that stores the new state."""
        return _Statics(self._made, place, initial, self._prefixes.get(place, ""))


@dataclass(slots=True)
class _Statics:
    made: dict[str, Any]
    place: str
    initial: Statics
    prefix: str
    statics: Statics = field(default_factory=dict)

    def __enter__(self) -> Statics:
        own = self.made.get(self.place, {})
        for name, value in self.initial.items():
            kept = self.made[STATE] if name == STATE else own.get(self.prefix + name, value)
            self.statics[name] = _from_json(kept)
        return self.statics

    def __exit__(self, *_: object) -> None:
        own = {self.prefix + name: _to_json(value) for name, value in self.statics.items() if name != STATE}
        if STATE in self.statics:
            self.made[STATE] = _to_json(self.statics[STATE])
        if own:
            self.made[self.place] = own


def _to_json(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode("utf-8", "surrogateescape")
        case list() | tuple():
            return [_to_json(one) for one in value]
        case dict():
            return {name: _to_json(one) for name, one in value.items()}
    return value


def _from_json(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "surrogateescape")
        case list():
            return [_from_json(one) for one in value]
        case dict():
            return {name: _from_json(one) for name, one in value.items()}
    return value


def _by_producer(arrived: Sequence[Arrived], child: ChannelInfo) -> Iterator[tuple[str, list[Prepared]]]:
    """The events of each producer, in their order. Raises PBIO_BAD_PROGRAM if they have none."""
    found: dict[str, list[Prepared]] = {}
    tasks: dict[str, set[int]] = {}
    for one in arrived:
        groups = one.events.groups
        for i, row in enumerate(groups.rows):
            producer = "" if row["producer"] == NO_NUMBER else groups.producers[row["producer"]]
            found.setdefault(producer, []).append(replace(one.events, groups=groups.take(np.array([i]))))
            if one.task is not None and row["sequence"] == NO_NUMBER:
                tasks.setdefault(producer, set()).add(one.task)
    for producer, several in tasks.items():
        if len(several) > 1:
            whose = f"of producer {producer[:80]!r}" if producer else "without a producer"
            raise PbioError(
                "PBIO_BAD_PROGRAM",
                f"{child.name!r} keeps state, and {len(several)} tasks write events {whose} that have no order",
                hint="name the columns of producers and numbers (producerColumn, sequenceColumn), or write in one task "
                "(df.coalesce(1))",
            )
    yield from found.items()
