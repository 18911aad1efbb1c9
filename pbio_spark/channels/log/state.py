"""What all commits up to one add up to: the channels, how far each producer has come, and how much there is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ecode.suggest import did_you_mean
from pbio_spark.channels.commits.checked import (
    Keep,
    a_digest,
    a_format,
    a_keep,
    a_list,
    a_name,
    a_number,
    a_position,
    a_text,
    a_time,
    bad,
    parse,
)
from pbio_spark.channels.commits.commit import (
    Change,
    Commit,
    Compact,
    Create,
    Data,
    Derivation,
    Drop,
    Trim,
    Trims,
    Turn,
)
from pbio_spark.channels.commits.commit_json import derivation_to_json, json_to_derivation
from pbio_spark.channels.commits.groups import Groups
from pbio_spark.channels.position import NOWHERE, Position
from pbio_spark.errors import PbioError


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """What a space knows of a channel.

    Attributes:
        id: the version of the commit that created it.
        name: which another channel may have had before, or have later.
        format: the ID of the format that describes its type, in hexadecimal.
        created: in microseconds since 1970 UTC.
        events, bytes: published so far.
        last: the version of the last commit with events of it; 0 if there is none.
        derivation: of a derived channel.
        since: the version since which it is derived as it is now; 0 if it is not derived.
        refused: why a writer could not make its events, if one has failed to since then.
        keep: how long its events are kept.
        first: events in commits of lower versions are no longer kept.
        gone: the first position after those.
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


