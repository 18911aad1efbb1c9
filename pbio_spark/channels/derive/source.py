"""What a source of events grants to the code of subscribers, and its limits."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import ecode
from ecode.suggest import did_you_mean
from pbio_spark.channels.commits.checked import check_name
from pbio_spark.errors import PbioError
from pbio_spark.keywords import suggesting_class

MOST_STATE = 64 << 10
"""The most characters of the state for one producer, as JSON."""

MOST_STATES = 16 << 20
"""The most characters of the states for all producers."""

_LONGEST_NAME = 200


def _load() -> float:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


SERVICES: Mapping[str, ecode.Function] = {
    service.name: service
    for service in (
        ecode.service("double clock()", time.time, is_sampled=True),
        ecode.service("double load()", _load, is_sampled=True),
        ecode.service("long process()", os.getpid, is_sampled=True),
    )
}
"""Services that every source can grant: the time in seconds since 1970 UTC, the load of the host as `os.getloadavg` has
it, and the number of the process."""


@suggesting_class
@dataclass(frozen=True)
class Source:
    """A publishing program, as seen by the code that it runs for subscribers.

    Attributes:
        name: the name under which it reports; by default the host's.
        services: functions that code may call, if its derivation names them: from `ecode.service`, or the names of
            some of SERVICES.
        max_cost: units of work that code may take for an event, whatever its derivation allows; None: what the
            derivation allows.
        max_state: characters that the state for one producer may take.
        max_states: characters that the states for all producers of a derivation may take.

    >>> Source("probe", services=["clock"]).grants["clock"].name
    'clock'
    """

    name: str = field(default_factory=lambda: socket.gethostname()[:_LONGEST_NAME] or "unknown")
    services: Iterable[ecode.Function | str] = ()
    max_cost: int | None = None
    max_state: int = MOST_STATE
    max_states: int = MOST_STATES
    grants: Mapping[str, ecode.Function] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_name(self.name, "source")
        services = [self.services] if isinstance(self.services, str | ecode.Function) else list(self.services)
        made = [_service(one) for one in services]
        object.__setattr__(self, "services", tuple(services))
        object.__setattr__(self, "grants", {one.name: one for one in made})

    def granted(self, prototypes: Iterable[str]) -> tuple[ecode.Function, ...]:
        """The functions of some prototypes. Raises PBIO_BAD_PROGRAM for one that the source does not grant."""
        found = []
        for prototype in prototypes:
            wanted = declared(prototype)
            own = self.grants.get(wanted.name)
            if own is None:
                raise PbioError(
                    "PBIO_BAD_PROGRAM",
                    f"the source {self.name!r} does not grant the service {wanted.name!r}",
                    hint=f'open the space with source=Source(services=["{wanted.name}"])',
                )
            if (own.returns, own.parameters) != (wanted.returns, wanted.parameters):
                raise PbioError(
                    "PBIO_BAD_PROGRAM",
                    f"the source {self.name!r} grants another {wanted.name!r} than {prototype!r}",
                    hint="use the prototype of the source, or let the source grant a function of yours",
                )
            found.append(own)
        return tuple(found)


def declared(prototype: str) -> ecode.Function:
    """The function of a prototype, or of a name among SERVICES; it cannot be called. Raises PBIO_BAD_OPTION."""
    if prototype in SERVICES:
        return SERVICES[prototype]
    try:
        return ecode.service(prototype, _uncallable)
    except ecode.EcodeError as error:
        hint = did_you_mean(prototype, SERVICES) or "example: 'double temperature(int sensor)'"
        raise PbioError("PBIO_BAD_OPTION", f"{prototype[:80]!r} is not a service", hint=hint) from error


def _service(given: ecode.Function | str) -> ecode.Function:
    if isinstance(given, ecode.Function):
        return given
    if given not in SERVICES:
        hint = did_you_mean(str(given), SERVICES) or "ecode.service('double f(double x)', function) makes one"
        raise PbioError("PBIO_BAD_OPTION", f"unknown service {str(given)[:80]!r}", hint=hint)
    return SERVICES[given]


_uncallable: Callable[..., float] = lambda *_: 0.0  # noqa: E731 - never called
