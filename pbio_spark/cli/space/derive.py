"""`pbio space derive`, `replace`, `set` and `parameters`: derived channels and their parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ecode.json_text import DuplicateKeyError, parse_json
from pbio_spark.cli.console import TypeText, assignments, e_code, printable, printable_lines, said_type, table, takes

if TYPE_CHECKING:
    from pbio_spark.channels import Channel, ChannelSpace, DerivationVersion, Modulator

SHOWN = 20
"""The number of producers that `describe` lists."""

Root = Annotated[str, typer.Argument(metavar="SPACE", help="The folder of the space, or its URL.")]
Name = Annotated[str, typer.Argument(metavar="CHANNEL", help="The name of a channel.")]
Values = Annotated[
    list[str],
    typer.Argument(metavar="NAME=VALUE...", help="A number, or JSON: a string in quotes, a list, an object."),
]


@dataclass(frozen=True)
class CodeOptions:
    """The options about a modulator, shared by `derive` and `replace`."""

    filter: Annotated[str | None, e_code("--filter", "The events to keep; the filter sees them as `input`.")] = None
    transform: Annotated[str | None, e_code("--transform", "Fills `output` from `input`; needs --type.")] = None
    type: TypeText = None
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", help="A field of `param`: a number or JSON; may be repeated."),
    ] = None
    parameters: Annotated[
        str | None, typer.Option("--parameters", metavar="BLOCK", help="A block of parameters that channels share.")
    ] = None
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="JSON", help="The content of `state` before a producer's first event."),
    ] = None
    dequeue: Annotated[
        str | None, e_code("--dequeue", "Runs on each event before it goes into the log: 0 drops it.")
    ] = None
    period: Annotated[str | None, e_code("--period", "Makes additional events; needs --every.")] = None
    every: Annotated[
        float | None, typer.Option("--every", metavar="SECONDS", help="How long --period waits at least.")
    ] = None
    service: Annotated[
        list[str] | None,
        typer.Option("--service", metavar="NAME", help="A function that sources must grant; may be repeated."),
    ] = None
    max_cost: Annotated[
        int | None, typer.Option("--max-cost", metavar="UNITS", help="The work that an event may take.")
    ] = None
    max_traps: Annotated[
        int | None,
        typer.Option("--max-traps", metavar="N", help="The number of traps in a row after which a source suspends it."),
    ] = None
    when: Annotated[str | None, typer.Option("--when", metavar="WHEN", help="always, or subscribed.")] = None

    def modulator(self) -> Modulator:
        """The modulator. Raises PBIO_BAD_TYPE, and BadParameter for values that are not JSON."""
        from pbio_spark.channels import Modulator

        if self.param and self.parameters is not None:
            raise typer.BadParameter("give either --param or --parameters")
        said: dict[str, Any] = {
            "filter": self.filter,
            "transform": self.transform,
            "type": None if self.type is None else said_type(self.type),
            "parameters": values_of(self.param) if self.param else self.parameters,
            "state": None if self.state is None else _json(self.state, "--state"),
            "dequeue": self.dequeue,
            "period": self.period,
            "every": self.every,
            "services": self.service,
            "max_cost": self.max_cost,
            "max_traps": self.max_traps,
            "when": self.when,
        }
        return Modulator(**{name: value for name, value in said.items() if value is not None})


@takes(CodeOptions)
def derive(
    root: Root,
    name: Name,
    parent: Annotated[str, typer.Option("--from", metavar="CHANNEL", help="The channel that it is derived from.")],
    said: CodeOptions,
) -> None:
    """Create a channel whose events publishers of another channel derive from theirs.

    \b
    Example:
      pbio space derive space warm --from readings --filter '{ return input.n > param.least; }' --param least=1
    """
    modulator = said.modulator()  # report wrong usage before problems of the space
    channel = open_space(root).derive_channel(name, parent, modulator)
    print(f"{printable(name)}: channel {channel.id}, made of {printable(parent)}, of")
    print(printable_lines(str(channel.format.record)))


@takes(CodeOptions)
def replace(root: Root, name: Name, said: CodeOptions) -> None:
    """Derive a channel in another way from the next commit on. Give all of its options again.

    \b
    Example:
      pbio space replace space most --filter '{ return input.n >= param.least; }' --param least=2
    """
    modulator = said.modulator()
    version = open_space(root).replace_channel(name, modulator)
    print(f"{printable(name)}: derived so from commit {version} on")


def set_(
    root: Root,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of a derived channel, or of a block of parameters.")],
    values: Values,
    lazy: Annotated[
        float | None,
        typer.Option("--lazy", metavar="SECONDS", help="How long sources may use the old values."),
    ] = None,
) -> None:
    """Change parameters of a derived channel, or of a block that channels share.

    \b
    Example:
      pbio space set space most least=3
    """
    version = open_space(root).set_parameters(name, values_of(values), lazy=lazy)
    print(f"{printable(name)}: these values hold from commit {version} on")


def parameters(
    root: Root,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Of a block, or of a derived channel.")] = None,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE...", help="Create a block of these.")
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Drop the block, which no channel may use any more.")] = False,
) -> None:
    """List the blocks of parameters that channels share, or show, create or drop one.

    \b
    Examples:
      pbio space parameters space bounds least=1.5 'unit="kPa"'
      pbio space parameters space bounds
    """
    space = open_space(root)
    if name is None:
        if drop:
            raise typer.BadParameter("--drop needs the name of a block")
        state = space.history.catch_up()
        rows = [
            (
                printable(block.name),
                str(block.version),
                ", ".join(printable(info.name) for info in state.sharing(block.id)),
                ", ".join(block.parameters),
            )
            for block in sorted(state.derived.blocks.values(), key=lambda block: block.name)
        ]
        print(table(("block", "changed", "channels", "parameters"), rows, right="changed"))
    elif drop:
        if values:
            raise typer.BadParameter("give either values or --drop")
        space.drop_parameters(name)
        print(f"{printable(name)}: dropped")
    elif values:
        space.create_parameters(name, values_of(values))
        print(f"{printable(name)}: a block of {', '.join(space.parameters(name))}")
    else:
        for one, value in space.parameters(name).items():
            print(f"{one}={json.dumps(value)}")


def describe_derivation(space: ChannelSpace, channel: Channel, *, versions: bool) -> None:
    """Print how a derived channel is and was made, the state of its programs, and the reports of sources."""
    info, state, how = channel.info, space.history.state, channel.info.derivation
    assert how is not None
    print(f"derived from: {printable(state.channels[how.parent].name)}, so since commit {info.since}")
    print(f"status: {printable_lines(channel.status)}")
    for what in ("filter", "transform", "dequeue", "period"):
        if (text := getattr(how, what)) is not None:
            print(f"{what}: {printable_lines(text)}")
    if how.period is not None:
        print(f"every: {how.every / 1e6:g} s")
    reports = [row for row in space.derivations() if row.channel == info.name]
    if reports and reports[0].cost is not None:
        print(f"cost: {reports[0].cost:,} units of work an event, and {how.max_cost:,} are allowed")
    for service in how.services:
        print(f"service: {printable(service)}")
    if how.when != "always":
        print(f"when: {how.when} ({'it has subscribers' if info.is_watched else 'it has no subscribers'})")
    if how.shared:
        print(f"parameters: block {printable(state.derived.blocks[how.shared].name)}")
    for parameter, value in how.parameters.values.items():
        shown = value if isinstance(value, int | float) else json.dumps(value)
        print(f"param.{parameter}: {shown}")
    if states := state.derived.states.get(info.id):
        print(f"state for {len(states)} producers ({state.derived.sizes.get(info.id, 0)} characters):")
        kept = sorted(states.items())[:SHOWN]
        held = [(printable(who or "-"), str(len(one.text)), printable(one.text)[:200]) for who, one in kept]
        print(table(("producer", "size", "state"), held, right="size"))
        if len(states) > SHOWN:
            print(f"and {len(states) - SHOWN} more")
    elif how.state:
        print(f"initial state: {json.dumps(how.state.values)}")
    rows = [
        (
            printable(row.source),
            row.status,
            *map(str, (row.version, row.seen, row.made, row.refused, row.trapped, row.bytes, row.parent_bytes)),
        )
        for row in reports
        if row.source is not None
    ]
    if rows:
        header = ("source", "status", "since", "seen", "made", "refused", "trapped", "bytes", "of")
        print(table(header, rows, right="since seen made refused trapped bytes of"))
    if versions:
        rows = [_version_row(one) for one in channel.derivation_versions()]
        print(table(("version", "time", "change", "events", "how"), rows, right="version events"))


def _version_row(one: DerivationVersion) -> tuple[str, ...]:
    programs = {"filter": one.filter, "transform": one.transform, "dequeue": one.dequeue, "period": one.period}
    said = dict(one.parameters) if one.change == "parameters" else {k: v for k, v in programs.items() if v is not None}
    how = ", ".join(f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in said.items())
    when = one.time.isoformat(timespec="seconds")
    return str(one.version), when, one.change, str(one.events), printable(" ".join(how.split()))[:200]


def values_of(texts: Sequence[str]) -> dict[str, Any]:
    """Values by name. Raises BadParameter."""
    return {name: _value(value, f"{name}={value}") for name, value in assignments(texts).items()}


def _value(text: str, whole: str) -> Any:
    if text.lstrip("+-").isdecimal():
        return int(text)
    try:
        return float(text)
    except ValueError:
        return _json(text, repr(whole))


def _json(text: str, what: str) -> Any:
    try:
        return parse_json(text)
    except DuplicateKeyError as error:
        raise typer.BadParameter(f"{what}: {error}") from None
    except (ValueError, RecursionError):
        raise typer.BadParameter(f"{what} takes a number, or JSON: a string in quotes, a list, an object") from None


def open_space(root: str) -> ChannelSpace:
    """The space of a folder. Raises what `ChannelSpace.open` raises."""
    from pbio_spark.channels import ChannelSpace

    return ChannelSpace.open(root)
