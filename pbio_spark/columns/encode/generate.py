"""Plan -> text of the kernel that writes records.

The kernel runs over rows and, for each, calls functions that write up to `GROUP` nodes of one structure; a structure
within it is functions of its own. Each is `fill_N(table, start, image, index, end)`: `start` is the address of the base
record, from which slots count; `image` that of the structure; `index` the row of its columns; `end` where the record
ends so far. It returns the new end, or -1 when it has put a refused value into the table. There is always room: an
upper bound of it is known before (`encode_parts.room_of`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import singledispatchmethod

from ecode.native import Lines
from pbio_spark.columns.decode.plan import Load, order_of
from pbio_spark.columns.encode.counts import column_of, count_extents
from pbio_spark.columns.encode.plan import (
    Chars,
    Count,
    Deref,
    EncodePlan,
    Flag,
    Items,
    Node,
    NullMarks,
    Number,
    Preset,
    Structure,
    Text,
)
from pbio_spark.columns.encode.text import HEADER, HELPERS, At, KernelWriter, Reason, entry
from pbio_spark.columns.encode.wide import WIDE, write_calls
from pbio_spark.wire.header import header_to_bytes
from pbio_spark.wire.images import align

GROUP = 8
"""How many nodes one function writes: the compiler's time grows faster than the number of nodes."""

_BIG = "_swapped" if sys.byteorder == "little" else ""


@dataclass(frozen=True, slots=True)
class EncodeText:
    """The kernel's text and the bytes at its entry `constants`: equal for formats of equal shape, but for the ID."""

    source: str
    constants: bytes


def encode_plan_to_text(plan: EncodePlan, *, wrap: bool) -> EncodeText:
    """The kernel of a plan; with `wrap`, each record is a data item of a file (ffs-wire-format 2.2)."""
    return _Generator(plan, wrap).generate()


