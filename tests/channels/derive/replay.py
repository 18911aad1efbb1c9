"""The events of a derived channel as they must be: an independent replay of the log, in plain Python."""

from __future__ import annotations

import json
from collections import defaultdict
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import ecode
from ecode.types import INT64
from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.commits.commit import Change, Create, Data, Replace
from pbio_spark.channels.commits.derivation import Derivation, block_to_inputs, block_to_record
from pbio_spark.channels.publish.submission import stored_format
from pbio_spark.formats import Format
from tests.channels.spaces import everything


@dataclass
class Replay:
    """What a replay finds, by producer (`""` for events without one).

    Attributes:
        events: version of the commit, version of the derivation, and values of each, in order.
        states: what `state` has at the end.
    """

    events: dict[str, list[tuple[int, int, dict[str, Any]]]] = field(default_factory=lambda: defaultdict(list))
    states: dict[str, dict[str, Any]] = field(default_factory=dict)


class _Code:
    """The programs of a derivation, for one producer after another."""

    def __init__(self, how: Derivation, parent: Format, own: Format) -> None:
        self.how = how
        shared = []
        if how.parameters:
            shared.append(ecode.Param("param", block_to_record(how.parameters, "parameter_block"), ecode.Mode.PARAM))
        if how.state:
            kept = block_to_record(how.state, "state_block", is_fixed=True)
            shared.append(ecode.Param("state", kept, ecode.Mode.STATE))
        output = ecode.Param("output", own.record, ecode.Mode.OUT)
        params = {
            "filter": [ecode.Param("input", parent.record)],
            "transform": [ecode.Param("input", parent.record), output],
            "dequeue": [ecode.Param("input", own.record)],
            "period": [ecode.Param("emitted", INT64), output],
        }
        limits = ecode.Limits(budget=how.max_cost)
        self.programs = {
            what: ecode.compile(source, [*given, *shared], limits=limits)
            for what, given in params.items()
            if (source := getattr(how, what)) is not None
        }
        self.given = {"param": block_to_inputs(how.parameters.values)} if how.parameters else {}

    def fresh(self) -> dict[str, Any]:
        """What the programs keep before the first event."""
        made: dict[str, Any] = {what: program.statics for what, program in self.programs.items()}
        return made | {"state": deepcopy(how) if (how := self.how.state.values) else {}}

    def run(self, what: str, inputs: dict[str, Any], kept: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        """Result and output of one program; None for a trap, after which all is as it was."""
        statics = {**kept[what], "state": kept["state"]} if self.how.state else dict(kept[what])
        try:
            outcome = self.programs[what].run({**inputs, **self.given}, statics)
        except ecode.Trap:
            return None
        kept["state"] = statics.pop("state", kept["state"])
        kept[what] = statics
        return outcome.returned, outcome.outputs.get("output", {})

    def event(self, values: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any] | None:
        """What comes of one event of the parent."""
        before, made = deepcopy(kept), values
        for what in ("filter", "transform"):
            if what not in self.programs:
                continue
            found = self.run(what, {"input": values}, kept)
            if found is None:
                kept.clear()
                kept.update(before)
                return None
            if not found[0]:
                return None
            made = found[1] or made
        return made

    def period(self, kept: dict[str, Any]) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        while True:
            found = self.run("period", {"emitted": len(made)}, kept)
            assert found is not None
            made += [found[1]] if found[0] else []
            if found[0] != 2:
                return made


def replay(space: ChannelSpace, name: str) -> Replay:
    """Replay a channel that is derived from a plain one, from the log of its space."""
    history = space.history
    info = space.channel(name).info
    assert info.derivation is not None
    (parent_name,) = [one.name for one in space.channels() if one.id == info.derivation.parent]
    parent = space.channel(parent_name)
    published = defaultdict(list)
    for event in everything(parent):
        published[event.position.version].append(event)
    found = Replay()
    kept: dict[str, dict[str, Any]] = {}
    ran: dict[str, int] = {}
    code: _Code | None = None
    since = 0
    for version in range(1, history.catch_up().version + 1):
        entry = history.entry(version)
        assert entry is not None
        match history.filled(entry).change:
            case Create() as made if version == info.id:
                assert made.derivation is not None
                own = stored_format(made.format, space.formats)
                code, since = _Code(made.derivation, parent.format, own), version
            case Change(channel, parameters) if code is not None and channel in (info.id, code.how.shared):
                code.how = replace(code.how, parameters=parameters)
                code.given, since = {"param": block_to_inputs(parameters.values)}, version
            case Replace(channel, format_id, how, keeps_state) if channel == info.id:
                code, since = _Code(how, parent.format, stored_format(format_id, space.formats)), version
                if not keeps_state:
                    kept, ran = {}, {}
            case Data() as data if code is not None and version in published:
                by_producer = defaultdict(list)
                for event in published[version]:
                    by_producer[event.producer or ""].append(event.values)
                for producer, values in by_producer.items():
                    own_state = kept.setdefault(producer, code.fresh())
                    queue = [made for one in values if (made := code.event(one, own_state)) is not None]
                    for channel, whose, held in data.states:
                        if (channel, whose) == (info.id, producer):
                            if code.how.period is not None and held.ran > ran.get(producer, held.ran):
                                queue += code.period(own_state)
                            ran[producer] = held.ran
                    if code.how.dequeue is not None:
                        queue = [one for one in queue if (code.run("dequeue", {"input": one}, own_state) or (0,))[0]]
                    found.events[producer] += [(version, since, _plain(one)) for one in queue]
    found.states = {producer: _plain(one["state"]) for producer, one in kept.items()}
    return found


def as_logged(space: ChannelSpace, name: str) -> Replay:
    """The same, as the log and the data files have it."""
    found = Replay()
    for event in everything(space.channel(name)):
        assert event.derivation is not None
        found.events[event.producer or ""].append((event.position.version, event.derivation, event.values))
    with space.history.lock:
        derived = space.history.catch_up().derived
        for producer, held in derived.states.get(space.channel(name).info.id, {}).items():
            found.states[producer] = json.loads(held.text).get("state", {}) if held.text else {}
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.decode() if isinstance(value, bytes) else value
