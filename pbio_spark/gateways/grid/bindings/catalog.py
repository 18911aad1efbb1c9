"""Names of events -> channels, and how the events of a channel are written (grid-events 7)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ecode.suggest import did_you_mean
from ecode.types import Record, Struct
from pbio_spark.channels import Channel, ChannelInfo, ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.protocol.messages import EVENTS, PARAMETERS, EventName
from pbio_spark.gateways.grid.protocol.nodes import XmlElement, is_name
from pbio_spark.gateways.grid.settings import GridSettings, channel_names
from pbio_spark.gateways.grid.values.compiled import EventWriter
from pbio_spark.gateways.grid.values.plan import TIME, EventPlan, record_to_plan

DIRECTORY = "gateways"
"""The channel in which gateways register; it is not offered as an event."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A channel as an event.

    Attributes:
        name: of the event.
        channel: of its events.
    """

    name: EventName
    channel: Channel


class Catalog:
    """The channels of a space as events of a gateway. Threads may share one."""

    def __init__(self, space: ChannelSpace, settings: GridSettings) -> None:
        self.space = space
        self._settings = settings
        self._named = channel_names(settings)
        self._parameters = {namespace: namespace for namespace in settings.names} | {PARAMETERS: EVENTS, EVENTS: EVENTS}
        self._plans: dict[tuple[EventName, Record, tuple[str, ...]], EventPlan] = {}
        self._writers: dict[tuple[EventName, Record, tuple[str, ...]], EventWriter] = {}

    def names(self) -> list[EventName]:
        """The events that there are: channels whose types XML can show."""
        infos = {info.name: info for info in self.space.channels() if _is_shown(info)}
        found = {} if self._settings.only_names else {EventName(name): name for name in infos if is_name(name)}
        there = [(name, infos[channel]) for name, channel in {**found, **self._named}.items() if channel in infos]
        shown = (name for name, info in there if self._is_writable(name, info))
        return sorted(shown, key=lambda name: (name.namespace, name.name))

    def _is_writable(self, name: EventName, info: ChannelInfo) -> bool:
        try:
            self.plan(name, Channel(self.space, info).format.record)  # without reading the log for each
        except PbioError:
            return False
        return True

    def asked(self, parameters: XmlElement) -> EventName:
        """The event that an element of parameters asks for. Raises PBIO_REFUSED for a name space of nothing known."""
        namespace = self._parameters.get(parameters.namespace)
        if namespace is None:
            known = sorted({PARAMETERS, *self._settings.names})
            hint = did_you_mean(parameters.namespace, known) or f"there are {', '.join(known)}"
            reason = f"no parameters are known in the name space {parameters.namespace[:120]!r}"
            raise PbioError("PBIO_REFUSED", reason, hint=hint)
        return EventName(parameters.name, namespace)

    def find(self, name: EventName) -> Offered:
        """The channel of an event. Raises PBIO_REFUSED, with what there is."""
        channel = self.channel_name(name)
        if channel is not None:
            try:
                found = self.space.channel(channel)
            except PbioError as error:
                if error.code != "PBIO_UNKNOWN_CHANNEL":
                    raise
            else:
                if _is_shown(found.info):
                    return Offered(name, found)
        names = [info.name for info in self.space.channels() if _is_shown(info)]
        hint = did_you_mean(name.name, names) or "EventNamesRequest asks which there are"
        raise PbioError("PBIO_REFUSED", f"there are no events {name.name[:80]!r}", hint=hint)

    def lacking(self) -> list[tuple[EventName, PbioError]]:
        """The events that the settings name and that have no channel, with what is wrong."""
        named = {name.name for name in self._named}
        archived = (name for name in self._settings.archive.split() if name != "*" and name not in named)
        found: list[tuple[EventName, PbioError]] = []
        for name in (*self._named, *map(EventName, archived)):
            if not (self._settings.create and self._settings.takes(name)):
                try:
                    self.space.channel(self.channel_name(name) or name.name)
                except PbioError as error:
                    found.append((name, error))
        return found

    def channel_name(self, name: EventName) -> str | None:
        """The name of the channel that has, or could have, the events of a name; None if none can."""
        if name in self._named:
            return self._named[name]
        return name.name if name.namespace == EVENTS and not self._settings.only_names else None

    def plan(self, name: EventName, record: Record, fields: tuple[str, ...] = ()) -> EventPlan:
        """The plan for writing events of a channel's type, or some of their fields.

        Raises PBIO_UNSUPPORTED_TYPE for a type that XML cannot show, PBIO_REFUSED for unknown fields.
        """
        key = name, record, fields
        if key not in self._plans:
            self._plans[key] = record_to_plan(_projected(record, fields), name.name, name.namespace)
        return self._plans[key]

    def writer(self, name: EventName, record: Record, fields: tuple[str, ...] = ()) -> EventWriter:
        """The writer of such events. Raises what `plan` raises."""
        key = name, record, fields
        if key not in self._writers:
            self._writers[key] = EventWriter(self.plan(name, record, fields))
        return self._writers[key]


def _is_shown(info: ChannelInfo) -> bool:
    return info.name != DIRECTORY and not (info.derivation is not None and info.derivation.is_temporary)


def _projected(record: Record, fields: tuple[str, ...]) -> Record:
    """A record type with only some fields, its time, and what serves them. Raises PBIO_REFUSED."""
    if not fields:
        return record
    shown = [field.name for field in record.fields if not field.notes.hidden]
    for name in fields:
        if name not in shown:
            hint = did_you_mean(name, shown) or f"there are {', '.join(shown)}"
            raise PbioError("PBIO_REFUSED", f"Fields: the events have no field {name[:80]!r}", hint=hint)
    kept = tuple(one for one in record.fields if one.notes.hidden or one.name in fields or one.name == TIME)
    more = {one.name for one in kept} | Struct(record.name, kept).controls
    own = tuple(
        one if one.name in {k.name for k in kept} else replace(one, notes=replace(one.notes, hidden=True))
        for one in record.fields
        if one.name in more
    )
    return Record((Struct(record.name, own), *record.structs[1:])).subrecord(record.name)
