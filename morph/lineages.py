"""`lineage`: which format can become which, as a tree for the terminal and as a picture in the language of Graphviz.

>>> from ecode.types import INT32, Field, record
>>> from morph.transforms import Transform, TransformGraph
>>> load = record("load", [Field("n", INT32)])
>>> graph = TransformGraph({"a": load, "b": load}, [Transform("b", "a", "{ old.n = new.n; }")])
>>> graph.add_transform(Transform("a", "lost", "{ }"))
>>> print(lineage(graph))
load 2 (b)
  load 1 (a)
    ? (lost)
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass

from morph.transforms import Key, TransformGraph


@dataclass(frozen=True, slots=True)
class Relative:
    """A format among its relatives.

    Attributes:
        name: of its record type; empty where nobody has described it.
        version: its place among the formats of that name, oldest first from 1: a transform leads to an older one.
            In a cycle, and where no transform says, formats are in the order in which they were added.
        older: what it has transforms to, in the order of adding.
    """

    key: Key
    name: str
    version: int
    older: tuple[Key, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.key})" if self.name else f"? ({self.key})"


@dataclass(frozen=True, slots=True)
class Lineage:
    """All formats, oldest first."""

    formats: tuple[Relative, ...]

    def __str__(self) -> str:
        """A tree: below a format stands what it can become. What was shown before ends in dots."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        by_key = {relative.key: relative for relative in self.formats}
        younger = {key for relative in self.formats for key in relative.older if key != relative.key}
        shown: set[Key] = set()
        # Formats of a cycle that nothing leads to have no youngest; then the one added last stands on top.
        roots = [r.key for r in reversed(self.formats) if r.key not in younger]
        for root in [*roots, *(r.key for r in reversed(self.formats))]:
            stack = [(root, 0)] if root not in shown else []
            while stack:
                key, depth = stack.pop()
                again = key in shown and bool(by_key[key].older)
                yield f"{'  ' * depth}{by_key[key]}{' ...' if again else ''}"
                if not again:
                    stack += [(older, depth + 1) for older in reversed(by_key[key].older)]
                shown.add(key)

    def to_dot(self) -> str:
        """A graph in the language of Graphviz, new formats on top.

        >>> print(Lineage((Relative("a", "load", 1, ()), Relative("b", "load", 2, ("a",)))).to_dot())
        digraph lineage {
          node [shape=box];
          "a" [label="load 1\\na"];
          "b" [label="load 2\\nb"];
          "b" -> "a";
        }
        """
        lines = ["digraph lineage {", "  node [shape=box];"]
        for r in self.formats:
            label = _quoted(f"{r.name} {r.version}" if r.name else "?", r.key)
            lines.append(f"  {_quoted(r.key)} [label={label}{'' if r.name else ', style=dashed'}];")
        lines += [f"  {_quoted(r.key)} -> {_quoted(older)};" for r in self.formats for older in r.older]
        return "\n".join([*lines, "}"])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _quoted(*lines: str) -> str:
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines) + '"'


def lineage(graph: TransformGraph) -> Lineage:
    """The formats of a graph with their versions; formats that nobody has described are among them."""
    import networkx as nx

    order = {key: number for number, key in enumerate(graph.graph)}
    # From old to new; formats that transform into each other are one step of their way.
    steps = nx.condensation(graph.graph.reverse(copy=False))
    first = {step: min(order[key] for key in members) for step, members in steps.nodes(data="members")}
    versions: dict[str, int] = {}
    relatives = []
    for step in nx.lexicographical_topological_sort(steps, key=first.__getitem__):
        for key in sorted(steps.nodes[step]["members"], key=order.__getitem__):
            record = graph.record(key)
            name = record.name if record is not None else ""
            versions[name] = versions.get(name, 0) + 1
            older = tuple(transform.target for transform in graph.transforms_of(key))
            relatives.append(Relative(key, name, versions[name], older))
    return Lineage(tuple(relatives))