class State:
    """The state of a space after a version; it grows commit by commit.

    Attributes:
        version: of the last commit.
        commit, digest: the ID of that commit and its digest, which show whether a checkpoint belongs to this history.
        time: when it was published.
        control: the version of the last change of which channels there are, or how they are derived.
        channels: by ID, those that are there.
        sequences: the last sequence number of each (channel, producer).
        transactions: the last number of each application, and the version of its commit; 0 if that is unknown.
        turn: whose the next commit is, if a writer took a turn.
        compactions: the first and the last version that each one merged, and its own version.
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

    def named(self, name: str) -> ChannelInfo:
        """The channel of a name. Raises PBIO_UNKNOWN_CHANNEL."""
        if name not in self.names:
            hint = did_you_mean(name, self.names) or "`pbio space ls` lists them"
            raise PbioError("PBIO_UNKNOWN_CHANNEL", f"unknown channel {name!r}", hint=hint)
        return self.channels[self.names[name]]

    def children(self, channel: int) -> list[ChannelInfo]:
        """The channels that are derived from one, the older ones first."""
        return [self.channels[child] for child in self._children.get(channel, ())]

    @property
    def parents(self) -> set[int]:
        """The channels from which others are derived."""
        return {parent for parent, children in self._children.items() if children}

    def descendants(self, channels: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """All channels that are derived from some, and since when as they are now."""
        waiting = sorted(self.parents.intersection(channels))
        found = []
        for channel in waiting:
            for child in self.children(channel):
                found.append((child.id, child.since))
                waiting += [child.id]
        return tuple(found)

    def outline(self, channel: int | None = None) -> State:
        """A copy of which channels there are, and no more: what it takes to prepare events for them.

        Args:
            channel: that the events are for, if there is only one; what is not derived from it is left out.
        """
        made = State(self.space)
        made.control = self.control
        wanted = None if channel is None else {channel, *(child for child, _ in self.descendants([channel]))}
        for info in self.channels.values():
            if wanted is None or info.id in wanted:
                made.add(info)
        return made

    def status(self, channel: int) -> str:
        """Whether the writers make the events of a derived channel: `pending` until one has, `accepted`, or `refused`
        and the reason; `direct` for a channel that is not derived."""
        info = self.channels[channel]
        if info.derivation is None:
            return "direct"
        if info.refused is not None:
            return f"refused: {info.refused}"
        return "accepted" if self.channels[info.derivation.parent].last > info.since else "pending"

    def add(self, info: ChannelInfo) -> None:
        """Begin a channel."""
        self.channels[info.id] = info
        self.names[info.name] = info.id
        if info.derivation is not None:
            self._children.setdefault(info.derivation.parent, []).append(info.id)

    def _remove(self, channel: int) -> None:
        info = self.channels.pop(channel)
        del self.names[info.name]
        if info.derivation is not None:
            self._children[info.derivation.parent].remove(channel)
        self.sequences = {key: last for key, last in self.sequences.items() if key[0] != channel}

    def check(self, entry: Commit) -> None:
        """Raise PBIO_BAD_LOG if the commit cannot follow here."""
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
                    bad(f"a channel {name!r} exists already")
                if derivation is not None:
                    self._known(derivation.parent)
            case Change(channel):
                if self._known(channel).derivation is None:
                    bad(f"the channel {channel} is not derived, and has no parameters")
            case Trim() as trim:
                self._check_trim(trim)
            case Trims(trims):
                for one in trims:
                    self._check_trim(one)
            case Drop(channel):
                self._known(channel)
                if self.children(channel):
                    bad(f"channels are derived from the channel {channel}")
            case Data() as data:
                self._check_data(data)

    def apply(self, entry: Commit) -> None:
        """Go on to the next version. Raises PBIO_BAD_LOG, with nothing changed, if the commit cannot follow here."""
        self.check(entry)
        version = self.version + 1
        match entry.change:
            case Create(name, format_id, derivation, keep):
                since = 0 if derivation is None else version
                info = ChannelInfo(version, name, format_id, entry.time, derivation=derivation, since=since, keep=keep)
                self.add(replace(info, first=version + 1))
            case Change(channel, parameters):
                info = self.channels[channel]
                assert info.derivation is not None
                derivation = replace(info.derivation, parameters=parameters)
                self.channels[channel] = replace(info, derivation=derivation, since=version, refused=None)
            case Trim() as trim:
                self._trim(trim)
            case Trims(trims):
                for one in trims:
                    self._trim(one)
            case Compact(first, last):
                self.compactions.append((first, last, version))
            case Drop(channel):
                self._remove(channel)
            case Data() as data:
                self._add(version, data)
        if isinstance(entry.change, Create | Change | Drop):
            self.control = version
        self.turn = entry.change if isinstance(entry.change, Turn) else None
        self.version, self.commit, self.digest, self.time = version, entry.commit, entry.digest, entry.time

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
        for channel, _ in data.refused:
            self._known(channel)
        if data.transaction is not None:
            application, number = data.transaction.application, data.transaction.number
            if number <= self.transactions.get(application, (-1, 0))[0]:
                bad(f"application {application[:80]!r} publishes batch {number} a second time")

    def _add(self, version: int, data: Data) -> None:
        if data.transaction is not None:
            self.transactions[data.transaction.application] = data.transaction.number, version
        for channel, reason in data.refused:
            self.channels[channel] = replace(self.channels[channel], refused=reason)
        for _, channel, producer, _, last in data.groups.numbered():
            self.sequences[channel, producer] = last
        for channel, events, size in _totals(data.groups):
            info = self.channels[channel]
            self.channels[channel] = replace(info, events=info.events + events, bytes=info.bytes + size, last=version)

    def _known(self, channel: int) -> ChannelInfo:
        return self.channels.get(channel) or bad(f"unknown channel {channel}")


def dropped_to_error(info: ChannelInfo, *, anew: bool = False) -> PbioError:
    """The error of a channel that no longer exists; `anew` if another one has its name."""
    more = ", and another one has its name" if anew else ""
    return PbioError(
        "PBIO_UNKNOWN_CHANNEL",
        f"the channel {info.name!r} has been dropped{more}",
        hint="open it again: `space.channel(name)`" if anew else "`pbio space ls` lists the channels",
    )


def _totals(groups: Groups) -> Iterator[tuple[int, int, int]]:
    """The channels of some groups, and how many events and bytes each has there."""
    channels, places = np.unique(groups.rows["channel"], return_inverse=True)
    totals = np.zeros((2, len(channels)), np.int64)
    np.add.at(totals[0], places, groups.rows["count"])
    np.add.at(totals[1], places, groups.rows["end"] - groups.rows["start"])
    yield from zip(channels.tolist(), *totals.tolist(), strict=True)


def state_to_json(state: State) -> bytes:
    """A checkpoint of the state; all programs make the same one of the same version."""
    made = {
        "space": state.space,
        "version": state.version,
        "commit": state.commit,
        "digest": state.digest,
        "time": state.time,
        "control": state.control,
        "channels": [_info_to_json(info) for info in state.channels.values()],
        "sequences": [[channel, producer, last] for (channel, producer), last in state.sequences.items()],
        "transactions": state.transactions,
        "compactions": state.compactions,
    }
    return json.dumps(made, separators=(",", ":")).encode()


def is_checkpoint(data: bytes, state: State) -> bool:
    """Whether some bytes are a checkpoint of a state, in this format or an older one."""
    try:
        kept = json_to_state(data, state.space, state.version)
    except PbioError:
        return False
    # What an old checkpoint does not have.
    kept.digest = kept.digest or state.digest
    for application, (number, version) in kept.transactions.items():
        if not version and state.transactions.get(application, (None, 0))[0] == number:
            kept.transactions[application] = state.transactions[application]
    return state_to_json(kept) == state_to_json(state)


def json_to_state(data: bytes, space: str, version: int) -> State:
    """The state of a checkpoint. Raises PBIO_BAD_LOG."""
    made = parse(data)
    if made.get("space") != space or made.get("version") != version:
        bad("the checkpoint belongs to another space or version")
    state = State(space)
    state.version = version
    state.commit = a_text(made.get("commit"))
    state.digest = a_digest(made["digest"]) if "digest" in made else ""
    state.time = a_time(made.get("time"))
    state.control = a_number(made.get("control"), most=version)
    newest = 0
    for said in a_list(made.get("channels")):
        info = _json_to_info(a_list(said, 13), version)
        # Each came to be at a version of its own, later than what it is derived from.
        is_new = info.id > newest and info.name not in state.names
        newest = info.id
        if not is_new or not (info.derivation is None or info.derivation.parent in state.channels):
            bad(f"the channel {info.id} contradicts those before it")
        state.add(info)
    for said in a_list(made.get("compactions")):
        first, last, own = (a_number(number, most=version) for number in a_list(said, 3))
        state.compactions.append((first, last, own))
    for said in a_list(made.get("sequences")):
        channel, producer, last = a_list(said, 3)
        state.sequences[a_number(channel), a_text(producer)] = a_number(last)
    transactions = made.get("transactions")
    if not isinstance(transactions, dict):
        bad("expected an object of transactions")
    for application, said in transactions.items():
        number, own = a_list(said, 2) if isinstance(said, list) else (said, 0)
        state.transactions[application] = a_number(number), a_number(own, most=version)
    return state


def _info_to_json(info: ChannelInfo) -> list[Any]:
    derivation = None if info.derivation is None else derivation_to_json(info.derivation)
    numbers = info.created, info.events, info.bytes, info.last
    kept = info.keep, info.first, str(info.gone)
    return [info.id, info.name, info.format, *numbers, derivation, info.since, info.refused, *kept]


def _json_to_info(said: Any, version: int) -> ChannelInfo:
    number, name, format_id, created, events, size, last, derivation, since, refused, keep, first, gone = said
    return ChannelInfo(
        a_number(number, most=version),
        a_name(name),
        a_format(format_id),
        a_time(created),
        a_number(events),
        a_number(size),
        a_number(last, most=version),
        None if derivation is None else json_to_derivation(derivation, version),
        a_number(since, most=version),
        None if refused is None else a_text(refused),
        a_keep(keep),
        a_number(first, most=version + 1),
        a_position(gone),
    )
