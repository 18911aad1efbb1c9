"""`Where`: E-code that says which rows are wanted, run over columns before anything else is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import ecode
from ecode.analysis.bounds import Bound, program_to_bounds
from ecode.columns import Column
from ecode.errors import valid_text
from ecode.syntax.mentions import fields_named
from ecode.types import STRING, Basic, Field, Kind, record
from pbio_spark.bp5.meta.metadata import Array
from pbio_spark.bp5.meta.scalars import Scalars, lowest
from pbio_spark.bp5.rows.arrow.leaves import scaled
from pbio_spark.columns import check_says_something
from pbio_spark.errors import PbioError

if TYPE_CHECKING:
    from ecode.columns import BatchProgram

_KINDS = {"i": Kind.INTEGER, "u": Kind.UNSIGNED, "f": Kind.FLOAT}
_NO_WORD = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Given:
    """An input of a program.

    Attributes:
        name: as columns have it; `input["name"]`, and `input.word` if nothing else has that word.
        kind: numpy's type of its values; None for strings.
        is_step: the number of the step, whatever its name is.
        is_mixed: it is a string in some datasets or runs, and a number in others.
    """

    name: str
    kind: str | None
    is_step: bool = False
    is_mixed: bool = False

    @property
    def word(self) -> str:
        word = _NO_WORD.sub("_", self.name)
        return f"_{word}" if word[:1].isdigit() else word

    @property
    def type(self) -> Basic:
        if self.kind is None:
            return STRING
        kind = np.dtype(self.kind)
        return Basic(_KINDS[kind.kind], kind.itemsize)


@dataclass(frozen=True, slots=True)
class Where:
    """A program, compiled for columns; its inputs, by field of `input`; bounds that a row which passes must keep."""

    program: BatchProgram
    fields: tuple[tuple[str, Given], ...]
    bounds: tuple[tuple[Given, Bound], ...] = ()

    @property
    def reads(self) -> tuple[Given, ...]:
        return tuple(dict.fromkeys(given for _, given in self.fields))

    def mask(self, columns: Mapping[Given, Column], count: int) -> npt.NDArray[np.bool_]:
        """Which rows pass. Raises PBIO_TRAP."""
        children = {field: columns[given] for field, given in self.fields}
        result = self.program.run({"input": Column(count, children=children)}, count)
        if result.traps:
            raise PbioError("PBIO_TRAP", f"where: {result.traps[0][1]}", hint="check values before you use them")
        return result.passed[:count].astype(np.bool_)


def compile_where(source: str, given: Iterable[Given], step_column: str = "step", missing: Sequence[str] = ()) -> Where:
    """A program over some of the given inputs and the number of the step. Raises PBIO_BAD_PROGRAM.

    Args:
        step_column: what the number of the step is called. It is `step` as well, if nothing else is.
        missing: names that nothing has yet. They are absent, and numbers or strings, whichever the program can take.
    """
    fields, unclear = _fields(given, step_column)
    check_says_something("where", source)
    try:
        program, fields = _program(source, fields, missing)
        compiled = program.kernel()
    except ecode.EcodeError as error:
        raise PbioError("PBIO_BAD_PROGRAM", f"where does not compile: {error.summary}", hint=error.hint) from error
    if program.statics:
        reason = f"where keeps state ({', '.join(program.statics)}), which tasks do not share"
        raise PbioError("PBIO_BAD_PROGRAM", reason, hint="leave static variables out")
    read = dict.fromkeys(path[0] for _, path, _ in compiled.sources.values() if path)
    for name in read:
        if name in unclear:
            raise PbioError("PBIO_BAD_PROGRAM", f"where: input.{name} may be {unclear[name]}", hint=_UNCLEAR)
        if fields[name].is_mixed:
            reason = f"where: {name!r} is a string in some datasets or steps, and a number in others"
            raise PbioError("PBIO_BAD_PROGRAM", reason, hint="read them by themselves")
    bounds = tuple((fields[one.path[0]], one) for one in program_to_bounds(program.typed) if len(one.path) == 1)
    return Where(compiled, tuple((name, fields[name]) for name in read), bounds)


def unknown_names(source: str, given: Iterable[Given], step_column: str = "step") -> tuple[list[str], list[str]]:
    """The unknown names in a program (none if it does not parse), and all names that it may use."""
    fields, _ = _fields(given, step_column)
    try:
        named = fields_named(source, "input")
    except ecode.EcodeError:
        return [], list(fields)
    return [name for name in named if name not in fields], list(fields)


def _program(
    source: str, fields: Mapping[str, Given], missing: Sequence[str]
) -> tuple[ecode.Program, dict[str, Given]]:
    """The program, and the fields of `input`. Raises EcodeError, treating missing names as numbers."""
    first: ecode.EcodeError | None = None
    for kinds in islice(product(("i8", None), repeat=len(missing)), _MOST_WAYS):
        found = {**fields, **{name: Given(name, kind) for name, kind in zip(missing, kinds, strict=True)}}
        row = record("row", [Field(name, one.type) for name, one in found.items()])
        try:
            return ecode.compile(source, [ecode.Param("input", row)]), found
        except ecode.EcodeError as error:
            first = first or error
    assert first is not None
    raise first


_MOST_WAYS = 64
_UNCLEAR = (
    'write input["name"] for the variable of that name; the option stepColumn names the number of the step otherwise'
)


def _fields(given: Iterable[Given], step_column: str) -> tuple[dict[str, Given], dict[str, str]]:
    """The fields of `input`, and those with several meanings, with the meanings."""
    fields: dict[str, Given] = {}
    for one in given:
        fields.setdefault(valid_text(one.name), one)
    words: dict[str, list[Given]] = {}
    for one in fields.values():
        if one.word not in fields:
            words.setdefault(one.word, []).append(one)
    unclear = {word: " or ".join(repr(one.name) for one in some) for word, some in words.items() if len(some) > 1}
    fields |= {word: some[0] for word, some in words.items()}
    for name in (step_column, "step"):
        if name not in fields:
            fields[name] = Given(name, "i8", is_step=True)
        elif name == step_column and not fields[name].is_step:
            unclear[name] = f"the number of the step or the variable {fields[name].name!r}"
    return fields, unclear


def numbers_to_column(values: Array, kind: str | None, present: npt.NDArray[np.bool_] | None = None) -> Column:
    """Values as a program sees them; missing ones are zero. Raises PBIO_VALUE_BEYOND_TYPE."""
    there = None if present is None else present.astype(np.uint8)
    if kind is not None:
        return Column(len(values), np.ascontiguousarray(_lossless(values, kind)), present=there)
    raw = [value or b"" for value in values.tolist()]
    offsets = np.zeros(len(raw) + 1, np.int32)
    np.cumsum([len(one) for one in raw], out=offsets[1:])
    return Column(len(raw), np.frombuffer(b"".join(raw), np.uint8), offsets, present=there)


def _lossless(values: Array, kind: str) -> Array:
    """Numbers as the type that other runs have them in."""
    found = values.astype(kind, copy=False)
    if (
        values.dtype.kind in "iu"
        and values.dtype.itemsize == 8
        and found.dtype.newbyteorder("=") != values.dtype.newbyteorder("=")
    ):
        with np.errstate(invalid="ignore"):
            wrong = found.astype(values.dtype) != values
        wrong |= (found < 0) != (values < 0)
        if wrong.any():
            reason = f"where: {values[wrong][0]} is not a value of type {np.dtype(kind)}, which it has in other runs"
            raise PbioError("PBIO_VALUE_BEYOND_TYPE", reason, hint="read these runs by themselves")
    return found


def scalars_to_column(scalars: Scalars | None, rows: int, kind: str | None, scale: float | None = None) -> Column:
    """The values of a scalar as a program sees them, one for each row: those that the column shows."""
    values = np.zeros(rows, object if kind is None else kind)
    present = np.zeros(rows, np.bool_)
    if scalars is not None:
        scalars = lowest(scalars)
        own = scaled(scalars.values, scale)
        values[scalars.row], present[scalars.row] = own if kind is None else _lossless(own, kind), True
    if kind is None:
        present &= np.array([value is not None and value != 0 for value in values], np.bool_)
        values[~present] = b""
    return numbers_to_column(values, kind, present)


def common_kind(kinds: Sequence[np.dtype[Any]]) -> str:
    """The numpy type in which a program sees values of several types, as writing runs may differ.

    >>> common_kind([np.dtype(">i4")]), common_kind([np.dtype("<f4"), np.dtype("<i8")])
    ('i4', 'f8')
    """
    names = {f"{kind.kind}{kind.itemsize}" for kind in kinds}
    if len(names) == 1:
        return names.pop()
    return "f8" if any(name[0] == "f" for name in names) else "i8"
