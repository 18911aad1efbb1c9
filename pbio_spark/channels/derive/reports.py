"""What sources report of derived channels, as rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING

from pbio_spark.channels.log.derived import Report
from pbio_spark.channels.log.state import ChannelInfo, State
from pbio_spark.channels.publish.submission import to_datetime

if TYPE_CHECKING:
    import pyarrow as pa


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


def state_to_reports(state: State) -> list[DerivationReport]:
    """One row for each derived channel and source, by their names."""
    rows = []
    for info in state.channels.values():
        if info.derivation is not None:
            reports = state.derived.reports.get(info.id)
            made = [_row(state, info, source, report) for source, report in (reports or {}).items()]
            rows += made or [_row(state, info, None, Report())]
    return sorted(rows, key=lambda row: (row.channel, row.source or ""))


def derivations_to_arrow(rows: Iterable[DerivationReport]) -> pa.Table:
    """The rows of `ChannelSpace.derivations` as a table; `spark.createDataFrame` takes it."""
    import pyarrow as pa

    types = {
        "int": pa.field("", pa.int64(), nullable=False),
        "str": pa.field("", pa.string(), nullable=False),
        "str | None": pa.field("", pa.string()),
        "datetime | None": pa.field("", pa.timestamp("us", tz="UTC")),
    }
    schema = pa.schema([types[str(field.type)].with_name(field.name) for field in fields(DerivationReport)])
    made = [{name: getattr(row, name) for name in schema.names} for row in rows]
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
