"""Grid events: XML over TCP (Smith, Gunter, Quesnel, *An XML-based protocol for distributed event services*, 2001).

protocol   frames, messages, XML
values     record types <-> elements: careful and compiled
peers      connections and their state; `GridProducer` and `GridConsumer`
settings   the settings of a gateway
bindings   channels of a space, for producers and consumers
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ecode.suggest import no_attribute

if TYPE_CHECKING:
    from pbio_spark.gateways.grid.bindings.directory import GatewayEntry, gateways
    from pbio_spark.gateways.grid.bindings.gateway import GridGateway
    from pbio_spark.gateways.grid.peers.consumer import GridArchive, GridConsumer, GridSubscription
    from pbio_spark.gateways.grid.peers.events import GridEvent
    from pbio_spark.gateways.grid.peers.handed import Handed, text_to_handed
    from pbio_spark.gateways.grid.peers.producer import GridProducer
    from pbio_spark.gateways.grid.protocol.messages import EventName
    from pbio_spark.gateways.grid.settings import GridSettings, table_to_grid_settings

__all__ = [
    "EventName",
    "GatewayEntry",
    "GridArchive",
    "GridConsumer",
    "GridEvent",
    "GridGateway",
    "GridProducer",
    "GridSettings",
    "GridSubscription",
    "Handed",
    "gateways",
    "table_to_grid_settings",
    "text_to_handed",
]

_HOMES = {
    "bindings.directory": ("GatewayEntry", "gateways"),
    "bindings.gateway": ("GridGateway",),
    "peers.consumer": ("GridArchive", "GridConsumer", "GridSubscription"),
    "peers.events": ("GridEvent",),
    "peers.handed": ("Handed", "text_to_handed"),
    "peers.producer": ("GridProducer",),
    "protocol.messages": ("EventName",),
    "settings": ("GridSettings", "table_to_grid_settings"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"pbio_spark.gateways.grid.{home}"), name)
    raise no_attribute(__name__, name, __all__)
