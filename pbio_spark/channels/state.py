"""What all commits up to one add up to: the channels, how far each producer came, and how much there is."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from pbio_spark.channels.entries import (
    Create,
    Data,
    Drop,
    Entry,
    a_format,
    a_list,
    a_name,
    a_number,
    a_text,
    bad,
    parse,
)


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
    """

    id: int
    name: str
    format: str
    created: int
    events: int = 0
    bytes: int = 0
    last: int = 0


class State:
    """The state of a space after a version; it grows commit by commit.

    Attributes:
        version: of the last commit.
        commit: the ID of that commit, by which a checkpoint of another history is found out.
        time: when it was published.
        control: the version of the last control change.
        channels: by ID, those that are there.
        sequences: the last sequence number of each (channel, producer).
        transactions: the last number of each application.
    """

    def __init__(self, space: str) -> None:
        self.space = space
        self.version = 0
        self.commit = ""
        self.time = 0
        self.control = 0
        self.channels: dict[int, ChannelInfo] = {}
        self.names: dict[str, int] = {}
        self.sequences: dict[tuple[int, str], int] = {}
        self.transactions: dict[str, int] = {}

    def apply(self, entry: Entry) -> None:
        """Go on to the next version. Raises PBIO_BAD_LOG, with nothing changed, if the commit cannot follow here."""
        if entry.space != self.space:
            bad(f"the commit belongs to another space, {entry.space[:40]}")
        if entry.time < self.time:
            bad("the commit is older than the one before it")
        version = self.version + 1
        match entry.change:
            case Create(name, format_id):
                if name in self.names:
                    bad(f"there is a channel {name!r} already")
                self.channels[version] = ChannelInfo(version, name, format_id, entry.time)
                self.names[name] = version
            case Drop(channel):
                del self.names[self._known(channel).name]
                del self.channels[channel]
                self.sequences = {key: last for key, last in self.sequences.items() if key[0] != channel}
            case Data() as data:
                self._add(version, data)
        if not isinstance(entry.change, Data):
            self.control = version
        self.version, self.commit, self.time = version, entry.commit, entry.time

    def _add(self, version: int, data: Data) -> None:
        if data.control != self.control:
            bad(f"the commit was made under control version {data.control}, not {self.control}")
        sequences: dict[tuple[int, str], int] = {}
        for group in data.groups:
            self._known(group.channel)
            if group.producer is not None and group.sequence is not None:
                key = group.channel, group.producer
                if group.sequence <= sequences.get(key, self.sequences.get(key, -1)):
                    bad(f"producer {group.producer[:80]!r} publishes event {group.sequence} once more")
                sequences[key] = group.sequence + group.count - 1
        if data.transaction is not None:
            application, number = data.transaction
            if number <= self.transactions.get(application, -1):
                bad(f"application {application[:80]!r} publishes batch {number} once more")
            self.transactions[application] = number
        self.sequences |= sequences
        for group in data.groups:
            info = self.channels[group.channel]
            self.channels[group.channel] = replace(
                info,
                events=info.events + group.count,
                bytes=info.bytes + group.end - group.start,
                last=version,
            )

    def _known(self, channel: int) -> ChannelInfo:
        return self.channels.get(channel) or bad(f"there is no channel {channel}")


def state_to_json(state: State) -> bytes:
    """A checkpoint of the state; the same for everyone who makes one of the same version."""
    made = {
        "space": state.space,
        "version": state.version,
        "commit": state.commit,
        "time": state.time,
        "control": state.control,
        "channels": [[c.id, c.name, c.format, c.created, c.events, c.bytes, c.last] for c in state.channels.values()],
        "sequences": [[channel, producer, last] for (channel, producer), last in state.sequences.items()],
        "transactions": state.transactions,
    }
    return json.dumps(made, separators=(",", ":")).encode()


def json_to_state(data: bytes, space: str, version: int) -> State:
    """The state of a checkpoint. Raises PBIO_BAD_LOG."""
    made = parse(data)
    if made.get("space") != space or made.get("version") != version:
        bad("the checkpoint belongs elsewhere")
    state = State(space)
    state.version = version
    state.commit = a_text(made.get("commit"))
    state.time = a_number(made.get("time"))
    state.control = a_number(made.get("control"), most=version)
    for said in a_list(made.get("channels")):
        info = _info(a_list(said, 7), version)
        state.channels[info.id] = info
        state.names[info.name] = info.id
    for said in a_list(made.get("sequences")):
        channel, producer, last = a_list(said, 3)
        state.sequences[a_number(channel), a_text(producer)] = a_number(last)
    transactions = made.get("transactions")
    if not isinstance(transactions, dict):
        bad("the checkpoint's transactions are no object")
    state.transactions = {application: a_number(number) for application, number in transactions.items()}
    return state


def _info(said: Any, version: int) -> ChannelInfo:
    number, name, format_id, *others = said
    return ChannelInfo(a_number(number, most=version), a_name(name), a_format(format_id), *map(a_number, others))
