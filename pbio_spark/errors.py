"""The one exception class of this package: a stable code, a reason, and every fact that helps to find the place.

Spark carries errors from its Python processes as text, so the text itself starts with the code and holds the facts.

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
    "PBIO_BAD_BODY": "A format body breaks a rule of the format; it is damaged or was made to mislead.",
    "PBIO_BAD_ID": "A format ID has no known version, has the wrong length, or does not belong to its body.",
    "PBIO_BAD_LAYOUT": "A structure description cannot be a format: sizes, offsets or names contradict each other.",
    "PBIO_BAD_NAME": "A column has a name under which FFS programs cannot read it, such as `sum(x)`.",
    "PBIO_BAD_OPT_INFO": "An opt-info block of a format (notes on fields, a transform, a template) is malformed.",
    "PBIO_BAD_TYPE": "The JSON of a record type names something unknown or is not of the form it should have.",
    "PBIO_BAD_TYPE_STRING": "The type string of a field does not follow the grammar or names something unknown.",
    "PBIO_CANNOT_MERGE": "Versions of one format give a field types that no single column can hold.",
    "PBIO_FORMAT_CONFLICT": "Two different format bodies claim the same format ID.",
    "PBIO_RECURSIVE_FORMAT": "A structure contains itself and nothing says how deep its columns may go.",
    "PBIO_SCHEMA_TOO_LARGE": "A format expands to more columns, or to deeper ones, than any table should have.",
    "PBIO_UNKNOWN_MACHINE": "No machine of that name is known.",
    "PBIO_UNSUPPORTED_TYPE": "A type has no counterpart on the other side.",
    # columns
    "PBIO_AMBIGUOUS_NAME": "A wanted name matches several fields that differ only in case, and none exactly.",
    "PBIO_CANNOT_BE_NULL": "A null, or a field that no column fills, where the format can only hold a value.",
    "PBIO_BAD_PROGRAM": "A filter or transform does not compile for the records that it should run on.",
    "PBIO_REJECTED": "Records of a format reach none of the wanted record types.",
    "PBIO_TRAP": "A filter or transform ended on a record: a division by zero, an index out of range, and so on.",
    "PBIO_VALUE_BEYOND_TYPE": "A value of a record is beyond the type of its column.",
    "PBIO_INCOMPATIBLE_TYPE": "A column's type and its field's have no conversion that keeps every value.",
    "PBIO_UNKNOWN_COLUMN": "A column is not there, or has no field in the format that it is to be written in.",
    # wire
    "PBIO_BAD_ATTRIBUTES": "An attribute list is malformed, does not fit an index block, or has no index to lie in.",
    "PBIO_BAD_INDEX": "An index block, or what was known of a file before it is read, contradicts the file.",
    "PBIO_BAD_ITEM": "The file is damaged between its records; `resync` looks for the place where sound ones go on.",
    "PBIO_BAD_POINTER": "A pointer in a record leads out of it, or its target does not fit into the record.",
    "PBIO_BAD_RECORD": "A record's header contradicts the record or its format.",
    "PBIO_BAD_STRING": "A string in a record has no end, or is not text in the encoding asked for.",
    "PBIO_BAD_VALUE": "A value cannot be stored as the format wants it, or is beyond what a channel may have.",
    "PBIO_CANNOT_APPEND": "Appending with an index to a file without one, or the other way round.",
    "PBIO_NOT_FFS": "The file or folder is not one of FFS files.",
    "PBIO_RECORD_EXPANDS": "A record decodes to more than 16 MB and 64 times its size, by shared pointers or counts.",
    "PBIO_RECORD_TOO_LARGE": "A record has more bytes than can be read at once.",
    "PBIO_TRUNCATED": "The file ends inside an item, or in an index block that is still being written.",
    "PBIO_UNKNOWN_FORMAT": "A record or an option names a format that nothing describes, by its ID or its name.",
    # explore
    "PBIO_MISSING_EXTRA": "Something needs a library that comes with an optional extra of this package.",
    # channels
    "PBIO_BAD_LOG": "A file of a channel space is damaged, missing, contradicts another, or belongs to another space.",
    "PBIO_CANNOT_CREATE": "The file system cannot create a file only if it is new, so it cannot hold a channel space.",
    "PBIO_CHANNEL_EXISTS": "There is a channel of that name already.",
    "PBIO_EVENTS_GONE": "A subscriber was left behind: events that it has not seen are no longer kept.",
    "PBIO_OUT_OF_ORDER": "Events of one producer are published in another order than their sequence numbers say.",
    "PBIO_OTHER_PYTHON": "Spark starts another Python than the one that runs the program.",
    "PBIO_OTHER_BATCH": "A batch has the number of one that is published, and other events.",
    "PBIO_NOT_DELIVERED": "Events are published, but not all who should have them acknowledged them in time.",
    "PBIO_OVERWRITES_ITSELF": "A query overwrites files that it reads itself.",
    "PBIO_NOT_EMPTY": "A folder is to become a channel space or to be overwritten, and holds other files.",
    "PBIO_NO_PERMISSION": "The file system does not let this program read or write there.",
    "PBIO_NO_ROOM": "No room is left for a file: the disk is full, or a quota is used up.",
    "PBIO_OUTCOME_UNKNOWN": "A write failed, and nobody knows whether it was done; the hint says how to do it again.",
    "PBIO_NO_SPACE": "The folder is not a channel space.",
    "PBIO_UNKNOWN_CHANNEL": "There is no channel of that name, or it has been dropped.",
    # source
    "PBIO_BAD_OFFSET": "A position or a stream's offset is not of this source, of another space, or after its end.",
    "PBIO_BAD_PATH": "A path is empty, a root, a home or the working directory, or cannot be a path at all.",
    "PBIO_FILE_SYSTEM": "A file system fails, or cannot be used; the error quotes what it says.",
    "PBIO_BAD_OPTION": "An option has a value that it cannot have.",
    "PBIO_BAD_PARTITIONS": "The `k=v` folders of a path contradict each other, or a value is not of its column's type.",
    "PBIO_CHANNEL_SPACE": "The folder is a channel space; it is read and written by its channels.",
    "PBIO_CHECKSUM": "A file has other bytes than those that its checksum was made of.",
    "PBIO_NAME_COLLISION": "Two columns have the same name, or names that differ only in case.",
    "PBIO_NEW_FORMAT": "A format came that the stream has not met before, and `onNewFormat` is `fail`.",
    "PBIO_NO_PATH": "Nothing says what to read, or where to write.",
    "PBIO_NO_SCHEMA": "Nothing says which columns there are: no schema was given and no format was found.",
    "PBIO_PATH_NOT_FOUND": "There is no such file or folder.",
    "PBIO_ROWS_GONE": "Rows that a stream was about to read are gone: the file was removed, cut off or written over.",
    "PBIO_SEVERAL_FORMATS": "Several formats or record types may be meant, and nothing says which is wanted.",
    "PBIO_UNEXPECTED_NULL": "A column that the user's schema calls NOT NULL has no value in some record.",
    "PBIO_UNFILLED": "A column that no record can fill, a name that matches nothing, or a program that none needs.",
    "PBIO_UNKNOWN_OPTION": "There is no option of that name.",
    "PBIO_USE_A_CHANNEL": "A stream is not written to a plain folder, where a retried batch would be there twice.",
}
"""Every code that an error of this package may have, with one line of meaning. A test finds codes missing here."""


class PbioError(Exception):
    """Anything that goes wrong with PBIO data or with a request for it.

    Attributes:
        code: stable and searchable, one of `CODES`.
        reason: what is wrong, in one sentence.
        file: the path or URL of the file.
        offset: the position in the file (or in the buffer, when there is no file), in bytes.
        format: the name or the hexadecimal ID of the format.
        field: the path of the field, e.g. `$.a[3].b`.
        hint: what to do about it.
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

    def at(
        self,
        *,
        file: str | None = None,
        offset: int | None = None,
        format: str | None = None,  # noqa: A002
        field: str | None = None,
    ) -> Self:
        """Add what an outer layer knows and the inner one did not; what is already known stays.

        >>> print(PbioError("PBIO_BAD_BODY", "no end", offset=3).at(file="a.ffs", offset=99))
        [PBIO_BAD_BODY] no end
          at: a.ffs, offset 3
        """
        self.file = self.file if self.file is not None else file
        self.offset = self.offset if self.offset is not None else offset
        self.format = self.format if self.format is not None else format
        self.field = self.field if self.field is not None else field
        return self

    def __str__(self) -> str:
        place = [
            self.file,
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


def path_to_text(steps: Iterable[str | int]) -> str:
    """The path of a value for people: the names of fields, and the indices of elements.

    >>> path_to_text(("a", 3, "unit price"))
    '$.a[3]["unit price"]'
    """
    return "$" + "".join(map(step_to_text, steps))


def step_to_text(step: str | int) -> str:
    """A step of such a path."""
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if step.isidentifier() else '["' + step.replace('"', '\\"') + '"]'


def _rebuild(cls: type[PbioError], code: str, reason: str, facts: dict[str, Any]) -> PbioError:
    error = cls.__new__(cls, code, reason)
    Exception.__init__(error, code, reason)
    error.__dict__.update(facts)
    return error
