"""`pbio gateway names`, `query`, `subscribe` and `publish`: Grid events, with any peer that speaks their protocol."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pbio_spark.cli.console import Files, TypeText, assignments, printable, said_type, table, takes
from pbio_spark.cli.gateway.encryption import Encryption

if TYPE_CHECKING:
    from ecode.types import Record
    from pbio_spark.gateways.grid import EventName, GridEvent

_TIME = "TimeStamp"

Address = Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the peer listens.")]
EventOf = Annotated[str, typer.Argument(metavar="NAME", help="Of the events.")]
Namespace = Annotated[
    str | None, typer.Option(metavar="URI", help="The name space of the events; by default the working group's.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help='A parameter, with units if it has some: --set "Period=600 sec".'),
]


@takes(Encryption)
def names(address: Address, encryption: Encryption) -> None:
    """List the events that a producer has.

    \b
    Example:
      pbio gateway names 127.0.0.1:26400
    """
    from pbio_spark.gateways.grid import GridConsumer

    async def run() -> list[EventName]:
        async with await GridConsumer.connect(address, tls=encryption.context()) as consumer:
            return await consumer.names()

    found = _run(run())
    print(table(("event", "name space"), [(printable(one.name), printable(one.namespace)) for one in found]))


@takes(Encryption)
def query(
    address: Address,
    name: EventOf,
    encryption: Encryption,
    namespace: Namespace = None,
    set_: Settings = None,
    type_: TypeText = None,
) -> None:
    """Ask a producer for one event, and show it as a line of JSON. Without --type its values are strings.

    \b
    Example:
      pbio gateway query 127.0.0.1:26400 readings
    """
    from pbio_spark.gateways.grid import GridConsumer

    wanted, parameters, tls = _event_name(name, namespace), _parameters(set_), encryption.context()

    async def run() -> GridEvent:
        async with await GridConsumer.connect(address, _types(wanted, type_), tls=tls) as consumer:
            return await consumer.query(wanted, parameters)

    print(_event_to_json(_run(run())))


@takes(Encryption)
def subscribe(
    address: Address,
    name: EventOf,
    encryption: Encryption,
    namespace: Namespace = None,
    set_: Settings = None,
    type_: TypeText = None,
    seconds: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0, help="Stop after so long, instead of at SIGINT.")
    ] = None,
) -> None:
    """Show a producer's events as lines of JSON, until it ends the subscription; standard error says so unless Count is
    reached.

    Without --type their values are strings.

    \b
    Example:
      pbio gateway subscribe 127.0.0.1:26400 readings --set After=earliest --set Count=1
    """
    from pbio_spark.gateways.grid import GridConsumer

    wanted, parameters, tls = _event_name(name, namespace), _parameters(set_), encryption.context()

    async def run() -> None:
        async with await GridConsumer.connect(address, _types(wanted, type_), tls=tls) as consumer:
            shown = 0
            async for event in await consumer.subscribe(wanted, parameters):
                print(_event_to_json(event), flush=True)
                shown += 1
            if str(shown) != parameters.get("Count"):
                ended = f"{printable(name)}: the producer has ended the subscription; events shown: {shown}"
                print(ended, file=sys.stderr)

    async def in_time() -> None:
        try:
            async with asyncio.timeout(seconds):
                await run()
        except TimeoutError:
            pass

    _run(in_time())


@dataclass(frozen=True)
class PublishOptions(Encryption):
    """The options of `publish` about the rows and their producer."""

    now: Annotated[bool, typer.Option("--now", help="Give rows without a TimeStamp the time of sending.")] = False
    producer: Annotated[
        str | None,
        typer.Option(
            "--producer", metavar="NAME", help="The name of the events' producer; an archive puts this host before it."
        ),
    ] = None
    sequence: Annotated[
        str | None,
        typer.Option(
            "--sequence", metavar="FIRST", help="Number the producer's events, so that an archive takes each once."
        ),
    ] = None

    def first(self) -> int | None:
        """The number of the first event. Raises BadParameter for it, and for a producer without a name."""
        if self.producer is not None and not self.producer.strip():
            raise typer.BadParameter("--producer takes a name, which cannot be blank")
        said = self.sequence
        if said is None or (said.isascii() and said.isdecimal()):
            return None if said is None else int(said)
        name, _, number = said.rpartition(":")
        near = f"; did you mean --producer {name} --sequence {number}?" if name and number.isdecimal() else ""
        raise typer.BadParameter(f"--sequence takes a whole number from 0, not {said!r}{near}")


@takes(PublishOptions)
def publish(
    address: Address,
    name: EventOf,
    files: Files,
    published: PublishOptions,
    namespace: Namespace = None,
    type_: TypeText = None,
) -> None:
    """Send the rows of JSON lines as events to a consumer, such as an archive. - means standard input.

    Each row has a TimeStamp, such as 2000-11-09T21:51:45Z or now, unless --now is given. With --sequence, an archive
    leaves out events that it has from the same producer; without --producer, that is HOST/1 for all programs of this
    host. Files that are each numbered from 0 need a producer each. Exit code 1 if events were refused.

    \b
    Examples:
      pbio gateway publish 127.0.0.1:26400 readings timed.jsonl
      pbio gateway publish 127.0.0.1:26400 readings timed.jsonl --producer probe --sequence 0
    """
    from pbio_spark.gateways.grid import GridProducer

    first, tls = published.first(), published.context()
    rows, record = _rows(files, type_, published.now)
    wanted = _event_name(name, namespace)

    async def run() -> str | None:
        producer = GridProducer({wanted: record})
        async with await producer.connect(address, tls=tls) as connection:
            subscription = await connection.subscribe(wanted, subscription_id=published.producer)
            for number, row in enumerate(rows):
                await producer.publish(wanted, row, sequence=None if first is None else first + number)
            return await subscription.unsubscribe()

    said = _run(run())
    print(f"{printable(name)}: events sent: {len(rows)}" + (f"; the consumer says: {printable(said)}" if said else ""))
    _report(said, len(rows))


def _report(said: str | None, sent: int) -> None:
    """Warn of events that were known already. Raises PBIO_REFUSED if some were refused."""
    from pbio_spark.errors import PbioError
    from pbio_spark.gateways.grid import text_to_handed

    handed = text_to_handed(said)
    if handed.known:
        which = "1 event was" if handed.known == 1 else f"{handed.known} events were"
        print(
            f"warning: {which} not published: the producer {printable(handed.producer)!r} has published events with "
            "their numbers before. If these are others, give another --producer, or a higher --sequence",
            file=sys.stderr,
        )
    if handed.refused:
        reason = f"the consumer refused {handed.refused} of {sent} events"
        why = ": " if handed.refused == 1 else ", the first because: "
        raise PbioError("PBIO_REFUSED", f"{reason}{why}{handed.reason}")


def _run(work: Awaitable[Any]) -> Any:
    async def run() -> Any:
        return await work

    return asyncio.run(run())


def _event_name(name: str, namespace: str | None) -> EventName:
    from pbio_spark.gateways.grid import EventName

    return EventName(name) if namespace is None else EventName(name, namespace)


def _types(name: EventName, type_: str | None) -> dict[str | EventName, Record] | None:
    return None if type_ is None else {name: said_type(type_)}


def _parameters(said: Sequence[str] | None) -> dict[str, Any]:
    """Parameters as they are given: `NAME=VALUE`, where a number may have units after a blank."""
    found: dict[str, Any] = {}
    for name, value in assignments(said or ()).items():
        measured = re.fullmatch(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?) (\S+)", value)
        found[name] = value if measured is None else (measured[1], measured[2])
    return found


def _rows(files: Sequence[str], type_: str | None, now: bool) -> tuple[list[dict[str, Any]], Record]:
    """The rows of files of JSON lines, and their type. Rows of the present have null as their time.

    Raises PBIO_CANNOT_BE_NULL for a row without a time, unless such rows are of `now`.
    """
    from pbio_spark.cli.from_json import infer, json_to_batch, rows_of
    from pbio_spark.formats.arrow.python_rows import sound_rows
    from pbio_spark.formats.arrow.schema import record_to_arrow
    from pbio_spark.formats.arrow.written import columns_to_record

    if type_ is None:
        if "-" in files:
            raise typer.BadParameter("say with --type which type the rows of standard input have")
        schema = infer(files)
        record = columns_to_record(schema, "event", "mask")
    else:
        record = said_type(type_)
        schema = record_to_arrow(record)
    rows: list[dict[str, Any]] = []
    for path in files:
        own = list(rows_of(path))
        for number, row in own:
            match row.get(_TIME):
                case None if not now:
                    raise _untimed(number, path)
                case "now":
                    del row[_TIME]
        rows += sound_rows(json_to_batch(own, schema, path), file=path)
    return rows, record


def _untimed(line: int, path: str) -> Exception:
    from pbio_spark.errors import PbioError

    return PbioError(
        "PBIO_CANNOT_BE_NULL",
        f"line {line} has no {_TIME}, which every event has",
        file=path,
        hint='give it, as "TimeStamp": "2000-11-09T21:51:45Z"; --now, or "TimeStamp": "now", is the time of sending',
    )


def _event_to_json(event: GridEvent) -> str:
    said = {"sequence": event.sequence, "position": event.position}
    shown = {
        "time": event.time.isoformat(),
        **{name: value for name, value in said.items() if value is not None},
        "event": event.values,
    }
    return json.dumps(shown, default=_plain)


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