class _Generator(KernelWriter):
    def __init__(self, plan: EncodePlan, wrap: bool) -> None:
        self.item = 8 if wrap else 0
        super().__init__(self.item + len(plan.format.id))
        self.plan = plan
        self.function_count = 0

    def generate(self) -> EncodeText:
        format_, item = self.plan.format, self.item
        length = align(len(self.plan.blank)) if format_.is_variant else len(self.plan.blank)
        header = header_to_bytes(format_, 0)
        image = bytes([3, *bytes(7)])[:item] + header + self.plan.blank.ljust(length, b"\0")
        at = self.constant(image)
        calls = self.structure(self.plan.nodes)
        text = Lines()
        with text.block("def kernel(count, table):"):
            text.line(*(f"{name} = {entry(name)}" for name in ("out", "ends", "constants")), "end = out")
            with text.block("for index in range(count):"):
                text.line("item = end", f"start = item + {item + len(header)}", f"end = start + {length}")
                text.line(f"copy(item, constants + {at}, {len(image)})")
                for call in calls:
                    text.line(f"end = {call}(table, start, start, index, end)")
                    with text.block("if end < 0:"):
                        text.line("return index + 1")
                self._lengths(text, item)
                text.line("store_int64(ends + 8 * index, end - out)")
            text.line("return 0")
        return EncodeText(f"{HELPERS}\n{self.functions}\n{text}\n", bytes(self.constants))

    def _lengths(self, text: Lines, item: int) -> None:
        """The length words of the record and of the file's item."""
        format_ = self.plan.format
        if format_.is_variant:
            is_wide = format_.body_version == 2
            bits = min(8 * format_.pointer_size, 64 if is_wide else 32)
            if bits < 64:
                with text.block(f"if end - start >= {1 << bits}:"):
                    text.line(
                        f"store_int64(table + {8 * HEADER.index('reason')}, {Reason.RECORD:d})", "return index + 1"
                    )
            at = len(format_.id) if is_wide else -(-len(format_.id) // 4) * 4
            type_ = "int64" if is_wide else "int32"
            text.line(f"store_{type_}{order_of(format_)}(item + {item + at}, as_{type_}(end - start))")
        if item:
            text.line(
                f"store_uint16{_BIG}(item + 2, as_uint16((end - item - 8) >> 32))",
                f"store_uint32{_BIG}(item + 4, as_uint32(end - item - 8))",
            )

    def structure(self, nodes: Sequence[Node]) -> list[str]:
        """The names of new functions that write a structure's nodes, in the order of their calls."""
        outer, names = (self.body, self.arguments, self.serial), []
        step = GROUP if len(nodes) <= WIDE else len(nodes)
        for i in range(0, len(nodes), step):
            calls = [self.shape(node) for node in nodes[i : i + step]]
            self.start()
            write_calls(self, calls, in_a_loop=step > GROUP)
            names.append(f"fill_{self.function_count}")
            self.function_count += 1
            self.define(f"{names[-1]}(table, start, image, index, end)")
        self.body, self.arguments, self.serial = outer
        return names

    def shape(self, node: Node) -> tuple[str, list[str]]:
        """The name of the function that writes a node, and the node's arguments for it."""
        self.start()
        self.write(node, "image", "index")
        body, arguments = str(self.body), self.arguments
        if body not in self.shapes:
            self.shapes[body] = f"{type(node).__name__.lower()}_{len(self.shapes)}"
            names = [f"a{k}" for k in range(len(arguments))]
            self.define(f"{self.shapes[body]}(table, start, image, index, end{_listed(names)})")
        return self.shapes[body], arguments

    def at(self, number: int) -> At:
        return self.column(number, self.plan.columns[number].type)

    # One method for each kind of node.

    @singledispatchmethod
    def write(self, node: Node, image: str, index: str) -> None:
        raise TypeError(node)

    @write.register
    def _(self, node: Number, image: str, index: str) -> None:
        column = self.at(node.column)
        with self.body.block(f"if {column.is_valid(index)}:"):
            self.number(node, column, image, index, column.entry("values"))
        self.refuse_null(column, index, node.can_be_null)

    def number(self, node: Number, column: At, image: str, index: str, values: str) -> None:
        """Store one number that is not null."""
        body, place = self.body, node.place
        match node.load:
            case "bytes":
                body.line(f"copy({self.place(image, place.offset)}, {values} + 16 * {index}, 16)")
                return
            case "bool":
                bit = self.let("bit", f"{column.entry('first')} + {index}")
                byte = f"as_int64(load_uint8({values} + ({bit} >> 3)))"
                self.store(place, image, f"as_{place.type}(({byte} >> ({bit} & 7)) & 1)")
                return
            case "binary":
                where, size = self.text(column, index)
                self.refuse_if(f"{size} != 8", column, index, Reason.LENGTH)
                self.store(place, image, f"load_uint64{_BIG}({where})")
                return
            case "decimal":
                at = self.let("at", f"{values} + 16 * {index}")
                value = self.let("value", f"load_int64({at})")
                high = "0" if place.type == "uint64" else f"{value} >> 63"
                self.refuse_if(f"load_int64({at} + 8) != {high}", column, index, Reason.RANGE)
            case load:
                loaded = f"load_{load}({values} + {Load(0, load).size} * {index})"
                if load == place.type and node.low is node.high is None:
                    self.store(place, image, loaded)
                    return
                value = self.let("value", f"as_int64({loaded})" if "int" in load else loaded)
        if node.low is not None:
            self.refuse_if(f"{value} < {node.low}", column, index, Reason.RANGE)
        if node.high is not None:
            self.refuse_if(f"{value} > {node.high}", column, index, Reason.RANGE)
        if node.load == "float64" and place.type == "float32":
            # Another double than before; NaN is not equal to itself.
            narrow = self.let("narrow", f"as_float32({value})")
            self.refuse_if(f"{value} == {value} and as_float64({narrow}) != {value}", column, index, Reason.RANGE)
        self.store(place, image, f"as_{place.type}({value})")

    @write.register
    def _(self, node: Text, image: str, index: str) -> None:
        column = self.at(node.column)
        with self.body.block(f"if {column.is_valid(index)}:"):
            where, size = self.text(column, index)
            self.refuse_if(f"find_zero({where}, {size}) != {size}", column, index, Reason.NUL)
            self.store(node.slot, image, f"as_{node.slot.type}(end - start)")
            self.body.line(f"copy(end, {where}, {size})", f"store_uint8(end + {size}, 0)", f"end += {size} + 1")

    @write.register
    def _(self, node: Preset, image: str, index: str) -> None:
        text = node.text + b"\0"
        self.store(node.slot, image, f"as_{node.slot.type}(end - start)")
        self.copy_constant("end", text)
        self.body.line(f"end += {self.argument(len(text))}")

    @write.register
    def _(self, node: Chars, image: str, index: str) -> None:
        self.chars(node, image, index, None)

    def chars(self, node: Chars, image: str, index: str, step: str | None) -> None:
        """Store characters, `step` bytes apart where the rows of a column-major array are strings."""
        column, extent = self.at(node.column), self.extent(node.extent)
        pads = node.is_text and (isinstance(node.place, int) or node.control is not None)
        with self.body.block(f"if {column.is_valid(index)}:"):
            where, size = self.text(column, index)
            if node.is_text:
                self.refuse_if(f"find_zero({where}, {size}) != {size}", column, index, Reason.NUL)
            self.refuse_if(f"{size} {'>' if pads else '!='} {extent}", column, index, Reason.LENGTH)
            if step is not None:
                k = self.variable("k")
                with self.body.block(f"for {k} in range({size}):"):
                    self.body.line(f"store_uint8({image} + {k} * {step}, load_uint8({where} + {k}))")
            elif isinstance(node.place, int):
                self.body.line(f"copy({self.place(image, node.place)}, {where}, {size})")
            else:
                with self.body.block(f"if {extent} != 0:"):
                    if pads:
                        self.check_room(column, index, "1", extent)
                    target = self.target(node.place, image, extent)
                    self.body.line(f"copy({target}, {where}, {size})", f"zero({target} + {size}, {extent} - {size})")
        self.refuse_absent(node, column, index, f"{extent} == 0")

    def check_room(self, column: At, index: str, count: str, size: str) -> None:
        """Refuse strings whose control field holds an excessive size."""
        self.refuse_if(f"{size} < 0 or {size} > ({entry('limit')} - end) // {count}", column, index, Reason.LENGTH)

    def refuse_absent(self, node: Chars | Items, column: At, index: str, is_empty: str) -> None:
        """A null array. One that a slot points to is null only if its control fields are not 0; with 0 it is empty."""
        if not node.can_be_null:
            with self.body.block("else:" if isinstance(node.place, int) else f"elif {is_empty}:"):
                self.refuse(column, index, Reason.NULL)

    @write.register
    def _(self, node: Items, image: str, index: str) -> None:
        body, columns = self.body, [self.at(number) for number in node.columns]
        extents = [self.extent(extent) for extent in node.extents]
        stride = self.extent(node.stride or len(node.blank))
        # Control fields hold anything: only when the lists are as long as they say is their product a size.
        size = self.let("size", " * ".join(extents))
        is_empty = " or ".join(f"{extent} == 0" for extent in (*extents, stride))
        with body.block(f"if {columns[0].is_valid(index)}:"):
            first = self._check_lists(columns, extents, index)
            if node.stride is not None:
                with body.block(f"if {stride} == 0:"):
                    self._check_empty(node, size, first)
            with body.block(f"if not ({is_empty}):"):
                if isinstance(node.place, int):
                    where = self.let("where", self.place(image, node.place))
                else:
                    if node.stride is not None:
                        self.check_room(columns[0], index, size, stride)
                    where = self.target(node.place, image, f"{size} * {stride}")
                self._elements(node, extents, size, stride, first, where)
        self.refuse_absent(node, columns[0], index, is_empty)

    def _check_empty(self, node: Items, size: str, first: str) -> None:
        """Refuse strings that are not empty, or are null, if their common size is 0."""
        assert isinstance(node.item, Chars)
        column, element = self.at(node.item.column), self.variable("element")
        with self.body.block(f"for {element} in range({first}, {first} + {size}):"):
            begin, end = self.bounds(column, element)
            self.refuse_if(f"{begin} != {end}", column, element, Reason.LENGTH)
            self.refuse_if(f"not {column.is_valid(element)}", column, element, Reason.NULL)

    def _check_lists(self, columns: list[At], extents: list[str], index: str) -> str:
        """Refuse lists whose lengths are not the extents; a variable with the first element of the innermost column."""
        body, before = self.body, "1"
        first, last = self.bounds(columns[0], index)
        self.refuse_if(f"{last} - {first} != {extents[0]}", columns[0], index, Reason.LENGTH)
        for column, outer, extent in zip(columns[1:], extents, extents[1:], strict=False):
            before = f"{before} * {outer}"
            element = self.variable("element")
            with body.block(f"for {element} in range({first}, {first} + {before}):"):
                self.refuse_if(f"not {column.is_valid(element)}", column, element, Reason.NULL)
                begin, end = self.bounds(column, element)
                self.refuse_if(f"{end} - {begin} != {extent}", column, element, Reason.RAGGED)
            first, _ = self.bounds(column, first, first)
        return first

    def _elements(self, node: Items, extents: list[str], size: str, stride: str, first: str, where: str) -> None:
        """Write the elements. In place, memory is already initialised; in a slot's target, it is not."""
        body, item = self.body, node.item
        with ExitStack() as stack:
            if isinstance(item, Number):
                # Most columns of numbers hold no null at all.
                column = self.at(item.column)
                with body.block(f"if {column.entry('validity')} == 0:"):
                    values = self.let("values", column.entry("values"))
                    if _is_copied(item) and not node.column_major:
                        body.line(f"copy({where}, {values} + {first} * {stride}, {size} * {stride})")
                    else:
                        with self._each(node, extents, size, stride, first, where) as (image, index):
                            self.number(item, column, image, index, values)
                stack.enter_context(body.block("else:"))
            if not isinstance(node.place, int):
                self._blank(node, size, stride, where)
            if isinstance(item, Chars) and item.apart:
                with self._each(node, extents, size, "1", first, where) as (image, index):
                    self.chars(item, image, index, size)
            else:
                with self._each(node, extents, size, stride, first, where) as (image, index):
                    self.write(item, image, index)

    def _blank(self, node: Items, size: str, stride: str, where: str) -> None:
        if not any(node.blank):
            self.body.line(f"zero({where}, {size} * {stride})")
            return
        element = self.variable("element")
        with self.body.block(f"for {element} in range({size}):"):
            self.copy_constant(f"{where} + {element} * {stride}", node.blank)

    @contextmanager
    def _each(
        self, node: Items | NullMarks, extents: list[str], size: str, stride: str, first: str, where: str
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
        column = self.at(node.column)
        with self.body.block(f"if {column.is_valid(index)}:"):
            where = self.target(node.slot, image, self.argument(len(node.blank)))
            self.copy_constant(where, node.blank)
            self.write(node.target, where, index)

    @write.register
    def _(self, node: Structure, image: str, index: str) -> None:
        column = None if node.column is None else self.at(node.column)
        with ExitStack() as stack:
            if column is not None:
                stack.enter_context(self.body.block(f"if {column.is_valid(index)}:"))
            where = self.let("where", self.place(image, node.offset))
            for name in self.structure(node.nodes):
                self.body.line(f"end = {name}(table, start, {where}, {index}, end)")
                with self.body.block("if end < 0:"):
                    self.body.line("return end")
        if column is not None:
            self.refuse_null(column, index, node.can_be_null)

    @write.register
    def _(self, node: Flag, image: str, index: str) -> None:
        with self.body.block(f"if not {self.at(node.column).is_valid(index)}:"):
            where = self.let("where", self.place(image, node.offset))
            self.body.line(f"store_uint8({where}, as_int64(load_uint8({where})) | {self.argument(node.bit)})")

    @write.register
    def _(self, node: NullMarks, image: str, index: str) -> None:
        body, columns, item = self.body, [self.at(number) for number in node.columns], self.at(node.item)
        extents = [self.extent(extent) for extent in node.extents]
        size = self.let("size", " * ".join(extents))
        with body.block(f"if {item.entry('validity')} != 0 and {columns[0].is_valid(index)} and {size} != 0:"):
            first = self._check_lists(columns, extents, index)
            count, element = self.let("nulls", "0"), self.variable("element")
            with body.block(f"for {element} in range({first}, {first} + {size}):"):
                body.line(f"{count} += 0 if {item.is_valid(element)} else 1")
            with body.block(f"if {count} != 0:"):
                if isinstance(node.place, int):
                    where = self.let("where", self.place(image, node.place))
                else:
                    where = self.target(node.place, image, size)
                    body.line(f"zero({where}, {size})")
                with self._each(node, extents, size, "1", first, where) as (mark, at):
                    body.line(f"store_uint8({mark}, 0 if {item.is_valid(at)} else 1)")

    @write.register
    def _(self, node: Count, image: str, index: str) -> None:
        count = self.let("count", "0")
        for counted in node.nodes:
            count_extents(self, self.at, counted, node.place, count, index)
        self.refuse_if(f"{count} > {node.high}", self.at(column_of(node.nodes[0])), index, Reason.COUNT)
        self.store(node.place, image, f"as_{node.place.type}({count})")


def _listed(parts: Sequence[object]) -> str:
    return "".join(f", {part}" for part in parts)


def _is_copied(node: Number) -> bool:
    """Whether the column's bytes are the record's."""
    return node.load == "bytes" or (
        node.load == node.place.type and not node.place.order and node.low is node.high is None
    )
