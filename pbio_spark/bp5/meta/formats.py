"""mmd.0 -> the formats of metadata blocks, each taken apart once: which variable is where in a block's fixed part."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pbio_spark.bp5.meta.variables import NUMBERS, STRING, Variable, field_to_variable
from pbio_spark.bp5.trouble import VERIFY, bad
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format, StructLayout

NAME = "mmd.0"
HEAD = 24
"""Bytes before the record in an encoded block: format ID, length, padding."""

_LONGEST_ID = 64
_BOOKKEEPING = ("BitFieldCount", "BitField", "DataBlockSize")
_ARRAY = ("Dims", "BlockCount", "DBCount", "Shape", "Count", "Offset", "DataBlockLocation")


@dataclass(frozen=True, slots=True)
class Slot:
    """A number or a pointer at an offset of a block's fixed part; `type` is numpy's name with the byte order."""

    offset: int
    type: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A pointer to many numbers: where it is, and what it points to."""

    pointer: Slot
    type: str


@dataclass(frozen=True, slots=True)
class ArrayRecord:
    """The places of the parts of an array's description."""

    numbers: dict[str, Slot]
    lists: dict[str, Listed]
    has_operator: bool


@dataclass(frozen=True, slots=True)
class VariablePlace:
    """A variable in a format: its number among the presence bits, and where it is. Strings have a pointer there."""

    variable: Variable
    bit: int
    value: Slot | None = None
    array: ArrayRecord | None = None


class MetadataFormat:
    """A format of metadata blocks.

    Attributes:
        order: of all its numbers, `<` or `>`.
        record_length: of the fixed part.
        bit_count, bits: where the presence bits are.
        places: the variables by name.
        refused: by field name, why a field is not a variable that can be read.
    """

    def __init__(self, form: Format, file: str) -> None:
        top = form.structs[0]
        if top.name != "MetaData" or tuple(f.name for f in top.fields[:3]) != _BOOKKEEPING:
            raise bad(f"the format {form.id.hex()} is not one of metadata", file=file)
        self.form = form
        self.order = ">" if form.byte_order == "big" else "<"
        self.pointer = f"{self.order}u{form.pointer_size}"
        self.record_length = top.record_length
        count, bits = top.fields[:2]
        try:
            self.bit_count = self._slot(count.offset, self._integer("i", count.size))
            self.bits = Listed(self._slot(bits.offset, self.pointer), self._integer("u", bits.size))
        except PbioError as error:
            raise error.at(file=file) from None
        self.places: dict[str, VariablePlace] = {}
        self.refused: dict[str, PbioError] = {}
        for bit, field in enumerate(top.fields[3:]):
            try:
                variable = field_to_variable(field.name, field.type, field.size)
                self.places[variable.name] = self._place(variable, bit, field.offset, field.type)
            except PbioError as error:
                self.refused[field.name] = error.at(file=file)

    def _integer(self, kind: str, size: int) -> str:
        """numpy's name of an integer. Raises PBIO_BAD_BP5."""
        if size not in (1, 2, 4, 8):
            raise PbioError("PBIO_BAD_BP5", f"a count of the format {self.form.id.hex()} has {size} bytes", hint=VERIFY)
        return f"{self.order}{kind}{size}"

    def _slot(self, offset: int, type_: str) -> Slot:
        """A slot inside the fixed part. Raises PBIO_BAD_BP5 for one that is not."""
        if offset + np.dtype(type_).itemsize > self.record_length:
            reason = f"a field of the format {self.form.id.hex()} is beyond its records"
            raise PbioError("PBIO_BAD_BP5", reason, hint=VERIFY)
        return Slot(offset, type_)

    def _place(self, variable: Variable, bit: int, offset: int, ffs_type: str) -> VariablePlace:
        if variable.name in self.places:
            raise PbioError("PBIO_BAD_BP5", "two fields carry the same variable", field=variable.name, hint=VERIFY)
        if not variable.is_array:
            kind = self.pointer if variable.type == STRING else self.order + NUMBERS[variable.type]
            return VariablePlace(variable, bit, self._slot(offset, kind.replace("<V", "V").replace(">V", "V")))
        try:
            layout = self.form.struct(ffs_type)
        except KeyError:
            reason = f"an array has the type {ffs_type!r}, which is not a structure"
            raise PbioError("PBIO_BAD_BP5", reason, field=variable.name, hint=VERIFY) from None
        return VariablePlace(variable, bit, array=self._array(layout, offset, variable))

    def _array(self, layout: StructLayout, at: int, variable: Variable) -> ArrayRecord:
        fields = {field.name: field for field in layout.fields}
        missing = [name for name in _ARRAY if name not in fields]
        if missing:
            reason = f"a description of arrays lacks {', '.join(missing)}"
            raise PbioError("PBIO_BAD_BP5", reason, field=variable.name, hint=VERIFY)
        numbers = {n: self._slot(at + fields[n].offset, self._integer("i", fields[n].size)) for n in _ARRAY[:3]}
        lists = {}
        for name in (*_ARRAY[3:], "DataBlockSize", "MinMax"):
            if name in fields:
                field = fields[name]
                is_own = name == "MinMax"
                type_ = self.order + NUMBERS.get(variable.type, "V") if is_own else self._integer("i", field.size)
                lists[name] = Listed(self._slot(at + field.offset, self.pointer), type_)
        return ArrayRecord(numbers, lists, "DataBlockSize" in fields)


