"""The settings of a gateway's Grid half: the section `[grid]` of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ecode.limits import SOURCE_WORK
from pbio_spark.channels import check_name
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.protocol.messages import EVENTS, EventName
from pbio_spark.gateways.grid.protocol.nodes import is_name
from pbio_spark.gateways.tables import table_to_settings
from pbio_spark.gateways.text import address_to_text, is_wildcard, to_address


@dataclass(frozen=True, slots=True)
class GridSettings:
    """The section `[grid]`; `names` are its tables `[grid.events."NAME SPACE"]`.

    Attributes:
        archive: the names of events that producers may hand over, in one string with blanks between; `*` is all.
        create: whether an event that producers may hand over, and that no channel takes, makes one, of strings.
        subscriptions: the most of one connection.
        subscribers: the most named subscribers of one peer, for which a space keeps events while they are away.
        filter_cost: the most units of work that a `Filter` may take for an event.
        set_parameters: whether consumers may change the parameters of derived channels.
        linger: seconds that an event waits at most for others to be committed with.
        batch: events are committed when they have so many bytes.
        wait: seconds after which a peer that has subscribed to events which it could also hand over, and has sent
            none, is taken for a consumer.
        entry: seconds for which the gateway's entry in the directory is good; 0 for no entry.
        advertise: the address in that entry, `HOST:PORT`, where peers find the gateway; port 0 is the one at which it
            listens. Empty: the address at which it listens, if that is not all of the machine's.
        names: by name space of events, the channel of each event's name. In the working group's name space a channel is
            an event of its own name, unless `only_names` is set.
        only_names: whether events are those in `names` only.
    """

    archive: str = ""
    create: bool = False
    subscriptions: int = 1000
    subscribers: int = 100
    filter_cost: int = SOURCE_WORK
    set_parameters: bool = True
    linger: float = 0.05
    batch: int = 1 << 20
    wait: float = 1.0
    entry: float = 60.0
    advertise: str = ""
    only_names: bool = False
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises PBIO_BAD_OPTION for an `advertise` that is not an address, or one that peers cannot connect to; for
        names that events or channels cannot have; and for other names beside `*` in `archive`."""
        archived = self.archive.split()
        if "*" in archived and len(archived) > 1:
            reason = f"[grid] archive names {self.archive[:80]!r}, and * stands for all"
            raise PbioError("PBIO_BAD_OPTION", reason, hint="write * alone, or names alone")
        events = [name for channels in self.names.values() for name in channels]
        for name in (*events, *(one for one in archived if one != "*")):
            if not is_name(name):
                reason = f"[grid] no event can be called {name[:80]!r}, which is not the name of an element in XML"
                raise PbioError("PBIO_BAD_OPTION", reason, hint="in archive, separate names by blanks")
        for channel in (channel for channels in self.names.values() for channel in channels.values()):
            check_name(channel, "channel")
        if self.advertise:
            host, _, port = self.advertise.rpartition(":")
            if not host or not port or is_wildcard(to_address(self.advertise)[0]):
                reason = f"[grid] advertise is {self.advertise[:80]!r}, which does not say where peers find the gateway"
                raise PbioError("PBIO_BAD_OPTION", reason, hint="an example is node7.example.org:26400")

    def entry_address(self, bound: str) -> str | None:
        """The address for the directory of a gateway that listens at one; None if others could not use it."""
        host, port = to_address(bound)
        if self.advertise:
            host, said = to_address(self.advertise)
            port = said or port
        return None if is_wildcard(host) else address_to_text(host, port)

    def takes(self, name: EventName) -> bool:
        """Whether producers may hand over events of a name."""
        return self.archive.strip() == "*" or name.name in self.archive.split()


def table_to_grid_settings(table: Any) -> GridSettings:
    """The settings that a table says. Raises PBIO_UNKNOWN_OPTION, PBIO_BAD_OPTION."""
    if not isinstance(table, dict):
        raise PbioError(
            "PBIO_BAD_OPTION", "[grid] is not a table", hint="write [grid] on a line of its own, and its settings below"
        )
    names = table.get("events", {})
    others = {key: value for key, value in table.items() if key != "events"}
    for namespace, channels in names.items() if isinstance(names, dict) else [("events", None)]:
        if not isinstance(channels, dict) or not all(isinstance(channel, str) for channel in channels.values()):
            reason = f"[grid.events.{namespace!r}] is not a table of names of events and of channels"
            raise PbioError(
                "PBIO_BAD_OPTION", reason, hint='an example is [grid.events."http://www.example.org/events"]'
            )
    return table_to_settings(GridSettings, others, "grid", beside=["events"], names=names)


def channel_names(settings: GridSettings) -> dict[EventName, str]:
    """The channels of the events that the settings name."""
    return {
        EventName(name, namespace or EVENTS): channel
        for namespace, channels in settings.names.items()
        for name, channel in channels.items()
    }
