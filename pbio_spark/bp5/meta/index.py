"""md.idx -> where the metadata and the data of every step are."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pbio_spark.bp5.trouble import bad
from pbio_spark.errors import PbioError

Int64s: TypeAlias = npt.NDArray[np.int64]

HEADER = 64
NAME = "md.idx"
_PREFIX = 9
_LEAST = 24


@dataclass(frozen=True, slots=True)
class Header:
    """The content of the first 64 bytes.

    Attributes:
        order: of all numbers, `<` or `>`.
        is_active: a writer has the dataset open, or died with it open.
        column_major: the writer keeps arrays in Fortran's order.
        flatten: all steps are to be presented as one.
        identity: a random number in newer libraries, else 0.
    """

    order: str
    is_active: bool
    column_major: bool
    flatten: bool
    identity: int


@dataclass(frozen=True, slots=True)
class Step:
    """The place of one step.

    Attributes:
        number: its place among all steps.
        position, length: of its chunk in md.0.
        subfiles: of each writer, the N of its data.N.
        pieces: int64, a row for each writer: position and length of each flushed piece, then the position of the last.
    """

    number: int
    position: int
    length: int
    subfiles: Int64s
    pieces: Int64s

    @property
    def writers(self) -> int:
        return len(self.subfiles)


@dataclass(frozen=True, slots=True)
class StepIndex:
    """The content of md.idx.

    Attributes:
        steps: those whose records are whole and sound.
        end: the bytes that they take.
        damage: why reading stopped; None at the end of the file, or in a record that is still being written.
    """

    header: Header
    steps: tuple[Step, ...]
    end: int
    damage: PbioError | None = None
    is_cut: bool = False


def parse_header(data: bytes, file: str) -> Header:
    """The header of md.idx. Raises PBIO_NOT_BP5 for anything but BP5, minor version 2."""
    if len(data) < HEADER:
        reason = f"md.idx has {len(data)} bytes, but its header alone needs {HEADER}"
        hint = (
            "no writer has begun yet, or one died at once: pathGlobFilter can leave the folder out"
            if not data
            else None
        )
        raise PbioError("PBIO_NOT_BP5", reason, file=file, hint=hint)
    if data[37] != 5:
        hint = "read it with ADIOS2, or write it again as BP5" if data[37] in (3, 4) else None
        raise PbioError("PBIO_NOT_BP5", f"unsupported BP version {data[37]}", file=file, offset=37, hint=hint)
    if data[38] != 2:
        raise PbioError(
            "PBIO_NOT_BP5",
            f"unsupported minor version {data[38]} of BP5; 2 is known",
            file=file,
            offset=38,
            hint="a newer version of this package may read it",
        )
    if data[36] > 1:
        raise bad(f"the byte-order mark is {data[36]}, not 0 or 1", file=file, offset=36)
    if data[40] not in b"ny":
        raise bad(f"the array-order mark is {data[40]}, not `n` or `y`", file=file, offset=40)
    order = ">" if data[36] else "<"
    (identity,) = struct.unpack_from(f"{order}I", data, 42)
    return Header(order, data[39] == 1, data[40] == ord("y"), data[41] != 0, identity)


def parse_index(data: bytes, file: str) -> StepIndex:
    """The index. It ends before the first damaged record. Raises what `parse_header` raises."""
    header = parse_header(data, file)
    steps: list[Step] = []
    subfiles: Int64s | None = None
    at = HEADER
    while at < len(data):
        try:
            length = _body_length(data, at, header.order, subfiles, file)
        except PbioError as error:
            return StepIndex(header, tuple(steps), at, error)
        if length is None:
            return StepIndex(header, tuple(steps), at, is_cut=True)
        words = np.frombuffer(data, f"{header.order}i8", length // 8, at + _PREFIX).astype(np.int64)
        try:
            if data[at] == ord("w"):
                subfiles = _writer_map(words, file, at)
            else:
                assert subfiles is not None
                steps.append(_step(len(steps), words, subfiles, file, at))
        except PbioError as error:
            return StepIndex(header, tuple(steps), at, error)
        at += _PREFIX + length
    return StepIndex(header, tuple(steps), at)


def _body_length(data: bytes, at: int, order: str, subfiles: Int64s | None, file: str) -> int | None:
    """The length of the body of a record; None if the writer is still appending it. Raises PBIO_BAD_BP5."""
    kind = data[at : at + 1]
    if kind not in (b"w", b"s"):
        raise bad(f"a record of the index has the unknown type {kind!r}", file=file, offset=at)
    if kind == b"s" and subfiles is None:
        raise bad("a step comes before any writer map", file=file, offset=at)
    if len(data) - at < _PREFIX:
        return None
    (length,) = struct.unpack_from(f"{order}Q", data, at + 1)
    there = data[at + _PREFIX : at + _PREFIX + min(length, _LEAST)]
    known = [n for (n,) in struct.iter_unpack(f"{order}Q", there[: len(there) // 8 * 8])]
    if not _is_plausible(kind, length, known, subfiles):
        beyond = "" if at + _PREFIX + length <= len(data) else ", beyond the end of md.idx"
        raise bad(f"a record of the index has the impossible length {length}{beyond}", file=file, offset=at + 1)
    return int(length) if at + _PREFIX + length <= len(data) else None


def _is_plausible(kind: bytes, length: int, known: Sequence[int], subfiles: Int64s | None) -> bool:
    """Whether a record can have this length, judged by the available first words of its body."""
    if length % 8 or length < _LEAST or length >= 1 << 48:
        return False
    rest = length // 8 - 3
    if kind == b"w":
        return rest > 0 and (not known or known[0] == rest)
    assert subfiles is not None
    pieces, more = divmod(rest, len(subfiles))
    return not more and pieces % 2 == 1 and (len(known) < 3 or known[2] == pieces // 2)


def _writer_map(words: Int64s, file: str, at: int) -> Int64s:
    subfiles = words[3:]
    if (subfiles < 0).any() or (subfiles >= max(int(words[2]), 1)).any():
        raise bad(f"a writer map names a subfile beyond the {words[2]} that it has", file=file, offset=at)
    return subfiles


def _step(number: int, words: Int64s, subfiles: Int64s, file: str, at: int) -> Step:
    if (words < 0).any():
        raise bad("a position or length is 2^63 or more", file=file, offset=at, step=number)
    pieces = words[3:].reshape(len(subfiles), -1)
    return Step(number, int(words[0]), int(words[1]), subfiles, pieces)
