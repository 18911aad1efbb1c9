"""The events of derived channels, made as those of their parents are published, in any order.

The committer derives channels that need the order of their producers: see `ordered`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

import ecode
from ecode.columns import loop_kernels
from ecode.native import Kernel, adopt
from pbio_spark.channels.commits.commit import Made
from pbio_spark.channels.commits.derivation import NO_BLOCK, Derivation
from pbio_spark.channels.commits.groups import NO_NUMBER, Groups, Int64s
from pbio_spark.channels.derive.check import Checked, alters, check_derivation, normal_form, with_copy
from pbio_spark.channels.derive.reports import Ledger
from pbio_spark.channels.derive.source import Source
from pbio_spark.channels.derive.step import Came, Lying, NativeStep, Stage, StageStep, Statics, Tally, compiled, select
from pbio_spark.channels.log.state import ChannelInfo, State
from pbio_spark.channels.publish.prepare import Prepared
from pbio_spark.channels.publish.submission import channel_format
from pbio_spark.columns import Encoded, gather
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.store import FormatStore

_LEAST_KEPT = 256
_FORMATS_KEPT = 4
"""How many formats of its parent's events each derived channel keeps compiled steps for."""


@dataclass(frozen=True, slots=True)
class Derivatives:
    """The events derived from some events.

    Attributes:
        events: the events, of derived channels.
        refused: channels whose events could not be derived, with the reasons.
        made: reports, channel by channel.
        traps: channels on whose events a program trapped, with the first trap's reason.
    """

    events: tuple[Prepared, ...] = ()
    refused: tuple[tuple[int, str], ...] = ()
    made: tuple[Made, ...] = ()
    traps: tuple[tuple[int, str], ...] = ()


