"""Record bytes -> values (ffs-wire-format 7), in plain Python: the oracle that compiled decoders must agree with.

It trusts nothing in a record before it checks it. If one rule refuses a record, the whole record is refused, and the
error names the field, the place and the reason; compiled decoders call `decode` for the text of their errors.
"""

from __future__ import annotations

from math import prod
from operator import itemgetter
from typing import Any, NoReturn, TypeAlias

from ecode.types import Array, Basic, Kind, Pointer, Ref, Type
from pbio_spark.errors import PbioError, path_to_text
from pbio_spark.formats import Format, check_format
from pbio_spark.wire.header import check_header
from pbio_spark.wire.images import Images, Path, StructImage, Value, align, images_of, steps_of

EXPANSION_LIMIT = 64
"""A record may decode to this multiple of its length, if that is more than `EXPANSION_ROOM`."""
EXPANSION_ROOM = 16 << 20
"""The bytes that any record may decode to. Pointers of non-recursive structures are followed each time they occur, so a
few bytes can describe a huge tree; but honest records share too, such as a hub that hundreds of nodes point to."""
VALUE_COST = 32
"""The bytes that each structure and array counts beside its content, because it costs memory itself."""

_ENCODING = "name the encoding of strings: the option encoding, or text= of decode, where None keeps the bytes"


def room_of(length: int) -> int:
    """The bytes that a record of a length may decode to. The compiled decoders use the same rule."""
    return max(EXPANSION_ROOM, EXPANSION_LIMIT * length)


Holder: TypeAlias = "list[Value] | dict[str, Value]"


def decode(
    format: Format,  # noqa: A002 - the project's word for the thing
    record: bytes,
    *,
    text: str | None = "utf-8",
    strict: bool = True,
    empty: bool = False,
    file: str | None = None,
    offset: int = 0,
) -> dict[str, Value]:
    """The values of one encoded record with its header.

    Structures become dicts in field order, arrays nested lists with logical indices, NULL of any kind None (also a
    pointer to a NULL pointer, and an empty dynamic array that cannot be null in another way). A `char` is 0..255, a
    `boolean` is true if not 0, a float of 16 bytes is its bytes. In recursive structures a target that several pointers
    share is one Python object, and cycles are cycles. A value that another field marks as null is
    None, and the other field is omitted.

    Args:
        text: the encoding of strings; None keeps them as bytes.
        strict: whether a string that is not in that encoding is an error; otherwise it stays bytes.
        empty: whether an array without elements is an empty list, as in tables, and never None, as in C.
        file, offset: the place of the record, for errors.

    Raises:
        PbioError: PBIO_BAD_TYPE (not a format, or not bytes), PBIO_BAD_RECORD (header), PBIO_BAD_POINTER (a target
            outside the record), PBIO_BAD_STRING (no NUL, or not text), PBIO_RECORD_EXPANDS (shared targets beyond what
            `room_of` allows). `error.field` is the field's path, `error.offset` the place in the file, or in `record`
            where `offset` is not given.
    """
    check_format(format)
    if not isinstance(record, bytes | bytearray | memoryview):
        raise PbioError(
            "PBIO_BAD_TYPE",
            f"expected the bytes of a record, not {type(record).__name__}",
            hint="give bytes, a bytearray or a memoryview",
        )
    record = bytes(record)
    try:
        start = check_header(format, record)
        return _Decoder(images_of(format), bytes(record[start:]), start, text, strict, empty).decode()
    except PbioError as error:
        if error.offset is not None:
            error.offset += offset
        raise error.at(file=file, format=format.name) from None


