"""The least and greatest values of number fields in the blocks of a file, found in the records' bytes.

One kernel serves all formats. What it finds is what a program that reads the record sees: a null is zero. NaN, which no
comparison lets pass, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ecode.native import Kernel, Lines, Table, compile_kernel
from ecode.native.table import address_of
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
_LOADS = tuple(
    f"{kind}{bits}{order}"
    for kind, sizes in (("int", (8, 16, 32, 64)), ("uint", (8, 16, 32, 64)), ("float", (32, 64)))
    for bits in sizes
    for order in ("", "_swapped")
    if bits > 8 or not order
)
_TABLE = ("starts", "fields", "many", "base", "room", "zeros")
_ROW = ("at", "code", "null_at", "null_bit", "least", "most")
_FROM = {"i": EMPTY, "u": EMPTY, "f": (0x7FF << 52, -1 << 52)}
"""Least and most of no values, as the kernel has them: of floating-point numbers the bits, of infinities."""


def _source() -> str:
    lines = Lines()
    with lines.block("def kernel(count, table):"):
        lines.line(*(f"{name} = load_int64(table + {8 * i})" for i, name in enumerate(_TABLE)))
        lines.line(f"shift = ~{EMPTY[0]}", "first = 0")
        with lines.block("while first < count:"):
            lines.line(f"here = min(count - first, {TILE})")
            with lines.block("for f in range(many):"):
                lines.line(f"row = fields + {8 * len(_ROW)} * f")
                lines.line(*(f"{name} = load_int64(row + {8 * i})" for i, name in enumerate(_ROW[:4])))
                lines.line("own = starts + 8 * first")
                lines.line("at += base")
                with lines.block("if null_at >= 0:"):
                    lines.line("null_at += base")
                    with lines.block("for i in range(here):"):
                        lines.line("start = load_int64(own + 8 * i)")
                        lines.line("null = as_int64(load_uint8(start + null_at)) & null_bit")
                        lines.line("store_int64(room + 8 * i, start if null == 0 else zeros - at)")
                    lines.line("own = room")
                for code, load in enumerate(_LOADS):
                    with lines.block(f"{'elif' if code else 'if'} code == {code}:"):
                        _loop(lines, load)
            lines.line("first += here")
        lines.line("return 0")
    return str(lines)


def _loop(lines: Lines, load: str) -> None:
    """Compares each number as it is loaded; NaN is neither less nor more than another."""
    value = f"load_{load}(load_int64(own + 8 * i) + at)"
    least, most = (f"row + {8 * _ROW.index(name)}" for name in ("least", "most"))
    if load.startswith("float"):
        lines.line(f"low = load_float64({least})", f"high = load_float64({most})")
        with lines.block("for i in range(here):"):
            lines.line(f"value = as_float64({value})")
            lines.line("low = value if value < low else low", "high = value if value > high else high")
        lines.line(f"store_float64({least}, low)", f"store_float64({most}, high)")
        return
    lines.line(f"least = load_int64({least})", f"most = load_int64({most})")
    with lines.block("for i in range(here):"):
        lines.line(f"key = as_int64({value})" + " ^ shift" * load.startswith("u"))
        lines.line("least = min(least, key)", "most = max(most, key)")
    lines.line(f"store_int64({least}, least)", f"store_int64({most}, most)")


@cache
def ranges_kernel() -> Kernel:
    """What finds least and most. It pickles with its machine code, as all kernels do."""
    return compile_kernel(_source())


@dataclass(frozen=True, slots=True)
class RangeField:
    """A number field at a fixed place in a record, and what the kernel needs of it.

    Attributes:
        kind: `i`, `u` or `f`.
        row: its place, the kernel's load, and the byte and the bit that say whether it is null, or -1 and 0.
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
                    if size not in (1, 2, 4, 8) or (bit is not None and mask is None):
                        continue
                    null = (-1, 0)
                    if bit is not None and mask is not None:
                        null = base + offsets[mask.name] + bit // 8, 1 << bit % 8
                    code = _LOADS.index(f"{load.type}{load.order}")
                    yield RangeField((*path, field.name), _KINDS[kind], (at, code, *null))

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
        rows = [(*field.row, *_FROM[field.kind]) for field in self._fields]
        self._rows = np.array(rows, np.int64).reshape(-1, len(_ROW))
        self._nothing = self._rows[:, -2:].copy()
        self._blocks: list[npt.NDArray[np.int64]] = []
        """int64[fields, 2] of each block before the last: least and most, as the kernel has them; the last one's are in
        the rows."""
        room = np.zeros(TILE + 1, np.int64)  # the last one is what a null reads as
        self._table = Table([0, self._rows, len(self._fields), 0, room, address_of(room[TILE:])])

    def add(self, block: int, starts: npt.NDArray[np.int64], base: int = 0) -> None:
        """Look at sound records of a block, which is not before the last one.

        Args:
            starts: addresses of the records' first bytes after their headers, less `base`.
        """
        if not len(starts):
            return
        self._reach(block + 1)
        self._counts[block] += len(starts)
        if self._fields:
            starts = np.ascontiguousarray(starts)
            self._table.array[0], self._table.array[3] = address_of(starts), base
            (self._kernel or ranges_kernel())(len(starts), self._table)

    def _reach(self, blocks: int) -> None:
        while len(self._counts) < blocks:
            if self._counts:
                self._blocks.append(self._rows[:, -2:].copy())
                self._rows[:, -2:] = self._nothing
            self._counts.append(0)

    def made(self, blocks: int) -> Ranges:
        """The ranges of a file of so many blocks."""
        self._reach(blocks)
        keys = np.stack([*self._blocks, self._rows[:, -2:]], axis=-1)  # fields, least and most, blocks
        for row, field in zip(keys, self._fields, strict=True):
            if field.kind == "f":
                row[:] = _bits_to_keys(row)
        fields, least, most = self._fields, keys[:, 0], keys[:, 1]
        paths, kinds = tuple(field.path for field in fields), "".join(field.kind for field in fields)
        counts = np.array(self._counts[:blocks], "<i8").tobytes()
        return Ranges(counts, paths, kinds, least.astype("<i8").tobytes(), most.astype("<i8").tobytes())


def _bits_to_keys(bits: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """int64[2, blocks]: the bits of the least and the most double of each block, as keys."""
    least, most = bits.view(np.float64)
    keys = np.where(bits < 0, bits ^ EMPTY[0], bits)
    return np.where(least > most, np.array(EMPTY)[:, None], keys)


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