class Deriver:
    """Makes the events of derived channels. It caches compiled programs, and pickles with them.

    Attributes:
        source: the source that derives.
    """

    def __init__(self, formats: FormatStore, source: Source | None = None) -> None:
        self.source = source or Source()
        self._formats = formats
        self._steps: dict[tuple[Stage, Format], StageStep] = {}
        """Compiled steps, the most recently used last."""
        self._most = _LEAST_KEPT
        self._loops: tuple[Kernel, ...] = ()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for kernel in self._loops:
            adopt(kernel)

    def derive(self, events: Sequence[Prepared], state: State) -> Derivatives:
        """The events of all channels that are derived from these, unless they must be made in order.

        An event on which a program traps is left out. Channels with the same events share their bytes. So does a
        channel with its parent, if it has all or none of each producer's events: positions keep their order.
        """
        made: list[Prepared] = []
        refused: dict[int, str] = {}
        ledger = Ledger()
        copied: set[int] = set()
        parents = state.parents
        self._make_room(state)
        waiting = list(events)
        for one in waiting:  # grows while it is walked
            shared: _AllShared = {}
            for channel in sorted(parents.intersection(one.groups.rows["channel"].tolist())):
                parent = state.channels[channel]
                own = of_channel(one, channel)
                children = [child for child in self.children(channel, state) if not child.is_ordered]
                for child, alike in self._alike(own, parent, children, shared, refused, copied):
                    ledger.add(child, own, alike.made, alike.tally)
            found = [events for alike in shared.values() for events in alike.of_channels()]
            for alike in shared.values():
                if any(events.encoded is not one.encoded for events in alike.made):
                    copied |= {child.id for child in alike.channels}
            made += found
            waiting += found
        return Derivatives(tuple(made), tuple(refused.items()), ledger.made, ledger.traps)

    def _alike(
        self,
        events: Prepared,
        parent: ChannelInfo,
        children: Sequence[ChannelInfo],
        shared: _AllShared,
        refused: dict[int, str],
        copied: Collection[int],
    ) -> list[tuple[ChannelInfo, _Shared]]:
        """The events of some channels, derived from those of their parent; equal events are stored once.

        Args:
            shared: what was derived from these bytes, by source and code; it grows.
            refused: channels whose events could not be derived, with the reasons; it grows.
            copied: channels with events after all of these in the file, so that no others may come before.
        """
        place = events.groups.rows[["start", "end"]].tobytes()
        new: list[tuple[_Shared, StageStep]] = []
        found: list[tuple[ChannelInfo, _Shared]] = []
        for child in children:
            key = place, _how(child), child.id not in copied
            try:
                if key not in shared:
                    step = self.step(self.enqueue(parent, child), events.format)
                    shared[key] = _Shared(may_refer=key[-1])
                    new.append((shared[key], step))
            except PbioError as error:
                refused[child.id] = str(error)
                continue
            shared[key].channels.append(child)
            found.append((child, shared[key]))
        self._run(new, events)
        failed = {id(one): one.error for one, _ in new if one.error}
        refused |= {child.id: failed[id(one)] for child, one in found if id(one) in failed}
        for key in [key for key, one in shared.items() if id(one) in failed]:
            del shared[key]
        return [(child, one) for child, one in found if id(one) not in failed]

    def _run(self, new: Sequence[tuple[_Shared, StageStep]], events: Prepared) -> None:
        """Derive the events of channels, once for all that are derived alike; filters run in one pass."""
        lying = Lying(events.encoded, events.groups.ordinals)
        filters = [(one, step) for one, step in new if isinstance(step, NativeStep) and step.selects]
        if filters:
            given = [(step, one.values) for one, step in filters]
            for (one, _), (came, tally) in zip(filters, select(given, lying), strict=True):
                one.tally = tally
                one.made = came_to_events([came], events, one.channels[0], events.format, lying, one.may_refer)
        for one, step in new:
            if not (isinstance(step, NativeStep) and step.selects):
                child = one.channels[0]
                try:
                    one.made = run_step(step, events, child, None, one.tally, self.format_of(child), lying)
                except PbioError as error:
                    one.error = str(error)

    def children(self, channel: int, state: State) -> list[ChannelInfo]:
        """The channels that this source derives from one."""
        name = self.source.name
        return [
            child for child in state.made_of(channel) if not state.derived.is_suspended(child.id, name, child.version)
        ]

    def warm(self, channel: int, form: Format, state: State) -> None:
        """Compile the derivations for events of a channel and a format. Those that fail are reported by `derive`."""
        self._make_room(state)
        self._loops = loop_kernels()
        waiting = [(state.channels[channel], form)]
        for parent, met in waiting:  # grows while it is walked
            steps = []
            for child in self.children(parent.id, state):
                with suppress(PbioError):
                    steps.append(self.step(stage := self.enqueue(parent, child), met))
                    waiting.append((child, stage.output or met))
            gather([one.gatherable for one in steps if isinstance(one, NativeStep) and one.selects])

    def check(self, parent: Format, own: Format, derivation: Derivation) -> Checked:
        """A checked derivation. Raises PBIO_BAD_PROGRAM, or whatever else prevents deriving a channel's events from the
        parent's own."""
        checked = check_derivation(parent, own, derivation)
        with suppress(_NotGrantedError):
            self.step(self._enqueue(parent, own, checked.derivation), parent)
        return checked

    def enqueue(self, parent: ChannelInfo, child: ChannelInfo) -> Stage:
        """The stage that sees each event as it is published. Raises PBIO_BAD_PROGRAM for what the source does not
        grant."""
        assert child.derivation is not None
        parent_format, own = channel_format(parent, self._formats), channel_format(child, self._formats)
        return self._enqueue(parent_format, own, child.derivation)

    def dequeue(self, child: ChannelInfo) -> Stage | None:
        """The stage that sees each event as it is committed to the log, if any."""
        how, own = child.derivation, channel_format(child, self._formats)
        assert how is not None
        if how.dequeue is None:
            return None
        if alters(how.dequeue):
            return self._stage(own, own, how, None, with_copy(how.dequeue))
        return self._stage(own, None, how, how.dequeue, None)

    def step(self, stage: Stage, form: Format) -> StageStep:
        """A stage, compiled for events of a format. Raises what `compiled` raises."""
        key = stage, form
        step = self._steps.pop(key, None) or compiled(stage, form, self._formats)
        self._steps[key] = step
        while len(self._steps) > self._most:
            self._steps.pop(next(iter(self._steps)), None)
        return step

    def format_of(self, channel: ChannelInfo) -> Format:
        """The format of a channel's type."""
        return channel_format(channel, self._formats)

    def granted(self, how: Derivation) -> tuple[ecode.Function, ...]:
        """The functions that a derivation may call. Raises PBIO_BAD_PROGRAM for one that the source does not grant."""
        return self.source.granted(how.services)

    def _enqueue(self, parent: Format, own: Format, how: Derivation) -> Stage:
        return self._stage(parent, own if how.transform is not None else None, how, how.filter, how.transform)

    def _stage(
        self, input_: Format, output: Format | None, how: Derivation, filter_: str | None, transform: str | None
    ) -> Stage:
        try:
            functions = self.granted(how)
        except PbioError as error:
            raise _NotGrantedError(error.code, error.reason, hint=error.hint) from None
        most = self.source.max_cost
        # Only the types of the blocks matter: their values are arguments.
        parameters, state = (replace(block, text="") if block else NO_BLOCK for block in (how.parameters, how.state))
        return Stage(
            input_,
            output,
            filter_,
            transform,
            parameters,
            state,
            functions,
            how.max_cost if most is None else min(how.max_cost, most),
            how.is_ordered,
            is_tight=most is not None and most < how.max_cost,
        )

    def made_of(
        self, events: Prepared, parent: ChannelInfo, child: ChannelInfo, lying: Lying | None = None
    ) -> tuple[list[Prepared], Tally]:
        """The events of a channel that needs no order, made of those of its parent, which lie together."""
        assert child.derivation is not None
        tally = Tally()
        step = self.step(self.enqueue(parent, child), events.format)
        return run_step(step, events, child, None, tally, self.format_of(child), lying), tally

    def _make_room(self, state: State) -> None:
        """Cache enough for all channels, with a few formats each; with a smaller cache, everything is recompiled."""
        derived = sum(info.derivation is not None for info in state.channels.values())
        self._most = max(_LEAST_KEPT, _FORMATS_KEPT * derived)


