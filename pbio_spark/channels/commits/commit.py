"""Commits as values: the changes to a space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from pbio_spark.channels.commits.checked import Keep
from pbio_spark.channels.commits.contents import Contents
from pbio_spark.channels.commits.derivation import Derivation, ParameterBlock
from pbio_spark.channels.commits.groups import Groups
from pbio_spark.channels.position import Position

LONGEST_TURN = 30_000
"""The longest time, in milliseconds, that writers wait for another writer, which may have died."""

VERSION = 3
"""The version of the commit format. Version 1 states neither its version nor the digest of the previous commit; before
version 3, derivations had no state."""


@dataclass(frozen=True, slots=True)
class Create:
    """A channel begins; its ID is the version of this commit.

    Attributes:
        name: of the channel, unique in the space at that time.
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
        name: of the block, unique in the space at that time.
    """

    name: str
    parameters: ParameterBlock


@dataclass(frozen=True, slots=True)
class Change:
    """The parameters of a derived channel or a shared block, by ID, get new values from the next commit on.

    Attributes:
        lazy: for how many microseconds sources may continue with the old values.
    """

    channel: int
    parameters: ParameterBlock
    lazy: int = 0


@dataclass(frozen=True, slots=True)
class Replace:
    """A derived channel, by ID, is derived by other code from the next commit on.

    Attributes:
        format: the ID of the format that describes the channel's type from now on.
        keeps_state: whether the new programs continue with the state of the old ones, which declare the same state.
    """

    channel: int
    format: str
    derivation: Derivation
    keeps_state: bool = False


@dataclass(frozen=True, slots=True)
class Watch:
    """A derived channel, by ID, gains its first subscriber or loses its last."""

    channel: int
    is_watched: bool


@dataclass(frozen=True, slots=True)
class Drop:
    """A channel or a shared block, by ID, ends."""

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
    """`Trim` for several channels, each once."""

    channels: tuple[Trim, ...]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file below the root of the space, and its bytes."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """The batch of an application that a commit publishes.

    Attributes:
        application: its name.
        number: of the batch; lower numbers do not come again.
        before: the version of the application's last commit before this one; 0 if there is none, or it is unknown.
        contents: a summary of the batch, including events that were already published; None in old commits.
    """

    application: str
    number: int
    before: int = 0
    contents: Contents | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A report of what a commit derived for a channel.

    Attributes:
        channel: its ID.
        version: of the commit that last changed the derivation.
        seen: the number of the parent's events that its programs processed.
        made: the number of events that they produced.
        trapped: the number of events that ended in a trap.
        bytes: of the produced events.
        parent_bytes: of the processed events.
        refused: the number of events, of the parent or of `period`, that yielded nothing without a trap.
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
        """The sum of both reports."""
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
        files, groups: where the events are.
        transaction: of a batch that has a number.
        refused: derived channels whose events the writer could not derive for this batch, with the reasons.
        directory: the file that has the groups, if they are many; `groups` is empty then.
        numbers: the file that has the sequence numbers and times of single events, if they are many.
        source: the name of the writer, under which `made`, `refused` and `suspended` are reported.
        made: reports of what was derived.
        suspended: derived channels that the source no longer derives, with the reasons.
        states: by derived channel and producer (`""` for events without one) the state after this commit, if it
            changed.
        states_file: the file that has the states, if they are long; `states` is then empty when the commit is read.
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
        file: the merged file.
        parts: the path of each old file, and the shift of its items in the new one, in bytes.
    """

    first: int
    last: int
    file: DataFile
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """The next commit is reserved for one writer, which has lost too many races; the others wait for it.

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
        commit: its own unique ID.
        time: when it was published, in microseconds since 1970 UTC; never earlier than the previous commit.
        prior: the digest of the previous commit, `""` in the first; None in format version 1.
        digest: of the bytes that it was read from.
    """

    space: str
    commit: str
    time: int
    change: AnyChange
    prior: str | None = None
    digest: str = field(default="", compare=False)
