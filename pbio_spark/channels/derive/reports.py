"""What sources report of derived channels, for a commit and as rows; and how such a channel was made over time."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pbio_spark.channels.commits.commit import Change, Create, Data, Made, Replace
from pbio_spark.channels.commits.derivation import Derivation
from pbio_spark.channels.log.derived import Report
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.state import ChannelInfo, State
from pbio_spark.channels.publish.submission import to_datetime

if TYPE_CHECKING:
    import pyarrow as pa

    from pbio_spark.channels.commits.groups import Groups
    from pbio_spark.channels.derive.step import Tally
    from pbio_spark.channels.publish.prepare import Prepared

log = logging.getLogger("pbio_spark.channels")

What: TypeAlias = Literal["created", "replaced", "parameters"]
"""What changed about a derivation: it began, its code is another one, or its parameters were set."""


@dataclass(frozen=True, slots=True)
class DerivationReport:
    """What one source reports of one derived channel, since the channel began.

    Attributes:
        channel: the name of the derived channel.
        parent: the name of the channel whose events it is made of.
        source: the name of the source; None if none has reported yet.
        status: `accepted`, `refused` or `suspended`; `pending` if the source has published nothing since the derivation
            was changed.
        reason: why it is refused or suspended, else None.
        version: of the commit since which the channel was derived as it was at the last report; 0 before the first.
        seen: how many events of the parent the programs looked at.
        made: how many events came of them, those of `period` included.
        refused: how many came to nothing without a trap, also of those that `period` made and `dequeue` dropped.
        trapped: on how many events a program ended in a trap.
        bytes: of the events that were made.
        parent_bytes: of the events that were looked at; what is above `bytes` was saved.
        reported: when the source last reported; None if it has not.
        cost: units of work, about one operation each, that the code takes for an event at most, beside what the event
            decides (a loop over its array); None if the code no longer suits its parent's type.
    """

    channel: str
    parent: str
    source: str | None
    status: str
    reason: str | None
    version: int
    seen: int
    made: int
    refused: int
    trapped: int
    bytes: int
    parent_bytes: int
    reported: datetime | None
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class DerivationVersion:
    """How a derived channel was made for a time.

    Attributes:
        version: of the commit since which it was; what `event.derivation` says.
        time: of that commit.
        change: what changed then: it was `created`, its code `replaced`, or its `parameters` set.
        filter, transform, dequeue, period: the programs, None for those that there are not.
        parameters: their values.
        events: how many events it made so far, also of those that are no longer kept.
    """

    version: int
    time: datetime
    change: What
    filter: str | None
    transform: str | None
    dequeue: str | None
    period: str | None
    parameters: Mapping[str, Any]
    events: int


def versions_of(history: History, info: ChannelInfo) -> list[DerivationVersion]:
    """How a derived channel was made since it began. It reads the log since."""
    made: list[DerivationVersion] = []
    events: Counter[int] = Counter()
    how: Derivation | None = None
    with history.lock:
        last = history.catch_up().version
    for version in range(info.id, last + 1):
        entry = history.entry(version)
        if entry is None:
            continue
        match entry.change:
            case Create(derivation=Derivation() as begun) if version == info.id:
                how = begun
                made.append(_version(version, entry.time, "created", how))
            case Replace(channel, _, derivation) if channel == info.id:
                how = derivation
                made.append(_version(version, entry.time, "replaced", how))
            case Change(channel, parameters) if how is not None and channel in (info.id, how.shared):
                how = replace(how, parameters=parameters)
                made.append(_version(version, entry.time, "parameters", how))
            case Data() as data if how is not None:
                for group in history.groups(data, {info.id}):
                    events[group.derivation or 0] += group.count
    return [replace(one, events=events[one.version]) for one in made]


def _version(version: int, time: int, change: What, how: Derivation) -> DerivationVersion:
    programs = (how.filter, how.transform, how.dequeue, how.period)
    return DerivationVersion(version, to_datetime(time), change, *programs, how.parameters.values, 0)


def state_to_reports(state: State, cost_of: Callable[[ChannelInfo], int | None]) -> list[DerivationReport]:
    """One row for each derived channel and source, by their names."""
    rows = []
    for info in state.channels.values():
        if info.derivation is not None:
            reports = state.derived.reports.get(info.id)
            made = [_row(state, info, source, report) for source, report in (reports or {}).items()]
            cost = cost_of(info)
            rows += [replace(row, cost=cost) for row in made or [_row(state, info, None, Report())]]
    return sorted(rows, key=lambda row: (row.channel, row.source or ""))


def derivations_to_arrow(rows: Iterable[DerivationReport | DerivationVersion]) -> pa.Table:
    """The rows of `ChannelSpace.derivations`, or of `Channel.derivation_versions`, as a table, which Spark takes.

    Parameters are JSON.
    """
    import pyarrow as pa

    rows = list(rows)
    kind = type(rows[0]) if rows else DerivationReport
    types = {
        "int": pa.field("", pa.int64(), nullable=False),
        "int | None": pa.field("", pa.int64()),
        "str": pa.field("", pa.string(), nullable=False),
        "str | None": pa.field("", pa.string()),
        "datetime": pa.field("", pa.timestamp("us", tz="UTC"), nullable=False),
        "datetime | None": pa.field("", pa.timestamp("us", tz="UTC")),
        "What": pa.field("", pa.string(), nullable=False),
        "Mapping[str, Any]": pa.field("", pa.string(), nullable=False),
    }
    schema = pa.schema([types[str(field.type)].with_name(field.name) for field in fields(kind)])
    made = [{name: getattr(row, name) for name in schema.names} for row in rows]
    for row in made:
        row |= {name: json.dumps(value) for name, value in row.items() if isinstance(value, Mapping)}
    return pa.Table.from_pylist(made, schema=schema)


def _row(state: State, info: ChannelInfo, source: str | None, report: Report) -> DerivationReport:
    assert info.derivation is not None
    status, reason = report.status, report.reason
    if source is None:
        # Logs of older versions have no sources.
        status, _, reason = state.status(info.id).partition(": ")
    elif report.version < info.since:
        status, reason = "pending", ""
    return DerivationReport(
        info.name,
        state.channels[info.derivation.parent].name,
        source,
        status,
        reason or None,
        report.version,
        report.seen,
        report.made,
        report.refused,
        report.trapped,
        report.bytes,
        report.parent_bytes,
        to_datetime(report.time) if report.time else None,
    )


class Ledger:
    """Adds up what was derived, channel by channel."""

    def __init__(self) -> None:
        self._made: dict[int, Made] = {}
        self._traps: dict[int, str] = {}

    @property
    def made(self) -> tuple[Made, ...]:
        return tuple(self._made.values())

    @property
    def traps(self) -> tuple[tuple[int, str], ...]:
        return tuple(self._traps.items())

    def add(self, child: ChannelInfo, events: Prepared, made: Sequence[Prepared], tally: Tally) -> None:
        """Add what came of some events."""
        self.add_all(child, [events], made, tally)

    def add_all(self, child: ChannelInfo, events: Sequence[Prepared], made: Sequence[Prepared], tally: Tally) -> None:
        """The same of several."""
        seen, came = (sum(one.groups.events for one in some) for some in (events, made))
        before, after = (sum(_bytes(one.groups) for one in some) for some in (events, made))
        refused = seen + tally.emitted - came - (tally.trapped - tally.runs)
        self.plus(Made(child.id, child.version, seen, came, tally.trapped, after, before, refused))
        if tally.trapped:
            self._traps.setdefault(child.id, tally.reason)
            log.warning(
                "channel %s: a program ended in a trap on %d events, which are left out; the first: %s",
                child.name,
                tally.trapped,
                tally.reason,
            )

    def plus(self, one: Made) -> None:
        known = self._made.get(one.channel)
        self._made[one.channel] = one if known is None else known.plus(one)


def _bytes(groups: Groups) -> int:
    return int((groups.rows["end"] - groups.rows["start"]).sum())
