"""`Format`: a record type with its layout, as one sender's machine has it in memory.

>>> fields = (FieldLayout("n", "integer", 4, 0), FieldLayout("v", "float[n]", 8, 8))
>>> format = Format.from_structs([StructLayout("reading", fields, record_length=16, alignment=8)])
>>> print(format)
reading (le64, ID 0200001c64b9caa751129521)
reading: 16 bytes
  +0  n  integer   4
  +8  v  float[n]  8
>>> Format.from_body(format.body) == format
True
"""

from __future__ import annotations

import html
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from ecode.errors import valid_text
from ecode.types import Notes, Record
from pbio_spark.errors import PbioError
from pbio_spark.formats.body.layouts import Layouts, body_to_layouts, layouts_to_body
from pbio_spark.formats.body.layouts_to_record import layouts_to_record, recursive_structs, variant_structs
from pbio_spark.formats.body.lookup3 import format_id, id_length
from pbio_spark.formats.body.opt_info import FormatTransform, opt_info_to_transforms
from pbio_spark.formats.body.registration import register
from pbio_spark.formats.body.struct_layout import FieldLayout, OptInfo, StructLayout
from pbio_spark.formats.machine import ByteOrder, Machine, machine_named

__all__ = ["FieldLayout", "Format", "OptInfo", "StructLayout", "check_format"]

_KEPT = ("body", "id", "name", "base_length", "is_variant", "byte_order", "pointer_size", "body_version")
"""What a pickled format carries: finding and naming its records takes nothing else."""

_PARSED = frozenset({"structs", "float_format", "column_major", "record", "_layouts", "_variant", "_recursive"})
"""What it parses again from its body when it is needed."""


