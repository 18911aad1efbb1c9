"""`Footer`: the least and the greatest values of number fields in each block of a data file, at the file's end.

It is a comment (ffs-wire-format 2), which every reader of FFS files skips. Its text is

    pbio values <JSON, compressed, base64> <digest> <length of the item, 8 hexadecimal digits>

so that a reader of a file's end can find its start. Like everything of this kind it is a hint; docs/decisions/0018 says
when readers believe it.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from pbio_spark.channels.commits.groups import Int64s
from pbio_spark.wire import ItemKind
from pbio_spark.wire.hints.ranges import Ranges, ranges_from_json, ranges_to_json

VERSION = 1
MOST_BYTES = 4 << 20
"""The longest footer, and the longest JSON in one."""
TAIL = 16 << 10
"""How many bytes of a file's end are read to find a footer; most have fewer."""

_WORD = 4
_START = b"pbio values "
_DIGEST = 8
_END = len(f" {'':16} {'':8}\0")
"""The bytes after the JSON: the digest, the length, NUL."""


class DamagedFooterError(ValueError):
    """A file ends with a damaged footer."""


@dataclass(frozen=True, slots=True, eq=False)
class Footer:
    """What a data file holds, block by block.

    Attributes:
        offsets: int64, of the first item of each block, ascending, and of the footer itself, after all events.
        ordinals: int64, index of the first record of each block in the file, then the number of records.
        formats: the IDs of formats, in hexadecimal. The footer does not cover records of other formats.
        ranges: the ranges of each of these formats.
    """

    offsets: Int64s
    ordinals: Int64s
    formats: tuple[str, ...]
    ranges: tuple[Ranges, ...]

    @property
    def blocks(self) -> int:
        return len(self.offsets) - 1

    def of(self, format_id: str) -> Ranges | None:
        """The ranges of the records of a format."""
        return self.ranges[self.formats.index(format_id)] if format_id in self.formats else None


def footer_to_bytes(footer: Footer) -> bytes:
    """The item that is the end of the file; nothing if it would be too long to be worth it."""
    said = {
        "version": VERSION,
        "offsets": footer.offsets.tolist(),
        "ordinals": footer.ordinals.tolist(),
        "formats": footer.formats,
        "ranges": [ranges_to_json(one) for one in footer.ranges],
    }
    text = json.dumps(said, separators=(",", ":")).encode()
    body = _START + b64encode(zlib.compress(text, 1))
    length = _WORD + len(body) + _END
    if max(length, len(text)) > MOST_BYTES:
        return b""
    head = (ItemKind.COMMENT << 24 | length - _WORD).to_bytes(_WORD)
    return b"%s%s %s %08x\0" % (head, body, _digest(head + body), length)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST).hexdigest().encode()


def read_footer(read: Callable[[int, int], bytes], size: int) -> Footer | None:
    """The footer of a file of a size; None if it has none.

    Args:
        read: reads bytes of the file, given an offset and a count.

    Raises DamagedFooterError, and what `read` raises.
    """
    start = max(0, size - TAIL)
    tail = read(start, size - start)
    length = _length(tail)
    if length is None or length > size:
        return None
    item = tail[-length:] if length <= len(tail) else read(size - length, length)
    head, body, end = item[:_WORD], item[_WORD:-_END], item[-_END:]
    if int.from_bytes(head) != (ItemKind.COMMENT << 24 | length - _WORD) or not body.startswith(_START):
        raise DamagedFooterError("does not begin where it says")
    if end[1:-10] != _digest(head + body):
        raise DamagedFooterError("has been changed")
    footer = _from_json(body[len(_START) :])
    # The last file of some that were put together by version 0.4 ends theirs, and says nothing of the others.
    return footer if footer is not None and footer.offsets[-1] == size - length else None


def _length(tail: bytes) -> int | None:
    """The length of the footer that bytes end with."""
    end = tail[-_END:]
    if len(end) < _END or end[:1] != b" " or end[-10:-9] != b" " or end[-1]:
        return None
    try:
        length = int(end[-9:-1], 16)
    except ValueError:
        return None
    return length if _WORD + len(_START) + _END <= length <= MOST_BYTES else None


def _from_json(data: bytes) -> Footer | None:
    """None for a footer of another version."""
    try:
        unpacker = zlib.decompressobj()
        said = json.loads(unpacker.decompress(b64decode(data, validate=True), MOST_BYTES))
        if said["version"] != VERSION:
            return None
        return _footer(said)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, zlib.error) as error:
        raise DamagedFooterError("does not hold values") from error


def _footer(said: dict[str, Any]) -> Footer:
    places = [said["offsets"], said["ordinals"]]
    if any(type(one) is not int or not 0 <= one < 2**62 for place in places for one in place):
        raise ValueError(places)
    offsets, ordinals = (np.array(place, np.int64) for place in places)
    formats = tuple(map(str, said["formats"]))
    blocks = len(offsets) - 1
    ranges = [ranges_from_json(one, blocks) for one in said["ranges"]]
    known = tuple(one for one in ranges if one is not None)
    is_sound = blocks > 0 and len(ordinals) == len(offsets) and len(known) == len(ranges) == len(formats)
    is_ascending = (np.diff(offsets) > 0).all() and (np.diff(ordinals) >= 0).all()
    if not is_sound or not is_ascending or any((one.records < 0).any() for one in known):
        raise ValueError(blocks)
    return Footer(offsets, ordinals, formats, known)
