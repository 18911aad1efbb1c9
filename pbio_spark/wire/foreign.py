"""What bytes are that are not a record: the frames of other formats that people put into the same topics."""

from __future__ import annotations

from pbio_spark.errors import PbioError
from pbio_spark.wire.container import AVRO, MAGIC

CONFLUENT_HEAD = 5
AVRO_SINGLE = b"\xc3\x01"


def name_frame(data: bytes) -> tuple[str, str] | None:
    """What bytes look like, and what to do about it; None if nothing is recognised.

    Confluent's serialisers put a zero byte and the schema's number, 4 bytes big-endian, before what they write; an Avro
    single-object encoding begins with C3 01 and the 8 bytes of the schema's fingerprint, little-endian.

    >>> name_frame(bytes.fromhex("000000002a0c"))[0]
    "it has the frame of Confluent's serialisers, schema ID 42"
    >>> name_frame(bytes.fromhex("c30101000000000000800c"))[0]
    'it is an Avro single-object encoding, schema fingerprint 8000000000000001'
    >>> name_frame(b"?") is None
    True
    """
    if not data:
        return "it is empty", "write a null where there is no record"
    if data[0] == 0 and len(data) >= CONFLUENT_HEAD:
        number = int.from_bytes(data[1:CONFLUENT_HEAD], "big")
        hint = "it is decoded by from_avro(expr('substring(value, 6)'), schema) with that schema, or what else wrote it"
        return f"it has the frame of Confluent's serialisers, schema ID {number}", hint
    if data.startswith(AVRO_SINGLE) and len(data) >= 10:
        fingerprint = data[9:1:-1].hex()
        hint = "it is decoded by from_avro(expr('substring(value, 11)'), schema) with that schema"
        return f"it is an Avro single-object encoding, schema fingerprint {fingerprint}", hint
    if data.startswith(AVRO):
        return "it is a whole Avro file", "read it with Spark's format avro"
    if data.startswith(MAGIC):
        return "it is a whole FFS file, not one record", "read it with Spark's format pbio"
    if data.lstrip()[:1] in (b"{", b"[") and _is_text(data):
        return "it looks like JSON", "from_json decodes it"
    return None


def unknown_format(data: bytes, hint: str, *, file: str | None = None, offset: int | None = None) -> PbioError:
    """PBIO_UNKNOWN_FORMAT for what should be a record.

    Args:
        hint: what to do if it may be one, and only its format is missing.

    >>> unknown_format(b"?" * 16, "store it").reason
    'no format is known with the ID that the record begins with: it would be 3f3f3f3f3f3f3f3f3f3f3f3f'
    """
    looks, hint = name_frame(data) or (f"it would be {data[:12].hex()}", hint)
    reason = f"no format is known with the ID that the record begins with: {looks}"
    return PbioError("PBIO_UNKNOWN_FORMAT", reason, file=file, offset=offset, hint=hint)


def _is_text(data: bytes) -> bool:
    return all(byte >= 32 or byte in b"\t\r\n" for byte in data[:64])
