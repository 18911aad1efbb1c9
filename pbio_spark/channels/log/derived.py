"""What the log says of derivations: their shared blocks, the state that they keep, and what sources report of them."""

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
"""Of how many sources a channel's reports are kept: those that reported last."""

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
    """What a source reports of a derivation.

    Attributes:
        status: `accepted`, `refused` or `suspended`.
        reason: of the latter two.
        version: of the commit since which the channel was derived as it was at the last report.
        time: of the last report, in microseconds since 1970 UTC.
        seen, made, trapped, bytes, parent_bytes, refused: as in `Made`, of all reports.
        in_a_row: how many events ended in a trap since the last commit with one that did not.
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
        """How many events ended in a trap in a row, after another commit."""
        before = self.in_a_row if made.version == self.version else 0
        return before + made.trapped if made.trapped >= made.seen > 0 else 0


class Derived:
    """Grows commit by commit.

    Attributes:
        blocks: shared blocks of parameters, by ID.
        states: by derived channel and producer (`""` for events without one), what its programs keep.
        sizes: by derived channel, how many characters its states have.
        reports: by derived channel and source, those that reported last at the end.
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
        """Add what a commit says; `versions` are those of the derivations that it refuses or suspends."""
        for channel, producer, held in data.states:
            self.hold(channel, producer, held)
        for made in data.made:
            self._report(made.channel, data.source, self._of(made.channel, data.source).plus(made, time))
        for status, reasons in ((REFUSED, data.refused), (SUSPENDED, data.suspended)):
            for channel, reason in reasons:
                known = self._of(channel, data.source)
                # Traps are those of the version that made the events; another may have begun meanwhile.
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
        """Start again."""
        self.states.pop(channel, None)
        self.sizes.pop(channel, None)

    def forget(self, channel: int) -> None:
        """Forget all of a channel that was dropped."""
        self.forget_states(channel)
        self.reports.pop(channel, None)

    def status(self, channel: int, since: int, version: int) -> str | None:
        """The worst that sources report of a derivation; None if none has.

        Args:
            since: reports that it is accepted count from this version on.
            version: and others from this one, that of its last change.
        """
        reports = self.reports.get(channel, {}).values()
        now = [report for report in reports if report.version >= (since if report.status == ACCEPTED else version)]
        for status in (SUSPENDED, REFUSED):
            for report in reversed(now):
                if report.status == status:
                    return f"{status}: {report.reason}"
        return ACCEPTED if now else None

    def is_suspended(self, channel: int, source: str, version: int) -> bool:
        """Whether a source derives a channel no longer, as it is since its last change."""
        report = self._of(channel, source)
        return report.status == SUSPENDED and report.version >= version

    def exhausted(
        self, made: Iterable[Made], source: str, channels: Mapping[int, ChannelInfo]
    ) -> list[tuple[int, int]]:
        """The channels that a source must suspend after a commit, and after how many traps in a row."""
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
