"""The least and greatest values of number fields in the blocks of a file, found in the records' bytes.

One kernel serves all formats. What it finds is what a program that reads the record sees: a null is zero. NaN, which no
comparison lets pass, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ecode.native import Kernel, Lines, Table, compile_kernel
from ecode.types import Basic, Kind, Ref
from pbio_spark.columns.decode.plan import number_at
from pbio_spark.columns.files.chunks import Chunk
from pbio_spark.formats import Format
from pbio_spark.wire.hints.ranges import EMPTY, MOST_VALUES, Path, Ranges

FIELDS = 64
"""The most fields of a format of which ranges are kept, the first ones."""
TILE = 256
"""How many records are looked at for one field after another: they stay in the fastest cache meanwhile."""
_KINDS = {Kind.INTEGER: "i", Kind.UNSIGNED: "u", Kind.ENUMERATION: "u", Kind.FLOAT: "f"}
_LOADS = (
    "int8",
    "uint8",
    *(f"{sign}int{bits}{order}" for bits in (16, 32) for sign in ("", "u") for order in ("", "_swapped")),
)
_LOADS = (*_LOADS, "int64", "int64_swapped")
_MAX = 2**63 - 1
_TURNS = {"i": (_MAX, 0, 0), "u": (_MAX, 0, -_MAX - 1), "f4": (0x7F800000, 0x7FFFFFFF, 0), "f8": (0x7FF << 52, _MAX, 0)}
"""How bits become keys: those without a sign that are greater than this are NaN; what turns the bits of one below zero
around; what shifts all."""


def _source() -> str:
    lines = Lines()
    entries = ("starts", "fields", "many", "room")
    with lines.block("def kernel(count, table):"):
        lines.line(*(f"{name} = load_int64(table + {8 * i})" for i, name in enumerate(entries)))
        lines.line("first = 0")
        with lines.block("while first < count:"):
            lines.line(f"here = min(count - first, {TILE})")
            with lines.block("for f in range(many):"):
                names = ("at", "code", "null_at", "null_bit", "greatest", "turn", "shift", "least", "most")
                lines.line(f"row = fields + {8 * len(names)} * f")
                lines.line(*(f"{name} = load_int64(row + {8 * i})" for i, name in enumerate(names)))
                lines.line("own = starts + 8 * first")
                for code, load in enumerate(_LOADS):
                    with (
                        lines.block(f"{'elif' if code else 'if'} code == {code}:"),
                        lines.block("for i in range(here):"),
                    ):
                        lines.line(f"store_int64(room + 8 * i, as_int64(load_{load}(load_int64(own + 8 * i) + at)))")
                with lines.block("if null_at >= 0:"), lines.block("for i in range(here):"):
                    lines.line("null = as_int64(load_uint8(load_int64(own + 8 * i) + null_at)) & null_bit")
                    lines.line("if null != 0:", "    store_int64(room + 8 * i, 0)")
                with lines.block("for i in range(here):"):
                    lines.line("key = load_int64(room + 8 * i)")
                    with lines.block("if key & turn <= greatest:"):
                        lines.line("key = (key ^ turn if key < 0 else key) ^ shift")
                        lines.line("least = min(least, key)", "most = max(most, key)")
                lines.line(
                    f"store_int64(row + {8 * len(names) - 16}, least)", f"store_int64(row + {8 * len(names) - 8}, most)"
                )
            lines.line("first += here")
        lines.line("return 0")
    return str(lines)


@cache
def ranges_kernel() -> Kernel:
    """What finds least and most. It pickles with its machine code, as all kernels do."""
    return compile_kernel(_source())


@dataclass(frozen=True, slots=True)
class RangeField:
    """A number field at a fixed place in a record, and what the kernel needs of it.

    Attributes:
        kind: `i`, `u`, `f4` or `f8`.
        row: its place, the kernel's load, the byte and the bit that say whether it is null, or -1 and 0; and how its
            bits become a key.
    """

    path: Path
    kind: str
    row: tuple[int, ...]


def format_to_range_fields(form: Format) -> tuple[RangeField, ...]:
    """The number fields at fixed places in records, also within structures: the first `FIELDS`."""
    layouts = {layout.name: {f.name: f.offset for f in layout.fields} for layout in form.structs}
    structs = {struct.name: struct for struct in form.record.structs}

    def walk(name: str, base: int, path: Path) -> Iterator[RangeField]:
        struct, offsets = structs[name], layouts[name]
        mask = struct.null_bits
        for field in struct.fields:
            bit, at = field.notes.null_bit, base + offsets[field.name]
            if field.notes.hidden:
                continue
            match field.type:
                case Ref(inner) if bit is None:
                    yield from walk(inner, at, (*path, field.name))
                case Basic(kind, size) as basic if kind in _KINDS:
                    if kind is Kind.FLOAT and form.float_format not in (0, 1, 2):
                        continue
                    load = number_at(form, basic, at)
                    letter, name = _KINDS[kind], load.type.replace("float", "int")
                    name = name.removeprefix("u") if size == 8 else name
                    if size not in (1, 2, 4, 8) or (bit is not None and mask is None):
                        continue
                    null = (-1, 0)
                    if bit is not None and mask is not None:
                        null = base + offsets[mask.name] + bit // 8, 1 << bit % 8
                    letter += str(size) if letter == "f" else ""
                    code = _LOADS.index(f"{name}{load.order}")
                    yield RangeField((*path, field.name), letter, (at, code, *null, *_TURNS[letter]))

    found = []
    for field in walk(form.record.name, 0, ()):
        found.append(field)
        if len(found) == FIELDS:
            break
    return tuple(found)


class RangeMaker:
    """Gathers the ranges of the records of one format, block by block."""

    def __init__(self, form: Format, kernel: Kernel | None = None) -> None:
        self._fields = format_to_range_fields(form)
        self._kernel = kernel
        self._counts: list[int] = []
        self._blocks: list[npt.NDArray[np.int64]] = []
        """int64[fields, 2] of each block: least and most, as keys of the kernel."""

    def add(self, block: int, starts: npt.NDArray[np.int64]) -> None:
        """Look at sound records of a block, which is not before the last one.

        Args:
            starts: addresses of the records' first bytes after their headers.
        """
        self._reach(block + 1)
        if not len(starts):
            return
        self._counts[block] += len(starts)
        if self._fields:
            rows = np.array([(*field.row, 0, 0) for field in self._fields], np.int64)
            rows[:, -2:] = self._blocks[block]
            starts, room = np.ascontiguousarray(starts), np.empty(TILE, np.int64)
            (self._kernel or ranges_kernel())(len(starts), Table([starts, rows, len(rows), room]))
            self._blocks[block] = rows[:, -2:]

    def _reach(self, blocks: int) -> None:
        while len(self._blocks) < blocks:
            self._counts.append(0)
            self._blocks.append(np.tile(np.array(EMPTY, np.int64), (len(self._fields), 1)))

    def made(self, blocks: int) -> Ranges:
        """The ranges of a file of so many blocks."""
        self._reach(blocks)
        keys = np.stack(self._blocks, axis=-1)  # fields, least and most, blocks
        for row, field in zip(keys, self._fields, strict=True):
            if field.kind == "f4":
                row[:] = _widened(row)
        fields, least, most = self._fields, keys[:, 0], keys[:, 1]
        paths, kinds = tuple(field.path for field in fields), "".join(field.kind[0] for field in fields)
        counts = np.array(self._counts[:blocks], "<i8").tobytes()
        return Ranges(counts, paths, kinds, least.astype("<i8").tobytes(), most.astype("<i8").tobytes())


def _widened(keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The keys of floats as those of the same doubles."""
    bits = np.where(keys < 0, keys ^ 0x7FFFFFFF, keys).astype(np.uint64).astype(np.uint32)
    doubles = bits.view(np.float32).astype(np.float64).view(np.int64)
    made = np.where(doubles < 0, doubles ^ np.int64(2**63 - 1), doubles)
    return np.where((keys == EMPTY[0]) | (keys == EMPTY[1]), keys, made)


