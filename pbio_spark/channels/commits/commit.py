"""Commits as values: what happened to a space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from pbio_spark.channels.commits.checked import Keep
from pbio_spark.channels.commits.contents import Contents
from pbio_spark.channels.commits.derivation import Derivation, ParameterBlock
from pbio_spark.channels.commits.groups import Groups
from pbio_spark.channels.position import Position

LONGEST_TURN = 30_000
"""The longest time, in milliseconds, that writers wait for another one, which may have died."""

VERSION = 3
"""The version of the commit format. Version 1 does not state it, nor the digest of the commit before; before version 3
derivations had no state."""


@dataclass(frozen=True, slots=True)
class Create:
    """A channel begins; its ID is the version of this commit.

    Attributes:
        name: of the channel; no other channel of the space has it at that time.
        format: the ID of the format that describes the channel's type, in hexadecimal.
        derivation: of a derived channel.
        keep: how long its events are kept.
    """

    name: str
    format: str
    derivation: Derivation | None = None
    keep: Keep = "always"


@dataclass(frozen=True, slots=True)
class Share:
    """A block of parameters that derivations share begins; its ID is the version of this commit.

    Attributes:
        name: of the block; no other one of the space has it at that time.
    """

    name: str
    parameters: ParameterBlock


@dataclass(frozen=True, slots=True)
class Change:
    """A derived channel or a shared block, by its ID, has other values for its parameters, from the next commit on.

    Attributes:
        lazy: for how many microseconds sources may go on with the values that they know.
    """

    channel: int
    parameters: ParameterBlock
    lazy: int = 0


@dataclass(frozen=True, slots=True)
class Replace:
    """A derived channel, by its ID, is made in another way from the next commit on.

    Attributes:
        format: the ID of the format that describes the channel's type from here on.
        keeps_state: whether the new programs go on with the state of the old ones, which declare the same.
    """

    channel: int
    format: str
    derivation: Derivation
    keeps_state: bool = False


@dataclass(frozen=True, slots=True)
class Watch:
    """A derived channel, by its ID, has a subscriber now, or none any more."""

    channel: int
    is_watched: bool


@dataclass(frozen=True, slots=True)
class Drop:
    """A channel or a shared block, by its ID, ends."""

    channel: int


@dataclass(frozen=True, slots=True)
class Trim:
    """A channel's events in commits before a version are no longer kept.

    Attributes:
        channel: its ID.
        before: the version.
        end: the first position after the last of these events.
    """

    channel: int
    before: int
    end: Position


@dataclass(frozen=True, slots=True)
class Trims:
    """The same of several channels, each once."""

    channels: tuple[Trim, ...]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file below the root of the space, and its bytes."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """Which batch of an application a commit publishes.

    Attributes:
        application: its name.
        number: of the batch; none of a lower number comes again.
        before: the version of the application's last commit before this one; 0 if there is none, or it is unknown.
        contents: what the batch was made of, including events that were known; None in old commits.
    """

    application: str
    number: int
    before: int = 0
    contents: Contents | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """What a commit derived for a channel.

    Attributes:
        channel: its ID.
        version: of the commit since which the channel is derived as it was here.
        seen: how many events of the parent its programs looked at.
        made: how many events came of them.
        trapped: on how many events a program ended in a trap.
        bytes: of the events that were made.
        parent_bytes: of the events that were looked at.
        refused: how many events, of the parent or of `period`, came to nothing without a trap.
    """

    channel: int
    version: int
    seen: int
    made: int
    trapped: int
    bytes: int
    parent_bytes: int
    refused: int

    def plus(self, other: Made) -> Made:
        """What both derived for the channel."""
        added = (
            getattr(self, name) + getattr(other, name)
            for name in ("seen", "made", "trapped", "bytes", "parent_bytes", "refused")
        )
        return Made(self.channel, min(self.version, other.version), *added)


@dataclass(frozen=True, slots=True)
class Held:
    """The state that a derivation has for one producer.

    Attributes:
        text: the state as JSON; `""` before the first event.
        ran: when `period` ran last, in microseconds since 1970 UTC; 0 if it has not.
    """

    text: str
    ran: int = 0


@dataclass(frozen=True, slots=True)
class Data:
    """Events of one batch, for any number of channels.

    Attributes:
        control: the version of the last control change that the writer knew of.
        files, groups: where the events lie.
        transaction: of a batch that has a number.
        refused: derived channels whose events the writer could not make for this batch, with the reasons.
        directory: the file that has the groups, if they are many; `groups` is empty then.
        numbers: the file that has the sequence numbers and times of single events, if they are many.
        source: the name of the writer, under which `made`, `refused` and `suspended` are reported.
        made: what was derived.
        suspended: derived channels that the source derives no longer, with the reasons.
        states: by derived channel and producer (`""` for events without one) the state after this commit, where it
            differs from before.
        states_file: the file that has the states, if they are long; `states` is empty then, as the commit is read.
    """

    control: int
    files: tuple[DataFile, ...]
    groups: Groups
    transaction: Transaction | None = None
    refused: tuple[tuple[int, str], ...] = ()
    directory: DataFile | None = None
    numbers: DataFile | None = None
    source: str = ""
    made: tuple[Made, ...] = ()
    suspended: tuple[tuple[int, str], ...] = ()
    states: tuple[tuple[int, str, Held], ...] = ()
    states_file: DataFile | None = None


@dataclass(frozen=True, slots=True)
class Compact:
    """Data files have been merged into one; the byte offsets in commits are shifted there.

    Attributes:
        first, last: the versions of the commits that name the files.
        file: the one.
        parts: the path of each old file, and the shift of its items in the new one, in bytes.
    """

    first: int
    last: int
    file: DataFile
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """The next commit is for one writer, which has lost too many races; the others wait for it.

    Attributes:
        holder: what the writer calls itself.
        milliseconds: how long they wait at most, from when they see this commit.
    """

    holder: str
    milliseconds: int


AnyChange: TypeAlias = "Create | Share | Change | Replace | Watch | Drop | Trim | Trims | Data | Compact | Turn"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit.

    Attributes:
        space: the ID of the space that it belongs to.
        commit: its own ID, which no other commit has.
        time: when it was published, in microseconds since 1970 UTC; never less than the commit's before.
        prior: the digest of the commit before, `""` of the first one's; None for one of the first form.
        digest: of the bytes that it was read from.
    """

    space: str
    commit: str
    time: int
    change: AnyChange
    prior: str | None = None
    digest: str = field(default="", compare=False)
