"""Blocks that the operator zfp made -> plain bytes, by the library's own wheel, `zfpy`."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from pbio_spark.bp5.folder import Bytes
from pbio_spark.bp5.trouble import VERIFY
from pbio_spark.errors import PbioError
from pbio_spark.extras import require

_TYPES = {3: "int32", 4: "int64", 9: "float", 10: "double", 12: "float", 13: "double"}
"""Type codes -> zfp's names of the compressed numbers; for complex numbers, of their parts."""
_COMPLEX = (12, 13)
_MODES = {"accuracy": "tolerance", "rate": "rate", "precision": "precision"}
_NO_MATTER = ("backend",)
MOST_DIMENSIONS = 4
_OTHER = 64
"""How many bytes after a stream are changed before it is read again: in one that is cut off, they change values."""
MOST_BYTES = 4 << 30
"""The most memory for a stream; the part after the stream is reserved, but not touched."""


def zfp(raw: bytes, version: int, size: int, order: str) -> bytes:
    """The plain bytes of a block. Raises PBIO_BAD_BP5, PBIO_UNSUPPORTED_OPERATOR, PBIO_MISSING_EXTRA."""
    if version != 1:
        raise _bad(f"version {version} is unknown")
    if order == ">":
        raise _refused("on a big-endian machine")
    try:
        code, shape, parameters, at = _head(raw)
    except (struct.error, IndexError):
        raise _bad("the head is cut off") from None
    if code not in _TYPES:
        raise _bad(f"elements have the type {code}")
    name = _TYPES[code]
    width = 4 if name in ("int32", "float") else 8
    if not shape or 0 in shape or math.prod(shape) * width != size:
        raise _bad(f"{shape} numbers of {width} bytes are not the {size} bytes of the block")
    mode = _mode(parameters)
    zfpy = require("zfpy", "bp5")
    room, end = _with_room(raw, at, shape, width, mode)

    def decompress() -> bytes:
        try:
            found = zfpy._decompress(room.data, getattr(zfpy, f"type_{name}"), list(shape[::-1]), **mode)
        except (ValueError, OverflowError, MemoryError) as error:
            raise _bad(f"the library refuses the data: {error}") from None
        plain: bytes = found.tobytes()
        return plain

    plain = decompress()
    # Nothing in a stream says where it ends. A whole one gives the same numbers, whatever follows it.
    room[end : end + _OTHER] = 255
    if decompress() != plain:
        raise _bad("the stream is cut off")
    return plain


def _head(raw: bytes) -> tuple[int, tuple[int, ...], dict[str, str], int]:
    """The type, the shape as zfp was given it, the parameters, and where the stream begins."""
    (dimensions,) = struct.unpack_from("<Q", raw, 4)
    if dimensions > len(raw) // 8:
        raise _bad(f"a block has {dimensions} dimensions")
    shape = struct.unpack_from(f"<{dimensions}Q", raw, 12)
    at = 12 + 8 * dimensions
    (code,) = struct.unpack_from("<i", raw, at)
    at += 7  # three bytes are the version of the library
    count, at = raw[at], at + 1
    words = []
    for _ in range(2 * count):
        words.append(raw[at + 1 : at + 1 + raw[at]].decode("latin-1"))
        at += 1 + raw[at]
    if at > len(raw):
        raise IndexError
    if code in _COMPLEX and shape:
        shape = (*shape[:-1], 2 * shape[-1])
    if len(shape) > MOST_DIMENSIONS:  # zfp has four, so the first ones are merged
        rest = len(shape) - MOST_DIMENSIONS + 1
        shape = (math.prod(shape[:rest]), *shape[rest:])
    return code, shape, dict(zip(words[::2], words[1::2], strict=True)), at


def _mode(parameters: dict[str, str]) -> dict[str, Any]:
    """The parameters that the library needs to read a stream. Anything ambiguous is refused."""
    modes = [name for name in parameters if name in _MODES]
    unknown = [name for name in parameters if name not in _MODES and name not in _NO_MATTER]
    if unknown or len(modes) > 1:
        listed = ", ".join(f"{name}={value}" for name, value in parameters.items())
        raise _refused(f"with the parameters {listed}")
    if not modes:
        return {"tolerance": 0.0}
    (name,) = modes
    try:
        value = float(parameters[name])
    except ValueError:
        raise _bad(f"the parameter {name} is {parameters[name]!r}") from None
    if not 0 <= value < math.inf or (name == "rate" and value > 128) or (name == "precision" and value > 128):
        raise _bad(f"the parameter {name} is {parameters[name]!r}")
    return {_MODES[name]: int(value) if name == "precision" else value}


def _with_room(raw: bytes, at: int, shape: tuple[int, ...], width: int, mode: dict[str, Any]) -> tuple[Bytes, int]:
    """The stream, followed by as many zeros as the library may read, as it does not look for the end; and that end."""
    values = 4 ** len(shape)
    blocks = math.prod(-(-n // 4) for n in shape)
    bits = (8 * width + 2) * values + 8 * width + 32
    bits = max(bits, int(mode.get("rate", 0) * values) + 64)
    need = blocks * bits // 8 + 64
    if need > MOST_BYTES:
        raise _bad(f"a block of {shape} numbers may take {need} bytes")
    if "rate" in mode and len(raw) - at < blocks * int(mode["rate"] * values) // 8:
        raise _bad("the stream is cut off")
    end = len(raw) - at
    room = np.zeros(max(need, end + _OTHER), np.uint8)
    room[:end] = np.frombuffer(raw, np.uint8, offset=at)
    return room, end


def _bad(reason: str) -> PbioError:
    return PbioError("PBIO_BAD_BP5", f"operator zfp: {reason}", hint=VERIFY)


def _refused(what: str) -> PbioError:
    hint = "leave its variables out with .schema(...), or write the data again with one of accuracy, rate and precision"
    return PbioError("PBIO_UNSUPPORTED_OPERATOR", f"no reader for data that the operator zfp made {what}", hint=hint)