class _NotGrantedError(PbioError):
    """A source does not grant what a derivation needs: another one may."""


@dataclass(slots=True)
class _Shared:
    """Events of all channels that are derived alike.

    Attributes:
        may_refer: whether they may be where the parent's are.
        error: why there are none.
    """

    may_refer: bool
    channels: list[ChannelInfo] = field(default_factory=list)
    made: list[Prepared] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    error: str = ""

    @property
    def values(self) -> Mapping[str, Any]:
        """Of their parameters."""
        assert self.channels[0].derivation is not None
        return self.channels[0].derivation.parameters.values

    def of_channels(self) -> list[Prepared]:
        """The events, with groups for each channel."""
        made = []
        for one in self.made:
            groups = one.groups.shared([child.id for child in self.channels])
            versions = [child.version for child in self.channels]
            groups.rows["derivation"] = np.tile(np.array(versions, np.int64), len(one.groups))
            made.append(replace(one, groups=groups))
        return made


_AllShared: TypeAlias = "dict[tuple[bytes, str, bool], _Shared]"


def run_step(
    step: StageStep,
    events: Prepared,
    child: ChannelInfo,
    statics: Statics | None,
    tally: Tally,
    own: Format,
    lying: Lying | None = None,
) -> list[Prepared]:
    """What a step makes of events, for a channel.

    Args:
        statics: what its programs keep, if they do.
        own: the format of what its transform makes.
        lying: where the events are in memory, if known.
    """
    assert child.derivation is not None
    lying = lying or Lying(events.encoded, events.groups.ordinals)
    came = step.run(lying, child.derivation.parameters.values, statics, tally)
    return came_to_events(came, events, child, own, lying)


def came_to_events(
    several: Iterable[Came],
    events: Prepared,
    child: ChannelInfo,
    own: Format,
    lying: Lying,
    may_refer: bool = False,
) -> list[Prepared]:
    """What came of events, for a channel; `own` is the format of what a transform makes.

    Args:
        may_refer: whether events that a filter keeps may stay where they are, if it keeps all of a group or none.
    """
    made = []
    for came in several:
        if may_refer and came.encoded is None and (whole := whole_groups(events.groups, came.ordinals, child)):
            made.append(replace(events, groups=whole))
            continue
        form = events.format if came.encoded is None else own
        encoded = lying.take(came.ordinals) if came.encoded is None else came.encoded
        groups = groups_of(events.groups, came.ordinals, encoded, child, form)
        if len(groups):
            made.append(Prepared(form, encoded, groups))
    return made


def of_channel(events: Prepared, channel: int) -> Prepared:
    """The events of one channel."""
    return replace(events, groups=events.groups.take(np.flatnonzero(events.groups.rows["channel"] == channel)))


def whole_groups(parent: Groups, ordinals: Int64s, child: ChannelInfo) -> Groups | None:
    """The parent's groups that a filter keeps; None if it keeps only a part of some group."""
    first = np.searchsorted(ordinals, parent.rows["ordinal"])
    counts = np.searchsorted(ordinals, parent.rows["ordinal"] + parent.rows["count"]) - first
    if not len(ordinals) or not ((counts == 0) | (counts == parent.rows["count"])).all():
        return None
    groups = parent.take(np.flatnonzero(counts))
    rows = groups.rows
    rows["channel"], rows["sequence"], rows["derivation"] = child.id, NO_NUMBER, child.version
    return replace(groups, sequences={})


def groups_of(parent: Groups, ordinals: Int64s, encoded: Encoded, child: ChannelInfo, form: Format) -> Groups:
    """The groups of derived events, with the producers of the events that they were derived from."""
    first = np.searchsorted(ordinals, parent.rows["ordinal"])
    end = np.searchsorted(ordinals, parent.rows["ordinal"] + parent.rows["count"])
    kept = np.flatnonzero(first < end)
    first, end = first[kept], end[kept]
    groups = parent.take(kept)
    times = {
        i: known[ordinals[first[i] : end[i]] - groups.rows["ordinal"][i]] for i, known in groups.event_times.items()
    }
    rows = groups.rows
    rows["channel"], rows["format"], rows["sequence"] = child.id, 0, NO_NUMBER
    rows["derivation"] = child.version
    rows["ordinal"], rows["count"] = first, end - first
    rows["start"], rows["end"] = encoded.offsets[first], encoded.offsets[end]
    for i, known in times.items():
        rows["event_time"][i] = known[0]
    return Groups(rows, (form.id.hex(),), groups.producers, {}, times)


def _how(child: ChannelInfo) -> str:
    """A key that channels of one parent share if they have the same events."""
    assert child.derivation is not None
    # As text, since 2 and 2.0 are equal but differ for a program.
    how = replace(
        child.derivation,
        filter=normal_form(child.derivation.filter),
        transform=normal_form(child.derivation.transform),
        parent=0,
        shared=0,
        when="always",
        is_temporary=False,
        max_traps=0,
    )
    return repr((child.format, how))
