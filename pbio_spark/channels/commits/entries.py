"""Commits as values, and their JSON. Whatever is read is checked: a log entry is bytes from a stranger."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ecode.limits import SOURCE_WORK
from pbio_spark.channels.commits.chain import digest_of
from pbio_spark.channels.commits.checked import (
    LARGEST,
    Keep,
    a_digest,
    a_format,
    a_groups_path,
    a_keep,
    a_list,
    a_name,
    a_number,
    a_numbers_path,
    a_path,
    a_position,
    a_text,
    a_time,
    an_object,
    bad,
    parse,
)
from pbio_spark.channels.commits.contents import DIGESTS, Contents
from pbio_spark.channels.commits.groups import Groups, groups_to_json, json_to_groups
from pbio_spark.channels.position import Position

LONGEST_TURN = 30_000
"""Milliseconds that writers wait for another one at most: it may have died."""

VERSION = 2
"""Of the form of commits. Those of the first one do not say a form, nor which commit was before them."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """How a channel's events are made of another channel's.

    Attributes:
        parent: the ID of the other channel.
        filter: E-code that says of which events, from `input` and `param`; None for all.
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
    """A channel's events in commits before a version are not kept any more.

    Attributes:
        channel: its ID.
        before: the version.
        end: the first position behind the last of these events.
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
        before: the version of the application's last commit before this one; 0 if there is none, or nobody knows.
        contents: what the batch was made of, known events too; None in commits of old.
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
        refused: derived channels for which the writer could not make the events of this batch, and why.
        directory: the file that has the groups, if they are many; `groups` are none then.
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
    """Data files have been put together in one; what commits say of their bytes holds of that one, so much further on.

    Attributes:
        first, last: the versions of the commits that name the files.
        file: the one.
        parts: the path of each old file, and how many bytes further on its items are in the new one.
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
        milliseconds: how long they wait at most, from when they see this.
    """

    holder: str
    milliseconds: int


AnyChange: TypeAlias = "Create | Change | Drop | Trim | Trims | Data | Compact | Turn"


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit.

    Attributes:
        space: the ID of the space that it belongs to.
        commit: its own ID, which no other commit has.
        time: when it was published, in microseconds since 1970 UTC; never less than the commit's before.
        prior: the digest of the commit before, `""` of the first one's; None for one of the first form.
        digest: of the text that it was read from.
    """

    space: str
    commit: str
    time: int
    change: AnyChange
    prior: str | None = None
    digest: str = field(default="", compare=False)


_KINDS = {"create", "change", "drop", "trim", "trims", "compact", "turn", "data"}


def entry_to_json(entry: Entry, version: int) -> bytes:
    """A commit as JSON that is to stand at a version.

    >>> entry_to_json(Entry("5a", "c0", 7, Drop(3), prior=""), 1)
    b'{"version":2,"number":1,"prior":"","space":"5a","commit":"c0","time":7,"drop":{"channel":3}}'
    """
    made: dict[str, Any] = {} if entry.prior is None else {"version": VERSION, "number": version, "prior": entry.prior}
    made |= {"space": entry.space, "commit": entry.commit, "time": entry.time}
    match entry.change:
        case Create(name, format_id, derivation, keep):
            made["create"] = {"name": name, "format": format_id, "keep": keep}
            if derivation is not None:
                made["create"]["derivation"] = derivation_to_json(derivation)
        case Change(channel, parameters):
            made["change"] = {"channel": channel, "parameters": dict(parameters)}
        case Drop(channel):
            made["drop"] = {"channel": channel}
        case Trim(channel, before, end):
            made["trim"] = {"channel": channel, "before": before, "end": str(end)}
        case Turn(holder, milliseconds):
            made["turn"] = {"holder": holder, "milliseconds": milliseconds}
        case Trims(trims):
            made["trims"] = {"channels": [[one.channel, one.before, str(one.end)] for one in trims]}
        case Compact(first, last, file, parts):
            made["compact"] = {
                "first": first,
                "last": last,
                "file": [file.path, file.bytes],
                "parts": [list(part) for part in parts],
            }
        case Data() as data:
            made["data"] = {
                "control": data.control,
                "files": [[file.path, file.bytes] for file in data.files],
            }
            if data.directory is None:
                made["data"]["groups"] = groups_to_json(data.groups)
            else:
                made["data"]["directory"] = [data.directory.path, data.directory.bytes]
            if data.numbers is not None:
                made["data"]["numbers"] = [data.numbers.path, data.numbers.bytes]
            if data.transaction is not None:
                made["data"]["transaction"] = _transaction_to_json(data.transaction)
            if data.refused:
                made["data"]["refused"] = [list(one) for one in data.refused]
    return json.dumps(made, separators=(",", ":")).encode()


