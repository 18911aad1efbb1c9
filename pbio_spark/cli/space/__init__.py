"""`pbio space`: channel spaces, their channels, and the events on them."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pbio_spark.cli.console import Files, TypeText, e_code, expand, printable, printable_lines, report, said_type, table
from pbio_spark.cli.formats import struct_to_text
from pbio_spark.cli.matching import one_format
from pbio_spark.cli.space import derive, relay
from pbio_spark.cli.space.concentrate import concentrate
from pbio_spark.cli.space.derive import SHOWN, Name, Root, open_space
from pbio_spark.errors import PbioError

if TYPE_CHECKING:
    from pbio_spark.channels import Channel, Event

app = typer.Typer(help="Channel spaces: named, typed streams of events in a folder.", no_args_is_help=True)


@app.command()
def init(root: Root) -> None:
    """Make a folder a channel space.

    \b
    Example:
      pbio space init other
    """
    from pbio_spark.channels import ChannelSpace

    print(f"{printable(root)}: space {ChannelSpace.create(root).id}")


@app.command()
def create(
    root: Root,
    name: Name,
    type_: TypeText = None,
    like: Annotated[
        str | None, typer.Option("--like", metavar="FILE", help="A file of that type: FILE, FILE#NAME or FILE#ID.")
    ] = None,
) -> None:
    """Create a channel.

    \b
    Example:
      pbio space create space small --type '{"small": {"n": "int", "at": "timestamp"}}'
    """
    if (type_ is None) == (like is None):
        raise typer.BadParameter("give the type of the channel's events with either --type or --like")
    if type_ is None:
        assert like is not None
        channel = open_space(root).create_channel(name, one_format(like))
    else:
        channel = open_space(root).create_channel(name, said_type(type_))
    print(f"{printable(name)}: channel {channel.id} of")
    print(printable_lines("\n".join(map(struct_to_text, channel.format.record.structs))))


app.command()(derive.derive)
app.command()(derive.replace)
app.command("set")(derive.set_)
app.command()(derive.parameters)
app.command()(concentrate)
app.command()(relay.relay)
app.command()(relay.archive)


@app.command()
def publish(
    root: Root,
    name: Name,
    files: Files,
    producer: Annotated[str | None, typer.Option(metavar="NAME", help="The name of the producer.")] = None,
    sequence: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="The sequence number of the first event; the others count up from it. Events that were published "
            "before are not published again.",
        ),
    ] = None,
    event_time: Annotated[
        str | None,
        typer.Option(
            "--event-time", metavar="TIME", help="When the events happened, in ISO 8601; UTC if it has no zone."
        ),
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="How long to wait until all named subscribers have the events."),
    ] = None,
) -> None:
    """Publish the rows of JSON lines, or the records of PBIO files, in one commit. - means JSON lines on standard
    input.

    \b
    Example:
      pbio space publish space readings readings.jsonl --producer me --sequence 0
    """
    from pbio_spark.cli.from_json import at_line

    channel = _channel_to_publish(root, name, files)
    events, lines = _events_of(files, channel)
    try:
        published = channel.submit(
            events,
            producer=producer,
            sequence=sequence,
            event_time=None if event_time is None else relay.moment(event_time),
            delivery="async" if wait is None else "sync",
            sync_timeout=wait or 0,
        )
    except PbioError as error:
        if error.code == "PBIO_CANNOT_BE_NULL":
            error.hint = "give it a value; a field of a channel has nulls if its type is a pointer, such as '*float64'"
        raise at_line(error, lines).at(file=", ".join(files)) from None
    known = f"; published before: {published.known}" if published.known else ""
    if published.version is None or not published.events:
        print(f"{printable(name)}: no events to publish{known}")
    else:
        print(f"{printable(name)}: events published: {published.events}, in commit {published.version}{known}")


def _channel_to_publish(root: str, name: str, files: list[str]) -> Channel:
    """The channel. Raises PBIO_UNKNOWN_CHANNEL, with the order of the arguments if its name is among the files."""
    space = open_space(root)
    try:
        return space.channel(name)
    except PbioError as error:
        if error.code == "PBIO_UNKNOWN_CHANNEL" and files[0] in {info.name for info in space.channels()}:
            error.hint = f"the channel comes before the files: pbio space publish {root} {files[0]} {name}"
        raise


def _events_of(files: list[str], channel: Channel) -> tuple[list[dict[str, Any]], list[int]]:
    """The rows of files, and their lines if there is only one file of JSON lines."""
    from pbio_spark.cli.convert import rows_of_records
    from pbio_spark.cli.from_json import is_lines, json_to_batch, rows_of
    from pbio_spark.formats.arrow.python_rows import sound_rows
    from pbio_spark.formats.arrow.schema import record_to_arrow

    schema = record_to_arrow(channel.format.record)
    events: list[dict[str, Any]] = []
    lines: list[int] = []
    for path in files:
        if path == "-" or is_lines(path):
            own = list(rows_of(path))
            events += sound_rows(json_to_batch(own, schema, path), file=path)
            lines = [number for number, _ in own] if len(files) == 1 else []
        else:
            events += rows_of_records(list(expand([path])))
    return events, lines


@app.command()
def drop(root: Root, name: Name) -> None:
    """Drop a channel: it takes no more events, and its name becomes free.

    \b
    Example:
      pbio space drop space gone
    """
    open_space(root).drop_channel(name)
    print(f"{printable(name)}: dropped")


@app.command()
def ls(root: Root) -> None:
    """List the channels.

    \b
    Example:
      pbio space ls space
    """
    space = open_space(root)
    infos = space.channels()
    subscribers = Counter(subscriber.channel for subscriber in space.subscribers())
    rows = [
        (
            printable(info.name),
            str(info.events),
            str(info.bytes),
            str(info.last or ""),
            printable(space.history.state.status(info.id).partition(":")[0]),
            str(subscribers[info.id]),
        )
        for info in infos
    ]
    header = ("channel", "published", "bytes", "last", "status", "subscribers")
    print(table(header, rows, right="published bytes last subscribers"))


@app.command()
def describe(
    root: Root,
    name: Name,
    versions: Annotated[
        bool, typer.Option("--versions", help="Also show how a derived channel was made over time; this reads the log.")
    ] = False,
) -> None:
    """Describe a channel: its type, its parent, its subscribers.

    \b
    Example:
      pbio space describe space readings
    """
    from pbio_spark.channels import expired, to_datetime

    space = open_space(root)
    channel = space.channel(name)
    info, state = channel.info, space.history.state
    print(f"{printable(info.name)} (channel {info.id})")
    print(f"created: {to_datetime(info.created).isoformat()}")
    print(f"published: {info.events} events ({info.bytes} bytes), the last in commit {info.last}")
    numbered = sorted((producer, last) for (of, producer), last in state.sequences.items() if of == info.id)
    print(f"producers with sequence numbers: {len(numbered)}")
    if numbered:
        producers = [(printable(producer), str(last)) for producer, last in numbered[:SHOWN]]
        print(table(("producer", "last"), producers, right="last"))
    if len(numbered) > SHOWN:
        print(f"and {len(numbered) - SHOWN} more")
    if info.derivation is not None:
        derive.describe_derivation(space, channel, versions=versions)
    print(printable_lines(str(channel.format)))
    own = [subscriber for subscriber in space.subscribers() if subscriber.channel == info.id]
    gone = expired(space.folder, own, time.time_ns() // 1000, note=False)
    rows = [
        (
            printable(subscriber.name),
            str(subscriber.position),
            *map(str, space.backlog(subscriber)),
            to_datetime(subscriber.seen).isoformat(timespec="seconds"),
            "expired" if subscriber in gone else "there",
        )
        for subscriber in own
    ]
    if rows:
        print("subscribers, and what they have not acknowledged:")
        header = ("subscriber", "at", "commits", "events", "seen", "status")
        print(table(header, rows, right="commits events"))


@app.command()
def tail(
    root: Root,
    name: Name,
    start: relay.Start = "earliest",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with events that are published later.")
    ] = False,
    filter_: Annotated[
        str | None,
        e_code("--filter", "The events to show; the filter sees them as `input`."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("-n", metavar="N", min=0, help="Show only the last N events; then new ones with --follow."),
    ] = None,
) -> None:
    """Show events as lines of JSON.

    \b
    Example:
      pbio space tail space readings -n 2 --filter '{ return input.n > 1; }'
    """
    from pbio_spark.formats.arrow.python_rows import time_to_text

    subscription = open_space(root).channel(name).subscribe(start=relay.start_of(start), filter=filter_)

    def events(timeout: float | None) -> Iterator[Event]:
        return (event for some in subscription.deliveries(timeout) for event in some.events(time_to_text))

    if count is not None:
        for event in deque(events(0), maxlen=count):
            print(_event_to_line(event), flush=follow)
    if count is None or follow:
        for event in events(None if follow else 0):
            print(_event_to_line(event), flush=follow)


@app.command()
def compact(
    root: Root,
    small: Annotated[int, typer.Option(metavar="BYTES", help="Files below this size are small.")] = 1 << 20,
    target: Annotated[int, typer.Option(metavar="BYTES", help="The size of the new files.")] = 64 << 20,
) -> None:
    """Combine small data files; a later vacuum removes the old ones.

    \b
    Example:
      pbio space compact space
    """
    count = open_space(root).compact(small=small, target=target)
    print(f"{printable(root)}: {count} files combined")


@app.command()
def vacuum(
    root: Root,
    grace: Annotated[float, typer.Option(metavar="HOURS", help="Files younger than this stay.")] = 24,
) -> None:
    """Remove expired subscribers, events beyond retention, and files that nothing needs.

    \b
    Example:
      pbio space vacuum space --grace 48
    """
    removed = open_space(root).vacuum(grace=timedelta(hours=grace), linger=timedelta(hours=grace))
    for name in removed.channels:
        print(f"{printable(name)}: old events removed")
    for subscriber in removed.subscribers:
        print(f"{printable(subscriber.name)}: expired subscriber removed")
    print(f"{printable(root)}: {removed.files} files removed ({removed.bytes} bytes)")


@app.command()
def verify(root: Root) -> None:
    """Check every commit, every data file and every event in it.

    \b
    Example:
      pbio space verify space
    """
    from pbio_spark.channels import leftovers, problems

    space = open_space(root)
    found = 0
    for problem in problems(space):
        report(problem)
        found += 1
    if found:
        raise typer.Exit(1)
    state = space.history.catch_up()
    events = sum(info.events for info in state.channels.values())
    print(f"{printable(root)}: sound (commits: {state.version}, channels: {len(state.channels)}, events: {events})")
    if left := leftovers(space):
        print(f"data files that no commit names, of active or dead writers: {len(left)}")
    for path in space.folder.strangers():
        print(f"{printable(path)}: not a file of a channel space")


def _event_to_line(event: Event) -> str:
    said = {"producer": event.producer, "sequence": event.sequence, "event_time": event.event_time}
    line = {
        "position": str(event.position),
        "published": event.published,
        **{name: value for name, value in said.items() if value is not None},
        "event": event.values,
    }
    return json.dumps(line, default=_plain)


def _plain(value: Any) -> str:
    """Values that JSON lacks: bytes in hexadecimal, times in ISO 8601, decimals."""
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
