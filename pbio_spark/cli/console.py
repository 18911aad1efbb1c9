"""What all commands share: options, files and standard input, errors, wrong usage, progress."""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cache, wraps
from pathlib import Path, PurePath
from shutil import copyfileobj
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeAlias, get_type_hints

import typer

from ecode.errors import valid_text
from pbio_spark.errors import PbioError, after_record
from pbio_spark.globs import is_hidden
from pbio_spark.paths import PathEntry, find_entry, folder_entries, locate, trouble_at
from pbio_spark.paths import opened as open_path
from pbio_spark.spaces import SPACE, space_above
from pbio_spark.wire import Item, ItemKind, Scanner, refuse_bp_folder

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem
    from rich.progress import Progress

    from ecode.types import Record

Files: TypeAlias = Annotated[list[str], typer.Argument(metavar="FILE...", help="Files, folders, or - for stdin.")]
OneFile: TypeAlias = Annotated[str, typer.Argument(metavar="FILE", help="A file, or - for stdin.")]
TypeText: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--type", metavar="JSON", help='The record type, {"name": {"field": "type"}}, or @FILE with such JSON.'
    ),
]

_NO_ARGUMENTS = "NoArgsIsHelpError"

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The class of the click that typer uses, which may be its own copy."""

STEP = 1024
"""Items between two updates of the progress bar."""


def each_file(paths: list[str], action: Callable[[Scanner], bool | None]) -> None:
    """Run an action on a scanner of each file. It reports an error and continues with the other files.

    Raises typer.Exit with code 1 at the end if there was an error, or an action returned False.
    """
    failed = False
    for path in expand(paths):
        try:
            with scanner_of(path) as scanner:
                try:
                    failed |= action(scanner) is False
                except PbioError as error:
                    raise name_damage(scanner, error) from None
        except BrokenPipeError:
            raise
        except (PbioError, OSError) as error:
            report(error)
            failed = True
    if failed:
        raise typer.Exit(1)


def expand(paths: list[str]) -> Iterator[str]:
    """The files that paths name: a folder means the files in it and below it, except hidden ones (`_`, `.`).

    Raises PBIO_CHANNEL_SPACE for a channel space and paths inside one, PBIO_NOT_FFS for another format's folder,
    PBIO_PATH_NOT_FOUND for FILE#NAME.
    """
    for path in paths:
        if path == "-":
            yield path
            continue
        fs, plain = locate(path)
        if (space := space_above(fs, plain)) is not None:
            raise _space_to_error(space)
        entry = find_entry(fs, plain)
        if entry is None and "#" in plain and find_entry(fs, plain.rpartition("#")[0]) is not None:
            raise PbioError(
                "PBIO_PATH_NOT_FOUND",
                "the path does not exist",
                file=path,
                hint="FILE#NAME is for `pbio match`, `pbio diff` and --like; here, give the file alone",
            )
        if entry is None or entry.kind != "folder":
            yield path
        else:
            is_empty = True
            for file in _below(fs, entry, path.rstrip("/"), ()):
                is_empty = False
                yield file
            if is_empty:
                typer.echo(f"{printable(path)}: no files in this folder", err=True)


def _below(fs: AbstractFileSystem, folder: PathEntry, shown: str, above: tuple[str, ...]) -> Iterator[str]:
    """The files in and below a folder, as paths that begin with the given one; links to a folder above are not
    followed."""
    if folder.identity and folder.identity in above:
        return
    entries = folder_entries(fs, folder.path)
    refuse_bp_folder(shown, entries)
    if SPACE in entries:
        raise _space_to_error(shown)
    visible = sorted((name, entry) for name, entry in entries.items() if not is_hidden(name))
    yield from (f"{shown}/{name}" for name, entry in visible if entry.kind == "file")
    for name, entry in visible:
        if entry.kind == "folder":
            yield from _below(fs, entry, f"{shown}/{name}", (*above, folder.identity))


def _space_to_error(space: str) -> PbioError:
    return PbioError(
        "PBIO_CHANNEL_SPACE",
        "this is a channel space; its log says which of its files hold published events",
        file=space,
        hint="`pbio space tail` shows the events of a channel, `pbio space ls` lists the channels, `pbio space verify` "
        "checks them",
    )


@contextmanager
def scanner_of(path: str) -> Iterator[Scanner]:
    """A scanner at the start of a file; `-` is standard input."""
    with opened(path) as file:
        yield Scanner(file, "standard input" if path == "-" else path)


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """A file that can seek; `-` is standard input, which can be opened again."""
    if path == "-":
        source, start = _standard_input()
        source.seek(start)
        yield source
    else:
        with open_path(path) as file:
            yield file


@cache
def _standard_input() -> tuple[BinaryIO, int]:
    """Standard input, kept in a temporary file if it is a pipe, and where it begins."""
    if sys.stdin.buffer.seekable():
        return sys.stdin.buffer, sys.stdin.buffer.tell()
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
    copyfileobj(sys.stdin.buffer, file)
    return file, 0


def items(scanner: Scanner) -> Iterator[Item]:
    """The items of a file, with a progress bar on a terminal."""
    with progress_bar() as bar:
        task = bar.add_task(printable(PurePath(scanner.window.name).name), total=scanner.window.size())
        for number, item in enumerate(scanner.items()):
            if number % STEP == 0:
                bar.update(task, completed=item.offset)
            yield item


def said_type(text: str) -> Record:
    """The record type of an option: JSON, or @FILE with such JSON. Raises PBIO_BAD_TYPE."""
    from pbio_spark.formats.record_json import json_to_record

    return json_to_record(said_text(text))


def said_text(text: str) -> str:
    """The text of an option, or of the file @FILE. Raises OSError."""
    return Path(text[1:]).read_text(encoding="utf-8-sig", errors="replace") if text.startswith("@") else text


def e_code(option: str, doc: str) -> Any:
    """An option that takes a program, or @FILE with one."""

    def read(text: str | None) -> str | None:
        try:
            return None if text is None else said_text(text)
        except OSError as error:
            raise typer.BadParameter(f"cannot read {text!r}: {error.strerror}") from error

    return typer.Option(option, metavar="E-CODE", help=f"{doc} @FILE reads it from a file.", callback=read)


def takes(said: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter of a verb that is a dataclass of options by these options."""

    def give(verb: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(verb, eval_str=True).parameters.values())
        taker = next(one for one in own if one.annotation is said)
        own.remove(taker)

        @wraps(verb)
        def run(**given: Any) -> None:
            options = {field.name: given.pop(field.name) for field in fields(said)}
            verb(**given, **{taker.name: said(**options)})

        hints, kind = get_type_hints(said, include_extras=True), inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name])
            for field in fields(said)
        ]
        made = [one.replace(kind=kind) for one in own] + added
        # typer reads this signature instead of that of the wrapped function.
        vars(run).update(__signature__=inspect.Signature(made))
        run.__annotations__ = {one.name: one.annotation for one in made}
        vars(run).pop("__wrapped__")
        return run

    return give