@dataclass(frozen=True, slots=True)
class Format:
    """A record type and its layout. Create one with `of`, `from_body` or `from_structs`, not with the constructor.

    Two formats are equal if they have the same ID and the same body; all else follows from the body.

    Attributes:
        structs: the structures, the top one first.
        byte_order: of the record's numbers and of the body.
        pointer_size: in bytes, 4 or 8.
        float_format: 0 unknown (take the byte order), 1 big-endian, 2 little-endian, 3 mixed (ffs-wire-format 5.6).
        column_major: the first index of an array runs fastest.
        body_version: 0, 1 or 2; decides the record header.
        body: the bytes as they arrived; this package may write an equal format with other bytes.
        id: 8, 10 or 12 bytes.
        record: the record type, with the notes of its opt-info block.
        name: of the top structure, which is the name of the format.
        base_length: of the base record, in bytes.
        is_variant: whether records hold anything beyond their base: strings, pointers, dynamic arrays.

    An unpickled format parses its body when its structures, record type, float format or index order are first needed.
    """

    structs: tuple[StructLayout, ...] = field(compare=False)
    byte_order: ByteOrder = field(compare=False)
    pointer_size: int = field(compare=False)
    float_format: int = field(compare=False)
    column_major: bool = field(compare=False)
    body_version: int = field(compare=False)
    body: bytes = field(repr=False)
    id: bytes
    record: Record = field(compare=False, repr=False)
    _layouts: dict[str, StructLayout] = field(compare=False, repr=False)
    _variant: frozenset[str] = field(compare=False, repr=False)
    _recursive: frozenset[str] = field(compare=False, repr=False)
    name: str = field(compare=False, repr=False)
    base_length: int = field(compare=False, repr=False)
    is_variant: bool = field(compare=False, repr=False)

    @classmethod
    def from_body(cls, body: bytes, id: bytes | None = None) -> Self:  # noqa: A002
        """The format that a body describes; without an ID, the body's own of version 2.

        The ID is only a key: FFS never checks that it belongs to the body, `verify_id` does.

        Raises PBIO_BAD_BODY, PBIO_BAD_LAYOUT, PBIO_BAD_TYPE_STRING, PBIO_BAD_OPT_INFO and PBIO_BAD_ID.
        """
        if id is None:
            id = format_id(body)  # noqa: A001
        elif id_length(id) != len(id):
            raise PbioError(
                "PBIO_BAD_ID", f"the format ID has {len(id)} bytes, but its version byte says {id_length(id)}"
            )
        try:
            layouts = body_to_layouts(body)
            record, variant, recursive = _checked(layouts)
        except PbioError as error:
            raise error.at(format=id.hex()) from None
        top = layouts.structs[0]
        return cls(
            layouts.structs,
            layouts.byte_order,
            layouts.pointer_size,
            layouts.float_format,
            layouts.column_major,
            layouts.version,
            body,
            id,
            record,
            {layout.name: layout for layout in layouts.structs},
            variant,
            recursive,
            top.name,
            top.record_length,
            top.name in variant,
        )

    @staticmethod
    def of(record: Record, machine: str | Machine = "native") -> Format:
        """The format that a C compiler for a machine gives a record type.

        Raises PBIO_UNKNOWN_MACHINE, PBIO_BAD_TYPE, PBIO_BAD_LAYOUT, PBIO_BAD_TYPE_STRING.

        >>> from ecode.types import INT32, Field, record
        >>> Format.of(record("count", [Field("n", INT32)]), "sparc").byte_order
        'big'
        """
        from pbio_spark.formats.layout import record_to_format  # which makes formats

        return record_to_format(record, machine)

    def is_called(self, names: Container[str]) -> bool:
        """Whether the format's name is one of these; a name that is not UTF-8 also matches as messages show it."""
        return self.name in names or valid_text(self.name) in names

    @classmethod
    def from_structs(
        cls,
        structs: Iterable[StructLayout],
        machine: str | Machine = "native",
        *,
        column_major: bool = False,
        body_version: int = 2,
        keep_defaults: bool = False,
    ) -> Self:
        """The format of structures that a program declares, the top one first, as FFS would register it.

        Fields and structures may come in any order; alignments are computed (`registration`). A default value in a
        name, `n(5)`, is removed unless `keep_defaults` says that it belongs to the name.

        Raises PBIO_UNKNOWN_MACHINE, PBIO_BAD_LAYOUT and whatever `from_body` raises.
        """
        target = machine_named(machine)
        return cls.from_body(
            layouts_to_body(
                Layouts(
                    register(structs, target, keep_defaults),
                    target.byte_order,
                    target.pointer_size,
                    target.float_format,
                    column_major,
                    body_version,
                )
            )
        )

    def verify_id(self) -> None:
        """Raise PBIO_BAD_ID if the ID is of the computed kind and does not belong to the body."""
        if len(self.id) == 12 and self.id != format_id(self.body):
            raise PbioError(
                "PBIO_BAD_ID",
                f"the body belongs to the ID {format_id(self.body).hex()}",
                format=self.id.hex(),
                hint="the format store or the file is damaged or was tampered with",
            )

    @property
    def layouts(self) -> Layouts:
        """The content of the body: the input of `layouts_to_body`."""
        return Layouts(
            self.structs,
            self.byte_order,
            self.pointer_size,
            self.float_format,
            self.column_major,
            self.body_version,
        )

    def struct(self, name: str) -> StructLayout:
        """The layout of the structure of that name; KeyError if it is missing."""
        return self._layouts[name]

    def is_variant_struct(self, name: str) -> bool:
        """Whether one structure of the format holds anything beyond its base."""
        return name in self._variant

    def is_recursive(self, name: str) -> bool:
        """Whether the structure can reach itself, or a structure that can: pointers may then share targets (7.5)."""
        return name in self._recursive

    @property
    def header_size(self) -> int:
        """Bytes before the base record: ID, for variant formats the record length, padding (ffs-wire-format 7.1)."""
        size = len(self.id)
        if self.is_variant:
            size = size + 8 if self.body_version == 2 else -(-size // 4) * 4 + 4
        return -(-size // 8) * 8

    @property
    def machine(self) -> str:
        """Byte order and pointer size in short: `le64`, `be64`, `le32`, `be32`."""
        return f"{self.byte_order[0]}e{8 * self.pointer_size}"

    @property
    def transforms(self) -> tuple[FormatTransform, ...]:
        """The transforms to older formats that the format carries. Raises PBIO_BAD_OPT_INFO, PBIO_BAD_ID."""
        return opt_info_to_transforms(self.structs[0].opt_info)

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.machine}, ID {self.id.hex()})"]
        for layout, struct in zip(self.structs, self.record.structs, strict=True):
            lines.append(f"{layout.name}: {layout.record_length} bytes")
            lines += _columns(
                [f"+{place.offset}", place.name, place.type, str(place.size), _notes(f.notes)]
                for place, f in zip(layout.fields, struct.fields, strict=True)
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        tables = [f"<b>{html.escape(self.name)}</b> ({self.machine}, ID <code>{self.id.hex()}</code>)"]
        for layout, struct in zip(self.structs, self.record.structs, strict=True):
            rows = "".join(
                _row("td", place.offset, place.name, place.type, place.size, _notes(f.notes))
                for place, f in zip(layout.fields, struct.fields, strict=True)
            )
            caption = f"<caption>{html.escape(layout.name)}: {layout.record_length} bytes</caption>"
            tables.append(f"<table>{caption}{_row('th', 'offset', 'field', 'type', 'size', 'notes')}{rows}</table>")
        return "".join(tables)

    def __reduce__(self) -> tuple[Callable[..., Format], tuple[Any, ...]]:
        return _unpickled, tuple(getattr(self, name) for name in _KEPT)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What an unpickled format has not parsed yet."""
            if name not in _PARSED:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            parsed = Format.from_body(self.body, self.id)
            for part in _PARSED:
                object.__setattr__(self, part, getattr(parsed, part))
            return getattr(self, name)


def without_name(layouts: Layouts) -> Layouts | None:
    """The layouts with an empty name for the top structure; None if a type or another structure may refer to its name.

    Formats that differ only in their names, as those of many channels do, have the same. A name that is part of any
    type's, as `in` is of `integer`, counts as one that a type may refer to.
    """
    top, *others = layouts.structs
    types = (field.type for struct in layouts.structs for field in struct.fields)
    if any(top.name in text for text in types) or any(other.name in ("", top.name) for other in others):
        return None
    return replace(layouts, structs=(replace(top, name=""), *others))


def _checked(layouts: Layouts) -> tuple[Record, frozenset[str], frozenset[str]]:
    """The record type of layouts, and the names of its variant and its recursive structures. Raises what
    `layouts_to_record` raises."""
    nameless = without_name(layouts)
    if nameless is None or sum(len(struct.fields) for struct in layouts.structs) > _REMEMBERED:
        return _check(layouts)
    try:
        record, *sets = _checked_nameless(nameless)
    except PbioError:
        return _check(layouts)  # with the name in the message
    name, (top, *others) = layouts.structs[0].name, record.structs
    variant, recursive = (frozenset(one or name for one in names) for names in sets)
    return Record((replace(top, name=name), *others)), variant, recursive


def _check(layouts: Layouts) -> tuple[Record, frozenset[str], frozenset[str]]:
    record = layouts_to_record(layouts)
    return record, variant_structs(record), recursive_structs(record)


_checked_nameless = lru_cache(maxsize=64)(_check)
"""Few are kept: what a program meets by the thousand differs in its names."""

_REMEMBERED = 1000
"""The most fields of a format that is kept: a body has up to 16 MB."""


def _unpickled(*kept: Any) -> Format:
    form = object.__new__(Format)
    for name, value in zip(_KEPT, kept, strict=True):
        object.__setattr__(form, name, value)
    return form


def _notes(notes: Notes) -> str:
    parts = [
        notes.logical,
        " ".join(f"{symbol}={value}" for symbol, value in notes.symbols),
        notes.units,
        notes.accuracy and f"±{notes.accuracy}",
        None if notes.default is None else f"default {notes.default!r}",
        None if notes.weight is None else f"weight {notes.weight:g}",
        "hidden" if notes.hidden else None,
        None if notes.null_bit is None else f"null by bit {notes.null_bit}",
        None if notes.null_items is None else f"elements null by {notes.null_items}",
    ]
    return ", ".join(text for text in parts if text)


def _columns(rows: Iterable[list[str]]) -> list[str]:
    """Lines of text with aligned parts."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        ("  " + "  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True))).rstrip() for row in table
    ]


def _row(tag: str, *cells: object) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"


def check_format(given: object) -> None:
    """Raises PBIO_BAD_TYPE if a caller has given something else for a format, such as a record type."""
    if not isinstance(given, Format):
        hint = "read_formats(path) gives those of a file, Format.of(record) makes one"
        raise PbioError(
            "PBIO_BAD_TYPE", f"expected a Format, not {type(given).__name__}: {str(given)[:80]!r}", hint=hint
        )
