"""The exception class of this package: a stable code, a reason, and the facts that help to locate the problem.

Spark carries errors from its Python processes as text, so the text itself starts with the code and includes the facts.

    >>> print(PbioError("PBIO_BAD_BODY", "the body ends inside its header", file="a.ffs", offset=19))
    [PBIO_BAD_BODY] the body ends inside its header
      at: a.ffs, offset 19
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from ecode.errors import valid_text

CODES: dict[str, str] = {
    # formats
    "PBIO_BAD_BODY": "A format body breaks a rule of the format; it is damaged or hostile.",
    "PBIO_BAD_ID": "A format ID has no known version, has the wrong length, or does not belong to its body.",
    "PBIO_BAD_LAYOUT": "A structure description cannot be a format: sizes, offsets or names contradict each other.",
    "PBIO_BAD_NAME": "A column has a name under which FFS programs cannot read it, such as `sum(x)`.",
    "PBIO_BAD_OPT_INFO": "An opt-info block of a format (notes on fields, a transform, a template) is malformed.",
    "PBIO_BAD_TYPE": "The JSON of a record type names something unknown or has the wrong form.",
    "PBIO_BAD_TYPE_STRING": "The type string of a field does not follow the grammar or names something unknown.",
    "PBIO_CANNOT_MERGE": "Versions of one format give a field types that no single column can hold.",
    "PBIO_FORMAT_CONFLICT": "Two different format bodies claim the same format ID.",
    "PBIO_RECURSIVE_FORMAT": "A structure contains itself, and no option limits how deep its columns may go.",
    "PBIO_SCHEMA_TOO_LARGE": "A format expands to more columns, or deeper ones, than a table may have.",
    "PBIO_UNKNOWN_MACHINE": "No machine with that name is known.",
    "PBIO_UNSUPPORTED_TYPE": "A type has no counterpart on the other side.",
    # columns
    "PBIO_AMBIGUOUS_NAME": "A wanted name matches several fields that differ only in case, and none exactly.",
    "PBIO_CANNOT_BE_NULL": "A value is null, or no column fills a field, and the format cannot represent nulls.",
    "PBIO_BAD_PROGRAM": "A filter or transform does not compile for the records that it should run on.",
    "PBIO_REJECTED": "Records of a format match none of the wanted record types.",
    "PBIO_TRAP": "A filter or transform fails on a record: a division by zero, an index out of range, and so on.",
    "PBIO_VALUE_BEYOND_TYPE": "A value of a record does not fit the type of its column.",
    "PBIO_INCOMPATIBLE_TYPE": "No conversion between the types of a column and its field keeps every value.",
    "PBIO_UNKNOWN_COLUMN": "A column is missing, or the format to write has no field for it.",
    # wire
    "PBIO_BAD_ATTRIBUTES": "An attribute list is malformed, does not fit an index block, or the file has no index.",
    "PBIO_BAD_INDEX": "An index block, or an earlier outline of a file, contradicts the file.",
    "PBIO_BAD_ITEM": "The file is damaged between its records; `resync` finds the next sound one.",
    "PBIO_BAD_POINTER": "A pointer in a record leads out of it, or its target does not fit into the record.",
    "PBIO_BAD_RECORD": "A record's header contradicts the record or its format.",
    "PBIO_BAD_STRING": "A string in a record has no end, or is not text in the requested encoding.",
    "PBIO_BAD_VALUE": "A value does not fit the format, or exceeds a limit of the channel.",
    "PBIO_CANNOT_APPEND": "An append has an index and its file has none, or the reverse.",
    "PBIO_NOT_FFS": "The file is not an FFS file, or the folder holds files of another format.",
    "PBIO_RECORD_EXPANDS": "A record decodes to more than 16 MB and 64 times its size, by shared pointers or counts.",
    "PBIO_RECORD_TOO_LARGE": "A record has more bytes than can be read at once.",
    "PBIO_TRUNCATED": "The file ends inside an item, or in an index block that is still being written.",
    "PBIO_UNKNOWN_FORMAT": "A record or an option refers to an unknown format, by its ID or its name.",
    # Kafka
    "PBIO_KAFKA": "Kafka's brokers cannot be reached, or refuse a request; the error quotes them.",
    # BP5
    "PBIO_ARRAY_TOO_LARGE": "An array of a BP5 step is larger than a row or a batch can hold.",
    "PBIO_BAD_BP5": "A BP5 folder is damaged; the error names the file, and the step, writer and variable if known.",
    "PBIO_NOT_BP5": "The folder was not written by ADIOS2's BP5 engine, or by an unsupported version of it.",
    "PBIO_UNSUPPORTED_BP5": "A BP5 folder uses an unsupported feature, such as the layout before ADIOS2 2.9.",
    "PBIO_UNSUPPORTED_OPERATOR": "Data was compressed by an unsupported operator.",
    # explore
    "PBIO_MISSING_EXTRA": "A function needs a library that comes with an optional extra of this package.",
    # channels
    "PBIO_BAD_LOG": "A file of a channel space is damaged, missing, contradicts another, or belongs to another space.",
    "PBIO_CANNOT_CREATE": "The file system cannot create a file only if it is new, so it cannot hold a channel space.",
    "PBIO_CHANNEL_EXISTS": "A channel with that name already exists.",
    "PBIO_EVENTS_GONE": "A subscriber is too far behind: events that it has not seen have been removed.",
    "PBIO_OUT_OF_ORDER": "The events of a producer are not in the order of their sequence numbers.",
    "PBIO_OTHER_PYTHON": "Spark starts a Python other than the one that runs the program.",
    "PBIO_OTHER_BATCH": "A batch has the number of a published batch, but other events.",
    "PBIO_NOT_DELIVERED": "Events are published, but some subscribers have not acknowledged them in time.",
    "PBIO_OVERWRITES_ITSELF": "A query overwrites files that it reads.",
    "PBIO_NOT_EMPTY": "A folder that should become a channel space or be overwritten holds other files.",
    "PBIO_NO_PERMISSION": "The file system does not let this program read or write there.",
    "PBIO_NO_ROOM": "A file does not fit: the disk is full, or a quota is used up.",
    "PBIO_OUTCOME_UNKNOWN": "A write fails and may or may not have happened; the hint says how to repeat it.",
    "PBIO_CONCENTRATOR": "No concentrator serves the space, another one already does, or it cannot listen.",
    "PBIO_NO_SPACE": "The folder is not a channel space.",
    "PBIO_UNKNOWN_CHANNEL": "The channel does not exist or has been dropped.",
    # gateways
    "PBIO_BAD_MESSAGE": "A Grid message is not XML, or breaks a rule of the protocol.",
    "PBIO_DISCONNECTED": "The connection to a peer of a gateway has ended, or the peer has ended the subscription.",
    "PBIO_NO_REPLY": "A Grid peer did not answer a request in time.",
    "PBIO_REFUSED": "A Grid peer refused a request, or could not make an event; the error quotes it.",
    "PBIO_BAD_STREAM": "A peer of a gateway sends something other than a thin stream, or an inconsistent stream.",
    "PBIO_LIMIT": "A peer of a gateway exceeds one of its limits; the hint names it.",
    "PBIO_NOT_LISTENING": "A gateway cannot listen at an address, or nothing listens at the address to send to.",
    "PBIO_UNKNOWN_STONE": "A thin stream is for a stone that the gateway does not have.",
    # source
    "PBIO_BAD_OFFSET": "A position or a stream's offset belongs to another source or space, or is after the end.",
    "PBIO_BAD_PATH": "A path is empty, a root, a home or the working directory, or is not a path.",
    "PBIO_FILE_SYSTEM": "A file system fails or cannot be used; the error quotes it.",
    "PBIO_BAD_OPTION": "An option has an invalid value.",
    "PBIO_BAD_PARTITIONS": "The `k=v` folders of a path contradict each other, or a value does not fit its column.",
    "PBIO_CHANNEL_SPACE": "The folder is a channel space: read and write its channels.",
    "PBIO_CHECKSUM": "The bytes of a file do not match its checksum.",
    "PBIO_FILE_CHANGED": "A file was replaced or rewritten while a query reads it, so its rows would be mixed.",
    "PBIO_NAME_COLLISION": "Two columns have the same name, or names that differ only in case.",
    "PBIO_NEW_FORMAT": "A stream meets a new format, and `onNewFormat` is `fail`.",
    "PBIO_NO_PATH": "No path, table or option says what to read, or where to write.",
    "PBIO_NO_SCHEMA": "The columns are unknown: no schema is given and no format is found.",
    "PBIO_PATH_NOT_FOUND": "The file or folder does not exist.",
    "PBIO_ROWS_GONE": "Rows that were seen in a file are gone: it was removed, truncated or overwritten meanwhile.",
    "PBIO_SEVERAL_FORMATS": "Several formats or record types fit, and none of them was chosen.",
    "PBIO_UNEXPECTED_NULL": "A record has no value for a column that the user's schema declares NOT NULL.",
    "PBIO_UNFILLED": "No record fills a column, a name has no match, or no record needs a program.",
    "PBIO_UNKNOWN_OPTION": "The option does not exist.",
    "PBIO_USE_A_CHANNEL": "A stream cannot write to a plain folder, where a retried batch would appear twice.",
}
"""The code of every error of this package, with one line of meaning. A test finds missing codes."""


class PbioError(Exception):
    """An error in PBIO data or in a request for it.

    Attributes:
        code: stable and searchable, one of `CODES`.
        reason: what is wrong, in one sentence.
        file: the path or URL of the file.
        offset: the position in the file (or in the buffer, when there is no file), in bytes.
        format: the name or the hexadecimal ID of the format.
        field: the path of the field, such as `$.a[3].b`.
        hint: what to do about it.
        record: the ordinal of the record in the file, from 0, or words that say where it is.
    """

    def __init__(
        self,
        code: str,
        reason: str,
        *,
        file: str | None = None,
        offset: int | None = None,
        format: str | None = None,  # noqa: A002 - the project's word for the thing
        field: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason
        self.file = file
        self.offset = offset
        self.format = format
        self.field = field
        self.hint = hint
        self.record: int | str | None = None

    def at(
        self,
        *,
        file: str | None = None,
        offset: int | None = None,
        format: str | None = None,  # noqa: A002
        field: str | None = None,
        record: int | str | None = None,
    ) -> Self:
        """Add facts that an outer layer knows; facts already set do not change.

        >>> print(PbioError("PBIO_BAD_BODY", "no end", offset=3).at(file="a.ffs", offset=99))
        [PBIO_BAD_BODY] no end
          at: a.ffs, offset 3
        """
        self.file = self.file if self.file is not None else file
        self.offset = self.offset if self.offset is not None else offset
        self.format = self.format if self.format is not None else format
        self.field = self.field if self.field is not None else field
        self.record = self.record if self.record is not None else record
        return self

    def __str__(self) -> str:
        place = [
            self.file,
            f"record {self.record}" if isinstance(self.record, int) else self.record,
            None if self.offset is None else f"offset {self.offset}",
            None if self.format is None else f"format {self.format}",
            None if self.field is None else f"field {self.field}",
        ]
        known = ", ".join(text for text in place if text is not None)
        lines = [f"[{self.code}] {self.reason}"]
        lines += [f"  at: {known}"] if known else []
        lines += [f"  hint: {self.hint}"] if self.hint else []
        return valid_text("\n".join(lines))

    def __reduce__(self) -> tuple[Callable[..., PbioError], tuple[Any, ...]]:
        return _rebuild, (type(self), self.code, self.reason, dict(self.__dict__))


def after_record(ordinal: int) -> str:
    """The place after a number of records.

    >>> after_record(3), after_record(0)
    ('after record 2', 'before the first record')
    """
    return f"after record {ordinal - 1}" if ordinal else "before the first record"


def path_to_text(steps: Iterable[str | int]) -> str:
    """The path of a value for people: the names of fields, and the indices of elements.

    >>> path_to_text(("a", 3, "unit price"))
    '$.a[3]["unit price"]'
    """
    return "$" + "".join(map(step_to_text, steps))


def step_to_text(step: str | int) -> str:
    """One step of a path."""
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if step.isidentifier() else '["' + step.replace('"', '\\"') + '"]'


def _rebuild(cls: type[PbioError], code: str, reason: str, facts: dict[str, Any]) -> PbioError:
    error = cls.__new__(cls, code, reason)
    Exception.__init__(error, code, reason)
    error.__dict__.update(facts)
    return error
