"""Reports of sources on derived channels, for a commit and as rows; and the history of a channel's derivation."""

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
"""The kind of change: the channel was created, its code replaced, or its parameters set."""


@dataclass(frozen=True, slots=True)
class DerivationReport:
    """The report of one source on one derived channel, since the channel's creation.

    Attributes:
        channel: the name of the derived channel.
        parent: the name of the channel from which it is derived.
        source: the name of the source; None if none has reported yet.
        status: `accepted`, `refused` or `suspended`; `pending` if the source has published nothing since the derivation
            was changed.
        reason: why it is refused or suspended, otherwise None.
        version: of the commit with the derivation that the last report refers to; 0 before the first.
        seen: how many events of the parent the programs processed.
        made: how many events they produced, including those of `period`.
        refused: how many yielded nothing without a trap, including events of `period` that `dequeue` dropped.
        trapped: how many events ended in a trap.
        bytes: of the produced events.
        parent_bytes: of the processed events; the difference to `bytes` was saved.
        reported: when the source last reported; None if it has not.
        cost: the most units of work, about one operation each, of the code per event, apart from work that depends on
            the event (a loop over its array); None if the code no longer suits its parent's type.
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
    """A version of a channel's derivation.

    Attributes:
        version: of the commit that introduced it; equals `event.derivation`.
        time: of that commit.
        change: what changed then: the channel was `created`, its code `replaced`, or its `parameters` set.
        filter, transform, dequeue, period: the programs, None for absent ones.
        parameters: their values.
        events: how many events it has made so far, including those no longer kept.
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
    """The versions of a channel's derivation since its creation. Reads the log from there."""
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
    """One row for each derived channel and source, sorted by name."""
    rows = []
    for info in state.channels.values():
        if info.derivation is not None:
            reports = state.derived.reports.get(info.id)
            made = [_row(state, info, source, report) for source, report in (reports or {}).items()]
            cost = cost_of(info)
            rows += [replace(row, cost=cost) for row in made or [_row(state, info, None, Report())]]
    return sorted(rows, key=lambda row: (row.channel, row.source or ""))


def derivations_to_arrow(rows: Iterable[DerivationReport | DerivationVersion]) -> pa.Table:
    """The rows of `ChannelSpace.derivations` or `Channel.derivation_versions` as a table for Spark.

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
    """Adds up reports, channel by channel."""

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
        """Add the results for some events."""
        self.add_all(child, [events], made, tally)

    def add_all(self, child: ChannelInfo, events: Sequence[Prepared], made: Sequence[Prepared], tally: Tally) -> None:
        """`add` for several."""
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
