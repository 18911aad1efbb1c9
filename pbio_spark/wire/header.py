"""The header of a record (ffs-wire-format 7.1): the format's ID, and the record's length if the format is variant."""

from __future__ import annotations

from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.wire.images import align


def header_to_bytes(format: Format, length: int) -> bytes:  # noqa: A002
    """The header of a record of `length` bytes; PBIO_BAD_VALUE if the length word cannot hold it."""
    at, size = length_word(format)
    if size and length >> 8 * size:
        raise PbioError(
            "PBIO_BAD_VALUE",
            f"the record would have {length} bytes",
            format=format.name,
            hint="split its values over several records",
        )
    word = length.to_bytes(size, format.byte_order) if size else b""
    return (format.id.ljust(at, b"\0") + word).ljust(format.header_size, b"\0")


def check_header(format: Format, record: bytes) -> int:  # noqa: A002
    """The position of the base record in `record`, header included, after checking the header.

    Raises:
        PbioError: PBIO_BAD_RECORD if the ID belongs to another format, or the record is longer or shorter than its
            header or the format says.
    """

    def fail(reason: str, offset: int, hint: str | None = None) -> PbioError:
        return PbioError("PBIO_BAD_RECORD", reason, offset=offset, format=format.name, hint=hint)

    start = format.header_size
    if not record.startswith(format.id):
        from pbio_spark.wire.foreign import name_frame  # which reads headers

        looks = name_frame(record)
        hint = "give the format with that ID: the record's file or its format store has it"
        reason = f"the record's format ID is {record[: len(format.id)].hex()}, not {format.id.hex()}"
        raise fail(reason, 0, hint if looks is None else ": ".join(looks))
    if len(record) < start:
        raise fail(f"the record has {len(record)} bytes, but its header alone needs {start}", 0)
    length = len(record) - start
    at, size = length_word(format)
    if size and (said := int.from_bytes(record[at : at + size], format.byte_order)) != length:
        raise fail(f"the record says that {said} bytes follow its header, but {length} do", at)
    base = format.structs[0].record_length
    if length < align(base) if size else length != base:
        raise fail(f"{length} bytes follow the header, but the format's structure has {base}", start)
    return start


def length_word(format: Format) -> tuple[int, int]:  # noqa: A002
    """The offset of the length word, and its size; 0 if the header has no length word."""
    if not format.is_variant:
        return len(format.id), 0
    return (len(format.id), 8) if format.body_version == 2 else (len(format.id) + 3 & ~3, 4)
