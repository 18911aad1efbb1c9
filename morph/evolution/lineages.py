"""`lineage`: which record type can become which, as a tree for the terminal or a graph for Graphviz.

>>> from ecode.types import INT32, Field, record
>>> from morph.transforms import Transform, TransformGraph
>>> old, new = (record("load", [Field(name, INT32)]) for name in "mn")
>>> graph = TransformGraph({"a": old, "a32": old, "b": new}, [Transform("b", "a", "{ old.m = new.n; }")])
>>> graph.add_transform(Transform("a", "lost", "{ }"))
>>> print(lineage(graph))
load@2 (b)
  load@1 (a, a32)
    ? (lost)
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass

from morph.transforms import Key, TransformGraph


@dataclass(frozen=True, slots=True)
class Relative:
    """A record type and its place among related types.

    Attributes:
        key: of its first format, which represents all of them.
        name: its name; empty for a format without a description.
        version: its place among the types of that name, oldest first from 1: transforms lead to older types. In a
            cycle, and between types without a transform, the order of adding counts.
        older: the types that it has transforms to, in the order of adding.
        others: its other formats: the same type, laid out for other machines, or with other transforms.
    """

    key: Key
    name: str
    version: int
    older: tuple[Key, ...]
    others: tuple[Key, ...] = ()

    @property
    def label(self) -> str:
        """The label in options and pictures: `name@version`."""
        return f"{self.name}@{self.version}" if self.name else "?"

    def __str__(self) -> str:
        return f"{self.label} ({', '.join((self.key, *self.others))})"


@dataclass(frozen=True, slots=True)
class Lineage:
    """All record types, oldest first."""

    types: tuple[Relative, ...]

    def __str__(self) -> str:
        """A tree: each record type, and below it the types that it can become. A repeated type ends in dots."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        by_key = {relative.key: relative for relative in self.types}
        younger = {key for relative in self.types for key in relative.older if key != relative.key}
        shown: set[Key] = set()
        # In a cycle that nothing leads to, the last added type is the root.
        roots = [r.key for r in reversed(self.types) if r.key not in younger]
        for root in [*roots, *(r.key for r in reversed(self.types))]:
            stack = [(root, 0)] if root not in shown else []
            while stack:
                key, depth = stack.pop()
                again = key in shown and bool(by_key[key].older)
                yield f"{'  ' * depth}{by_key[key]}{' ...' if again else ''}"
                if not again:
                    stack += [(older, depth + 1) for older in reversed(by_key[key].older)]
                shown.add(key)

    def to_dot(self) -> str:
        """A graph in the language of Graphviz, new types on top.

        >>> print(Lineage((Relative("a", "load", 1, ()), Relative("b", "load", 2, ("a",)))).to_dot())
        digraph lineage {
          node [shape=box];
          "a" [label="load@1\\na"];
          "b" [label="load@2\\nb"];
          "b" -> "a";
        }
        """
        lines = ["digraph lineage {", "  node [shape=box];"]
        for r in self.types:
            label = _quoted(r.label, r.key, *r.others)
            lines.append(f"  {_quoted(r.key)} [label={label}{'' if r.name else ', style=dashed'}];")
        lines += [f"  {_quoted(r.key)} -> {_quoted(older)};" for r in self.types for older in r.older]
        return "\n".join([*lines, "}"])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _quoted(*lines: str) -> str:
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines) + '"'


def lineage(graph: TransformGraph) -> Lineage:
    """The record types of a graph with their versions, including formats without a description."""
    import networkx as nx

    order = {key: number for number, key in enumerate(dict.fromkeys(map(graph.type_of, graph.keys)))}
    older = {
        key: tuple(dict.fromkeys(graph.type_of(transform.target) for transform in graph.transforms_from(key)))
        for key in order
    }
    # From old to new; types that transform into each other are one step.
    whole: nx.DiGraph[Key] = nx.DiGraph()
    whole.add_nodes_from(order)
    whole.add_edges_from((target, key) for key, targets in older.items() for target in targets)
    steps = nx.condensation(whole)
    first = {step: min(order[key] for key in members) for step, members in steps.nodes(data="members")}
    versions: dict[str, int] = {}
    relatives = []
    for step in nx.lexicographical_topological_sort(steps, key=first.__getitem__):
        for key in sorted(steps.nodes[step]["members"], key=order.__getitem__):
            record = graph.record(key)
            name = record.name if record is not None else ""
            versions[name] = versions.get(name, 0) + 1
            others = tuple(other for other in graph.formats_of(key) if other != key)
            relatives.append(Relative(key, name, versions[name], older[key], others))
    return Lineage(tuple(relatives))
