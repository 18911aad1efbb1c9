"""The bytes of blocks that an operator made -> plain bytes."""

from __future__ import annotations

import bz2
import struct
from collections.abc import Callable

from pbio_spark.bp5.data.zfp import zfp
from pbio_spark.bp5.trouble import VERIFY
from pbio_spark.errors import PbioError
from pbio_spark.extras import require

NAMES = {
    0: "blosc2",
    1: "bzip2",
    2: "LibPressio",
    3: "MGARD",
    4: "PNG",
    6: "SZ",
    7: "zfp",
    8: "MGARD+",
    10: "MGARD complex",
    11: "SZ3",
    41: "MDR",
    42: "ProDM",
    45: "CAESAR",
    127: "null",
    51: "a callback",
    52: "a callback",
    53: "a plugin",
}


def undo(raw: bytes, size: int, order: str) -> bytes:
    """The plain bytes of a block.

    Args:
        raw: all bytes of the block.
        size: how many plain bytes it must have.
        order: of numbers, `<` or `>`.

    Raises PBIO_BAD_BP5, PBIO_UNSUPPORTED_OPERATOR, and PBIO_MISSING_EXTRA if a library is missing.
    """
    if len(raw) < 4:
        raise _bad(f"a block has {len(raw)} bytes, fewer than an operator's mark")
    code, version = raw[0], raw[1]
    known = _OPERATORS.get(code)
    if known is None:
        name = NAMES.get(code, f"number {code}")
        hint = "leave its variables out with .schema(...), or write the data again without it"
        raise PbioError("PBIO_UNSUPPORTED_OPERATOR", f"no reader for data that the operator {name} made", hint=hint)
    plain = known(raw, version, size, order)
    if len(plain) != size:
        raise _bad(f"the operator {NAMES[code]} gives {len(plain)} bytes, not {size}")
    return plain


def _bad(reason: str) -> PbioError:
    return PbioError("PBIO_BAD_BP5", reason, hint=VERIFY)


def _claimed(raw: bytes, size: int, order: str) -> None:
    if len(raw) < 12:
        raise _bad("the head of an operator is cut off")
    (claimed,) = struct.unpack_from(f"{order}Q", raw, 4)
    if claimed != size:
        raise _bad(f"an operator says that it was given {claimed} bytes, but the block has {size}")


def _null(raw: bytes, version: int, size: int, order: str) -> bytes:
    _claimed(raw, size, order)
    return raw[12:]


def _bzip2(raw: bytes, version: int, size: int, order: str) -> bytes:
    _claimed(raw, size, order)
    if version != 1:
        raise _bad(f"version {version} of the operator bzip2 is unknown")
    if len(raw) < 20:
        raise _bad("the head of the operator bzip2 is cut off")
    (batches,) = struct.unpack_from(f"{order}Q", raw, 12)
    if batches > (len(raw) - 20) // 16:
        raise _bad(f"the operator bzip2 names {batches} parts in {len(raw)} bytes")
    parts: list[bytes] = []
    done = 0
    for number in range(batches):
        at, length, offset, packed = struct.unpack_from(f"{order}4I", raw, 20 + 16 * number)
        if at != done or at + length > size or offset + packed > len(raw):
            raise _bad("the parts of the operator bzip2 are not contiguous in the block")
        unpacker = bz2.BZ2Decompressor()
        try:
            part = unpacker.decompress(raw[offset : offset + packed], max_length=length + 1)
        except (OSError, EOFError, ValueError) as error:
            raise _bad(f"bzip2 refuses the data: {error}") from None
        if len(part) != length or not unpacker.eof:
            raise _bad(f"a part of the operator bzip2 has other than its {length} bytes")
        parts.append(part)
        done += length
    return b"".join(parts)


def _blosc2(raw: bytes, version: int, size: int, order: str) -> bytes:
    _claimed(raw, size, order)
    if version != 1 or len(raw) < 23:
        raise _bad(f"version {version} of the operator blosc2 with {len(raw)} bytes is unknown")
    marker, chunks = struct.unpack_from(f"{order}II", raw, 15)
    at = 23
    if marker:
        at, chunks = 15, 1  # the old layout: one chunk where the marker would be
    elif not chunks:
        return raw[at:]
    parts: list[bytes] = []
    done = 0
    for _ in range(chunks):
        if len(raw) - at < 32:
            raise _bad("a blosc2 chunk is cut off")
        plain, _, packed = struct.unpack_from("<III", raw, at + 4)
        if packed < 32 or at + packed > len(raw) or done + plain > size:
            raise _bad(f"a blosc2 chunk of {packed} bytes becomes {plain}, beyond its block")
        blosc2 = require("blosc2", "bp5")
        try:
            part = bytes(blosc2.decompress2(raw[at : at + packed]))
        except Exception as error:  # the library has several, and raises some of Python's own
            raise _bad(f"blosc2 refuses the data: {error}") from None
        if len(part) != plain:
            raise _bad(f"a blosc2 chunk has {len(part)} bytes, not {plain}")
        parts.append(part)
        at += packed
        done += plain
    return b"".join(parts)


_OPERATORS: dict[int, Callable[[bytes, int, int, str], bytes]] = {127: _null, 1: _bzip2, 0: _blosc2, 7: zfp}
