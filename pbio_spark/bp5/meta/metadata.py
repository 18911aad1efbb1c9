"""md.0 -> the metadata blocks of a range of steps, in one buffer, by format: `Located`.

Blocks of one format have the same fixed part, so that a number in them is a column of a matrix of bytes; what their
pointers lead to is gathered for all blocks at once. Each pointer is checked before it is followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pbio_spark.bp5.folder import Bytes, DatasetFolder
from pbio_spark.bp5.meta.formats import HEAD, Formats, Listed, MetadataFormat, Slot, VariablePlace
from pbio_spark.bp5.meta.index import Header, Int64s, Step
from pbio_spark.bp5.trouble import bad
from pbio_spark.errors import PbioError

Array: TypeAlias = npt.NDArray[Any]

NAME = "md.0"
_PAD = 16
_ID = 12


@dataclass
class FormatBlocks:
    """The blocks of one format, in the order of steps and writers.

    Attributes:
        step, writer: of each block; `step` is its place in `Located.steps`.
        start, room: of each block's record in the buffer.
    """

    form: MetadataFormat
    buffer: Bytes
    step: Int64s
    writer: Int64s
    start: Int64s
    room: Int64s
    located: Located
    _fixed: Bytes | None = None
    _bits: Array | None = None

    def __len__(self) -> int:
        return len(self.start)

    def fail(self, row: int, reason: str, variable: str | None = None) -> PbioError:
        return bad(
            reason,
            file=self.located.file,
            offset=self.located.offset_in_file(int(self.step[row])),
            step=self.located.steps[int(self.step[row])].number,
            writer=int(self.writer[row]),
            variable=variable,
        )

    @property
    def fixed(self) -> Bytes:
        """The fixed parts, one row for each block."""
        if self._fixed is None:
            windows = np.lib.stride_tricks.sliding_window_view(self.buffer, self.form.record_length)
            self._fixed = windows[self.start]
        return self._fixed

    def numbers(self, slot: Slot, rows: Int64s | None = None) -> Array:
        """The content of a slot, in the writer's byte order."""
        fixed = self.fixed if rows is None else self.fixed[rows]
        kind = np.dtype(slot.type)
        part = np.ascontiguousarray(fixed[:, slot.offset : slot.offset + kind.itemsize])
        numbers: Array = part.view(kind)[:, 0] if len(part) else np.empty(0, kind)
        return numbers

    def integers(self, slot: Slot, rows: Int64s | None = None) -> Int64s:
        return self.numbers(slot, rows).astype(np.int64)

    def pointers(self, slot: Slot, rows: Int64s | None = None) -> Int64s:
        """Pointers: 0 is null; those beyond 2^63 are negative."""
        return self.numbers(slot, rows).astype(np.int64)

    def gather(
        self, listed: Listed, rows: Int64s, counts: Int64s, variable: str | None = None, *, may_be_null: bool = False
    ) -> Array:
        """The numbers of all lists of some blocks, one after the other; `counts` says how many each has.

        Raises PBIO_BAD_BP5 for a list outside its block.
        """
        kind = np.dtype(listed.type)
        targets = self.pointers(listed.pointer, rows)
        room = self.room[rows]
        wrong = (targets < 0) | (targets > room) | (counts < 0) | (counts > (room - targets) // kind.itemsize)
        wrong |= (targets == 0) & (counts > 0)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            reason = f"a pointer leads to {counts[row]} numbers at {targets[row]} of {room[row]} bytes"
            raise self.fail(int(rows[row]), reason, variable)
        starts = self.start[rows] + targets
        total = int(counts.sum())
        ends = np.cumsum(counts)
        index = np.repeat(starts - (ends - counts) * kind.itemsize, counts) + np.arange(total) * kind.itemsize
        if not (index % kind.itemsize).any():
            whole: Array = self.buffer[: len(self.buffer) // kind.itemsize * kind.itemsize].view(kind)
            return whole[index // kind.itemsize]
        parts: Array = self.buffer[index[:, None] + np.arange(kind.itemsize)].reshape(-1).view(kind)
        return parts

    def present(self, place: VariablePlace) -> npt.NDArray[np.bool_]:
        """Which blocks have a variable."""
        word, bit = divmod(place.bit, 8 * np.dtype(self.form.bits.type).itemsize)
        words = self.bits
        if word >= words.shape[1]:
            return np.zeros(len(self), np.bool_)
        return (words[:, word] >> np.uint64(bit) & np.uint64(1)).astype(np.bool_)

    @property
    def bits(self) -> Array:
        """The words of presence bits, a row for each block; missing ones are zero."""
        if self._bits is None:
            counts = self.integers(self.form.bit_count)
            rows = np.arange(len(self))
            flat = self.gather(self.form.bits, rows, counts).astype(np.uint64)
            most = -(-len(self.form.form.structs[0].fields) // 64) + 1
            words = np.zeros((len(self), min(int(counts.max(initial=0)), most)), np.uint64)
            ends = np.cumsum(counts)
            for word in range(words.shape[1]):
                has = counts > word
                words[has, word] = flat[(ends - counts)[has] + word]
            self._bits = words
        return self._bits


@dataclass
class Located:
    """The metadata blocks of some steps.

    Attributes:
        steps: in order.
        flatten: they are one row together.
        groups: the blocks by format.
    """

    file: str
    steps: Sequence[Step]
    flatten: bool = False
    groups: list[FormatBlocks] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return min(1, len(self.steps)) if self.flatten else len(self.steps)

    def rows_of(self, step: Int64s) -> Int64s:
        """The row that each step belongs to."""
        return np.zeros_like(step) if self.flatten else step

    def offset_in_file(self, step: int) -> int:
        return self.steps[step].position


def locate(folder: DatasetFolder, steps: Sequence[Step], formats: Formats, header: Header) -> Located:
    """The metadata blocks of steps. Raises PBIO_BAD_BP5, and PBIO_UNKNOWN_FORMAT for blocks that nothing describes."""
    located, order = Located(folder.file(NAME), steps, header.flatten), header.order
    buffer, bases = _read(folder, steps, located.file)
    step, writer, start, length = _blocks(buffer, bases, order, located, attributes=False)
    if not len(start):
        return located
    start = start + bases[step]
    ids = _ids(buffer, start)
    keys, group_of = np.unique(ids, return_inverse=True)
    heads = buffer[(start + _ID)[:, None] + np.arange(8)].reshape(-1).view(f"{order}u8").astype(np.int64)
    wrong = (heads < 0) | (heads > length - HEAD)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise _fail(located, int(step[row]), int(writer[row]), f"a block says that {heads[row]} bytes follow")
    for number, key in enumerate(keys):
        rows = np.flatnonzero(group_of.reshape(-1) == number)
        located.groups.append(_group(located, formats, key.tobytes(), buffer, rows, (step, writer, start, heads)))
    located.groups.sort(key=lambda group: int(group.start[0]))
    return located


def attribute_blocks(folder: DatasetFolder, steps: Sequence[Step], header: Header) -> Iterator[tuple[Step, int, bytes]]:
    """The step, writer and bytes of each attribute block of steps. Other blocks are not read.

    Raises PBIO_BAD_BP5.
    """
    located = Located(folder.file(NAME), steps, header.flatten)
    heads = [replace(step, length=min(step.length, 8 + 16 * step.writers)) for step in steps]
    buffer, bases = _read(folder, heads, located.file)
    blocks = _blocks(buffer, bases, header.order, located, attributes=True)
    for place, writer, start, length in zip(*(column.tolist() for column in blocks), strict=True):
        step = steps[place]
        block = folder.read(NAME, step.position + start, length)
        if len(block) < length:
            reason = f"the metadata is beyond the end of md.0: {step.length} bytes at {step.position}"
            raise _fail(located, place, writer, reason)
        yield step, writer, block


def _group(
    located: Located,
    formats: Formats,
    id_: bytes,
    buffer: Bytes,
    rows: Int64s,
    blocks: tuple[Int64s, Int64s, Int64s, Int64s],
) -> FormatBlocks:
    step, writer, start, room = (column[rows] for column in blocks)
    first = located.steps[int(step[0])]
    try:
        form = formats.metadata(id_)
    except PbioError as error:
        error.reason = f"step {first.number}, writer {writer[0]}: {error.reason}"
        raise error.at(offset=None) from None
    if (room < form.record_length).any():
        row = int(np.flatnonzero(room < form.record_length)[0])
        reason = f"a metadata block of {room[row]} bytes is shorter than its format's {form.record_length}"
        raise _fail(located, int(step[row]), int(writer[row]), reason)
    return FormatBlocks(form, buffer, step, writer, start + HEAD, room, located)


def _ids(buffer: Bytes, start: Int64s) -> Array:
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(buffer, _ID)[start]).view(f"V{_ID}")[:, 0]


def _read(folder: DatasetFolder, steps: Sequence[Step], file: str) -> tuple[Bytes, Int64s]:
    """The chunks of steps in one buffer, and where each begins there."""
    size = folder.size(NAME)
    if size is None:
        raise bad("md.0 is missing", file=file, step=steps[0].number if steps else None)
    bases = np.zeros(len(steps), np.int64)
    total = 0
    runs: list[tuple[int, int, int]] = []  # position, length, place in the buffer
    for i, step in enumerate(steps):
        if step.position + step.length > size:
            reason = f"the metadata is beyond the end of md.0: {step.length} bytes at {step.position} of {size}"
            raise bad(reason, file=file, step=step.number)
        padding = -total % 8
        if runs and runs[-1][0] + runs[-1][1] == step.position:
            runs[-1] = runs[-1][0], runs[-1][1] + step.length, runs[-1][2]
            padding = 0
        else:
            runs.append((step.position, step.length, total + padding))
        bases[i] = total + padding
        total += padding + step.length
    buffer = np.zeros(-(-total // 8) * 8 + _PAD, np.uint8)
    for position, length, at in runs:
        if folder.read_into(NAME, position, buffer[at : at + length]) < length:
            raise bad("md.0 has become shorter", file=file, offset=position)
    return buffer, bases


def _blocks(
    buffer: Bytes, bases: Int64s, order: str, located: Located, *, attributes: bool
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Step, writer, start in the step's chunk and length of all metadata blocks, or of all attribute blocks."""
    found: list[Array] = []
    steps = located.steps
    writers = np.array([step.writers for step in steps], np.int64)
    for width in np.unique(writers).tolist():
        rows = np.flatnonzero(writers == width)
        lengths = np.array([steps[row].length for row in rows.tolist()], np.int64)
        short = lengths < 8 + 16 * width
        if short.any():
            raise _fail(located, int(rows[short][0]), None, "the metadata is shorter than its own head")
        heads = buffer[(bases[rows] + 8)[:, None] + np.arange(16 * width)].view(f"{order}u8")
        wrong = heads > lengths[:, None].astype(np.uint64)
        sizes = np.where(wrong, 0, heads).astype(np.int64)
        ends = np.cumsum(sizes, axis=1) + (8 + 16 * width)
        wrong |= ends > lengths[:, None]
        if wrong.any():
            row, column = (int(x[0]) for x in np.nonzero(wrong))
            reason = "a block leads beyond the end of the step's metadata"
            raise _fail(located, int(rows[row]), column % width, reason)
        if (ends[:, -1] != lengths).any():
            row = int(np.flatnonzero(ends[:, -1] != lengths)[0])
            reason = f"the blocks end at {ends[row, -1]} of the {lengths[row]} bytes of the step's metadata"
            raise _fail(located, int(rows[row]), None, reason)
        starts = ends - sizes
        of_step = np.repeat(rows[:, None], width, axis=1)
        of_writer = np.repeat(np.arange(width)[None, :], len(rows), axis=0)
        part = slice(width, None) if attributes else slice(None, width)
        found.append(np.stack([a.reshape(-1) for a in (of_step, of_writer, starts[:, part], sizes[:, part])]))
    blocks = np.concatenate(found, axis=1) if found else np.zeros((4, 0), np.int64)
    blocks = blocks[:, blocks[3] > 0]
    blocks = blocks[:, np.lexsort((blocks[1], blocks[0]))]
    step, writer, start, length = blocks
    if (length < HEAD).any():
        row = int(np.flatnonzero(length < HEAD)[0])
        raise _fail(located, int(step[row]), int(writer[row]), f"a block has {length[row]} bytes, fewer than its head")
    return step, writer, start, length


def _fail(located: Located, step: int, writer: int | None, reason: str) -> PbioError:
    return bad(
        reason,
        file=located.file,
        offset=located.offset_in_file(step),
        step=located.steps[step].number,
        writer=writer,
    )
