"""`pbio gateway`: programs that do not use this project take part in channels, over the network."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pbio_spark.cli.console import e_code, printable, takes
from pbio_spark.cli.gateway import grid as grid_verbs
from pbio_spark.cli.gateway.encryption import Encryption
from pbio_spark.cli.space.derive import Name, Root, open_space

if TYPE_CHECKING:
    from pbio_spark.gateways.config import Config
    from pbio_spark.gateways.server import Server

app = typer.Typer(help="Let other programs send and receive events, over the network.", no_args_is_help=True)

for verb in (grid_verbs.names, grid_verbs.query, grid_verbs.subscribe, grid_verbs.publish):
    app.command()(verb)

GridAddress = Annotated[
    str | None,
    typer.Option("--grid", metavar="HOST:PORT", help="Listen here for producers and consumers of Grid events."),
]
Address = Annotated[
    str | None,
    typer.Option("--evpath", metavar="HOST:PORT", help="Listen here for thin streams of EVPath and FFS programs."),
]


@dataclass(frozen=True)
class Changed:
    """The changes that the options of `serve` make to the configuration."""

    create: Annotated[
        bool, typer.Option("--create", help="Make channels for stones, and for events of [grid] archive, without one.")
    ] = False
    linger: Annotated[
        float | None, typer.Option("--linger", metavar="SECONDS", help="How long an event may wait for its commit.")
    ] = None
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise", metavar="HOST:PORT", help="Where consumers of Grid events find it, for the directory."
        ),
    ] = None

    def configured(self, config: Config) -> Config:
        """The configuration with the changes. Raises BadParameter, PBIO_BAD_OPTION."""
        if self.linger is not None and not 0 <= self.linger < float("inf"):
            raise typer.BadParameter("--linger is a time in seconds, such as 0.5")
        both: dict[str, Any] = {"create": True} if self.create else {}
        both |= {} if self.linger is None else {"linger": self.linger}
        to_grid = both if self.advertise is None else {**both, "advertise": self.advertise}
        return replace(config, evpath=replace(config.evpath, **both), grid=replace(config.grid, **to_grid))


@app.command()
@takes(Changed)
def serve(
    root: Root,
    changed: Changed,
    evpath: Address = None,
    grid: GridAddress = None,
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", help="What peers may do, and which stone is which channel."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0, help="Stop after so long, instead of at SIGTERM.")
    ] = None,
) -> None:
    """Publish what other programs send, and let them subscribe, until SIGINT or SIGTERM. Without HOST,
    only this machine can connect.

    \b
    Example:
      pbio gateway serve space --evpath 127.0.0.1:0 --grid 127.0.0.1:0 --create --for 0.1
    """
    import asyncio

    from pbio_spark.gateways.config import Config, read_config

    if evpath is None and grid is None:
        raise typer.BadParameter("say where to listen: --evpath HOST:PORT, --grid HOST:PORT, or both")
    if changed.advertise is not None and grid is None:
        raise typer.BadParameter("--advertise needs --grid")
    made = changed.configured(Config() if config is None else read_config(config))
    with _log_to_stderr():
        asyncio.run(_serve(root, {"evpath": evpath, "grid": grid}, made, seconds))


async def _serve(root: str, addresses: dict[str, str | None], config: Config, seconds: float | None) -> None:
    from pbio_spark.gateways.evpath import ThinGateway
    from pbio_spark.gateways.grid import GridGateway
    from pbio_spark.gateways.server import Half, Listener, Server
    from pbio_spark.gateways.text import to_address

    space = open_space(root)
    halves: list[Half] = [ThinGateway(space, config.evpath, config.limits), GridGateway(space, config.grid)]
    listeners = [
        Listener(half, *to_address(address)) for half in halves if (address := addresses[half.name]) is not None
    ]
    server = Server(listeners, config.limits, None if config.tls is None else config.tls.context())
    await server.run(seconds, lambda: _announce(server))


def _announce(server: Server) -> None:
    from pbio_spark.gateways.text import address_to_text

    for name, place in server.addresses.items():
        print(f"{name}: {address_to_text(*place)}", flush=True)


@dataclass(frozen=True)
class Sent(Encryption):
    """The options of `send` about the subscriber."""

    subscriber: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="The name of the subscriber, which resumes where it was; by default HOST:PORT.",
        ),
    ] = None
    start: Annotated[
        str,
        typer.Option(
            metavar="WHERE", help="Where a new subscriber starts: earliest, latest, or a position such as 12.0.7."
        ),
    ] = "earliest"
    filter: Annotated[
        str | None,
        e_code("--filter", "The events to send; the filter sees them as `input`."),
    ] = None


@app.command()
@takes(Sent)
def send(
    root: Root,
    name: Name,
    sent: Sent,
    evpath: Annotated[str, typer.Option("--evpath", metavar="HOST:PORT", help="Where an EVPath program listens.")],
    stone: Annotated[int, typer.Option("--stone", metavar="N", help="The stone there that the events are for.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with later events, and over new connections.")
    ] = False,
) -> None:
    """Send a channel's events to a thin listener, as a named subscriber.

    \b
    Examples:
      pbio gateway send space readings --evpath 127.0.0.1:26300 --stone 3
      pbio gateway send space readings --evpath 127.0.0.1:26300 --stone 3 --name many --filter '{ return input.n > 1; }'
    """
    from pbio_spark.gateways.evpath import ThinSender
    from pbio_spark.gateways.text import to_address

    address, tls = to_address(evpath), sent.context()  # report wrong usage before problems of the space
    with _log_to_stderr(), _set_by_signals() as stop:
        channel = open_space(root).channel(name)
        options: dict[str, Any] = {"name": sent.subscriber, "start": sent.start, "filter": sent.filter, "tls": tls}
        sender = ThinSender(channel, address, stone, **options)
        sender.run(follow=follow, stop=stop)
    print(f"{printable(name)}: events sent: {sender.sent}, as {printable(sender.name)!r}")


@contextmanager
def _log_to_stderr() -> Iterator[None]:
    """Log to standard error, one line for each message."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("pbio_spark")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


@contextmanager
def _set_by_signals() -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; the next one has its usual effect."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(*_: object) -> None:
        stop.set()
        restore()

    for number in before:
        signal.signal(number, end)
    try:
        yield stop
    finally:
        restore()
