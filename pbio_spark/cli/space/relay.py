"""`pbio space relay` and `archive`: a channel -> a topic of Kafka, and a topic -> a channel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from pbio_spark.cli.console import printable
from pbio_spark.cli.space.derive import Name, Root, open_space
from pbio_spark.errors import PbioError

Formats = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="The store of the formats; by default kafka://host:port/pbio-formats."),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Continue with what comes later.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--kafka", metavar="NAME=VALUE", help="A setting of the client, such as security.protocol=SSL."),
]


def relay(
    root: Root,
    name: Name,
    to: Annotated[str, typer.Option(metavar="ADDRESS", help="The topic to write to: kafka://host:port/topic.")],
    subscriber: Annotated[str | None, typer.Option(metavar="NAME", help="The name under which it resumes.")] = None,
    formats: Formats = None,
    follow: Follow = False,
    setting: Settings = None,
) -> None:
    """Write each event of a channel into a topic of Kafka, once.

    \b
    Example:
      pbio space relay space readings --to kafka://localhost:9092/readings
    """
    from pbio_spark.kafka.address import parse_address
    from pbio_spark.kafka.outward import OutwardOptions, RelayOut

    settings, topic = _settings(setting or ()), parse_address(to)
    channel = open_space(root).channel(name)
    made = RelayOut(channel, topic, OutwardOptions(subscriber, formats=formats, settings=settings))
    try:
        print(f"{printable(name)}: events relayed: {made.run(follow=follow)}")
    finally:
        made.close()


def archive(
    root: Root,
    name: Name,
    source: Annotated[
        str, typer.Option("--from", metavar="ADDRESS", help="The topic to read from: kafka://host:port/topic.")
    ],
    formats: Formats = None,
    follow: Follow = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out, and log, what cannot be an event.")] = False,
    setting: Settings = None,
) -> None:
    """Publish each record of a topic of Kafka to a channel, once.

    \b
    Example:
      pbio space archive archive readings --from kafka://localhost:9092/readings
    """
    from pbio_spark.kafka.address import parse_address
    from pbio_spark.kafka.inward import InwardOptions, RelayIn

    settings, topic = _settings(setting or ()), parse_address(source)
    channel = open_space(root).channel(name)
    options = InwardOptions(formats, settings, on_bad="skip" if skip_bad else "fail")
    made = RelayIn(channel, topic, options)
    try:
        print(f"{printable(name)}: events archived: {made.run(follow=follow)}")
    finally:
        made.close()


def _settings(said: Iterable[str]) -> dict[str, str]:
    settings = {}
    for one in said:
        name, equals, value = one.partition("=")
        if not equals or not name:
            hint = "an example is security.protocol=SSL"
            raise PbioError("PBIO_BAD_OPTION", f"not a setting: {one[:80]!r}", hint=hint)
        settings[name.removeprefix("kafka.")] = value
    return settings
