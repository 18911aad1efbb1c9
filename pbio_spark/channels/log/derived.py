"""Derivations in the log: their shared blocks, their state, and the reports of sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pbio_spark.channels.commits.commit import Data, Held, Made
from pbio_spark.channels.commits.derivation import ParameterBlock

if TYPE_CHECKING:
    from pbio_spark.channels.log.state import ChannelInfo

ACCEPTED, REFUSED, SUSPENDED = "accepted", "refused", "suspended"

MOST_SOURCES = 64
"""How many sources' reports are kept for a channel: those that reported last."""

NO_STATE = Held("")


@dataclass(frozen=True, slots=True)
class SharedBlock:
    """A block of parameters that derivations share.

    Attributes:
        id: the version of the commit that began it.
        version: of its last change.
    """

    id: int
    name: str
    parameters: ParameterBlock
    version: int


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a source on a derivation.

    Attributes:
        status: `accepted`, `refused` or `suspended`.
        reason: the reason for the latter two.
        version: of the commit with the derivation that the last report refers to.
        time: of the last report, in microseconds since 1970 UTC.
        seen, made, trapped, bytes, parent_bytes, refused: as in `Made`, summed over all reports.
        in_a_row: how many events have trapped since the last commit with one that did not.
    """

    status: str = ACCEPTED
    reason: str = ""
    version: int = 0
    time: int = 0
    seen: int = 0
    made: int = 0
    trapped: int = 0
    bytes: int = 0
    parent_bytes: int = 0
    in_a_row: int = 0
    refused: int = 0

    def plus(self, made: Made, time: int) -> Report:
        """The report after another commit."""
        return Report(
            ACCEPTED,
            "",
            made.version,
            time,
            self.seen + made.seen,
            self.made + made.made,
            self.trapped + made.trapped,
            self.bytes + made.bytes,
            self.parent_bytes + made.parent_bytes,
            self.row_after(made),
            self.refused + made.refused,
        )

    def row_after(self, made: Made) -> int:
        """The number of traps in a row, after another commit."""
        before = self.in_a_row if made.version == self.version else 0
        return before + made.trapped if made.trapped >= made.seen > 0 else 0


class Derived:
    """The state of all derivations; it grows commit by commit.

    Attributes:
        blocks: shared blocks of parameters, by ID.
        states: by derived channel and producer (`""` for events without one), the state of its programs.
        sizes: by derived channel, how many characters its states have.
        reports: by derived channel and source, the most recent reporter last.
    """

    def __init__(self) -> None:
        self.blocks: dict[int, SharedBlock] = {}
        self.states: dict[int, dict[str, Held]] = {}
        self.sizes: dict[int, int] = {}
        self.reports: dict[int, dict[str, Report]] = {}

    def named(self, name: object) -> SharedBlock | None:
        """The block of a name."""
        return next((block for block in self.blocks.values() if block.name == name), None)

    def held(self, channel: int, producer: str) -> Held:
        """The state for a producer, NO_STATE before its first event."""
        return self.states.get(channel, {}).get(producer, NO_STATE)

    def add(self, data: Data, versions: dict[int, int], time: int) -> None:
        """Add a commit; `versions` are those of the derivations that it refuses or suspends."""
        for channel, producer, held in data.states:
            self.hold(channel, producer, held)
        for made in data.made:
            self._report(made.channel, data.source, self._of(made.channel, data.source).plus(made, time))
        for status, reasons in ((REFUSED, data.refused), (SUSPENDED, data.suspended)):
            for channel, reason in reasons:
                known = self._of(channel, data.source)
                # Traps belong to the version that made the events; a newer one may have begun meanwhile.
                version = known.version if status == SUSPENDED else versions[channel]
                report = replace(known, status=status, reason=reason, version=version, time=time)
                self._report(channel, data.source, report)

    def hold(self, channel: int, producer: str, held: Held) -> None:
        """Keep a state."""
        of_channel = self.states.setdefault(channel, {})
        before = len(of_channel[producer].text) if producer in of_channel else 0
        self.sizes[channel] = self.sizes.get(channel, 0) + len(held.text) - before
        of_channel[producer] = held

    def forget_states(self, channel: int) -> None:
        """Drop all states of a channel."""
        self.states.pop(channel, None)
        self.sizes.pop(channel, None)

    def forget(self, channel: int) -> None:
        """Forget everything about a dropped channel."""
        self.forget_states(channel)
        self.reports.pop(channel, None)

    def status(self, channel: int, since: int, version: int) -> str | None:
        """The worst status that sources report for a derivation; None if none has reported.

        Args:
            since: reports of acceptance count from this version on.
            version: other reports count from this version on, that of the last change.
        """
        reports = self.reports.get(channel, {}).values()
        now = [report for report in reports if report.version >= (since if report.status == ACCEPTED else version)]
        for status in (SUSPENDED, REFUSED):
            for report in reversed(now):
                if report.status == status:
                    return f"{status}: {report.reason}"
        return ACCEPTED if now else None

    def is_suspended(self, channel: int, source: str, version: int) -> bool:
        """Whether a source has suspended a channel since its last change."""
        report = self._of(channel, source)
        return report.status == SUSPENDED and report.version >= version

    def exhausted(
        self, made: Iterable[Made], source: str, channels: Mapping[int, ChannelInfo]
    ) -> list[tuple[int, int]]:
        """The channels that a source must suspend after a commit, with the number of traps in a row."""
        rows = [(one.channel, self._of(one.channel, source).row_after(one)) for one in made]
        return [
            (channel, count)
            for channel, count in rows
            if (how := channels[channel].derivation) is not None and count >= how.max_traps
        ]

    def add_report(self, channel: int, source: str, report: Report) -> None:
        """Restore a report, from a checkpoint."""
        self._report(channel, source, report)

    def _of(self, channel: int, source: str) -> Report:
        return self.reports.get(channel, {}).get(source, Report())

    def _report(self, channel: int, source: str, report: Report) -> None:
        of_channel = self.reports.setdefault(channel, {})
        of_channel.pop(source, None)
        of_channel[source] = report
        while len(of_channel) > MOST_SOURCES:
            del of_channel[next(iter(of_channel))]
