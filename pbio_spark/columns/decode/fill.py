"""Node -> the text that fills it for one place: what kernels do, wherever their numbers come from.

Every slot and count is checked against the record before it is followed.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from contextlib import ExitStack
from functools import singledispatchmethod

from ecode.native import Lines
from pbio_spark.columns.decode.plan import Chars, Deref, Filled, Items, Load, Scalar, Text, is_contiguous
from pbio_spark.wire import EXPANSION_LIMIT, EXPANSION_ROOM, VALUE_COST

EXPANDS = 1 << 30
"""Set in the status of a record that decodes to more than `room_of` its length."""
_FAR = 1 << 40
"""More than any record may decode to."""
_MANY = 1 << 31
"""More bytes than any record has."""

STORED_SIZE = {"bool": 1, "decimal": 16, "binary": 8, "float32": 4, "float64": 8}
STORED_SIZE |= {f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)}


def stored_size(node: Scalar) -> int:
    """The bytes of one stored value."""
    return node.load.size if node.store == "bytes" else STORED_SIZE[node.store]


class Filling(ABC):
    """Writes the text that fills nodes. The names of a node's variables end with its number in the text.

    Attributes:
        body: for a place that is there.
        absent: for one that is not.
        first: before the first place.
    """

    def __init__(self) -> None:
        self.body = Lines()
        self.absent = Lines()
        self.first: list[str] = []

    @abstractmethod
    def entry(self, node: Filled, k: str, name: str) -> str:
        """A variable with an entry of the table: the address of an output, or its capacity."""

    @abstractmethod
    def count(self, node: Filled, k: str, name: str) -> str:
        """A running count that the table holds afterwards."""

    @abstractmethod
    def constant(self, value: int) -> str:
        """A number of the format, or a variable that has it."""

    def load(self, load: Load, at: str = "at") -> str:
        return f"load_{load.type}{load.order}({at} + {self.constant(load.offset)})"

    def bad(self, node: Filled, *then: str) -> None:
        self.body.line(f"store_int32(status_ + 4 * row, {self.constant(node.number + 1)})", *then)

    def visit(self, node: Filled, size: str, *if_too_many: str) -> None:
        """Count visited bytes, since targets may be shared without end; `wire.decode` keeps to the same rule."""
        self.body.line(
            f"visits = load_int64(visited_ + 8 * row) + {size}",
            "store_int64(visited_ + 8 * row, visits)",
        )
        with self.body.block(f"if visits > {EXPANSION_ROOM} and visits > {EXPANSION_LIMIT} * length:"):
            self.body.line(
                f"store_int64(visited_ + 8 * row, {_FAR})",
                f"store_int32(status_ + 4 * row, {EXPANDS} | {self.constant(node.number + 1)})",
                *if_too_many,
            )

    # One method for each kind of node.

    @singledispatchmethod
    def fill(self, node: Filled, k: str) -> None:
        raise TypeError(node)

    @fill.register
    def _(self, node: Scalar, k: str) -> None:
        size = stored_size(node)
        out = f"{self.entry(node, k, 'values')} + {size} * i"
        self._store(node, self.load(node.load), out)
        self.absent.line(f"zero({out}, {size})")

    def _store(self, node: Scalar, value: str, out: str, at: str = "at") -> None:
        store = node.store
        if store == "bytes":
            self.body.line(f"copy({out}, {at} + {self.constant(node.load.offset)}, {node.load.size})")
        elif store == "bool":
            self.body.line(f"store_uint8({out}, 1 if {value} != 0 else 0)")
        elif store == "decimal":
            self.body.line(f"number = as_int64({value})", f"store_int64({out}, number)")
            self.body.line(f"store_int64({out} + 8, {'0' if node.load.type[0] == 'u' else 'number >> 63'})")
        elif store == "binary":
            turned = "_swapped" if sys.byteorder == "little" else ""
            self.body.line(f"store_uint64{turned}({out}, {value})")
        elif store == node.load.type:
            self.body.line(f"store_{store}({out}, {value})")
        else:
            self.body.line(f"store_{store}({out}, as_{store}({value}))")

    @fill.register
    def _(self, node: Text, k: str) -> None:
        body = self.body
        body.line(f"slot = as_int64({self.load(node.slot)})", "where = 0", "size = 0", "valid = 0")
        with body.block("if slot != 0:"):
            with body.block("if slot < minimum_ or slot >= length:"):
                self.bad(node)
            with body.block("else:"):
                body.line("where = start + slot", "room = length - slot", "size = find_zero(where, room)", "valid = 1")
                with body.block("if size == room:"):
                    self.bad(node, "valid = 0", "size = 0")
                self.visit(node, "size", "valid = 0", "size = 0")
        self._copy_text(node, k)

    @fill.register
    def _(self, node: Chars, k: str) -> None:
        body = self.body
        self._find_items(node, k, 1)
        if node.apart:
            for d, extent in enumerate(node.apart):
                number = self.constant(extent) if isinstance(extent, int) else f"as_int64({self.load(extent, 'home')})"
                body.line(f"apart = {number}" if d == 0 else f"apart *= {number}")
            if node.cut:
                body.line("room = size", "size = 0")
                with body.block("while size < room and load_uint8(where + size * apart) != 0:"):
                    body.line("size += 1")
        elif node.cut:
            body.line("size = find_zero(where, size)")
        self._copy_text(node, k, "j * apart" if node.apart else "j")

    def _copy_text(self, node: Text | Chars, k: str, step: str = "j") -> None:
        """Append `size` bytes at `where` to the node's text."""
        body, used = self.body, self.count(node, k, "used")
        data, capacity = self.entry(node, k, "data"), self.entry(node, k, "capacity")
        if node.is_latin:
            with body.block(f"if {used} + 2 * size <= {capacity}:"), body.block("for j in range(size):"):
                body.line(f"byte = as_int64(load_uint8(where + {step}))")
                with body.block("if byte < 128:"):
                    body.line(f"store_uint8({data} + {used}, byte)", f"{used} += 1")
                with body.block("else:"):
                    body.line(f"store_uint8({data} + {used}, 0xC0 | byte >> 6)")
                    body.line(f"store_uint8({data} + {used} + 1, 0x80 | byte & 0x3F)", f"{used} += 2")
            with body.block("else:"):
                body.line(f"{used} += 2 * size")
        else:
            with body.block(f"if {used} + size <= {capacity}:"):
                if step == "j":
                    body.line(f"copy({data} + {used}, where, size)")
                else:
                    with body.block("for j in range(size):"):
                        body.line(f"store_uint8({data} + {used} + j, load_uint8(where + {step}))")
            body.line(f"{used} += size")
        self._end_item(node, k)

    def _end_item(self, node: Text | Chars | Items, k: str) -> None:
        offsets, used = self.entry(node, k, "offsets"), f"used_{k}"
        self.first.append(f"store_int32({offsets}, 0)")
        self.body.line(f"store_int32({offsets} + 4 * i + 4, {used})")
        self.absent.line(f"store_int32({offsets} + 4 * i + 4, {used})")
        if has_validity(node):
            valid = self.entry(node, k, "valid")
            self.body.line(f"store_uint8({valid} + i, valid)")
            self.absent.line(f"store_uint8({valid} + i, 0)")

    def _find_items(self, node: Chars | Items, k: str, stride: int | Load) -> None:
        """Set `where` to the array's first byte, `size` to its number of elements, `extent_d`, and `valid`."""
        body = self.body
        for d, extent in enumerate(node.extents):
            if isinstance(extent, int):
                body.line(f"extent_{d} = {self.constant(extent)}")
            else:
                body.line(f"extent_{d} = as_int64({self.load(extent, 'home')})")
                # A count that no record can hold; its exact size no longer matters.
                with body.block(f"if extent_{d} < 0 or extent_{d} > {_MANY}:"):
                    body.line(f"extent_{d} = {_MANY}")
        if isinstance(node.place, int):
            body.line(f"where = at + {self.constant(node.place)}")
            body.line("size = " + " * ".join(f"extent_{d}" for d in range(len(node.extents))))
            body.line("valid = 1")
        else:
            body.line("size = extent_0")
            for d in range(1, len(node.extents)):
                body.line(f"size = min(size * extent_{d}, {_MANY})")
            body.line("where = 0", "valid = 1")
            step = "step"
            if isinstance(stride, int):
                body.line(f"step = {self.constant(stride)}")
            else:
                body.line(f"step = as_int64({self.load(stride, 'home')})")
                with body.block("if step < 0 or step > length:"):
                    body.line("step = length + 1")  # such rows cannot lie in the record
            body.line(f"slot = as_int64({self.load(node.place)})")
            with body.block("if slot != 0 and (slot < minimum_ or slot >= length):"):
                self.bad(node, "size = 0", "valid = 0")
            with body.block("elif size == 0 or step == 0:"):
                # Null stands for an array without a byte, too. Its lists are those that its extents say.
                body.line("where = start", "lists = 0")
                if has_empty_lists(node):
                    with ExitStack() as inside:
                        for d in range(len(node.extents)):
                            inside.enter_context(body.block(f"if extent_{d} != 0:"))
                            body.line(f"lists = {f'min(lists * extent_{d}, {_MANY})' if d else 'extent_0'}")
                cost = f"{VALUE_COST} * lists + ({VALUE_COST} if slot != 0 else 0)"
                self.visit(node, cost, "size = 0", "valid = 0", "lists = 0")
                if has_empty_lists(node):
                    body.line(f"{self.count(node, k, 'lists')} += lists")
            with body.block("elif slot == 0:"):
                body.line("size = 0", "valid = 0")
            with body.block(f"elif size > (length - slot) // {step}:"):
                self.bad(node, "size = 0", "valid = 0")
            with body.block("else:"):
                body.line("where = start + slot")
                parts = VALUE_COST * getattr(node, "parts", 0)
                more = f" + {self.constant(parts)}" if parts else ""
                self.visit(node, f"{VALUE_COST} + size * ({step}{more})", "size = 0", "valid = 0")

    @fill.register
    def _(self, node: Items, k: str) -> None:
        body = self.body
        self._find_items(node, k, node.stride)
        used, capacity = self.count(node, k, "used"), self.entry(node, k, "capacity")
        if is_contiguous(node):
            self._copy_numbers(node, k, used, capacity)
        else:
            addresses, rows = self.entry(node, k, "addresses"), self.entry(node, k, "rows")
            homes = self.entry(node, k, "homes") if node.homes else None
            with body.block(f"if {used} + size <= {capacity}:"), body.block("for j in range(size):"):
                body.line(f"store_int64({addresses} + 8 * ({used} + j), {self._element(node)})")
                body.line(f"store_int32({rows} + 4 * ({used} + j), row)")
                if homes:
                    body.line(f"store_int64({homes} + 8 * ({used} + j), home)")
        body.line(f"{used} += size")
        if len(node.extents) > 1:
            for d in range(len(node.extents)):
                extents = self.entry(node, k, f"extents{d}")
                # What follows an extent of 0 may claim any number: nothing looks at what is left of it.
                body.line(f"store_int32({extents} + 4 * i, as_int32(extent_{d}) if valid != 0 else 0)")
                self.absent.line(f"store_int32({extents} + 4 * i, 0)")
        self._end_item(node, k)

    def _copy_numbers(self, node: Items, k: str, used: str, capacity: str) -> None:
        body, item = self.body, node.item
        assert isinstance(item, Scalar)
        size, data = stored_size(item), self.entry(node, k, "data")
        is_transposed = node.column_major and len(node.extents) > 1
        with body.block(f"if {used} + size <= {capacity}:"):
            if item.store in (item.load.type, "bytes") and not item.load.order and not is_transposed:
                body.line(f"copy({data} + {size} * {used}, where, size * {size})")
            else:
                with body.block("for j in range(size):"):
                    body.line(f"at_item = {self._element(node)}")
                    value = f"load_{item.load.type}{item.load.order}(at_item)"
                    self._store(item, value, f"{data} + {size} * ({used} + j)", "at_item")

    def _element(self, node: Items) -> str:
        """The address of element j, which counts in row-major order whatever the order in memory."""
        if isinstance(node.item, Chars) and node.item.apart:
            stride = "1"  # rows of characters begin one after the other, and their characters lie apart
        else:
            stride = self.constant(node.stride) if isinstance(node.stride, int) else "step"
        if not node.column_major or len(node.extents) == 1:
            return f"where + j * {stride}"
        self.body.line("rest = j", "index = 0")
        for d in reversed(range(len(node.extents))):
            steps = "".join(f" * extent_{e}" for e in range(d))
            self.body.line(f"index += rest % extent_{d}{steps}", f"rest //= extent_{d}")
        return f"where + index * {stride}"

    @fill.register
    def _(self, node: Deref, k: str) -> None:
        body = self.body
        addresses = f"{self.entry(node, k, 'addresses')} + 8 * i"
        size = self.constant(node.size)
        body.line(f"slot = as_int64({self.load(node.slot)})", "target = 0")
        with body.block("if slot != 0:"):
            with body.block(f"if slot < minimum_ or slot >= length or {size} > length - slot:"):
                self.bad(node)
            with body.block("else:"):
                body.line("target = start + slot")
                cost = self.constant(node.size + VALUE_COST * node.parts)
                self.visit(node, cost, "target = 0")
        body.line(f"store_int64({addresses}, target)")
        self.absent.line(f"store_int64({addresses}, 0)")
        if node.homes:
            homes = self.entry(node, k, "homes")
            for lines in (body, self.absent):
                lines.line(f"store_int64({homes} + 8 * i, home)")


def has_validity(node: Filled) -> bool:
    """Whether a node can be null of its own accord, not only because its place is empty."""
    return isinstance(node, Text) or (isinstance(node, Chars | Items) and not isinstance(node.place, int))


def has_empty_lists(node: Filled) -> bool:
    """Whether a node's arrays may hold lists or strings without a byte: memory that no element accounts for."""
    if not isinstance(node, Items) or isinstance(node.place, int):
        return False
    return len(node.extents) > 1 or isinstance(node.stride, Load)
