"""What bytes may be that are not a record: other formats that share a topic with PBIO."""

from __future__ import annotations

from ecode.errors import valid_text
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.body.layouts import body_length
from pbio_spark.wire.container import AVRO, MAGIC, legible_id

CONFLUENT_HEAD = 5
MOST_SCHEMAS = 1 << 24
AVRO_SINGLE = b"\xc3\x01"


def name_frame(data: bytes) -> tuple[str, str] | None:
    """What bytes look like, and what to do about it; None if nothing is recognised.

    Confluent's serialisers put a zero byte and the schema's number, 4 bytes big-endian, before what they write; an Avro
    single-object encoding begins with C3 01 and the 8 bytes of the schema's fingerprint, little-endian. A zero byte is
    also how a format's body begins, and an ID of version 0. A body says its own length; registries count schemas from
    1, or from 100,000, so a number of 2^24 or more is none of theirs.

    >>> name_frame(bytes.fromhex("000000002a0c"))[0]
    "it has the frame of Confluent's serialisers, schema ID 42"
    >>> name_frame(bytes.fromhex("c30101000000000000800c"))[0]
    'it is an Avro single-object encoding, schema fingerprint 8000000000000001'
    >>> name_frame(b"?") is None
    True
    """
    if not data:
        return "it is empty", "write a null where there is no record"
    if (said := _of_formats(data)) is not None:
        return said
    number = int.from_bytes(data[1:CONFLUENT_HEAD], "big")
    if data[0] == 0 and len(data) >= CONFLUENT_HEAD and 0 < number < MOST_SCHEMAS and not legible_id(data[:12]):
        hint = "from_avro(expr('substring(value, 6)'), schema) with that schema decodes it, or its own deserialiser"
        return f"it has the frame of Confluent's serialisers, schema ID {number}", hint
    if data.startswith(AVRO_SINGLE) and len(data) >= 10:
        fingerprint = data[9:1:-1].hex()
        hint = "from_avro(expr('substring(value, 11)'), schema) with that schema decodes it"
        return f"it is an Avro single-object encoding, schema fingerprint {fingerprint}", hint
    if data.startswith(AVRO):
        return "it is a whole Avro file", "read it with Spark's format avro"
    if data.startswith(MAGIC):
        return "it is a whole FFS file, not one record", "read it with Spark's format pbio"
    if data.lstrip()[:1] in (b"{", b"[") and _is_text(data):
        return "it looks like JSON", "from_json decodes it"
    return None


def _of_formats(data: bytes) -> tuple[str, str] | None:
    """What bytes look like if they are a format's body, or nothing but an ID."""
    if legible_id(data) == data and any(data):
        return (
            f"it is the ID {data.hex()} alone, without a record",
            "give what encode or to_pbio returns; a format's ID and its body are for format stores",
        )
    said = body_length(data)
    if said is None:
        return None
    try:
        form = Format.from_body(data)
    except PbioError:
        if said == len(data) or data[0]:
            return None
        reason = f"it begins like the body of a format, which says that it has {said} bytes, but it has {len(data)}"
        return reason, "look for what cuts the bytes; bodies are for format stores, and records are decoded"
    return (
        f"it is the body of the format {valid_text(form.name)!r}, ID {form.id.hex()}, not a record",
        "put it into a format store, or give Format.from_body(data) as a format; decode what encode or to_pbio returns",
    )


def unknown_format(data: bytes, hint: str, *, file: str | None = None, offset: int | None = None) -> PbioError:
    """PBIO_UNKNOWN_FORMAT for bytes that should be a record.

    Args:
        hint: what to do if they may be one, and only the format is missing.

    >>> unknown_format(b"?" * 16, "store it").reason
    'no format is known with the ID that the record begins with: it would be 3f3f3f3f3f3f3f3f3f3f3f3f'
    """
    looks, hint = name_frame(data) or (f"it would be {data[:12].hex()}", hint)
    reason = f"no format is known with the ID that the record begins with: {looks}"
    return PbioError("PBIO_UNKNOWN_FORMAT", reason, file=file, offset=offset, hint=hint)


def _is_text(data: bytes) -> bool:
    return all(byte >= 32 or byte in b"\t\r\n" for byte in data[:64])