def json_to_entry(data: bytes, version: int) -> Entry:
    """The commit of a JSON text that stands at a version. Raises PBIO_BAD_LOG."""
    made = parse(data)
    form, prior = a_number(made.get("version", 1)), None
    if form > VERSION:
        bad(f"the commit is of form {form}, and this program knows those up to {VERSION}: a newer one wrote it")
    if form > 1:
        if a_number(made.get("number")) != version:
            bad(f"it is the commit {made['number']}, and stands in the place of {version}")
        prior = a_digest(made.get("prior"), is_first=version == 1)
    kinds = made.keys() & _KINDS
    if len(kinds) != 1:
        bad(f"a commit is one of {', '.join(sorted(_KINDS))}")
    (kind,) = kinds
    body = an_object(made[kind])
    change: AnyChange
    match kind:
        case "create":
            derivation = body.get("derivation")
            change = Create(
                a_name(body.get("name")),
                a_format(body.get("format")),
                None if derivation is None else json_to_derivation(derivation, version),
                a_keep(body.get("keep")),
            )
        case "change":
            change = Change(a_number(body.get("channel"), most=version), _parameters(body.get("parameters")))
        case "drop":
            change = Drop(a_number(body.get("channel"), most=version))
        case "trim":
            change = _trim((body.get("channel"), body.get("before"), body.get("end")), version)
        case "trims":
            change = Trims(tuple(_trim(a_list(one, 3), version) for one in a_list(body.get("channels"))))
            if len({one.channel for one in change.channels}) < len(change.channels):
                bad("a channel is named twice")
        case "turn":
            change = Turn(a_text(body.get("holder")), a_number(body.get("milliseconds"), most=LONGEST_TURN))
        case "compact":
            last = a_number(body.get("last"), most=version)
            pairs = [a_list(pair, 2) for pair in a_list(body.get("parts"))]
            file = _file(body.get("file"))
            parts = tuple((a_path(path), a_number(further, most=file.bytes)) for path, further in pairs)
            change = Compact(a_number(body.get("first"), most=last), last, file, parts)
        case _:
            change = _data(body, version)
    space, commit, time = a_text(made.get("space")), a_text(made.get("commit")), a_time(made.get("time"))
    return Entry(space, commit, time, change, prior, digest_of(data))


def _data(body: Mapping[str, Any], version: int) -> Data:
    files = tuple(_file(file) for file in a_list(body.get("files")))
    if len({file.path for file in files}) < len(files):
        bad("a data file is named twice")
    directory = _beside(body.get("directory"), a_groups_path)
    numbers = _beside(body.get("numbers"), a_numbers_path)
    groups = Groups() if directory is not None else json_to_groups(body.get("groups"), sizes_of(files), version)
    said = body.get("transaction")
    transaction = None if said is None else _json_to_transaction(said, version)
    pairs = [a_list(pair, 2) for pair in a_list(body.get("refused", []))]
    refused = tuple((a_number(channel, most=version), a_text(reason)) for channel, reason in pairs)
    control = a_number(body.get("control"), most=version)
    return Data(control, files, groups, transaction, refused, directory, numbers)


def _beside(said: Any, a_path: Callable[[Any], str]) -> DataFile | None:
    """A file beside the log, if there is one."""
    if said is None:
        return None
    path, size = a_list(said, 2)
    return DataFile(a_path(path), a_number(size, most=LARGEST))


def _trim(said: Sequence[Any], version: int) -> Trim:
    channel, before, end = said
    trim = Trim(a_number(channel, most=version), a_number(before, most=version), a_position(end))
    if trim.end.version >= trim.before:
        bad("events would be left out that are to be kept")
    return trim


def _transaction_to_json(made: Transaction) -> list[Any]:
    contents = made.contents
    more = [] if contents is None else [made.before, contents.events, contents.digest]
    return [made.application, made.number, *more]


def _json_to_transaction(said: Any, version: int) -> Transaction:
    application, number, *more = a_list(said)[:2] if len(a_list(said)) == 2 else a_list(said, 5)
    transaction = Transaction(a_text(application), a_number(number))
    if not more:
        return transaction
    before, events, digest = more
    contents = Contents(a_number(events), a_number(digest, most=DIGESTS - 1))
    return Transaction(transaction.application, transaction.number, a_number(before, most=version - 1), contents)


def sizes_of(files: Iterable[DataFile]) -> list[int]:
    return [file.bytes for file in files]


def derivation_to_json(derivation: Derivation) -> dict[str, Any]:
    """A derivation as what JSON holds."""
    return {
        "parent": derivation.parent,
        "filter": derivation.filter,
        "transform": derivation.transform,
        "parameters": dict(derivation.parameters),
        "max_cost": derivation.max_cost,
    }


def json_to_derivation(said: Any, version: int) -> Derivation:
    """The derivation of a channel that is created at a version. Raises PBIO_BAD_LOG."""
    made = an_object(said)
    programs = [made.get(name) for name in ("filter", "transform")]
    keep, make = (None if program is None else a_text(program) for program in programs)
    most = a_number(made.get("max_cost", SOURCE_WORK))
    return Derivation(a_number(made.get("parent"), most=version), keep, make, _parameters(made.get("parameters")), most)


def _parameters(said: Any) -> tuple[tuple[str, int | float], ...]:
    made = an_object(said)
    if not all(is_parameter(name, value) for name, value in made.items()):
        bad("a parameter has no name, or no number that it can have")
    return tuple(made.items())


def is_parameter(name: str, value: object) -> bool:
    """Whether a field of a parameter block can have that name and value."""
    is_number = (type(value) is int and abs(value) < 2**63) or (type(value) is float and math.isfinite(value))
    return is_number and name.isidentifier() and name.isascii()


def _file(said: Any) -> DataFile:
    path, size = a_list(said, 2)
    return DataFile(a_path(path), a_number(size, most=LARGEST))
