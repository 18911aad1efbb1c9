"""Plan -> text of the kernel that writes records.

The kernel runs over rows and, for each, calls functions that write up to `GROUP` nodes of one structure; a structure
within it is functions of its own. Each is `fill_N(table, start, image, index, end)`: `start` is the address of the base
record, from which slots count; `image` that of the structure; `index` the row of its columns; `end` where the record
ends so far. It returns the new end, or -1 when it has put a refused value into the table. There is always room: an
upper bound of it is known before (`encoder.room_of`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import singledispatchmethod

from ecode.native import Text as Lines
from pbio_spark.columns.encode_plan import (
    Chars,
    Count,
    Deref,
    EncodePlan,
    Extent,
    Group,
    Items,
    Node,
    Number,
    Preset,
    Text,
    names_control,
    offset_size,
)
from pbio_spark.columns.plan import Load, order_of
from pbio_spark.wire.header import header_to_bytes
from pbio_spark.wire.images import align

GROUP = 8

# The first entries of the table, then those of each column. A kernel that refuses leaves the column, the index in its
# array and the reason.
HEADER = ("out", "limit", "ends", "constants", "refused_column", "refused_index", "reason")
COLUMN = ("validity", "first", "values", "bytes")


class Reason(IntEnum):
    """Why a value is refused."""

    NULL = 1
    """The format cannot say null there."""
    RANGE = 2
    """The number is none of the field's."""
    LENGTH = 3
    """The value has another length than the field, or than its control field says."""
    RAGGED = 4
    """A list has another length than its neighbours."""
    NUL = 5
    """A text holds a NUL."""
    COUNT = 6
    """The control field cannot hold the length."""
    RECORD = 7
    """The record is too long for its pointers or its length word."""


@dataclass(frozen=True, slots=True)
class EncodeText:
    """The kernel's text and the bytes at its entry `constants`."""

    source: str
    constants: bytes


def encode_plan_to_text(plan: EncodePlan, *, wrap: bool) -> EncodeText:
    """The kernel of a plan; with `wrap`, each record is a data item of a file (ffs-wire-format 2.2)."""
    return _Generator(plan).generate(wrap)


_HELPERS = f"""
@inline
def is_valid(column, index):
    validity = load_int64(column)
    if validity == 0:
        return True
    bit = load_int64(column + 8) + index
    return (as_int64(load_uint8(validity + (bit >> 3))) >> (bit & 7)) & 1 == 1

@inline
def refuse(table, column, index, reason):
    store_int64(table + {8 * HEADER.index("refused_column")}, column)
    store_int64(table + {8 * HEADER.index("refused_index")}, index)
    store_int64(table + {8 * HEADER.index("reason")}, reason)
    return -1

@inline
def align(start, end):
    store_int64(end, 0)
    return end + ((start - end) & 7)
"""


