"""Bob Jenkins' lookup3 hash, and the two names made from it: format IDs and attribute atoms.

Source: ffs-wire-format 3.3, 4 (the hash is public domain).
"""

from __future__ import annotations

import struct

from pbio_spark.errors import PbioError

_MASK = 0xFFFFFFFF


def hashlittle2(data: bytes) -> tuple[int, int]:
    """The primary and secondary 32-bit hash of `data`, both initial values 0.

    >>> [hex(part) for part in hashlittle2(b"Four score and seven years ago")]
    ['0x17770551', '0xce7226e6']
    """
    m = _MASK
    a = b = c = (0xDEADBEEF + len(data)) & m
    if not data:
        return c, b
    # Words are little-endian on every machine. The last 1 to 12 bytes are padded with zeros to 12.
    words = struct.unpack(f"<{(len(data) + 11) // 12 * 3}I", data + bytes(-len(data) % 12))
    for i in range(0, len(words) - 3, 3):
        # Only the rotations need their operand within 32 bits, so each line reduces once.
        a += words[i]
        b += words[i + 1]
        c = (c + words[i + 2]) & m
        a = (a - c ^ (c << 4 | c >> 28)) & m
        c += b
        b = (b - a ^ (a << 6 | a >> 26)) & m
        a += c
        c = (c - b ^ (b << 8 | b >> 24)) & m
        b += a
        a = (a - c ^ (c << 16 | c >> 16)) & m
        c += b
        b = (b - a ^ (a << 19 | a >> 13)) & m
        a += c
        c = (c - b ^ (b << 4 | b >> 28)) & m
        b += a
    a, b, c = (a + words[-3]) & m, (b + words[-2]) & m, (c + words[-1]) & m
    c = ((c ^ b) - (b << 14 | b >> 18)) & m
    a = ((a ^ c) - (c << 11 | c >> 21)) & m
    b = ((b ^ a) - (a << 25 | a >> 7)) & m
    c = ((c ^ b) - (b << 16 | b >> 16)) & m
    a = ((a ^ c) - (c << 4 | c >> 28)) & m
    b = ((b ^ a) - (a << 14 | a >> 18)) & m
    c = ((c ^ b) - (b << 24 | b >> 8)) & m
    return c, b


def format_id(body: bytes) -> bytes:
    """The 12-byte (version 2) ID of a format body (ffs-wire-format 4.2, 4.3)."""
    words = len(body) // 4
    return struct.pack(">BBHII", 2, words >> 16 & 0xFF, words & 0xFFFF, *hashlittle2(body))


def id_length(prefix: bytes) -> int:
    """The length of the format ID that starts with these (at least 8) bytes: 8, 10 or 12 (ffs-wire-format 4.1).

    Raises PBIO_BAD_ID if they are not the start of an ID of a known version.
    """
    if len(prefix) >= 8:
        if not any(prefix[4:8]):
            return 8
        if prefix[0] in (1, 2):
            return 8 + 2 * prefix[0]
    raise PbioError(
        "PBIO_BAD_ID", f"{prefix[:12].hex() or 'nothing'} is not the start of a format ID of version 0, 1 or 2"
    )


def atom(name: str) -> int:
    """The number that represents an attribute's name (ffs-wire-format 3.3).

    >>> atom("iteration"), atom("who")
    (1075322208, 117257728)
    """
    primary, _ = hashlittle2(name.encode("utf-8", "surrogateescape"))
    return primary - (1 << 32) if primary >> 31 else primary
