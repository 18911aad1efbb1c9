"""The expected content of a space's derived channels: its log, replayed in plain Python.

Of the log it takes the events of channels that are not derived, the commits, and when `period` ran. All programs run by
the interpreter, in the order in which derivations are defined to run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ecode
from ecode.types import INT64, Record
from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.commits.commit import Change, Create, Data, Drop, Held, Made, Replace, Share
from pbio_spark.channels.commits.derivation import Derivation, ParameterBlock, block_to_inputs, block_to_record
from tests.channels.spaces import everything

PROGRAMS = ("filter", "transform", "dequeue", "period")

Values = dict[str, Any]
Key = tuple[str, int, str]
"""Channel, version of the commit, and producer."""
MadeEvent = tuple[int, Values]
"""The version of its derivation, and the event's values."""


@dataclass
class Way:
    """How a channel is derived since a version."""

    how: Derivation
    parent: Record
    own: Record
    functions: Sequence[ecode.Function]
    programs: dict[str, ecode.Program] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shared = []
        if self.how.parameters:
            shared.append(ecode.Param("param", block_to_record(self.how.parameters, "p"), ecode.Mode.PARAM))
        if self.how.state:
            shared.append(ecode.Param("state", block_to_record(self.how.state, "s", is_fixed=True), ecode.Mode.STATE))
        output = ecode.Param("output", self.own, ecode.Mode.OUT)
        given = {
            "filter": [ecode.Param("input", self.parent), *shared],
            "transform": [ecode.Param("input", self.parent), *shared, output],
            "dequeue": [ecode.Param("input", self.own), *shared],
            "period": [ecode.Param("emitted", INT64), output, *shared],
        }
        for name in PROGRAMS:
            source = getattr(self.how, name)
            if source is not None:
                if name == "dequeue" and "output" in source:
                    given[name].append(output)
                    source = source.replace("{", "{ output = input;", 1)
                self.programs[name] = ecode.compile(source, given[name], functions=self.functions)

    def fresh(self) -> dict[str, Values]:
        """The state before the first event: `state`, and each program's static variables."""
        own = {name: {k: v for k, v in p.statics.items() if k != "state"} for name, p in self.programs.items()}
        return {**own, "state": to_ecode(self.how.state.values)}

    def call(self, name: str, inputs: Values, kept: dict[str, Values], budget: int) -> ecode.Outcome:
        program = self.programs[name]
        statics = dict(kept[name])
        if "state" in program.statics:
            statics["state"] = kept["state"]
        given = {"param": block_to_inputs(self.how.parameters.values)} if self.how.parameters else {}
        outcome = program.run({**inputs, **given}, statics, budget)
        kept["state"] = statics.pop("state", kept["state"])
        kept[name] = statics
        return outcome

    def chain(self, names: Iterable[str], event: Values, kept: dict[str, Values]) -> tuple[Values | None, bool]:
        """What some programs make of one event, and whether one of them trapped."""
        before, left, made = json.dumps(to_plain(kept)), self.how.max_cost, event
        for name in names:
            if name not in self.programs:
                continue
            try:
                outcome = self.call(name, {"input": to_ecode(event)}, kept, left)
            except ecode.EcodeError:
                kept.update(to_ecode(json.loads(before)))
                return None, True
            left -= outcome.work
            if outcome.returned == 0:
                return None, False
            if outcome.outputs:
                made = to_plain(outcome.outputs["output"])
        return made, False

    def run_period(self, kept: dict[str, Values]) -> tuple[list[Values], bool]:
        before, made = json.dumps(to_plain(kept)), []
        while True:
            try:
                outcome = self.call("period", {"emitted": len(made)}, kept, self.how.max_cost)
            except ecode.EcodeError:
                break
            if outcome.returned:
                made.append(to_plain(outcome.outputs["output"]))
            if outcome.returned != 2:
                return made, False
            if len(made) == 1000:
                break
        kept.update(to_ecode(json.loads(before)))
        return [], True


