"""`Ranges`: the least and the greatest value of number fields in each block of a file, so that readers can skip blocks.

A block is the part of a file between two points of its outline. Ranges are a hint, like the rest of an outline;
docs/decisions/0017 says how they are checked.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Path: TypeAlias = tuple[str, ...]

EMPTY = (2**63 - 1, -(2**63))
"""Least and most of no values, as keys."""
MOST_VALUES = 1 << 16
"""How many pairs of values the ranges of a file may have."""
_WORD = np.dtype("<i8")
_SIGN = np.int64(-(2**63))


@dataclass(frozen=True, slots=True)
class Ranges:
    """What the records of one format hold, block by block.

    Attributes:
        counts: int64 of each block: how many records it has.
        paths: of each field that is known: the names that lead to it, through structures in place.
        kinds: of each field: `i`, `u` or `f`.
        least, most: int64[fields, blocks] of keys (see `keys_to_values`). NaN does not count; a null counts as zero, as
            programs see it.

    All are bytes, little-endian, so that ranges can be compared and sent.
    """

    counts: bytes
    paths: tuple[Path, ...] = ()
    kinds: str = ""
    least: bytes = b""
    most: bytes = b""

    @property
    def blocks(self) -> int:
        return len(self.counts) // _WORD.itemsize

    @property
    def records(self) -> npt.NDArray[np.int64]:
        """How many records each block has."""
        return np.frombuffer(self.counts, _WORD)

    def of(self, path: Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """Least and most of a field in each block, as int64, uint64 or float64; None if they are not known.

        Where a block has no values (only NaN, or no records) the least is greater than the most.
        """
        if path not in self.paths:
            return None
        at = self.paths.index(path)
        row = slice(at * self.blocks, (at + 1) * self.blocks)
        least, most = (np.frombuffer(keys, _WORD)[row] for keys in (self.least, self.most))
        return keys_to_values(least, self.kinds[at]), keys_to_values(most, self.kinds[at])

    def unlike(self, other: Ranges) -> Iterator[tuple[str, int]]:
        """The differences from other ranges of the same blocks: what differs, and in which block."""
        for block in np.flatnonzero(self.records != other.records).tolist():
            yield "the number of records", block
        for path in self.paths:
            ours, theirs = self.of(path), other.of(path)
            assert ours is not None
            for name, own, true in zip(("least", "greatest"), ours, theirs or (None, None), strict=True):
                differs = np.ones(self.blocks, np.bool_) if true is None else own != true
                for block in np.flatnonzero(differs).tolist():
                    yield f"the {name} {'.'.join(path)}", block


def keys_to_values(keys: npt.NDArray[np.int64], kind: str) -> npt.NDArray[Any]:
    """The values that int64 keys represent, in the same order.

    Integers are their own keys. Unsigned ones are shifted by 2^63. A floating-point number is the bits of
    the double; if the sign bit is set, the other bits are inverted. An empty range of floating-point numbers goes from
    infinity to minus infinity.

    >>> keys_to_values(np.array([-(2**63), 0]), "u").tolist()
    [0, 9223372036854775808]
    """
    keys = np.ascontiguousarray(keys, np.int64)
    if kind == "i":
        return keys
    if kind == "u":
        return (keys ^ _SIGN).view(np.uint64)
    values = np.where(keys < 0, keys ^ ~_SIGN, keys).view(np.float64)
    values = np.where(keys == EMPTY[0], np.inf, values)
    return np.where(keys == EMPTY[1], -np.inf, values)


def ranges_to_json(ranges: Ranges) -> dict[str, Any]:
    """Ranges as JSON values."""
    return {
        "counts": b64encode(ranges.counts).decode(),
        "fields": [[kind, *path] for kind, path in zip(ranges.kinds, ranges.paths, strict=True)],
        "least": b64encode(ranges.least).decode(),
        "most": b64encode(ranges.most).decode(),
    }


def ranges_from_json(said: Any, blocks: int) -> Ranges | None:
    """The ranges of a file of so many blocks; None if the value does not hold them."""
    try:
        fields = [(str(kind), tuple(map(str, path))) for kind, *path in said["fields"]]
        values = (b64decode(said[name], validate=True) for name in ("counts", "least", "most"))
        counts, least, most = values
    except (ValueError, LookupError, TypeError):
        return None
    size = _WORD.itemsize * blocks
    if len(counts) != size or len(least) != size * len(fields) or len(most) != len(least):
        return None
    if not all(kind in ("i", "u", "f") and path for kind, path in fields):
        return None
    return Ranges(counts, tuple(path for _, path in fields), "".join(kind for kind, _ in fields), least, most)
