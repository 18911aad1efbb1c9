"""Commits <-> JSON. Whatever is read is checked: it may have been written by anyone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ecode.limits import SOURCE_WORK
from pbio_spark.channels.commits.chain import digest_of
from pbio_spark.channels.commits.checked import (
    LARGEST,
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
from pbio_spark.channels.commits.commit import (
    LONGEST_TURN,
    VERSION,
    AnyChange,
    Change,
    Commit,
    Compact,
    Create,
    Data,
    DataFile,
    Derivation,
    Drop,
    Transaction,
    Trim,
    Trims,
    Turn,
)
from pbio_spark.channels.commits.contents import DIGESTS, Contents
from pbio_spark.channels.commits.groups import Groups, groups_to_json
from pbio_spark.channels.commits.groups_from_json import json_to_groups

_KINDS = {"create", "change", "drop", "trim", "trims", "compact", "turn", "data"}


def commit_to_json(entry: Commit, version: int) -> bytes:
    """A commit as the JSON that is to stand at a version.

    >>> commit_to_json(Commit("5a", "c0", 7, Drop(3), prior=""), 1)
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


def json_to_commit(data: bytes, version: int) -> Commit:
    """The commit that stands at a version. Raises PBIO_BAD_LOG."""
    made = parse(data)
    form, prior = a_number(made.get("version", 1)), None
    if form > VERSION:
        bad(f"the commit has format version {form}, and this program reads up to {VERSION}: a newer program wrote it")
    if form > 1:
        if a_number(made.get("number")) != version:
            bad(f"commit {made['number']} stands in the place of commit {version}")
        prior = a_digest(made.get("prior"), is_first=version == 1)
    kinds = made.keys() & _KINDS
    if len(kinds) != 1:
        bad(f"a commit must have exactly one of {', '.join(sorted(_KINDS))}")
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
    return Commit(space, commit, time, change, prior, digest_of(data))


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
        bad("it would remove events that are to be kept")
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
        bad("a parameter has an invalid name or value")
    return tuple(made.items())


def is_parameter(name: str, value: object) -> bool:
    """Whether a field of a parameter block can have that name and value."""
    is_number = (type(value) is int and abs(value) < 2**63) or (type(value) is float and math.isfinite(value))
    return is_number and name.isidentifier() and name.isascii()


def _file(said: Any) -> DataFile:
    path, size = a_list(said, 2)
    return DataFile(a_path(path), a_number(size, most=LARGEST))
