"""The `ecode` command: check programs, show their stages, run them."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ecode.cli.description import described
from ecode.errors import EcodeError, Trap
from ecode.json_text import parse_json
from ecode.library import PRINTF
from ecode.pipe import ends_with_its_reader
from ecode.program import Program
from ecode.program import compile as compile_program

app = typer.Typer(
    name="ecode",
    help="E-code: check programs, show their stages, run them. PROGRAM is a file, or - for standard input.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class ShowStage(StrEnum):
    """What `show` can show."""

    AST = "ast"
    TYPED = "typed"
    PYTHON = "python"
    ANALYSIS = "analysis"


ProgramFile = Annotated[Path, typer.Argument(metavar="PROGRAM", help="The program text.")]
ParamsFile = Annotated[
    Path | None, typer.Option("--params", help="Its parameters, described in JSON (see ecode/cli/description.py).")
]


@app.command()
def check(program: ProgramFile, params: ParamsFile = None) -> None:
    """Report every mistake in a program, and its warnings."""
    compiled = _compiled(program, params)
    for warning in compiled.analysis.warnings:
        typer.echo(f"{warning.line}:{warning.column}: warning: {warning.message}")
    typer.echo("no mistakes")


@app.command()
def show(program: ProgramFile, params: ParamsFile = None, stage: ShowStage = ShowStage.ANALYSIS) -> None:
    """Show a stage of a program: syntax tree, typed tree, the Python that numba compiles, or the analysis."""
    compiled = _compiled(program, params)
    match stage:
        case ShowStage.AST:
            from ecode.cli.show import show_tree
            from ecode.syntax.text_to_syntax import text_to_syntax

            typer.echo(show_tree(text_to_syntax(compiled.source, compiled.type_names).body))
        case ShowStage.TYPED:
            from ecode.cli.show import show_tree

            typer.echo(show_tree(compiled.typed.body))
        case ShowStage.PYTHON:
            typer.echo(compiled.kernel().kernel.source)
        case ShowStage.ANALYSIS:
            typer.echo(str(compiled.analysis))


@app.command()
def run(
    program: ProgramFile,
    values: Annotated[
        Path,
        typer.Option("--input", help="JSON: the values of the parameters, or a list of such objects, one per call."),
    ],
    params: ParamsFile = None,
) -> None:
    """Run a program in the interpreter, for one call or a list of calls; prints one line of JSON for each."""
    compiled = _compiled(program, params)
    given = parse_json(_read(values))
    statics = compiled.statics
    for call in given if isinstance(given, list) else [given]:
        try:
            outcome = compiled.run(call, statics)
        except Trap as trap:
            typer.echo(json.dumps({"trap": str(trap)}))
            continue
        result = {"returned": outcome.returned, "outputs": outcome.outputs, "log": outcome.log}
        typer.echo(json.dumps(result, default=_text))


def _text(value: Any) -> str:
    """Decodes strings, which are bytes, for JSON."""
    assert isinstance(value, bytes)
    return value.decode("utf-8", "backslashreplace")


def _compiled(program: Path, params: Path | None) -> Program:
    source = _read(program)
    if params is None:
        return compile_program(source, functions=[PRINTF])
    description = described(parse_json(_read(params)))
    return compile_program(
        source, description.params, description.returns, functions=[PRINTF], records=description.records
    )


def _read(path: Path) -> str:
    if str(path) == "-":
        return sys.stdin.read()
    return path.read_text("utf-8", "surrogateescape")


def main() -> None:
    """Run the command line in `sys.argv`.

    Exit code 0: done; 1: an error, reported on standard error; 2: wrong usage; 141: the reader of the output is gone.
    """
    with ends_with_its_reader():
        try:
            app()
        except (EcodeError, OSError, ValueError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            typer.echo(str(error), err=True)
            sys.exit(1)