class _Decoder:
    """One record being decoded. Offsets count from the base record, as they do in the bytes (7.3)."""

    def __init__(self, images: Images, data: bytes, start: int, text: str | None, strict: bool, empty: bool) -> None:
        self.images = images
        self.data = data
        self.start = start
        self.text = text
        self.strict = strict
        self.empty = empty
        self.variant_part = align(images.top.length)
        self.room = room_of(len(data))
        self.met: dict[tuple[int, Type, tuple[int, ...]], Value] = {}
        # The values still to be filled in, the next at the end: where the value goes, its type and position, and the
        # structure that its field belongs to. An explicit stack, since lists may have any number of nodes.
        self.todo: list[tuple[Holder, Any, Type, int, StructImage, int, Path]] = []
        # Structures with arrays whose null elements another array marks, and those marks.
        self.marked: list[tuple[StructImage, dict[str, Value], dict[str, Value]]] = []

    def decode(self) -> dict[str, Value]:
        values = self.struct(self.images.top, 0, None)
        while self.todo:
            holder, key, type_, at, owner, base, path = self.todo.pop()
            holder[key] = self.value(type_, at, owner, base, path)
        for image, found, said in self.marked:
            for name, marks in image.null_items.items():
                found[name] = without_marked(found[name], said[marks])
        return values

    def value(self, type_: Type, at: int, owner: StructImage, base: int, path: Path) -> Value:
        """The value at `at`, of a field of the structure `owner` at `base`; its parts may follow later."""
        cost = 0
        extents: list[int] = []
        while isinstance(type_, Pointer):
            type_ = type_.target
            size = self.images.size(type_)
            if not (at := self.follow(at, size, path)):
                return None
            cost += size
        if isinstance(type_, Array):
            extents = self.images.extents(type_.dims, owner, self.data, base)
            if type_.is_dynamic:
                size = prod(extents) * self.images.size(type_.element)
                if not size:
                    self.charge(VALUE_COST * empty_lists(extents), at, path)
                if not (at := self.follow(at, size, path)):
                    # The target of a pointer, or an array with marks for null, is an array without elements.
                    is_there = self.empty or cost or (path is not None and path[1] in owner.null_bits)
                    return nest([], extents) if is_there and not size else None
                cost += size
        key = at, type_, tuple(extents)
        if cost and owner.shares and key in self.met:
            return self.met[key]
        self.charge(cost, at, path)
        result: Value
        match type_:
            case Array():
                result = self.array(type_.element, extents, at, owner, base, path)
            case Ref(name):
                result = self.struct(self.images.struct(name), at, path)
            case Basic(Kind.STRING):
                result = self.string(at, path)
            case Basic():
                (result,) = self.images.read_numbers(type_, self.data, at, 1)
            case Pointer():
                raise AssertionError("followed above")
        if cost and owner.shares:
            self.met[key] = result
        return result

    def struct(self, image: StructImage, at: int, path: Path) -> dict[str, Value]:
        self.charge(VALUE_COST, at, path)
        values: dict[str, Value] = dict.fromkeys(f.name for f in image.fields if f.name not in image.unseen)
        # Null values must be sound too, because columns are checked as a whole; and so must their marks.
        aside: dict[str, Value] = {}
        if image.null_items:
            self.marked.append((image, values, aside))
        for field in reversed(image.fields):
            byte, bit = image.null_bits.get(field.name, (0, 0))
            if field.name in image.unseen or self.data[at + byte] & bit:
                self.todo.append((aside, field.name, field.type, at + field.offset, image, at, (path, field.name)))
            elif isinstance(field.type, Basic) and field.type.kind is not Kind.STRING:
                (values[field.name],) = self.images.read_numbers(field.type, self.data, at + field.offset, 1)
            else:
                self.todo.append((values, field.name, field.type, at + field.offset, image, at, (path, field.name)))
        return values

    def array(
        self, element: Type, extents: list[int], at: int, owner: StructImage, base: int, path: Path
    ) -> list[Value]:
        self.charge(VALUE_COST, at, path)
        *outer, last = extents
        order = self.images.memory_order(extents)
        if isinstance(element, Basic) and element.kind is not Kind.STRING:
            numbers = self.images.read_numbers(element, self.data, at, prod(extents))
            if order is not None:
                numbers = [number for _, number in sorted(zip(order, numbers, strict=True), key=itemgetter(0))]
            return nest(numbers, extents)
        rows: list[list[Value]] = [[None] * last for _ in range(prod(outer))]
        size = self.images.size(element)
        for place in reversed(range(prod(extents))):
            rank = place if order is None else order[place]
            there = path_to_element(path, rank, extents)
            self.todo.append((rows[rank // last], rank % last, element, at + place * size, owner, base, there))
        return nest([*rows], outer) if outer else rows[0]

    def string(self, slot: int, path: Path) -> Value:
        at = self.follow(slot, 1, path)
        if at == 0:
            return None
        end = self.data.find(0, at)
        if end < 0:
            self.fail("PBIO_BAD_STRING", f"the string at offset {at} of the record has no NUL at its end", slot, path)
        self.charge(end + 1 - at, slot, path)
        characters = self.data[at:end]
        if self.text is None:
            return characters
        try:
            return characters.decode(self.text)
        except UnicodeDecodeError as error:
            if not self.strict:
                return characters
            reason = f"the string is not {self.text}: {error.reason}"
            self.fail("PBIO_BAD_STRING", reason, at + error.start, path, _ENCODING)

    def follow(self, slot: int, size: int, path: Path) -> int:
        """The target of the pointer at `slot`: `size` bytes inside the record; 0 is NULL."""
        at = self.images.pointer(self.data, slot)
        end = len(self.data)
        if at and not self.variant_part <= at < end:
            reason = (
                f"the pointer leads to offset {at} of the record, outside its variant part {self.variant_part} to {end}"
            )
            self.fail("PBIO_BAD_POINTER", reason, slot, path)
        if at and at + size > end:
            reason = f"the target takes {size} bytes at offset {at} of the record, which ends at {end}"
            self.fail("PBIO_BAD_POINTER", reason, slot, path)
        return at

    def charge(self, cost: int, at: int, path: Path) -> None:
        """Counts `cost` bytes as decoded."""
        self.room -= cost
        if self.room < 0:
            self.fail(
                "PBIO_RECORD_EXPANDS",
                f"the record's {len(self.data)} bytes decode to more than {room_of(len(self.data))}",
                at,
                path,
            )

    def fail(self, code: str, reason: str, at: int, path: Path, hint: str | None = None) -> NoReturn:
        raise PbioError(code, reason, offset=self.start + at, field=path_to_text(steps_of(path)), hint=hint)


def without_marked(value: Value, marks: Value) -> Value:
    """Nested lists with None where the mark of an element is not 0."""
    if isinstance(value, list) and isinstance(marks, list):
        return [without_marked(part, mark) for part, mark in zip(value, marks, strict=True)]
    return None if marks else value


def nest(flat: list[Value], extents: list[int]) -> list[Value]:
    """Nested lists from elements in order, the last index fastest.

    >>> nest([1, 2, 3, 4, 5, 6], [2, 3])
    [[1, 2, 3], [4, 5, 6]]
    """
    for level in reversed(range(1, len(extents))):
        extent = extents[level]
        flat = [flat[i * extent : (i + 1) * extent] for i in range(prod(extents[:level]))]
    return flat


def empty_lists(extents: list[int]) -> int:
    """The number of inner lists in an array without elements.

    >>> [empty_lists(extents) for extents in ([0], [0, 3], [3, 0], [3, 2, 0], [3, 0, 2])]
    [0, 0, 3, 6, 3]
    """
    return 0 if not extents[0] else prod(extents[: extents.index(0)])


def path_to_element(path: Path, rank: int, extents: list[int]) -> Path:
    """The path to element `rank` of an array, in the order in which the last index runs fastest."""
    indices: list[int] = []
    for extent in reversed(extents):
        rank, index = divmod(rank, extent)
        indices.append(index)
    for index in reversed(indices):
        path = path, index
    return path