@dataclass
class Formats:
    """The formats in mmd.0. They are parsed when a step first needs them.

    Attributes:
        file: the path of mmd.0.
        bodies: by ID.
        damage: why reading mmd.0 stopped; None if it ends with a whole description.
    """

    file: str
    bodies: dict[bytes, bytes]
    conflicts: frozenset[bytes] = frozenset()
    damage: PbioError | None = None

    def __post_init__(self) -> None:
        self._known: dict[bytes, Format] = {}
        self._metadata: dict[bytes, MetadataFormat] = {}

    def get(self, id_: bytes) -> Format:
        """The format of an ID, which is the hash of its description: one that is damaged belongs to another ID.

        Raises PBIO_UNKNOWN_FORMAT, PBIO_FORMAT_CONFLICT, PBIO_BAD_ID, and what `Format.from_body` raises.
        """
        if id_ in self._known:
            return self._known[id_]
        if id_ in self.conflicts:
            raise PbioError("PBIO_FORMAT_CONFLICT", f"two formats have the ID {id_.hex()}", file=self.file, hint=VERIFY)
        if id_ not in self.bodies:
            cut = "" if self.damage is None else f", which is damaged: {self.damage.reason}"
            reason = f"mmd.0 has no format {id_.hex()}{cut}"
            raise PbioError("PBIO_UNKNOWN_FORMAT", reason, file=self.file, hint=VERIFY)
        try:
            form = Format.from_body(self.bodies[id_], id_)
            form.verify_id()
        except PbioError as error:
            raise error.at(file=self.file) from None
        self._known[id_] = form
        return form

    def metadata(self, id_: bytes) -> MetadataFormat:
        """The format of metadata blocks with an ID. Raises PBIO_BAD_BP5 if it is not one."""
        if id_ not in self._metadata:
            self._metadata[id_] = MetadataFormat(self.get(id_), self.file)
        return self._metadata[id_]

    @cached_property
    def all_metadata(self) -> tuple[MetadataFormat, ...]:
        """Every format of metadata blocks that is sound."""
        found = []
        for id_ in self.bodies:
            try:
                found.append(self.metadata(id_))
            except PbioError:
                continue  # of attributes or structures, or damaged: a step that uses it says so
        return tuple(found)

    @cached_property
    def variables(self) -> dict[str, list[Variable]]:
        """By name, the different forms of a variable, in the order of the formats."""
        found: dict[str, list[Variable]] = {}
        for form in self.all_metadata:
            for name, place in form.places.items():
                known = found.setdefault(name, [])
                if place.variable not in known:
                    known.append(place.variable)
        return found

    def __getstate__(self) -> dict[str, object]:
        state = dict(self.__dict__)
        for name in ("all_metadata", "variables"):
            state.pop(name, None)
        return {**state, "_known": {}, "_metadata": {}}


def parse_formats(data: bytes, order: str, file: str) -> Formats:
    """The descriptions in mmd.0, up to the first damage."""
    bodies: dict[bytes, bytes] = {}
    conflicts: set[bytes] = set()
    at = 0
    while at < len(data):
        if len(data) - at < 16:
            return Formats(
                file, bodies, frozenset(conflicts), bad("a format record is truncated", file=file, offset=at)
            )
        id_length, length = struct.unpack_from(f"{order}QQ", data, at)
        start = at + 16
        if id_length > _LONGEST_ID or start + id_length + length > len(data):
            reason = "a format record is truncated" if id_length <= _LONGEST_ID else f"an ID has {id_length} bytes"
            return Formats(file, bodies, frozenset(conflicts), bad(reason, file=file, offset=at))
        id_ = data[start : start + id_length]
        body = _without_padding(data[start + id_length : start + id_length + length])
        if bodies.setdefault(id_, body) != body:
            conflicts.add(id_)
        at = start + id_length + length
    return Formats(file, bodies, frozenset(conflicts))


def _without_padding(description: bytes) -> bytes:
    """The body proper: descriptions are padded to whole words."""
    if len(description) < 8:
        return description
    (low,), (high,) = struct.unpack_from(">H", description), struct.unpack_from(">H", description, 6)
    length = low | high << 16
    return description[:length] if len(description) - 8 < length <= len(description) else description
