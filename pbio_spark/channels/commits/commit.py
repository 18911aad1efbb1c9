"""Commits as values: what happened to a space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ecode.limits import SOURCE_WORK
from pbio_spark.channels.commits.checked import Keep
from pbio_spark.channels.commits.contents import Contents
from pbio_spark.channels.commits.groups import Groups
from pbio_spark.channels.position import Position

LONGEST_TURN = 30_000
"""The longest time, in milliseconds, that writers wait for another one, which may have died."""

VERSION = 2
"""The version of the commit format. Version 1 does not state it, nor the digest of the commit before."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """How a channel's events are made of another channel's.

    Attributes:
        parent: the ID of the other channel.
        filter: E-code that selects events, from `input` and `param`; None for all.
        transform: E-code that makes `output` from `input` and `param`; None if events stay as they are.
        parameters: the fields of `param` and their values: whole numbers or doubles.
        max_cost: units of work that an event may take.
    """

    parent: int
    filter: str | None
    transform: str | None
    parameters: tuple[tuple[str, int | float], ...] = ()
    max_cost: int = SOURCE_WORK


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
class Change:
    """A derived channel, by its ID, has other values for its parameters: for all events from the next commit on."""

    channel: int
    parameters: tuple[tuple[str, int | float], ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """A channel, by its ID, ends."""

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
class Data:
    """Events of one batch, for any number of channels.

    Attributes:
        control: the version of the last control change that the writer knew of.
        files, groups: where the events lie.
        transaction: of a batch that has a number.
        refused: derived channels whose events the writer could not make for this batch, with the reasons.
        directory: the file that has the groups, if they are many; `groups` is empty then.
        numbers: the file that has the sequence numbers and times of single events, if they are many.
    """

    control: int
    files: tuple[DataFile, ...]
    groups: Groups
    transaction: Transaction | None = None
    refused: tuple[tuple[int, str], ...] = ()
    directory: DataFile | None = None
    numbers: DataFile | None = None


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


AnyChange: TypeAlias = "Create | Change | Drop | Trim | Trims | Data | Compact | Turn"


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
