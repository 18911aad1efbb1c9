"""The limits of a gateway's peers, for every protocol."""

from __future__ import annotations

from dataclasses import dataclass

from pbio_spark.gateways.tables import positive


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Limits of a gateway; the section `[limits]` of its configuration.

    Attributes:
        connections: the most that are open at once, of all peers.
        per_peer: the most from one host.
        frame: the most bytes of one message, or of one item of a thin stream.
        memory: the most bytes of unfinished and unpublished events, of all thin streams together.
        unread: the most bytes that wait until a peer reads them.
        idle: seconds without an expected byte after which a connection ends.
        slow: seconds in which a peer does not read pending bytes, after which its connection ends.
        grace: the most seconds that connections have to end when the gateway stops.
    """

    connections: int = positive(1000)
    per_peer: int = positive(100)
    frame: int = positive(16 << 20)
    memory: int = positive(256 << 20)
    unread: int = positive(4 << 20)
    idle: float = positive(300.0)
    slow: float = positive(30.0)
    grace: float = 10.0
