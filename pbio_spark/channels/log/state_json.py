"""A checkpoint: the state of a space as JSON, so that programs that start later need not read all commits."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any

from pbio_spark.channels.commits.checked import (
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
from pbio_spark.channels.commits.commit_json import json_to_states, states_to_json
from pbio_spark.channels.commits.derivation_json import (
    block_to_json,
    derivation_to_json,
    json_to_block,
    json_to_derivation,
)
from pbio_spark.channels.log.derived import Report, SharedBlock
from pbio_spark.channels.log.state import ChannelInfo, State
from pbio_spark.errors import PbioError


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
    made |= _derived_to_json(state)
    return json.dumps(made, separators=(",", ":")).encode()


def is_checkpoint(data: bytes, state: State) -> bool:
    """Whether some bytes are a checkpoint of a state, in this format or an older one."""
    try:
        kept = json_to_state(data, state.space, state.version)
    except PbioError:
        return False
    # The keys that old checkpoints lack.
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
        info = _json_to_info(a_list(said), version)
        # Each was created at a version of its own, after the channel that it is derived from.
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
    _json_to_derived(made, state)
    return state


def _derived_to_json(state: State) -> dict[str, Any]:
    """States and reports of derivations, if any."""
    derived = state.derived
    blocks = [
        [one.id, one.name, one.version, block_to_json("parameters", one.parameters)] for one in derived.blocks.values()
    ]
    states = states_to_json(
        (channel, producer, held) for channel, known in derived.states.items() for producer, held in known.items()
    )
    reports = [
        [channel, source, *astuple(report)]
        for channel, known in derived.reports.items()
        for source, report in known.items()
    ]
    made = {"blocks": blocks, "states": states, "reports": reports}
    return {name: said for name, said in made.items() if said}


def _json_to_derived(made: dict[str, Any], state: State) -> None:
    derived, version = state.derived, state.version
    for said in a_list(made.get("blocks", [])):
        number, name, changed, values = a_list(said, 4)
        block = SharedBlock(
            a_number(number, most=version), a_name(name), json_to_block("parameters", values), a_number(changed)
        )
        derived.blocks[block.id] = block
    for channel, producer, held in json_to_states(made.get("states", []), version):
        derived.hold(channel, producer, held)
    for said in a_list(made.get("reports", [])):
        # Those of the first version with reports lack the last number.
        length = 12 if isinstance(said, list) and len(said) == 12 else 13
        channel, source, status, reason, since, time, *counts = a_list(said, length)
        numbers = [a_number(count) for count in counts]
        if length == 12:
            numbers.append(max(0, numbers[0] - numbers[1] - numbers[2]))
        report = Report(_text(status), _text(reason), a_number(since), a_time(time), *numbers)
        derived.add_report(a_number(channel, most=version), _text(source), report)


def _text(said: Any) -> str:
    return a_text(said) if said else ""


def _info_to_json(info: ChannelInfo) -> list[Any]:
    derivation = None if info.derivation is None else derivation_to_json(info.derivation)
    numbers = info.created, info.events, info.bytes, info.last
    kept = info.keep, info.first, str(info.gone)
    later = [info.version, info.until, info.is_watched] if info.derivation is not None else []
    return [info.id, info.name, info.format, *numbers, derivation, info.since, info.refused, *kept, *later]


def _json_to_info(said: Any, version: int) -> ChannelInfo:
    # Checkpoints of earlier versions lack the last three.
    said = [*said, said[8], 0, False] if len(said) == 13 else a_list(said, 16)
    number, name, format_id, created, events, size, last, derivation, since, refused, keep, first, gone, *later = said
    changed, until, is_watched = later
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
        a_number(changed, most=version),
        a_time(until),
        is_watched is True,
    )
