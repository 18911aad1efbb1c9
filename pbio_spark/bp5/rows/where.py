"""`Where`: E-code that says which rows are wanted, run over columns before anything else is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import ecode
from ecode.analysis.bounds import Bound, program_to_bounds
from ecode.columns import Column
from ecode.types import INT64, STRING, Basic, Field, Kind, record
from pbio_spark.bp5.meta.metadata import Array
from pbio_spark.bp5.meta.scalars import Scalars, lowest
from pbio_spark.errors import PbioError

if TYPE_CHECKING:
    from ecode.columns import BatchProgram

_KINDS = {"i": Kind.INTEGER, "u": Kind.UNSIGNED, "f": Kind.FLOAT}
_NO_WORD = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Given:
    """Something that a program may ask about.

    Attributes:
        name: as columns have it; the field of `input` is `word`.
        kind: numpy's type of its values; None for strings.
    """

    name: str
    kind: str | None

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
    """A program, compiled for columns, what it reads, and what must hold of that for a row to pass."""

    program: BatchProgram
    reads: tuple[Given, ...]
    bounds: tuple[tuple[Given, Bound], ...] = ()

    def mask(self, columns: Mapping[str, Column], count: int) -> npt.NDArray[np.bool_]:
        """Which rows pass. Raises PBIO_TRAP."""
        children = {given.word: columns[given.name] for given in self.reads}
        result = self.program.run({"input": Column(count, children=children)}, count)
        if result.traps:
            raise PbioError("PBIO_TRAP", f"where: {result.traps[0][1]}", hint="check values before you use them")
        return result.passed[:count].astype(np.bool_)


def compile_where(source: str, given: Iterable[Given]) -> Where:
    """A program over some of these. Raises PBIO_BAD_PROGRAM.

    Of several that have one word, the first counts.
    """
    by_word: dict[str, Given] = {}
    for one in (Given("step", "i8"), *given):
        by_word.setdefault(one.word, one)
    fields = [Field(word, INT64 if one.name == "step" else one.type) for word, one in by_word.items()]
    try:
        program = ecode.compile(source, [ecode.Param("input", record("row", fields))])
        compiled = program.kernel()
    except ecode.EcodeError as error:
        raise PbioError("PBIO_BAD_PROGRAM", f"where does not compile: {error.summary}", hint=error.hint) from error
    if program.statics:
        reason = f"where keeps state ({', '.join(program.statics)}), which tasks do not share"
        raise PbioError("PBIO_BAD_PROGRAM", reason)
    words = dict.fromkeys(path[0] for _, path, _ in compiled.sources.values() if path)
    bounds = tuple(
        (by_word[bound.path[0]], bound) for bound in program_to_bounds(program.typed) if len(bound.path) == 1
    )
    return Where(compiled, tuple(by_word[word] for word in words), bounds)


def numbers_to_column(values: Array, kind: str | None, present: npt.NDArray[np.bool_] | None = None) -> Column:
    """Values as a program sees them; what is not there is zero."""
    there = None if present is None else present.astype(np.uint8)
    if kind is not None:
        return Column(len(values), np.ascontiguousarray(values.astype(kind, copy=False)), present=there)
    raw = [value or b"" for value in values.tolist()]
    offsets = np.zeros(len(raw) + 1, np.int32)
    np.cumsum([len(one) for one in raw], out=offsets[1:])
    return Column(len(raw), np.frombuffer(b"".join(raw), np.uint8), offsets, present=there)


def scalars_to_column(scalars: Scalars | None, rows: int, kind: str | None) -> Column:
    """The values of a scalar as a program sees them, one for each row."""
    values = np.zeros(rows, object if kind is None else kind)
    present = np.zeros(rows, np.bool_)
    if scalars is not None:
        scalars = lowest(scalars)
        values[scalars.row], present[scalars.row] = scalars.values, True
    if kind is None:
        present &= np.array([value is not None and value != 0 for value in values], np.bool_)
        values[~present] = b""
    return numbers_to_column(values, kind, present)


def common_kind(kinds: Sequence[np.dtype[Any]]) -> str:
    """The numpy type as which a program sees values that have several, as writing runs may differ.

    >>> common_kind([np.dtype(">i4")]), common_kind([np.dtype("<f4"), np.dtype("<i8")])
    ('i4', 'f8')
    """
    names = {f"{kind.kind}{kind.itemsize}" for kind in kinds}
    if len(names) == 1:
        return names.pop()
    return "f8" if any(name[0] == "f" for name in names) else "i8"
