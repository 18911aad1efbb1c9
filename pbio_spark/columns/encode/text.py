"""The parts of an encoding kernel's text: its table, its helpers, and the functions that write nodes.

Nodes of the same shape share one function, with offsets, columns and extents as arguments. So the time to compile a
kernel depends on the number of shapes, and its machine code still has the numbers in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa

from ecode.native import Lines
from pbio_spark.columns.decode.plan import Load
from pbio_spark.columns.encode.plan import Extent, offset_size

# The first entries of the table, then those of each column. A kernel that refuses leaves the column, the index in its
# array and the reason.
HEADER = ("out", "limit", "ends", "constants", "refused_column", "refused_index", "reason")
COLUMN = ("validity", "first", "values", "bytes")


class Reason(IntEnum):
    """Why a value is refused."""

    NULL = 1
    """The format cannot represent this null."""
    RANGE = 2
    """The number does not fit the field."""
    LENGTH = 3
    """The value has another length than the field, or from its control field."""
    RAGGED = 4
    """A list has another length than its neighbours."""
    NUL = 5
    """A text holds a NUL."""
    COUNT = 6
    """The control field cannot hold the length."""
    RECORD = 7
    """The record is too long for its pointers or its length word."""


def entry(name: str) -> str:
    """An entry of the table's header."""
    return f"load_int64(table + {8 * HEADER.index(name)})"


HELPERS = f"""
@inline
def is_valid(column, index):
    validity = load_int64(column)
    if validity == 0:
        return True
    bit = load_int64(column + 8) + index
    return (as_int64(load_uint8(validity + (bit >> 3))) >> (bit & 7)) & 1 == 1

@inline
def refuse(table, column, index, reason):
    store_int64(table + {8 * HEADER.index("refused_column")}, (column - table - {8 * len(HEADER)}) // {8 * len(COLUMN)})
    store_int64(table + {8 * HEADER.index("refused_index")}, index)
    store_int64(table + {8 * HEADER.index("reason")}, reason)
    return -1

@inline
def align(start, end):
    store_int64(end, 0)
    return end + ((start - end) & 7)
"""


@dataclass(frozen=True, slots=True)
class At:
    """The variable with the address of a column's entries in the table."""

    name: str
    type: pa.DataType

    def entry(self, name: str) -> str:
        return f"load_int64({self.name} + {8 * COLUMN.index(name)})"

    def is_valid(self, index: str) -> str:
        return f"is_valid({self.name}, {index})"


class KernelWriter:
    """The text of one kernel, growing, and that of the function at which it stands."""

    def __init__(self, own: int) -> None:
        """
        Args:
            own: the bytes at the beginning of the constants that hold a format's ID; `constant` never reuses them.
        """
        self.own = own
        self.constants = bytearray()
        self.functions = Lines()
        self.shapes: dict[str, str] = {}
        self.start()

    def start(self) -> None:
        """Begin the text of another function."""
        self.body = Lines()
        self.arguments: list[str] = []
        self.serial = 0

    def define(self, head: str) -> None:
        """End the text of a function."""
        self.functions.line("@early")
        with self.functions.block(f"def {head}:"):
            self.functions.line(*str(self.body).splitlines(), "return end")
        self.functions.line("")

    def constant(self, data: bytes) -> int:
        """The position of some bytes among the constants."""
        at = self.constants.find(data, self.own)
        if at < 0:
            at = len(self.constants)
            self.constants += data
        return at

    def argument(self, value: int | str) -> str:
        """A number, or an expression of the caller, that differs between nodes of one shape."""
        # A bare number would be a type of its own to numba, and the function compiled again for each.
        self.arguments.append(f"as_int64({value})" if isinstance(value, int) else value)
        return f"a{len(self.arguments) - 1}"

    def place(self, image: str, offset: int) -> str:
        """The address at an offset of the structure's image, or of one within it."""
        if image == "image":
            return self.argument(f"image + {offset}")
        return f"{image} + {self.argument(offset)}" if offset else image

    def variable(self, name: str) -> str:
        """A name that no other line of the function uses."""
        self.serial += 1
        return f"{name}_{self.serial}"

    def let(self, name: str, value: str) -> str:
        """A new variable with a value."""
        variable = self.variable(name)
        self.body.line(f"{variable} = {value}")
        return variable

    def column(self, number: int, type_: pa.DataType) -> At:
        return At(self.argument(f"table + {8 * (len(HEADER) + len(COLUMN) * number)}"), type_)

    def extent(self, extent: Extent) -> str:
        """A constant, or a variable with the value of a control field of the structure."""
        if isinstance(extent, int):
            return self.argument(extent)
        at = self.place("image", extent.offset)
        return self.let("extent", f"as_int64(load_{extent.type}{extent.order}({at}))")

    def bounds(self, column: At, first: str, last: str | None = None) -> tuple[str, str]:
        """Variables with the first element (or byte) of a list (or text) and with the one after its last.

        With `last`, of all lists from `first` on and before `last`.
        """
        size = offset_size(column.type)
        begin = self.let("at", f"{column.entry('values')} + {size} * {first}")
        end = f"{begin} + {size}" if last is None else f"{column.entry('values')} + {size} * {last}"
        load = f"load_int{8 * size}"
        return self.let("first", f"as_int64({load}({begin}))"), self.let("last", f"as_int64({load}({end}))")

    def text(self, column: At, index: str) -> tuple[str, str]:
        """Variables with the address and the size of a text."""
        first, last = self.bounds(column, index)
        return self.let("from", f"{column.entry('bytes')} + {first}"), self.let("size", f"{last} - {first}")

    def refuse(self, column: At, index: str, reason: Reason) -> None:
        self.body.line(f"return refuse(table, {column.name}, {index}, {reason:d})")

    def refuse_if(self, condition: str, column: At, index: str, reason: Reason) -> None:
        with self.body.block(f"if {condition}:"):
            self.refuse(column, index, reason)

    def refuse_null(self, column: At, index: str, can_be_null: bool) -> None:
        """The other branch of a validity check."""
        if not can_be_null:
            with self.body.block("else:"):
                self.refuse(column, index, Reason.NULL)

    def store(self, place: Load, image: str, value: str) -> None:
        """Store a value that has the place's type."""
        self.body.line(f"store_{place.type}{place.order}({self.place(image, place.offset)}, {value})")

    def target(self, slot: Load, image: str, size: str) -> str:
        """Make room for a target, and a variable with its address."""
        where = self.let("target", "align(start, end)")
        self.store(slot, image, f"as_{slot.type}({where} - start)")
        self.body.line(f"end = {where} + {size}")
        return where

    def copy_constant(self, to: str, data: bytes) -> None:
        at = self.argument(f"{entry('constants')} + {self.constant(data)}")
        self.body.line(f"copy({to}, {at}, {self.argument(len(data))})")
