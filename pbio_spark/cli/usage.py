"""What was typed wrongly: one line on standard error with a suggestion, and exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from pbio_spark.cli.console import printable

_NO_ARGUMENTS = "NoArgsIsHelpError"
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Of the click that typer uses, which may be its own."""


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn errors of usage, of several lines, into one."""
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
