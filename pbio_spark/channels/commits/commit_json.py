"""Commits <-> JSON. Input is checked, since anyone may have written it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

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
    a_states_path,
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
    Drop,
    Held,
    Made,
    Replace,
    Share,
    Transaction,
    Trim,
    Trims,
    Turn,
    Watch,
)
from pbio_spark.channels.commits.contents import DIGESTS, Contents
from pbio_spark.channels.commits.derivation_json import (
    block_to_json,
    derivation_to_json,
    json_to_block,
    json_to_derivation,
)
from pbio_spark.channels.commits.groups import Groups, groups_to_json
from pbio_spark.channels.commits.groups_from_json import json_to_groups

_KINDS = {"create", "share", "change", "replace", "watch", "drop", "trim", "trims", "compact", "turn", "data"}


def commit_to_json(entry: Commit, version: int) -> bytes:
    """A commit as the JSON for a version.

    >>> commit_to_json(Commit("5a", "c0", 7, Drop(3), prior=""), 1)
    b'{"version":3,"number":1,"prior":"","space":"5a","commit":"c0","time":7,"drop":{"channel":3}}'
    """
    made: dict[str, Any] = {} if entry.prior is None else {"version": VERSION, "number": version, "prior": entry.prior}
    made |= {"space": entry.space, "commit": entry.commit, "time": entry.time}
    match entry.change:
        case Create(name, format_id, derivation, keep):
            made["create"] = {"name": name, "format": format_id, "keep": keep}
            if derivation is not None:
                made["create"]["derivation"] = derivation_to_json(derivation)
        case Share(name, parameters):
            made["share"] = {"name": name, **block_to_json("parameters", parameters)}
        case Change(channel, parameters, lazy):
            made["change"] = {"channel": channel, **block_to_json("parameters", parameters)}
            if lazy:
                made["change"]["lazy"] = lazy
        case Replace(channel, format_id, derivation, keeps_state):
            made["replace"] = {"channel": channel, "format": format_id, "derivation": derivation_to_json(derivation)}
            made["replace"]["keeps_state"] = keeps_state
        case Watch(channel, is_watched):
            made["watch"] = {"channel": channel, "watched": is_watched}
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
            made["data"] = _data_to_json(data)
    return json.dumps(made, separators=(",", ":")).encode()


def json_to_commit(data: bytes, version: int) -> Commit:
    """The commit at a version. Raises PBIO_BAD_LOG."""
    made = parse(data)
    form, prior = a_number(made.get("version", 1)), None
    if form > VERSION:
        bad(f"format version {form}, but this program reads only up to {VERSION}: a newer program wrote the commit")
    if form > 1:
        if a_number(made.get("number")) != version:
            bad(f"found commit {made['number']} in the place of commit {version}")
        prior = a_digest(made.get("prior"), is_first=version == 1)
    change = _change(made, version)
    space, commit, time = a_text(made.get("space")), a_text(made.get("commit")), a_time(made.get("time"))
    return Commit(space, commit, time, change, prior, digest_of(data))


def _change(made: Mapping[str, Any], version: int) -> AnyChange:
    """The one change that a commit makes."""
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
        case "share":
            change = Share(a_name(body.get("name")), json_to_block("parameters", body))
        case "change":
            lazy = a_number(body.get("lazy", 0))
            change = Change(a_number(body.get("channel"), most=version), json_to_block("parameters", body), lazy)
        case "replace":
            derivation = json_to_derivation(body.get("derivation"), version)
            keeps_state = body.get("keeps_state") is True
            channel, format_id = a_number(body.get("channel"), most=version), a_format(body.get("format"))
            change = Replace(channel, format_id, derivation, keeps_state)
        case "watch":
            change = Watch(a_number(body.get("channel"), most=version), body.get("watched") is True)
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
    return change


def _data(body: Mapping[str, Any], version: int) -> Data:
    files = tuple(_file(file) for file in a_list(body.get("files")))
    if len({file.path for file in files}) < len(files):
        bad("a data file is named twice")
    directory = _beside(body.get("directory"), a_groups_path)
    numbers = _beside(body.get("numbers"), a_numbers_path)
    groups = Groups() if directory is not None else json_to_groups(body.get("groups"), sizes_of(files), version)
    said = body.get("transaction")
    transaction = None if said is None else _json_to_transaction(said, version)
    refused = _reasons(body.get("refused", []), version)
    control = a_number(body.get("control"), most=version)
    return Data(
        control,
        files,
        groups,
        transaction,
        refused,
        directory,
        numbers,
        a_text(body.get("source", "")),
        tuple(_made(one, version) for one in a_list(body.get("made", []))),
        _reasons(body.get("suspended", []), version),
        json_to_states(body.get("states", []), version),
        _beside(body.get("states_file"), a_states_path),
    )


def _data_to_json(data: Data) -> dict[str, Any]:
    made: dict[str, Any] = {"control": data.control, "files": [_file_to_json(file) for file in data.files]}
    if data.directory is None:
        made["groups"] = groups_to_json(data.groups)
    named = (("directory", data.directory), ("numbers", data.numbers), ("states_file", data.states_file))
    made |= {name: _file_to_json(file) for name, file in named if file is not None}
    if data.transaction is not None:
        made["transaction"] = _transaction_to_json(data.transaction)
    if data.source:
        made["source"] = data.source
    listed = (("refused", data.refused), ("suspended", data.suspended), ("made", map(_made_to_json, data.made)))
    made |= {name: said for name, pairs in listed if (said := [list(one) for one in pairs])}
    if data.states and data.states_file is None:
        made["states"] = states_to_json(data.states)
    return made


def states_to_json(states: Iterable[tuple[int, str, Held]]) -> list[list[Any]]:
    """States as JSON values."""
    return [[channel, producer, held.text, held.ran] for channel, producer, held in states]


def json_to_states(said: Any, version: int) -> tuple[tuple[int, str, Held], ...]:
    """The states in a commit or the file beside it. Raises PBIO_BAD_LOG."""
    listed = [a_list(one, 4) for one in a_list(said)]
    return tuple(
        (a_number(channel, most=version), a_text(producer) if producer else "", Held(_a_state(text), a_time(ran)))
        for channel, producer, text, ran in listed
    )


def _a_state(said: Any) -> str:
    if said != "":
        try:
            an_object(json.loads(a_text(said)))
        except (ValueError, RecursionError):
            bad("the state of a derivation is not JSON")
    return said  # type: ignore[no-any-return]


def _made_to_json(made: Made) -> list[int]:
    *numbers, refused = astuple(made)
    return numbers if refused == _without_period(*numbers[2:5]) else [*numbers, refused]


def _made(said: Any, version: int) -> Made:
    """The last number is present only if `period` made events or trapped; otherwise it follows from the others."""
    channel, since, *said_numbers = a_list(said, len(said) if isinstance(said, list) and len(said) == 8 else 7)
    numbers = [a_number(one) for one in said_numbers]
    if len(numbers) == 5:
        numbers.append(_without_period(*numbers[:3]))
    return Made(a_number(channel, most=version), a_number(since, most=version), *numbers)


def _without_period(seen: int, made: int, trapped: int) -> int:
    """How many events yielded nothing, if `period` made none."""
    return max(0, seen - made - trapped)


def _reasons(said: Any, version: int) -> tuple[tuple[int, str], ...]:
    pairs = [a_list(pair, 2) for pair in a_list(said)]
    return tuple((a_number(channel, most=version), a_text(reason)) for channel, reason in pairs)


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


def _file_to_json(file: DataFile) -> list[Any]:
    return [file.path, file.bytes]


def _file(said: Any) -> DataFile:
    path, size = a_list(said, 2)
    return DataFile(a_path(path), a_number(size, most=LARGEST))
