"""Values -> record bytes (ffs-wire-format 7), in plain Python: the inverse of `decode`, byte for byte as FFS writes."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any, NoReturn

from ecode.suggest import did_you_mean
from ecode.types import Array, Basic, Kind, Pointer, Ref, Type
from pbio_spark.errors import PbioError, path_to_text
from pbio_spark.formats import Format, check_format
from pbio_spark.wire.decode import path_to_element
from pbio_spark.wire.header import header_to_bytes
from pbio_spark.wire.images import Images, Path, StructImage, Value, align, images_of, kind_of, steps_of


def encode(format: Format, values: dict[str, Value], *, text: str = "utf-8") -> bytes:  # noqa: A002
    """One encoded record with its header, from values as `decode` returns them.

    Every field must be present, except control fields, which arrays imply. An array must have the extents that its
    control fields give, or be None. In recursive structures a dict or list object that appears again is written once
    (7.5). Strings may be bytes.

    Raises:
        PbioError: PBIO_BAD_TYPE for what is not a format; PBIO_BAD_VALUE with the field's path: a field is missing,
            unknown, of the wrong type or out of range, an array has other extents, a string contains a NUL, or a
            pointer leads to the record itself, which cannot be encoded.

    >>> from ecode.types import INT32, STRING, Field, record
    >>> from pbio_spark.formats.layout import record_to_format
    >>> from pbio_spark.wire import decode
    >>> reading = record_to_format(record("reading", [Field("n", INT32), Field("unit", STRING)]), "be32")
    >>> encode(reading, {"n": 7, "unit": "kPa"})[reading.header_size :].hex(" ", 4)
    '00000007 00000008 6b506100'
    >>> decode(reading, encode(reading, {"n": 7, "unit": None}))
    {'n': 7, 'unit': None}
    """
    check_format(format)
    try:
        data = _Encoder(images_of(format), text).encode(values, format.is_variant)
        return header_to_bytes(format, len(data)) + data
    except PbioError as error:
        raise error.at(format=format.name) from None


_AS_STORED = "give what is stored, such as microseconds; open_writer and PbioSerializer take values as tables show them"


class _Encoder:
    """One record being encoded."""

    def __init__(self, images: Images, text: str) -> None:
        self.images = images
        self.text = text
        self.out = bytearray()
        self.kept: list[dict[str, Value]] = []
        self.written: dict[tuple[int, Type, tuple[int, ...]], int] = {}
        # Values still to be written into reserved space, the next at the end. Taking them from the end gives the order
        # of 7.4: each target at once, depth first.
        self.todo: list[tuple[Type, int, Value, StructImage, int, Path]] = []

    def encode(self, values: dict[str, Value], is_variant: bool) -> bytes:
        top = self.images.top
        self.out = bytearray(align(top.length) if is_variant else top.length)
        self.written[id(values), Ref(top.name), ()] = 0
        self.struct(top, 0, values, None)
        while self.todo:
            self.value(*self.todo.pop())
        return bytes(self.out)

    def value(self, type_: Type, at: int, value: Value, owner: StructImage, base: int, path: Path) -> None:
        """Writes a value of a field of the structure `owner` at `base` into its place at `at`."""
        while isinstance(type_, Pointer):
            type_ = type_.target
            if value is None or not (at := self.target(at, type_, [], self.images.size(type_), value, owner, path)):
                return
        extents: list[int] = []
        leaves: list[Value] = []
        if isinstance(type_, Array):
            if value is None and type_.is_dynamic:
                return
            extents = self.images.extents(type_.dims, owner, self.out, base)
            leaves = flatten(value, extents, path)
            if type_.is_dynamic:
                size = len(leaves) * self.images.size(type_.element)
                if not size or not (at := self.target(at, type_, extents, size, value, owner, path)):
                    return
        match type_:
            case Array(element, _):
                self.array(element, at, leaves, extents, owner, base, path)
            case Ref(name):
                self.struct(self.images.struct(name), at, value, path)
            case Basic(Kind.STRING):
                self.string(at, value, path)
            case Basic():
                self.number(type_, at, value, path)

    def struct(self, image: StructImage, at: int, value: Value, path: Path) -> None:
        if not isinstance(value, dict):
            fail(f"{kind_of(value)} cannot be stored as structure {image.name}", path)
        if not image.counts.keys() <= value.keys():
            value = {name: _extent(value.get(array), depth) for name, (array, depth) in image.counts.items()} | value
            self.kept.append(value)  # keep the object alive: its id must not be reused
        seen = [field for field in image.fields if field.name not in image.unseen]
        if len(value) != len(seen) or any(field.name not in value for field in seen):
            names = [field.name for field in seen]
            missing = [name for name in names if name not in value]
            unknown = [name for name in value if name not in names]
            hint = did_you_mean(str(unknown[0]), names) if unknown else None
            fail(_differences(missing, unknown), path, hint)
        value = {**value, **self.said_null(image, at, value, path)} if image.unseen else value
        for field in reversed(image.fields):
            inner = value.get(field.name)
            if inner is None and (field.name in image.unseen or field.name in image.null_bits):
                continue
            if isinstance(field.type, Basic) and field.type.kind is not Kind.STRING:
                self.number(field.type, at + field.offset, inner, (path, field.name))
            else:
                self.todo.append((field.type, at + field.offset, inner, image, at, (path, field.name)))

    def said_null(self, image: StructImage, at: int, value: dict[str, Value], path: Path) -> dict[str, Value]:
        """Sets the bits of null fields. Gives arrays with zeros for nulls, and the marks of these nulls."""
        for name, (byte, bit) in image.null_bits.items():
            if value[name] is None:
                self.out[at + byte] |= bit
        made: dict[str, Value] = {}
        for name, marks in image.null_items.items():
            type_, levels = image.field(name).type, image.field(marks).type
            assert isinstance(type_, Array)
            assert isinstance(levels, Array)
            zero: Value = [0] * 16 if len(type_.dims) > len(levels.dims) else _zero(type_.element)
            filled, said = split_nulls(value[name], len(levels.dims), zero)
            if said is not None:
                made |= {name: filled, marks: said}
        self.kept.append(made)  # keep the object alive: its id must not be reused
        return made

    def array(
        self,
        element: Type,
        at: int,
        leaves: list[Value],
        extents: list[int],
        owner: StructImage,
        base: int,
        path: Path,
    ) -> None:
        size = self.images.size(element)
        order = self.images.memory_order(extents)
        for place in reversed(range(len(leaves))):
            rank = place if order is None else order[place]
            there = path_to_element(path, rank, extents)
            if isinstance(element, Basic) and element.kind is not Kind.STRING:
                self.number(element, at + place * size, leaves[rank], there)
            else:
                self.todo.append((element, at + place * size, leaves[rank], owner, base, there))

    def number(self, type_: Basic, at: int, value: Value, path: Path) -> None:
        try:
            self.out[at : at + type_.size] = self.images.number_to_bytes(type_, value)
        except ValueError as error:
            of_numpy: Any = value
            own = of_numpy.item() if getattr(value, "shape", None) == () else value
            if type(own) is not type(value):
                self.number(type_, at, own, path)
                return
            is_meant = isinstance(value, date | Decimal)
            fail(str(error), path, _AS_STORED if is_meant else None)

    def string(self, slot: int, value: Value, path: Path) -> None:
        if value is None:
            return
        if not isinstance(value, str | bytes):
            fail(f"{kind_of(value)} cannot be stored as string", path)
        try:
            characters = value.encode(self.text) if isinstance(value, str) else value
        except UnicodeEncodeError as error:
            fail(f"the string cannot be encoded in {self.text}: {error.reason}", path)
        if 0 in characters:
            fail("a string cannot contain a NUL", path)
        self.point(slot, len(self.out), path)
        self.out += characters + b"\0"

    def target(
        self, slot: int, type_: Type, extents: list[int], size: int, value: Value, owner: StructImage, path: Path
    ) -> int:
        """Makes room for the target of the pointer at `slot`; 0 if it is shared and already written."""
        key = id(value), type_, tuple(extents)
        shares = owner.shares and isinstance(value, dict | list)
        if shares and key in self.written:
            if not (at := self.written[key]):
                fail("a pointer to the record itself has no encoding", path, "wrap the record in an outer structure")
            self.point(slot, at, path)
            return 0
        self.out += bytes(-len(self.out) % 8)
        at = len(self.out)
        self.point(slot, at, path)
        self.out += bytes(size)
        if shares:
            self.written[key] = at
        return at

    def point(self, slot: int, at: int, path: Path) -> None:
        size = self.images.pointer_size
        if at >> 8 * size:
            fail(f"the record is too long for pointers of {size} bytes", path)
        self.out[slot : slot + size] = at.to_bytes(size, self.images.byte_order)


def _extent(value: Value, depth: int) -> int:
    """How many elements nested lists have at a depth, by the first ones."""
    for _ in range(depth):
        value = value[0] if isinstance(value, list) and value else None
    return len(value) if isinstance(value, list) else 0


def _differences(missing: list[str], unknown: list[str]) -> str:
    said = [f"has no {', '.join(map(repr, missing))}"] if missing else []
    said += [f"has {', '.join(map(repr, unknown))}, which is not a field of it"] if unknown else []
    return f"the structure {' and '.join(said)}"


def split_nulls(value: Value, depth: int, zero: Value) -> tuple[Value, Value]:
    """Nested lists with `zero` for each None, and lists with 1 in these places and 0 elsewhere; None without nulls.

    >>> split_nulls([[1, None], [2, 3]], 2, 0)
    ([[1, 0], [2, 3]], [[0, 1], [0, 0]])
    """
    marks = _marks(value, depth)
    return (value, None) if not _holds_mark(marks) else (_filled(value, depth, zero), marks)


def _zero(type_: Type) -> Value:
    return False if isinstance(type_, Basic) and type_.kind is Kind.BOOLEAN else 0


def _marks(value: Value, depth: int) -> Value:
    if depth and isinstance(value, list):
        return [_marks(part, depth - 1) for part in value]
    return int(value is None and not depth)


def _holds_mark(marks: Value) -> bool:
    return any(map(_holds_mark, marks)) if isinstance(marks, list) else bool(marks)


def _filled(value: Value, depth: int, zero: Value) -> Value:
    if depth and isinstance(value, list):
        return [_filled(part, depth - 1, zero) for part in value]
    return zero if value is None and not depth else value


def flatten(value: Value, extents: list[int], path: Path) -> list[Value]:
    """The elements of nested lists, the last index fastest; PBIO_BAD_VALUE unless the lists have exactly these
    extents."""
    level = [value]
    for depth, extent in enumerate(extents):
        for rank, part in enumerate(level):
            if not isinstance(part, list) or len(part) != extent:
                found = f"{len(part)} elements" if isinstance(part, list) else f"a {type(part).__name__}"
                hint = None
                if isinstance(part, str | bytes):
                    hint = _AS_STORED.replace("microseconds", "[97, 98] for 'ab'")
                elif hasattr(part, "__iter__"):
                    hint = "give a list: list(value), or value.tolist() for a numpy array"
                where = path_to_element(path, rank, extents[:depth])
                fail(f"{found}, but the array has {extent} elements", where, hint)
        level = [inner for part in level if isinstance(part, list) for inner in part]
    return level


def fail(reason: str, path: Path, hint: str | None = None) -> NoReturn:
    raise PbioError("PBIO_BAD_VALUE", reason, field=path_to_text(steps_of(path)), hint=hint)
