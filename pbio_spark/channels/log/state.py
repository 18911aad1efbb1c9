"""The state after a commit: the channels, the progress of each producer, and the amount of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ecode.suggest import did_you_mean
from pbio_spark.channels.commits.checked import Keep, bad
from pbio_spark.channels.commits.commit import (
    Change,
    Commit,
    Compact,
    Create,
    Data,
    Drop,
    Made,
    Replace,
    Share,
    Trim,
    Trims,
    Turn,
    Watch,
)
from pbio_spark.channels.commits.derivation import Derivation, ParameterBlock
from pbio_spark.channels.commits.groups import Groups
from pbio_spark.channels.log.derived import Derived, SharedBlock
from pbio_spark.channels.named import AnyChannel, name_and_id
from pbio_spark.channels.position import NOWHERE, Position
from pbio_spark.errors import PbioError


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """What a space knows about a channel.

    Attributes:
        id: the version of the commit that created it.
        name: which an earlier or later channel may share.
        format: the ID of the format that describes its type, in hexadecimal.
        created: in microseconds since 1970 UTC.
        events, bytes: published so far.
        last: the version of the last commit with events of the channel; 0 if there is none.
        derivation: of a derived channel.
        since: the version since which the current derivation must be used; 0 for a channel that is not derived.
        version: of the last change of its derivation, which sources may not have seen yet.
        until: the time by which they must have seen it, in microseconds since 1970 UTC.
        is_watched: whether it has subscribers; recorded only for channels derived while `subscribed`.
        refused: why a writer could not derive its events, if one has failed since then.
        keep: how long its events are kept.
        first: events in commits of lower versions are no longer kept.
        gone: the first position after the removed events.
    """

    id: int
    name: str
    format: str
    created: int
    events: int = 0
    bytes: int = 0
    last: int = 0
    derivation: Derivation | None = None
    since: int = 0
    refused: str | None = None
    keep: Keep = "always"
    first: int = 0
    gone: Position = NOWHERE
    version: int = 0
    until: int = 0
    is_watched: bool = False

    @property
    def is_ordered(self) -> bool:
        """Whether its events must be derived in the order of their producers."""
        return self.derivation is not None and self.derivation.is_ordered

    @property
    def is_derived(self) -> bool:
        """Whether sources derive it now."""
        return self.derivation is not None and (self.derivation.when == "always" or self.is_watched)


class State:
    """The state of a space after a version; it grows commit by commit.

    Attributes:
        version: of the last commit.
        commit, digest: the ID of that commit and its digest, which show whether a checkpoint belongs to this history.
        time: when it was published.
        control: the version of the last change to the set of channels or their derivations.
        channels: existing channels by ID.
        sequences: the last sequence number of each (channel, producer).
        transactions: the last number of each application, and the version of its commit; 0 if that is unknown.
        turn: the writer for which the next commit is reserved, if any.
        derived: states and reports of derivations.
        compactions: the first and last version that each compaction merged, and its own version.
    """

    def __init__(self, space: str) -> None:
        self.space = space
        self.version = 0
        self.commit = ""
        self.digest = ""
        self.time = 0
        self.control = 0
        self.channels: dict[int, ChannelInfo] = {}
        self.names: dict[str, int] = {}
        self._children: dict[int, list[int]] = {}
        self.sequences: dict[tuple[int, str], int] = {}
        self.transactions: dict[str, tuple[int, int]] = {}
        self.compactions: list[tuple[int, int, int]] = []
        self.turn: Turn | None = None
        self.derived = Derived()

    def named(self, channel: AnyChannel) -> ChannelInfo:
        """The channel of a name, or the current state of one opened before. Raises PBIO_UNKNOWN_CHANNEL."""
        name, number = name_and_id(channel)
        if number is not None and self.names.get(name) != number:
            raise dropped_to_error(name, recreated=name in self.names)
        if name not in self.names:
            hint = did_you_mean(name, self.names) or "`pbio space ls` lists them"
            raise PbioError("PBIO_UNKNOWN_CHANNEL", f"unknown channel {name!r}", hint=hint)
        return self.channels[self.names[name]]

    def children(self, channel: int) -> list[ChannelInfo]:
        """The channels that are derived from one, the older ones first."""
        return [self.channels[child] for child in self._children.get(channel, ())]

    def made_of(self, channel: int) -> list[ChannelInfo]:
        """The children that sources currently derive."""
        return [child for child in self.children(channel) if child.is_derived]

    @property
    def parents(self) -> set[int]:
        """The channels from which others are derived."""
        return {parent for parent, children in self._children.items() if children}

    def descendants(self, channels: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """All channels derived from some channels, with the versions of their current derivations."""
        waiting = sorted(self.parents.intersection(channels))
        found = []
        for channel in waiting:
            for child in self.made_of(channel):
                found.append((child.id, child.since))
                waiting += [child.id]
        return tuple(found)

    def has_ordered(self, channels: Iterable[int]) -> bool:
        """Whether some channel must be derived in order from these."""
        return any(self.channels[child].is_ordered for child, _ in self.descendants(channels))

    def is_current(self, made: Iterable[Made], now: int) -> bool:
        """Whether events were derived as they must be at a time, in microseconds since 1970 UTC."""
        for one in made:
            info = self.channels.get(one.channel)
            if info is None or one.version < (info.version if now >= info.until else info.since):
                return False
        return True

    def outline(self, channel: int | None = None) -> State:
        """A copy with only the channels, as needed for preparing events.

        Args:
            channel: the only channel of the events, if there is one; channels not derived from it are left out.
        """
        made = State(self.space)
        made.control, made.version, made.time = self.control, self.version, self.time
        made.derived.reports = self.derived.reports
        wanted = None if channel is None else {channel, *(child for child, _ in self.descendants([channel]))}
        for info in self.channels.values():
            if wanted is None or info.id in wanted:
                made.add(info)
        return made

    def status(self, channel: int) -> str:
        """Whether writers derive the channel's events: `pending` until one has, `accepted`, or `refused` or `suspended`
        with the reason if one of them does not; `direct` for a channel that is not derived."""
        info = self.channels[channel]
        if info.derivation is None:
            return "direct"
        reported = self.derived.status(channel, info.since, info.version)
        if reported is not None:
            return reported
        if info.refused is not None:
            return f"refused: {info.refused}"
        return "accepted" if self.channels[info.derivation.parent].last > info.version else "pending"

    def add(self, info: ChannelInfo) -> None:
        """Add a channel."""
        self.channels[info.id] = info
        self.names[info.name] = info.id
        if info.derivation is not None:
            self._children.setdefault(info.derivation.parent, []).append(info.id)

    def _remove(self, channel: int) -> None:
        info = self.channels.pop(channel)
        del self.names[info.name]
        self.derived.forget(channel)
        if info.derivation is not None:
            self._children[info.derivation.parent].remove(channel)
        self.sequences = {key: last for key, last in self.sequences.items() if key[0] != channel}

    def check(self, entry: Commit) -> None:
        """Raise PBIO_BAD_LOG if the commit cannot follow this state."""
        if entry.space != self.space:
            bad(f"the commit belongs to another space, {entry.space[:40]}")
        if entry.prior not in (None, self.digest):
            bad(f"the commit was not made on the commit {self.version} that is here: one of them was replaced")
        if entry.time < self.time:
            bad("the commit is older than the one before it")
        if entry.commit == self.commit:
            bad("the commit repeats the one before it")
        match entry.change:
            case Create(name, _, derivation):
                if name in self.names:
                    bad(f"a channel {name!r} already exists")
                if derivation is not None:
                    self._known(derivation.parent)
                    self._check_block(derivation)
            case Share(name):
                if self.derived.named(name) is not None:
                    bad(f"a parameter block {name!r} already exists")
            case Change(channel, parameters):
                if self._parameters(channel).shape != parameters.shape:
                    bad(f"the parameters of the channel {channel} have other types")
            case Replace(channel, _, derivation):
                known = self._known(channel).derivation
                if known is None or known.parent != derivation.parent:
                    bad(f"the channel {channel} is not derived from the channel {derivation.parent}")
                self._check_block(derivation)
            case Watch(channel):
                if self._known(channel).derivation is None:
                    bad(f"the channel {channel} is not derived")
            case Trim() as trim:
                self._check_trim(trim)
            case Trims(trims):
                for one in trims:
                    self._check_trim(one)
            case Drop(channel) if channel in self.derived.blocks:
                if self.sharing(channel):
                    bad(f"channels share the parameter block {channel}")
            case Drop(channel):
                self._known(channel)
                if self.children(channel):
                    bad(f"channels are derived from the channel {channel}")
            case Data() as data:
                self._check_data(data)

    def apply(self, entry: Commit) -> None:
        """Apply the next commit. Raises PBIO_BAD_LOG, with nothing changed, if it cannot follow this state."""
        self.check(entry)
        version = self.version + 1
        match entry.change:
            case Create(name, format_id, derivation, keep):
                since = 0 if derivation is None else version
                info = ChannelInfo(version, name, format_id, entry.time, derivation=derivation, since=since, keep=keep)
                self.add(replace(info, first=version + 1, version=since))
            case Share(name, parameters):
                self.derived.blocks[version] = SharedBlock(version, name, parameters, version)
            case Change() as change:
                self._change(change, version, entry.time)
            case Replace() as change:
                self._replace(change, version)
            case Watch(channel, is_watched):
                self.channels[channel] = replace(self.channels[channel], is_watched=is_watched)
            case Trim() as trim:
                self._trim(trim)
            case Trims(trims):
                for one in trims:
                    self._trim(one)
            case Compact(first, last):
                self.compactions.append((first, last, version))
            case Drop(channel) if channel in self.derived.blocks:
                del self.derived.blocks[channel]
            case Drop(channel):
                self._remove(channel)
            case Data() as data:
                self._add(version, data, entry.time)
        if isinstance(entry.change, Create | Share | Change | Replace | Watch | Drop):
            self.control = version
        self.turn = entry.change if isinstance(entry.change, Turn) else None
        self.version, self.commit, self.digest, self.time = version, entry.commit, entry.digest, entry.time

    def _parameters(self, number: int) -> ParameterBlock:
        """The parameters of a derived channel, or of a shared block, by its ID."""
        if number in self.derived.blocks:
            return self.derived.blocks[number].parameters
        derivation = self._known(number).derivation
        if derivation is None:
            bad(f"the channel {number} is not derived, and has no parameters")
        return derivation.parameters

    def _check_block(self, derivation: Derivation) -> None:
        """Raise PBIO_BAD_LOG if a derivation shares a block that does not exist or has changed."""
        block = self.derived.blocks.get(derivation.shared)
        if derivation.shared and (block is None or block.parameters != derivation.parameters):
            bad(f"the parameter block {derivation.shared} does not exist, or has changed")

    def sharing(self, block: int) -> list[ChannelInfo]:
        """The channels that share a block of parameters."""
        return [info for info in self.channels.values() if info.derivation and info.derivation.shared == block]

    def _change(self, change: Change, version: int, time: int) -> None:
        block = self.derived.blocks.get(change.channel)
        if block is not None:
            self.derived.blocks[block.id] = replace(block, parameters=change.parameters, version=version)
        for info in [self.channels[change.channel]] if block is None else self.sharing(block.id):
            assert info.derivation is not None
            derivation = replace(info.derivation, parameters=change.parameters)
            since, until = (info.since, time + change.lazy) if change.lazy else (version, 0)
            self.channels[info.id] = replace(
                info, derivation=derivation, since=since, version=version, until=until, refused=None
            )

    def _replace(self, change: Replace, version: int) -> None:
        info = self.channels[change.channel]
        if not change.keeps_state:
            self.derived.forget_states(info.id)
        self.channels[info.id] = replace(
            info,
            format=change.format,
            derivation=change.derivation,
            since=version,
            version=version,
            until=0,
            refused=None,
        )

    def _check_trim(self, trim: Trim) -> None:
        if trim.before < self._known(trim.channel).first:
            bad(f"events of channel {trim.channel} that were removed would come back")

    def _trim(self, trim: Trim) -> None:
        self.channels[trim.channel] = replace(self.channels[trim.channel], first=trim.before, gone=trim.end)

    def _check_data(self, data: Data) -> None:
        if data.control != self.control:
            bad(f"the commit was made under control version {data.control}, not {self.control}")
        for channel in set(data.groups.rows["channel"].tolist()):
            self._known(channel)
        done: dict[tuple[int, str], int] = {}
        for _, channel, producer, first, last in data.groups.numbered():
            key = channel, producer
            if first <= done.get(key, self.sequences.get(key, -1)):
                bad(f"producer {producer[:80]!r} publishes event {first} a second time")
            done[key] = last
        for channel, _ in (*data.refused, *data.suspended):
            self._known(channel)
        for channel in {*(one.channel for one in data.made), *(channel for channel, _, _ in data.states)}:
            if self._known(channel).derivation is None:
                bad(f"the channel {channel} is not derived")
        if data.transaction is not None:
            application, number = data.transaction.application, data.transaction.number
            if number <= self.transactions.get(application, (-1, 0))[0]:
                bad(f"application {application[:80]!r} publishes batch {number} a second time")

    def _add(self, version: int, data: Data, time: int) -> None:
        if data.transaction is not None:
            self.transactions[data.transaction.application] = data.transaction.number, version
        for channel, reason in data.refused:
            self.channels[channel] = replace(self.channels[channel], refused=reason)
        versions = {channel: self.channels[channel].version for channel, _ in (*data.refused, *data.suspended)}
        self.derived.add(data, versions, time)
        for _, channel, producer, _, last in data.groups.numbered():
            self.sequences[channel, producer] = last
        for channel, events, size in _totals(data.groups):
            info = self.channels[channel]
            self.channels[channel] = replace(info, events=info.events + events, bytes=info.bytes + size, last=version)

    def _known(self, channel: int) -> ChannelInfo:
        return self.channels.get(channel) or bad(f"unknown channel {channel}")


def dropped_to_error(name: str, *, recreated: bool = False) -> PbioError:
    """The error for a channel that no longer exists; `recreated` if another channel has its name."""
    more = ", and another channel has its name" if recreated else ""
    return PbioError(
        "PBIO_UNKNOWN_CHANNEL",
        f"the channel {name!r} has been dropped{more}",
        hint="open it again: `space.channel(name)`" if recreated else "`pbio space ls` lists the channels",
    )


def _totals(groups: Groups) -> Iterator[tuple[int, int, int]]:
    """The channels of some groups, with the numbers of their events and bytes there."""
    channels, places = np.unique(groups.rows["channel"], return_inverse=True)
    totals = np.zeros((2, len(channels)), np.int64)
    np.add.at(totals[0], places, groups.rows["count"])
    np.add.at(totals[1], places, groups.rows["end"] - groups.rows["start"])
    yield from zip(channels.tolist(), *totals.tolist(), strict=True)