@dataclass
class Known:
    """A channel, while the log is walked."""

    name: str
    type: Record
    since: int = 0
    version: int = 0
    until: int = 0
    ways: dict[int, Way] = field(default_factory=dict)
    kept: dict[str, dict[str, Values]] = field(default_factory=dict)
    ran: dict[str, int] = field(default_factory=dict)


class Replay:
    """All that was derived in a space, from its log.

    Attributes:
        events: of each derived channel that is still there, by commit and producer.
        states: of each ordered channel and producer, as the log has it.
    """

    def __init__(self, space: ChannelSpace, functions: Sequence[ecode.Function] = ()) -> None:
        self.space, self.functions = space, functions
        self.events: dict[Key, list[MadeEvent]] = {}
        self.channels: dict[int, Known] = {}
        self.blocks: dict[int, ParameterBlock] = {}
        self.suspended: dict[tuple[int, str], int] = {}
        self.published: dict[tuple[int, int], list[tuple[str, Values]]] = {}
        for info in space.channels():
            if info.derivation is None:
                for event in everything(space.channel(info.name)):
                    key = info.id, event.position.version
                    self.published.setdefault(key, []).append((event.producer or "", event.values))
        for version in range(1, space.history.catch_up().version + 1):
            entry = space.history.entry(version)
            assert entry is not None
            entry = space.history.filled(entry)
            self.apply(version, entry.change, entry.time)

    def apply(self, version: int, change: Any, time: int) -> None:
        match change:
            case Create(name, form, derivation):
                known = self.channels[version] = Known(name, self.record(form), version, version)
                if derivation is not None:
                    self.add_way(known, version, derivation)
            case Share(_, parameters):
                self.blocks[version] = parameters
            case Replace(channel, form, derivation, keeps_state):
                known = self.channels[channel]
                known.type, known.since, known.version, known.until = self.record(form), version, version, 0
                self.add_way(known, version, derivation)
                if not keeps_state:
                    known.kept, known.ran = {}, {}
            case Change(channel, parameters, lazy):
                for known in self.channels.values():
                    how = known.ways[known.version].how if known.ways else None
                    if how is None or channel not in (how.shared, self.id_of(known)):
                        continue
                    self.add_way(known, version, replace(how, parameters=parameters))
                    known.version, known.until = version, time + lazy
                    known.since = known.since if lazy else version
            case Drop(channel):
                self.channels.pop(channel, None)
                self.blocks.pop(channel, None)
            case Data():
                self.data(version, change, time)

    def is_suspended(self, number: int, source: str) -> bool:
        """Whether a source has suspended a channel."""
        since = self.channels[number].since
        return any(
            channel == number and source == whose and version >= since
            for (channel, whose), version in self.suspended.items()
        )

    def id_of(self, known: Known) -> int:
        return next(number for number, one in self.channels.items() if one is known)

    def record(self, form: str) -> Record:
        return self.space.formats.get(bytes.fromhex(form)).record

    def add_way(self, known: Known, version: int, how: Derivation) -> None:
        known.ways[version] = Way(how, self.channels[how.parent].type, known.type, self.functions)

    def data(self, version: int, data: Data, time: int) -> None:
        arrived = {number: self.published.get((number, version), []) for number in self.channels}
        after = {(channel, producer): held for channel, producer, held in data.states}
        made_by = {one.channel: one for one in data.made}
        refused = dict(data.refused)
        for number, known in sorted(self.channels.items()):
            if not known.ways:
                continue
            how = known.ways[known.version].how
            came = arrived[how.parent]
            if not came or (number not in made_by and self.is_suspended(number, data.source)):
                assert number not in made_by, f"{known.name} was derived in {version} from nothing"
                continue
            if number in refused:
                continue
            assert number in made_by, f"{known.name} was not derived in {version}"
            made = made_by[number]
            assert made.version >= (known.version if time >= known.until else known.since), "derived in an old way"
            arrived[number] = self.derive(version, number, came, made, after)
        for (channel, producer), held in after.items():
            self.check_held(version, self.channels[channel], producer, held)
        for channel, _ in data.suspended:
            self.suspended[channel, data.source] = self.channels[channel].version

    def derive(
        self,
        version: int,
        number: int,
        came: list[tuple[str, Values]],
        made: Made,
        after: dict[tuple[int, str], Held],
    ) -> list[tuple[str, Values]]:
        known = self.channels[number]
        way = known.ways[made.version]
        found: list[tuple[str, Values]] = []
        trapped = refused = 0
        for producer in dict.fromkeys(producer for producer, _ in came):
            # Code that took over from other code has the state that both declare.
            kept = known.kept[producer] = way.fresh() | known.kept.get(producer, {})
            queue = []
            for _, values in (one for one in came if one[0] == producer):
                event, is_trapped = way.chain(("filter", "transform"), values, kept)
                trapped += is_trapped
                refused += event is None and not is_trapped
                queue += [] if event is None else [event]
            before = known.ran.get(producer, 0)
            ran = known.ran[producer] = after[number, producer].ran if (number, producer) in after else before
            if way.how.period is not None and before and ran > before:
                assert ran - before >= way.how.every
                more, is_trapped = way.run_period(kept)
                trapped += is_trapped
                queue += more
            leaving = []
            for values in queue:
                event, is_trapped = way.chain(("dequeue",), values, kept)
                trapped += is_trapped
                refused += event is None and not is_trapped
                leaving += [] if event is None else [event]
            if leaving:
                self.events[known.name, version, producer] = [(made.version, values) for values in leaving]
            found += [(producer, values) for values in leaving]
        counts = len(came), len(found), trapped, refused
        assert (made.seen, made.made, made.trapped, made.refused) == counts, (version, known.name, made, counts)
        return found

    def check_held(self, version: int, known: Known, producer: str, held: Held) -> None:
        """The log has the state that comes of the replay."""
        kept = to_plain(known.kept[producer])
        said = json.loads(held.text or "{}")
        for name in PROGRAMS:
            place = "enqueue" if name in ("filter", "transform") else name
            for key, value in kept.get(name, {}).items():
                own = f"{name}.{key}" if place == "enqueue" else key
                if place in said:
                    assert same(said[place][own], value), (version, known.name, producer, own, said, kept)
        assert same(said.get("state", {}), kept["state"]), (version, known.name, producer, said, kept)


