"""The settings of a gateway for thin streams; the section `[evpath]` of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pbio_spark.channels import check_name
from pbio_spark.errors import PbioError
from pbio_spark.gateways.tables import positive, table_to_settings


@dataclass(frozen=True, slots=True)
class Stone:
    """The destination of the events for a stone.

    Attributes:
        channel: its name.
        producer: the name of the events' producer; empty: that of the peer.
        producer_field: the field of the channel's type with the name of each event's producer; empty: none.
        sequence: the field of the channel's type with the numbers of each producer's events; an event whose number was
            already published is not published again. Empty: none.
        event_time: the field of the channel's type with the time of each event; empty: none.
    """

    channel: str
    producer: str = ""
    producer_field: str = ""
    sequence: str = ""
    event_time: str = ""

    def __post_init__(self) -> None:
        """Raises PBIO_BAD_OPTION for names that a channel or a producer cannot have, and for a producer given twice."""
        check_name(self.channel, "channel")
        if self.producer:
            check_name(self.producer, "producer")
        if self.producer and self.producer_field:
            reason = f"the stone of the channel {self.channel!r} has both producer and producer_field"
            raise PbioError("PBIO_BAD_OPTION", reason, hint="leave one of them out: each event has one producer")


@dataclass(frozen=True, slots=True)
class ThinSettings:
    """The section `[evpath]`.

    Attributes:
        create: whether a stone that is not configured gets a channel `stone-N`, of the type of the first format that is
            sent to it, and a configured channel that does not exist is made so.
        linger: how many seconds an event may wait for others to be committed with.
        batch_events, batch_bytes: events are committed earlier if there are so many, or so many bytes of them.
        formats: the most that one stream may describe.
        stones: by number. In TOML, `3 = "channel"`, or a table [evpath.stones.3] with the attributes of a `Stone`.
    """

    create: bool = False
    linger: float = 0.2
    batch_events: int = 50_000
    batch_bytes: int = 8 << 20
    formats: int = positive(1000)
    stones: Mapping[int, Stone] = field(default_factory=dict)


def table_to_thin_settings(table: Any) -> ThinSettings:
    """What the section says. Raises PBIO_BAD_OPTION and PBIO_UNKNOWN_OPTION."""
    said = dict(table) if isinstance(table, dict) else table
    stones = said.pop("stones", {}) if isinstance(said, dict) else {}
    if not isinstance(stones, dict):
        raise PbioError("PBIO_BAD_OPTION", "[evpath.stones] is not a table", hint='an entry is 3 = "channel"')
    made: dict[int, Stone] = {}
    for number, stone in stones.items():
        if not number.isascii() or not number.isdecimal() or len(number) > 9:
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"[evpath.stones]: {number[:80]!r} is not the number of a stone",
                hint="name stones by their numbers: 0 = 'channel'",
            )
        if int(number) in made:
            reason = f"[evpath.stones]: duplicate stone {int(number)}, once as {number!r}"
            raise PbioError("PBIO_BAD_OPTION", reason, hint="write the number without zeros before it")
        where = f"evpath.stones.{number}"
        made[int(number)] = table_to_settings(Stone, {"channel": stone} if isinstance(stone, str) else stone, where)
    return table_to_settings(ThinSettings, said, "evpath", beside=["stones"], stones=made)
