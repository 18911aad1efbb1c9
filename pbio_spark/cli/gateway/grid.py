"""`pbio gateway names`, `query`, `subscribe` and `publish`: Grid events, with any peer that speaks their protocol."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import sys
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pbio_spark.cli.console import Files, TypeText, printable, said_type, table

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
Authority = Annotated[
    str | None, typer.Option("--ca", metavar="FILE", help="Use TLS: a PEM file of authorities to trust.")
]


def names(address: Address, ca: Authority = None) -> None:
    """List the events that a producer has.

    \b
    Example:
      pbio gateway names 127.0.0.1:26400
    """
    from pbio_spark.gateways.grid import GridConsumer

    async def run() -> list[EventName]:
        async with await GridConsumer.connect(address, tls=_tls(ca)) as consumer:
            return await consumer.names()

    found = _run(run())
    print(table(("event", "name space"), [(printable(one.name), printable(one.namespace)) for one in found]))


def query(
    address: Address,
    name: EventOf,
    namespace: Namespace = None,
    set_: Settings = None,
    type_: TypeText = None,
    ca: Authority = None,
) -> None:
    """Ask a producer for one event, and show it as a line of JSON. Without --type its values are strings.

    \b
    Example:
      pbio gateway query 127.0.0.1:26400 readings
    """
    from pbio_spark.gateways.grid import GridConsumer

    async def run() -> GridEvent:
        wanted = _event_name(name, namespace)
        async with await GridConsumer.connect(address, _types(wanted, type_), tls=_tls(ca)) as consumer:
            return await consumer.query(wanted, _parameters(set_))

    print(_event_to_json(_run(run())))


def subscribe(
    address: Address,
    name: EventOf,
    namespace: Namespace = None,
    set_: Settings = None,
    type_: TypeText = None,
    seconds: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0, help="Stop after so long, instead of at SIGINT.")
    ] = None,
    ca: Authority = None,
) -> None:
    """Show a producer's events as lines of JSON, until it ends the subscription, which is said on standard error unless
    Count is reached.

    Without --type their values are strings.

    \b
    Example:
      pbio gateway subscribe 127.0.0.1:26400 readings --set After=earliest --set Count=1
    """
    from pbio_spark.gateways.grid import GridConsumer

    async def run() -> None:
        wanted = _event_name(name, namespace)
        async with await GridConsumer.connect(address, _types(wanted, type_), tls=_tls(ca)) as consumer:
            parameters, shown = _parameters(set_), 0
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


def publish(
    address: Address,
    name: EventOf,
    files: Files,
    namespace: Namespace = None,
    type_: TypeText = None,
    sequence: Annotated[
        str | None,
        typer.Option(
            metavar="[PRODUCER:]FIRST", help="Number the events of a producer, so that an archive takes each once."
        ),
    ] = None,
    ca: Authority = None,
) -> None:
    """Have a consumer, such as an archive, take the rows of JSON lines as events. - stands for standard input.

    Each row has a TimeStamp such as 2000-11-09T21:51:45Z, or now. With --sequence an archive leaves out what it has of
    the same producer, which is HOST/PRODUCER; without PRODUCER it is HOST/1 for all programs of this host. Files that
    are each numbered from 0 need a PRODUCER each. Exit code 1 if events were refused.

    \b
    Example:
      pbio gateway publish 127.0.0.1:26400 readings timed.jsonl
      pbio gateway publish 127.0.0.1:26400 readings timed.jsonl --sequence probe:0
    """
    from pbio_spark.errors import PbioError
    from pbio_spark.gateways.grid import GridProducer, text_to_handed

    rows, record = _rows(files, type_)
    wanted = _event_name(name, namespace)
    producer_id, first = _numbering(sequence)

    async def run() -> str | None:
        producer = GridProducer({wanted: record})
        async with await producer.connect(address, tls=_tls(ca)) as connection:
            subscription = await connection.subscribe(wanted, subscription_id=producer_id)
            for number, row in enumerate(rows):
                await producer.publish(wanted, row, sequence=None if first is None else first + number)
            return await subscription.unsubscribe()

    said = _run(run())
    print(f"{printable(name)}: events sent: {len(rows)}" + (f"; the consumer says: {printable(said)}" if said else ""))
    handed = text_to_handed(said)
    if handed.known:
        which = "1 event was" if handed.known == 1 else f"{handed.known} events were"
        print(
            f"warning: {which} not published: the producer {printable(handed.producer)!r} has published events with "
            "their numbers before. If these are others, give --sequence another PRODUCER, or a higher number",
            file=sys.stderr,
        )
    if handed.refused:
        reason = f"the consumer refused {handed.refused} of {len(rows)} events"
        why = ": " if handed.refused == 1 else ", the first because: "
        raise PbioError("PBIO_REFUSED", f"{reason}{why}{handed.reason}")


def _run(work: Awaitable[Any]) -> Any:
    async def run() -> Any:
        return await work

    return asyncio.run(run())


def _tls(ca: str | None) -> ssl.SSLContext | None:
    from pbio_spark.errors import PbioError

    if ca is None:
        return None
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        raise PbioError("PBIO_BAD_OPTION", f"--ca: {error}", file=ca) from None


def _event_name(name: str, namespace: str | None) -> EventName:
    from pbio_spark.gateways.grid import EventName

    return EventName(name) if namespace is None else EventName(name, namespace)


def _types(name: EventName, type_: str | None) -> dict[str | EventName, Record] | None:
    return None if type_ is None else {name: said_type(type_)}


def _parameters(said: Sequence[str] | None) -> dict[str, Any]:
    """Parameters as they are given: `NAME=VALUE`, where a number may have units after a blank."""
    found: dict[str, Any] = {}
    for one in said or ():
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--set takes NAME=VALUE, not {one!r}")
        measured = re.fullmatch(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?) (\S+)", value)
        found[name] = value if measured is None else (measured[1], measured[2])
    return found


def _numbering(said: str | None) -> tuple[str | None, int | None]:
    """The producer and the first number of `[PRODUCER:]FIRST`."""
    if said is None:
        return None, None
    producer, colon, first = said.rpartition(":")
    if not (first.isascii() and first.isdecimal()) or (colon and not producer.strip()):
        raise typer.BadParameter(f"--sequence takes a whole number from 0, such as 0 or probe:0, not {said!r}")
    return producer or None, int(first)


def _rows(files: Sequence[str], type_: str | None) -> tuple[list[dict[str, Any]], Record]:
    """The rows of files of JSON lines, and their type. The time of those that are of now is null.

    Raises PBIO_CANNOT_BE_NULL for a row without a time.
    """
    from pbio_spark.cli.from_json import infer, json_to_batch, rows_of
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
        for number, row in enumerate(own):
            match row.get(_TIME):
                case None:
                    raise _untimed(number, path)
                case "now":
                    del row[_TIME]
        rows += json_to_batch(own, schema, path, 0).to_pylist()
    return rows, record


def _untimed(row: int, path: str) -> Exception:
    from pbio_spark.errors import PbioError

    return PbioError(
        "PBIO_CANNOT_BE_NULL",
        f"row {row} has no {_TIME}, which every event has",
        file=path,
        hint='give it, as "TimeStamp": "2000-11-09T21:51:45Z", or as "TimeStamp": "now", the time at which it is sent',
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