def check(space: ChannelSpace, functions: Sequence[ecode.Function] = ()) -> Replay:
    """Derived events, each under one version, and states are what the replay makes of the log."""
    replay = Replay(space, functions)
    there: dict[Key, list[MadeEvent]] = {}
    for info in space.channels():
        if info.derivation is not None:
            for event in everything(space.channel(info.name)):
                key = info.name, event.position.version, event.producer or ""
                there.setdefault(key, []).append((event.derivation, event.values))
    names = {info.name for info in space.channels()}
    expected = {key: made for key, made in replay.events.items() if key[0] in names}
    assert there.keys() == expected.keys()
    for key, made in expected.items():
        assert same(there[key], made), (key, there[key], made)
    state = space.history.catch_up().derived
    for number, known in replay.channels.items():
        for producer, held in state.states.get(number, {}).items():
            replay.check_held(space.history.state.version, known, producer, held)
    return replay


def same(one: Any, other: Any) -> bool:
    """Whether two values are alike, NaN too."""
    return repr(to_plain(one)) == repr(to_plain(other))


def to_ecode(value: Any) -> Any:
    """A plain value with strings as the interpreter has them."""
    match value:
        case str():
            return value.encode("utf-8", "surrogateescape")
        case list() | tuple():
            return [to_ecode(one) for one in value]
        case dict():
            return {name: to_ecode(one) for name, one in value.items()}
    return value


def to_plain(value: Any) -> Any:
    """A value of the interpreter with strings as Python has them."""
    match value:
        case bytes():
            return value.decode("utf-8", "surrogateescape")
        case list() | tuple():
            return [to_plain(one) for one in value]
        case dict():
            return {name: to_plain(one) for name, one in value.items()}
    return value