def assignments(given: Iterable[str], example: str = "") -> dict[str, str]:
    """The values of options of the form `NAME=VALUE`, by name. Raises BadParameter, with the example if there is one.

    >>> assignments(["Period=600 sec", "unit=a=b"])
    {'Period': '600 sec', 'unit': 'a=b'}
    """
    made: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE" + (f", such as {example}" if example else ""))
        if name in made:
            raise typer.BadParameter(f"{name!r} is given twice")
        made[name] = value
    return made


def progress_bar() -> Progress:
    """A bar on standard error, if that is a terminal; it disappears when the work is done."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def name_record(scanner: Scanner, item: Item, error: PbioError, *, is_counted: bool = True) -> PbioError:
    """The error with the number, the offset and the format of the record that it is about."""
    if item.kind is ItemKind.DATA:
        form = scanner.formats.get(item.format_id)
        named = None if form is None else f"{form.name} ({form.id.hex()})"
        which = f"record {item.ordinal}" if is_counted else "the record"
        error.reason = f"{which} at offset {item.offset}: {error.reason}"
        error.format = named or error.format
    return error.at(file=scanner.window.name, offset=item.offset)


def name_damage(scanner: Scanner, error: PbioError) -> PbioError:
    """The error; for damage at the scanner's position, with the number of the record before it."""
    if error.code in ("PBIO_BAD_ITEM", "PBIO_TRUNCATED") and error.offset == scanner.offset:
        error.reason = f"{after_record(scanner.ordinal)}: {error.reason}"
    return error


_FOR_SHELLS = {
    "`ChannelSpace.open(path)` opens it": "`pbio space ls` lists its channels",
    "`ChannelSpace.channel` opens it, and so does exist_ok=True": "`pbio space describe` shows it; choose another name",
    "the option mode decides what becomes of bad records": "`pbio cat --skip-bad` leaves bad records out",
    "or a datetime": "or a time such as 2026-01-31T12:00:00Z",
}
"""Hints for programs -> hints for a shell."""


def report(error: Exception) -> None:
    """Prints an error on standard error, after flushing standard output."""
    sys.stdout.flush()
    if isinstance(error, PbioError):
        for pythonic, in_a_shell in _FOR_SHELLS.items():
            error.hint = (error.hint or "").replace(pythonic, in_a_shell) or None
    print(printable_lines(str(coded(error) if isinstance(error, OSError) else error)), file=sys.stderr)


def coded(error: OSError) -> Exception:
    """An operating system's error as a PbioError."""
    where = str(error.filename) if error.filename is not None else ""
    if isinstance(error, FileNotFoundError):
        return PbioError(
            "PBIO_PATH_NOT_FOUND",
            "the path does not exist",
            file=where or None,
            hint="check the spelling; a relative path starts in the current folder",
        )
    try:
        with trouble_at(where):
            raise error
    except (PbioError, OSError) as made:
        return made


def printable(text: str) -> str:
    """The text without characters that control a terminal: names and strings are untrusted.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    text = valid_text(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """`print` for text of several lines."""
    return "\n".join(map(printable, text.split("\n")))


def table(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]], right: str = "") -> str:
    """Aligned columns; columns whose header is a word of `right` are aligned right.

    >>> print(table(("name", "records"), [("reading", "12"), ("alarm", "1204")], right="records"))
    name     records
    reading       12
    alarm       1204
    """
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if header in right.split() else cell.ljust(width)
            for header, cell, width in zip(headers, line, widths, strict=True)
        ).rstrip()
        for line in (headers, *rows)
    )


@contextmanager
def usage_in_one_line() -> Iterator[None]:
    """Report wrong usage in one line on standard error, with a suggestion, and exit with code 2."""
    try:
        yield
    except UsageError as error:
        context = getattr(error, "ctx", None)
        if type(error).__name__ == _NO_ARGUMENTS and context is not None:
            print(context.get_help(), file=sys.stderr)
            sys.exit(2)
        command = "pbio" if context is None else context.command_path
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        said = printable(" ".join(message.split()))
        end = "" if said.endswith((".", "?", ")")) else "."
        print(f"{command}: {said}{end} See `{command} --help`.", file=sys.stderr)
        sys.exit(2)
    except typer.Abort:
        print("pbio: aborted", file=sys.stderr)
        sys.exit(1)