class _Generator:
    def __init__(self, plan: EncodePlan) -> None:
        self.plan = plan
        self.constants = bytearray()
        self.functions = Lines()
        self.function_count = 0
        self.body = Lines()
        self.serial = 0

    def generate(self, wrap: bool) -> EncodeText:
        format_ = self.plan.format
        length = align(len(self.plan.blank)) if format_.is_variant else len(self.plan.blank)
        item = 8 if wrap else 0
        header = header_to_bytes(format_, 0)
        image = bytes([3, *bytes(7)])[:item] + header + self.plan.blank.ljust(length, b"\0")
        at = self.constant(image)
        calls = self.structure(self.plan.nodes)
        text = Lines()
        with text.block("def kernel(count, table):"):
            text.line(
                *(f"{name} = load_int64(table + {8 * HEADER.index(name)})" for name in ("out", "ends", "constants"))
            )
            text.line("end = out")
            with text.block("for index in range(count):"):
                text.line("item = end", f"start = item + {item + len(header)}", "image = start")
                text.line(f"copy(item, constants + {at}, {len(image)})", f"end = start + {length}")
                for call in calls:
                    text.line(f"end = {call}(table, start, image, index, end)")
                    with text.block("if end < 0:"):
                        text.line("return index + 1")
                self._lengths(text, item, len(header))
                text.line("store_int64(ends + 8 * index, end - out)")
            text.line("return 0")
        return EncodeText(f"{_HELPERS}\n{self.functions}\n{text}\n", bytes(self.constants))

    def _lengths(self, text: Lines, item: int, header: int) -> None:
        """The length words of the record and of the file's item."""
        format_ = self.plan.format
        bits = 8 * format_.pointer_size
        if format_.is_variant:
            is_wide = format_.body_version == 2
            word = Load(
                item + (len(format_.id) if is_wide else len(format_.id) + 3 & ~3), f"int{64 if is_wide else 32}"
            )
            bits = min(bits, 64 if is_wide else 32)
            if bits < 64:
                with text.block(f"if end - start >= {1 << bits}:"):
                    text.line(f"refuse(table, -1, index, {Reason.RECORD:d})", "return index + 1")
            text.line(f"store_{word.type}{order_of(format_)}(item + {word.offset}, as_{word.type}(end - start))")
        if item:
            big = "_swapped" if sys.byteorder == "little" else ""
            text.line(
                f"store_uint16{big}(item + 2, as_uint16((end - item - 8) >> 32))",
                f"store_uint32{big}(item + 4, as_uint32(end - item - 8))",
            )

    def constant(self, data: bytes) -> int:
        """The position of some bytes among the constants."""
        at = self.constants.find(data)
        if at < 0:
            at = len(self.constants)
            self.constants += data
        return at

    def structure(self, nodes: Sequence[Node]) -> list[str]:
        """The names of new functions that write a structure's nodes, in the order of their calls."""
        outer, names = self.body, []
        for i in range(0, len(nodes), GROUP):
            self.body = Lines()
            for node in nodes[i : i + GROUP]:
                self.write(node, "image", "index")
            names.append(f"fill_{self.function_count}")
            self.function_count += 1
            self.functions.line("@inline")
            with self.functions.block(f"def {names[-1]}(table, start, image, index, end):"):
                self.functions.line(*str(self.body).splitlines(), "return end")
            self.functions.line("")
        self.body = outer
        return names

    # What a function's text is made of.

    def variable(self, name: str) -> str:
        """A name that no other line of the kernel uses."""
        self.serial += 1
        return f"{name}_{self.serial}"

    def let(self, name: str, value: str) -> str:
        """A new variable with a value."""
        variable = self.variable(name)
        self.body.line(f"{variable} = {value}")
        return variable

    def column(self, number: int) -> str:
        """The address of a column's entries in the table."""
        return f"table + {8 * (len(HEADER) + len(COLUMN) * number)}"

    def values(self, number: int) -> str:
        return f"load_int64({self.column(number)} + {8 * COLUMN.index('values')})"

    def is_valid(self, number: int, index: str) -> str:
        return f"is_valid({self.column(number)}, {index})"

    def refuse(self, number: int, index: str, reason: Reason) -> None:
        self.body.line(f"return refuse(table, {number}, {index}, {reason:d})")

    def extent(self, extent: Extent) -> str:
        if isinstance(extent, int):
            return str(extent)
        return f"as_int64(load_{extent.type}{extent.order}(image + {extent.offset}))"

    def bounds(self, number: int, index: str) -> tuple[str, str]:
        """Variables with the first element (or byte) of a list (or text) and with the one after its last."""
        size = offset_size(self.plan.columns[number].type)
        load = f"load_int{8 * size}"
        at = self.let("at", f"{self.values(number)} + {size} * {index}")
        return self.let("first", f"as_int64({load}({at}))"), self.let("last", f"as_int64({load}({at} + {size}))")

    def text(self, number: int, index: str) -> tuple[str, str]:
        """Variables with the address and the size of a text."""
        first, last = self.bounds(number, index)
        bytes_ = f"load_int64({self.column(number)} + {8 * COLUMN.index('bytes')})"
        return self.let("from", f"{bytes_} + {first}"), self.let("size", f"{last} - {first}")

    def refuse_nul(self, number: int, index: str, where: str, size: str) -> None:
        with self.body.block(f"if find_zero({where}, {size}) != {size}:"):
            self.refuse(number, index, Reason.NUL)

    def point(self, slot: Load, image: str, to: str) -> None:
        self.body.line(f"store_{slot.type}{slot.order}({image} + {slot.offset}, as_{slot.type}({to} - start))")

    def target(self, slot: Load, image: str, size: str) -> str:
        """Make room for a target, and a variable with its address."""
        where = self.let("target", "align(start, end)")
        self.point(slot, image, where)
        self.body.line(f"end = {where} + {size}")
        return where

    def constant_address(self, data: bytes) -> str:
        return f"load_int64(table + {8 * HEADER.index('constants')}) + {self.constant(data)}"

    def check_room(self, number: int, index: str, count: str, size: str) -> None:
        """Refuse texts whose control field says a size that there is no room for: it is out of all proportion."""
        room = f"load_int64(table + {8 * HEADER.index('limit')}) - end"
        with self.body.block(f"if {size} < 0 or {size} > ({room}) // {count}:"):
            self.refuse(number, index, Reason.LENGTH)

    # One method for each kind of node.

    @singledispatchmethod
    def write(self, node: Node, image: str, index: str) -> None:
        raise TypeError(node)

    @write.register
    def _(self, node: Number, image: str, index: str) -> None:
        with self.body.block(f"if {self.is_valid(node.column, index)}:"):
            self.number(node, image, index, self.values(node.column))
        self.refuse_null(node.column, index, node.can_be_null)

    def refuse_null(self, number: int, index: str, can_be_null: bool) -> None:
        """The other branch of a validity check."""
        if not can_be_null:
            with self.body.block("else:"):
                self.refuse(number, index, Reason.NULL)

    def number(self, node: Number, image: str, index: str, values: str) -> None:
        """Store one number that is there."""
        body, place = self.body, node.place
        to, store = f"{image} + {place.offset}", f"store_{place.type}{place.order}"
        match node.load:
            case "bytes":
                body.line(f"copy({to}, {values} + 16 * {index}, 16)")
                return
            case "bool":
                bit = self.let("bit", f"load_int64({self.column(node.column)} + 8) + {index}")
                byte = f"as_int64(load_uint8({values} + ({bit} >> 3)))"
                body.line(f"{store}({to}, as_{place.type}(({byte} >> ({bit} & 7)) & 1))")
                return
            case "binary":
                where, size = self.text(node.column, index)
                with body.block(f"if {size} != 8:"):
                    self.refuse(node.column, index, Reason.LENGTH)
                big = "_swapped" if sys.byteorder == "little" else ""
                body.line(f"{store}({to}, load_uint64{big}({where}))")
                return
            case "decimal":
                at = self.let("at", f"{values} + 16 * {index}")
                value = self.let("value", f"load_int64({at})")
                high = "0" if place.type == "uint64" else f"{value} >> 63"
                with body.block(f"if load_int64({at} + 8) != {high}:"):
                    self.refuse(node.column, index, Reason.RANGE)
            case load:
                loaded = f"load_{load}({values} + {Load(0, load).size} * {index})"
                if load == place.type and node.low is node.high is None:
                    body.line(f"{store}({to}, {loaded})")
                    return
                value = self.let("value", f"as_int64({loaded})" if "int" in load else loaded)
        checks = [f"{value} < {node.low}"] * (node.low is not None) + [f"{value} > {node.high}"] * (
            node.high is not None
        )
        if node.load == "float64" and place.type == "float32":
            # A finite double that has become infinite; what is not finite is not equal to itself minus itself.
            narrow = self.let("narrow", f"as_float32({value})")
            checks = [f"{value} - {value} == 0 and {narrow} - {narrow} != 0"]
        if checks:
            with body.block(f"if {' or '.join(checks)}:"):
                self.refuse(node.column, index, Reason.RANGE)
        body.line(f"{store}({to}, as_{place.type}({value}))")

    @write.register
    def _(self, node: Text, image: str, index: str) -> None:
        with self.body.block(f"if {self.is_valid(node.column, index)}:"):
            where, size = self.text(node.column, index)
            self.refuse_nul(node.column, index, where, size)
            self.point(node.slot, image, "end")
            self.body.line(f"copy(end, {where}, {size})", f"store_uint8(end + {size}, 0)", f"end += {size} + 1")

    @write.register
    def _(self, node: Preset, image: str, index: str) -> None:
        text = node.text + b"\0"
        self.point(node.slot, image, "end")
        self.body.line(f"copy(end, {self.constant_address(text)}, {len(text)})", f"end += {len(text)}")

    @write.register
    def _(self, node: Chars, image: str, index: str) -> None:
        extent = self.let("extent", self.extent(node.extent))
        with self.body.block(f"if {self.is_valid(node.column, index)}:"):
            where, size = self.text(node.column, index)
            if node.is_text:
                self.refuse_nul(node.column, index, where, size)
            pads = node.is_text and (isinstance(node.place, int) or node.control is not None)
            with self.body.block(f"if {size} {'>' if pads else '!='} {extent}:"):
                self.refuse(node.column, index, Reason.LENGTH)
            if isinstance(node.place, int):
                self.body.line(f"copy({image} + {node.place}, {where}, {size})")
            else:
                with self.body.block(f"if {extent} != 0:"):
                    if pads:
                        self.check_room(node.column, index, "1", extent)
                    target = self.target(node.place, image, extent)
                    self.body.line(f"copy({target}, {where}, {size})", f"zero({target} + {size}, {extent} - {size})")
        self.refuse_absent(node, node.column, index, extent)

    def refuse_absent(self, node: Chars | Items, number: int, index: str, size: str) -> None:
        """A null array: behind a slot it is one only where its control fields do not say 0, for 0 is an empty one."""
        if not node.can_be_null:
            with self.body.block("else:" if isinstance(node.place, int) else f"elif {size} == 0:"):
                self.refuse(number, index, Reason.NULL)

    @write.register
    def _(self, node: Items, image: str, index: str) -> None:
        body = self.body
        extents = [self.let("extent", self.extent(extent)) for extent in node.extents]
        size = self.let("size", " * ".join(extents))
        with body.block(f"if {self.is_valid(node.columns[0], index)}:"):
            first = self._check_lists(node, extents, index)
            if isinstance(node.place, int):
                self._elements(node, extents, size, first, f"{image} + {node.place}")
            else:
                with body.block(f"if {size} != 0:"):
                    if node.stride is not None:
                        self.check_room(node.columns[0], index, size, self.extent(node.stride))
                    area = self.let("area", f"{size} * {self.extent(node.stride or len(node.blank))}")
                    where = self.target(node.place, image, area)
                    self._elements(node, extents, size, first, where, area)
        self.refuse_absent(node, node.columns[0], index, size)

    def _check_lists(self, node: Items, extents: list[str], index: str) -> str:
        """Refuse lists whose lengths are not the extents; a variable with the first element of the innermost column."""
        body, before = self.body, "1"
        first, last = self.bounds(node.columns[0], index)
        with body.block(f"if {last} - {first} != {extents[0]}:"):
            self.refuse(node.columns[0], index, Reason.LENGTH)
        for column, outer, extent in zip(node.columns[1:], extents, extents[1:], strict=False):
            before = f"{before} * {outer}"
            element, start = self.variable("element"), self.let("start", "0")
            with body.block(f"for {element} in range({first}, {first} + {before}):"):
                with body.block(f"if not {self.is_valid(column, element)}:"):
                    self.refuse(column, element, Reason.NULL)
                begin, end = self.bounds(column, element)
                with body.block(f"if {end} - {begin} != {extent}:"):
                    self.refuse(column, element, Reason.RAGGED)
                with body.block(f"if {element} == {first}:"):
                    body.line(f"{start} = {begin}")
            first = start
        return first

    def _elements(
        self, node: Items, extents: list[str], size: str, first: str, where: str, area: str | None = None
    ) -> None:
        """Write the elements; behind a slot, where `area` is their size, nothing is there before."""
        body, item = self.body, node.item
        stride = self.let("stride", self.extent(node.stride or len(node.blank)))
        with ExitStack() as stack:
            if isinstance(item, Number):
                # Most columns of numbers hold no null at all.
                with body.block(f"if load_int64({self.column(item.column)}) == 0:"):
                    values = self.let("values", self.values(item.column))
                    if _is_copied(item) and not node.column_major:
                        body.line(f"copy({where}, {values} + {first} * {stride}, {size} * {stride})")
                    else:
                        with self._each(node, extents, size, first, where, stride) as (image, index):
                            self.number(item, image, index, values)
                stack.enter_context(body.block("else:"))
            if area is not None:
                self._blank(node, where, size, area)
            with self._each(node, extents, size, first, where, stride) as (image, index):
                self.write(item, image, index)

    def _blank(self, node: Items, where: str, size: str, area: str) -> None:
        if not any(node.blank):
            self.body.line(f"zero({where}, {area})")
            return
        element, length = self.variable("element"), len(node.blank)
        with self.body.block(f"for {element} in range({size}):"):
            self.body.line(f"copy({where} + {element} * {length}, {self.constant_address(node.blank)}, {length})")

    @contextmanager
    def _each(
        self, node: Items, extents: list[str], size: str, first: str, where: str, stride: str
    ) -> Iterator[tuple[str, str]]:
        """A loop over the elements in the order of memory: variables with the place and the index of each."""
        place = self.variable("place")
        with self.body.block(f"for {place} in range({size}):"):
            image = self.let("image", f"{where} + {place} * {stride}")
            if not node.column_major:
                yield image, self.let("index", f"{first} + {place}")
                return
            rest, index = self.let("rest", place), self.let("index", first)
            for d, extent in enumerate(extents):
                steps = "".join(f" * {inner}" for inner in extents[d + 1 :])
                self.body.line(f"{index} += {rest} % {extent}{steps}", f"{rest} //= {extent}")
            yield image, index

    @write.register
    def _(self, node: Deref, image: str, index: str) -> None:
        with self.body.block(f"if {self.is_valid(node.column, index)}:"):
            where = self.target(node.slot, image, str(len(node.blank)))
            self.body.line(f"copy({where}, {self.constant_address(node.blank)}, {len(node.blank)})")
            self.write(node.target, where, index)

    @write.register
    def _(self, node: Group, image: str, index: str) -> None:
        calls = self.structure(node.nodes)
        with ExitStack() as stack:
            if node.column is not None:
                stack.enter_context(self.body.block(f"if {self.is_valid(node.column, index)}:"))
            for call in calls:
                self.body.line(f"end = {call}(table, start, {image} + {node.offset}, {index}, end)")
                with self.body.block("if end < 0:"):
                    self.body.line("return end")
        if node.column is not None:
            self.refuse_null(node.column, index, node.can_be_null)

    @write.register
    def _(self, node: Count, image: str, index: str) -> None:
        count = self.let("count", "0")
        for counted in node.nodes:
            self.count(counted, node.place, count, index)
        with self.body.block(f"if {count} > {node.high}:"):
            self.refuse(_column_of(node.nodes[0]), index, Reason.COUNT)
        place = node.place
        self.body.line(f"store_{place.type}{place.order}({image} + {place.offset}, as_{place.type}({count}))")

    # The greatest extent that a control field has to hold.

    @singledispatchmethod
    def count(self, node: Node, control: Load, count: str, index: str) -> None:
        raise TypeError(node)

    @count.register
    def _(self, node: Chars, control: Load, count: str, index: str) -> None:
        with self.body.block(f"if {self.is_valid(node.column, index)}:"):
            first, last = self.bounds(node.column, index)
            self.body.line(f"{count} = max({count}, {last} - {first})")

    @count.register
    def _(self, node: Deref, control: Load, count: str, index: str) -> None:
        with self.body.block(f"if {self.is_valid(node.column, index)}:"):
            self.count(node.target, control, count, index)

    @count.register
    def _(self, node: Items, control: Load, count: str, index: str) -> None:
        deeper = names_control(node.item, control)
        with ExitStack() as stack:
            for d, column in enumerate(node.columns):
                stack.enter_context(self.body.block(f"if {self.is_valid(column, index)}:"))
                first, last = self.bounds(column, index)
                if node.extents[d] == control:
                    self.body.line(f"{count} = max({count}, {last} - {first})")
                if not deeper and control not in node.extents[d + 1 :]:
                    return
                index = self.variable("element")
                stack.enter_context(self.body.block(f"for {index} in range({first}, {last}):"))
            self.count(node.item, control, count, index)


def _is_copied(node: Number) -> bool:
    """Whether the column's bytes are the record's."""
    return node.load == "bytes" or (
        node.load == node.place.type and not node.place.order and node.low is node.high is None
    )


def _column_of(node: Node) -> int:
    match node:
        case Chars(column=column) | Deref(column=column):
            return column
        case Items(columns=columns):
            return columns[0]
    raise TypeError(node)
