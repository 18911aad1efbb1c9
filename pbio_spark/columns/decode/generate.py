"""Level -> text of the kernels that fill its nodes.

A kernel runs over the places of a level. It checks every slot and count against the record before following it: a
target outside marks the record bad in `status` (with the number of the node, plus one) and counts as absent. Outputs of
unknown size have a capacity; a kernel that exceeds it continues counting, so that its next run has room.

One generator makes both kinds of kernel:

* *fused*: every number of the format is written into the text, and a kernel fills up to `GROUP` nodes; what it does for
  a string or an array is a function, which all kernels with such fields share: numba takes it apart only once;
* *ready-made*: a kernel fills one node and reads offsets and extents from its table, so that one kernel serves all
  fields of its shape in all formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from ecode.native import Lines
from pbio_spark.columns.decode.fill import Filling
from pbio_spark.columns.decode.plan import Filled, Level, Scalar

GROUP = 8

# The first entries of every table. `starts` and `ends` hold the addresses of each record's first byte and of the byte
# after its last; `homes` the places of the structures that control arrays here; `minimum` is the least offset that a
# slot may hold.
HEADER = ("at", "homes", "rows", "starts", "ends", "status", "visited", "minimum")

_PLACE = ("i", "at", "row", "start", "home", "length", "status_", "visited_", "minimum_")
"""What every function that fills a node is given first."""


@dataclass(frozen=True, slots=True)
class KernelText:
    """The text of one kernel, and its table entries after the header.

    Attributes:
        nodes: the nodes that it fills, in order.
        entries: for each table entry (number of the node, name of the entry), or a parameter's value.
    """

    nodes: tuple[Filled, ...]
    source: str
    entries: tuple[tuple[int, str] | int, ...]


def level_to_texts(level: Level, is_fused: bool) -> list[KernelText]:
    """The kernels of a level."""
    size = GROUP if is_fused else 1
    groups = [level.nodes[i : i + size] for i in range(0, len(level.nodes), size)]
    return [_Kernel(level, is_fused).generate(nodes) for nodes in groups]


class _Kernel(Filling):
    def __init__(self, level: Level, is_fused: bool) -> None:
        super().__init__()
        self.level = level
        self.is_root = level.parent is None
        self.is_fused = is_fused
        self.head: list[str] = []
        self.tail: list[str] = []
        self.entries: list[tuple[int, str] | int] = []
        self.helpers: dict[str, str] = {}

    def generate(self, nodes: Sequence[Filled]) -> KernelText:
        for k, node in enumerate(nodes):
            if self.is_fused and not isinstance(node, Scalar):
                self._call(node, str(k))
            else:
                self.fill(node, str(k))
        text = Lines()
        text.line(*self.helpers.values())
        with text.block("def kernel(count, table):"):
            text.line(*(f"{name}_ = load_int64(table + {8 * i})" for i, name in enumerate(HEADER)))
            text.line(*self.head, *self.first)
            with text.block("for i in range(count):"):
                text.line("at = load_int64(at_ + 8 * i)")
                if self.is_root:
                    text.line("row = i", "start = at")
                else:
                    text.line("row = as_int64(load_int32(rows_ + 4 * i))", "start = load_int64(starts_ + 8 * row)")
                text.line("home = load_int64(homes_ + 8 * i)" if self.level.has_homes else "home = at")
                text.line("length = load_int64(ends_ + 8 * row) - start")
                if self.level.is_nullable:
                    with text.block("if at != 0:"):
                        text.line(*str(self.body).splitlines())
                    with text.block("else:"):
                        text.line(*str(self.absent).splitlines())
                else:
                    text.line(*str(self.body).splitlines())
            text.line(*self.tail, "return 0")
        return KernelText(tuple(nodes), f"{text}\n", tuple(self.entries))

    def _call(self, node: Filled, k: str) -> None:
        """Fill a node by a function of what is its own, that all nodes like it share."""
        inner = _Function()
        inner.fill(node, "0")
        given = [*_PLACE, *inner.outputs, *inner.constants]
        body = Lines()
        with body.block(f"({', '.join(given)}):"):
            body.line(*str(inner.body).splitlines())
            body.line(f"return {', '.join(inner.counts) or 0}")
        name = f"fill_{sha256(str(body).encode()).hexdigest()[:24]}"
        self.helpers[name] = f"@shared\ndef {name}{body}\n"
        outside, self.body = self.body, Lines()
        self.fill(node, k)  # for all but its body, which is the function's
        self.body = outside
        arguments = [
            *_PLACE,
            *(f"{entry}_{k}" for entry in inner.outputs.values()),
            *map(str, inner.constants.values()),
        ]
        counts = ", ".join(f"{inner.outputs[variable]}_{k}" for variable in inner.counts)
        self.body.line(f"{counts or 'done'} = {name}({', '.join(arguments)})")

    def entry(self, node: Filled, k: str, name: str) -> str:
        """A variable with an entry of the table: the address of an output, or its capacity."""
        self.head.append(f"{name}_{k} = load_int64(table + {self._next_entry()})")
        self.entries.append((node.number, name))
        return f"{name}_{k}"

    def count(self, node: Filled, k: str, name: str) -> str:
        """A running count that the table holds at the end."""
        self.head.append(f"{name}_{k} = 0")
        self.tail.append(f"store_int64(table + {self._next_entry()}, {name}_{k})")
        self.entries.append((node.number, name))
        return f"{name}_{k}"

    def constant(self, value: int) -> str:
        """A number of the format: a literal, or a variable with its table entry."""
        if self.is_fused:
            return str(value)
        variable = f"constant_{len(self.entries)}"
        self.head.append(f"{variable} = load_int64(table + {self._next_entry()})")
        self.entries.append(value)
        return variable

    def _next_entry(self) -> int:
        return 8 * (len(HEADER) + len(self.entries))


class _Function(Filling):
    """Makes the body of a function that fills a node, and notes what it must be given."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: dict[str, str] = {}
        self.counts: list[str] = []
        self.constants: dict[str, int] = {}

    def entry(self, node: Filled, k: str, name: str) -> str:
        self.outputs[f"{name}_{k}"] = name
        return f"{name}_{k}"

    def count(self, node: Filled, k: str, name: str) -> str:
        self.counts.append(self.entry(node, k, name))
        return self.counts[-1]

    def constant(self, value: int) -> str:
        variable = f"constant_{len(self.constants)}"
        self.constants[variable] = value
        return variable
