"""What steps cost, in units of work: an operation, eight bytes copied or cleared, a character compared.

Both engines charge a call's budget by these figures. Work that the text bounds is charged once for each round of a
loop, and work that depends on the event (lengths, extents) where it happens.
"""

from __future__ import annotations

from ecode.typed import (
    Call,
    Compare,
    Constant,
    CopyRecord,
    Declare,
    Expression,
    Structs,
    Typed,
    TypedProgram,
    ValueType,
    walk,
)
from ecode.types import STRING, Array, Basic, Ref

BYTES = 8
"""Bytes that are copied or cleared by one unit of work."""

# Conversions and constants cost next to nothing.
_WEIGHTS = {"CompoundAssign": 3, "CopyRecord": 10, "PointerDifference": 2} | dict.fromkeys(
    [
        *("Read", "Negate", "Invert", "Arithmetic", "Compare", "Not", "Logical", "Choice", "Assign"),
        *("Element", "Character", "Target", "PointerAdd", "Present"),
    ],
    1,
)


class Work:
    """The units of values and nodes of one program."""

    def __init__(self, structs: Structs) -> None:
        self.structs = structs
        self._records: dict[str, int] = {}

    def value(self, type_: ValueType) -> int:
        """Units of copying or clearing a value in place, without what it points to."""
        match type_:
            case Array() if not type_.is_dynamic:
                count = 1
                for dim in type_.dims:
                    count *= int(dim)
                if isinstance(type_.element, Basic) and type_.element != STRING:
                    return -(-count * type_.element.size // BYTES)
                return count * self.value(type_.element)
            case Ref():
                if type_.name not in self._records:
                    fields = self.structs[type_.name].fields
                    self._records[type_.name] = max(1, sum(self.value(field.type) for field in fields))
                return self._records[type_.name]
        return 1

    def node(self, node: Typed) -> int:
        """Units of one node, without the nodes below it and without work that depends on the event."""
        match node:
            case Call():
                return node.function.cost + (shortest_text(node) or 0)
            case Compare():
                return 1 + (shortest_text(node) or 0)
            case CopyRecord():
                return _WEIGHTS["CopyRecord"] + self.value(node.place.type)
            case Declare():
                return self.value(node.variable.type)
        return _WEIGHTS.get(type(node).__name__, 0)

    def tree(self, node: Typed) -> int:
        """Units of a node and everything below it."""
        return sum(map(self.node, walk(node)))

    def has_dynamic_arrays(self, type_: ValueType) -> bool:
        """Whether copying a value copies arrays whose extents depend on the event."""
        waiting, seen = [type_], set()
        while waiting:
            one = waiting.pop()
            if isinstance(one, Array):
                if one.is_dynamic:
                    return True
                waiting.append(one.element)
            if isinstance(one, Ref) and one.name not in seen:
                seen.add(one.name)
                waiting += [field.type for field in self.structs[one.name].fields]
        return False

    def is_charged_later(self, node: Typed) -> bool:
        """Whether the cost of a node depends on the event: engines then charge it where they run the node."""
        match node:
            case Call():
                return node.function.is_logged or (node.function.charge is not None and shortest_text(node) is None)
            case Compare():
                return node.left.type == STRING and shortest_text(node) is None
            case CopyRecord():
                return self.has_dynamic_arrays(node.place.type)
        return bool(getattr(node, "resizes", ()))


def shortest_text(node: Call | Compare) -> int | None:
    """The length of the shortest literal in a comparison of strings, which compares at most that many characters."""
    operands: tuple[Expression, ...]
    if isinstance(node, Compare):
        operands = node.left, node.right
    elif node.function.charge is not None and node.function.charge.is_shortest:
        operands = node.arguments
    else:
        return None
    strings = [one.value for one in operands if isinstance(one, Constant) and one.type == STRING]
    return min((len(text) if isinstance(text, bytes) else 0 for text in strings), default=None)


def fixed_work(program: TypedProgram) -> int:
    """Units that every call costs: clearing outputs and variables, storing outputs and statics."""
    work = Work(program.structs)
    outputs = [type_ for name, type_ in program.param_types.items() if _is_output(program, name)]
    return 2 * sum(map(work.value, outputs)) + 2 * sum(work.value(variable.type) for variable in program.statics)


def _is_output(program: TypedProgram, name: str) -> bool:
    return any(param.name == name and param.mode.value == "out" for param in program.params)