def limited(ranges: Sequence[Ranges]) -> tuple[Ranges, ...]:
    """Ranges of a file with no more values than a reader should load: later fields are left out.

    >>> limited(())
    ()
    """
    room = MOST_VALUES
    made = []
    for one in ranges:
        kept = min(len(one.paths), room // max(one.blocks, 1))
        room -= kept * one.blocks
        size = kept * len(one.counts)
        made.append(Ranges(one.counts, one.paths[:kept], one.kinds[:kept], one.least[:size], one.most[:size]))
    return tuple(made)


class RangeFinder:
    """Gathers the ranges of all formats of a file from its chunks.

    Attributes:
        is_sound: whether all records so far were sound. Else nothing is said of the file: what is not read must not
            hide a bad record.
    """

    def __init__(self) -> None:
        self.is_sound = True
        self._makers: dict[int, RangeMaker] = {}

    def add(self, chunk: Chunk, formats: Sequence[Format], points: Sequence[int]) -> None:
        """Look at a chunk. `points` are the offsets at which blocks begin after the first, as far as the chunk goes."""
        self.is_sound = self.is_sound and bool(chunk.rights.all()) and chunk.error is None
        if not self.is_sound:
            return
        blocks = np.searchsorted(np.array(points, np.int64), chunk.offset + chunk.positions, side="right")
        for number in np.unique(chunk.formats).tolist():
            maker = self._makers.setdefault(number, RangeMaker(formats[number]))
            own = chunk.formats == number
            found, firsts = np.unique(blocks[own], return_index=True)
            for block, starts in zip(found.tolist(), np.split(chunk.starts[own], firsts[1:]), strict=True):
                maker.add(block, starts)

    def made(self, formats: Sequence[Format], blocks: int, *, is_limited: bool = True) -> tuple[Ranges, ...]:
        """The ranges of each format in so many blocks; () if a record is bad."""
        if not self.is_sound:
            return ()
        makers = (self._makers.get(number) or RangeMaker(form) for number, form in enumerate(formats))
        ranges = [maker.made(blocks) for maker in makers]
        return limited(ranges) if is_limited else tuple(ranges)
