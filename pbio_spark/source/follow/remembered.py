"""What a stream remembers of completely read files, packed to about 55 bytes per file, as text.

>>> row = ("c0ffee" * 2, "0b" * 8, "f00d" * 4, "beadbead", "0123456789ab" * 2, 1764280000, 4096, 17, False)
>>> unpack(pack([row])) == [row]
True
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Row: TypeAlias = "tuple[str, str, str, str, str, int, int, int, bool]"
"""Key of the path, ID, stamp, head, digest, modification in microseconds, offset, ordinal, whether the file is gone."""

_TEXTS = (6, 8, 8, 4, 12)
_NUMBERS = ("<u8", "<u8", "<u8", "?")
_LIMIT = 1 << 30

NO_ID = "00" * 8
"""The value of an unknown ID or stamp."""


def pack(rows: Sequence[Row]) -> str:
    """Packs by column, since the high bytes of numbers are similar."""
    columns = list(zip(*rows, strict=True))
    data = [b"".join(map(bytes.fromhex, column)) for column in columns[: len(_TEXTS)]]
    for kind, column in zip(_NUMBERS, columns[len(_TEXTS) :], strict=True):
        numbers = np.array(column, kind)
        data.append(numbers.view(np.uint8).reshape(len(rows), -1).T.tobytes())
    return b64encode(zlib.compress(b"".join(data), 6)).decode()


def unpack(text: str, *, has_ids: bool = True) -> list[Row]:
    """Raises ValueError for text that `pack` did not make. Earlier versions stored no IDs."""
    if not has_ids:
        return [(key, NO_ID, *rest) for key, *rest in _unpack(text, (_TEXTS[0], *_TEXTS[2:]))]
    return [(*row,) for row in _unpack(text, _TEXTS)]


def _unpack(text: str, texts: Sequence[int]) -> list[Any]:
    if not text:
        return []
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(b64decode(text, validate=True), _LIMIT)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    count, rest = divmod(len(data), sum(texts) + sum(np.dtype(kind).itemsize for kind in _NUMBERS))
    if rest or not stream.eof:
        raise ValueError("the packed files are damaged")
    columns: list[list[object]] = []
    position = 0
    for size in texts:
        piece = data[position : position + size * count].hex()
        columns.append([piece[i : i + 2 * size] for i in range(0, len(piece), 2 * size)])
        position += size * count
    for kind in _NUMBERS:
        size = np.dtype(kind).itemsize
        bytes_ = np.frombuffer(data, np.uint8, size * count, position).reshape(size, count)
        columns.append(np.ascontiguousarray(bytes_.T).view(kind).reshape(count).tolist())
        position += size * count
    return list(zip(*columns, strict=True))
