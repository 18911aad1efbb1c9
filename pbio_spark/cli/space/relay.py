"""`pbio space relay` and `archive`: a channel -> a topic of Kafka, and a topic -> a channel."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from pbio_spark.cli.console import assignments, printable, takes
from pbio_spark.cli.space.derive import Name, Root, open_space

if TYPE_CHECKING:
    from pbio_spark.channels import Start as Where

Start = Annotated[
    str, typer.Option(metavar="WHERE", help="earliest, latest, a position such as 12.0.7, or a time in ISO 8601.")
]


@dataclass(frozen=True)
class RelayOptions:
    """The options of both directions."""

    formats: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="The store of the formats; by default kafka://host:port/pbio-formats."),
    ] = None
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with later events.")] = False
    setting: Annotated[
        list[str] | None,
        typer.Option("--kafka", metavar="NAME=VALUE", help="A setting of the client, such as security.protocol=SSL."),
    ] = None

    def settings(self) -> dict[str, str]:
        """By name. Raises BadParameter."""
        return assignments((one.removeprefix("kafka.") for one in self.setting or ()), "security.protocol=SSL")


@takes(RelayOptions)
def relay(
    root: Root,
    name: Name,
    to: Annotated[str, typer.Option(metavar="ADDRESS", help="The topic to write to: kafka://host:port/topic.")],
    said: RelayOptions,
    subscriber: Annotated[str | None, typer.Option(metavar="NAME", help="The name under which it resumes.")] = None,
    start: Start = "earliest",
) -> None:
    """Write each event of a channel into a topic of Kafka, once.

    \b
    Example:
      pbio space relay space readings --to kafka://localhost:9092/readings
    """
    from pbio_spark.kafka.address import parse_address
    from pbio_spark.kafka.outward import OutwardOptions, RelayOut

    settings, topic = said.settings(), parse_address(to)
    options = OutwardOptions(subscriber, start_of(start), said.formats, settings)
    made = RelayOut(open_space(root).channel(name), topic, options)
    try:
        print(f"{printable(name)}: events relayed: {made.run(follow=said.follow)}")
    finally:
        made.close()


@takes(RelayOptions)
def archive(
    root: Root,
    name: Name,
    source: Annotated[
        str, typer.Option("--from", metavar="ADDRESS", help="The topic to read from: kafka://host:port/topic.")
    ],
    said: RelayOptions,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out and log what cannot be an event.")] = False,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for a format that the store lacks.")
    ] = 0,
) -> None:
    """Publish each record of a topic of Kafka to a channel, once.

    \b
    Example:
      pbio space archive archive readings --from kafka://localhost:9092/readings
    """
    from pbio_spark.kafka.address import parse_address
    from pbio_spark.kafka.inward import InwardOptions, RelayIn

    settings, topic = said.settings(), parse_address(source)
    options = InwardOptions(said.formats, settings, wait, "skip" if skip_bad else "fail")
    made = RelayIn(open_space(root).channel(name), topic, options)
    try:
        print(f"{printable(name)}: events archived: {made.run(follow=said.follow)}")
    finally:
        made.close()


def start_of(text: str) -> Where:
    """The value of `--start`: a time, a word or a position."""
    try:
        return _moment(text)
    except ValueError:
        return text


def moment(text: str) -> datetime:
    """A time. Raises BadParameter."""
    try:
        return _moment(text)
    except ValueError:
        raise typer.BadParameter(f"not a time: {printable(text)!r}; an example is 2026-01-31T12:00:00+01:00") from None


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
