"""A record type prepared for comparison: fields by name, weights computed, cycles found.

It is prepared once, so that a comparison of two flat record types is a difference of two sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ecode.types import Basic, Notes, Record, Struct, references
from morph.comparison.convertible import Look, field_to_look, shape

Weights = dict[str, "_Weights"]


@dataclass(frozen=True, slots=True)
class Inner:
    """A field that is a structure, or an array of structures.

    Attributes:
        dims: its extents, as in `Shape`.
        node: the structure.
        weight: the factor for the weights of all fields below.
        is_back: whether the structure and the one that holds the field contain each other.
    """

    dims: tuple[int | None, ...]
    node: StructProfile
    weight: float
    is_back: bool


@dataclass(slots=True, eq=False)
class StructProfile:
    """A structure at a path, with the weights that hold there.

    Attributes:
        struct: its name and fields.
        height: inner structures have smaller numbers; structures that contain each other have the same.
        looks: the basic fields by name, arrays of basic values among them.
        weights: of the basic fields.
        all_basic, counted: the looks of the basic fields; of those with a weight.
        inner: the other fields by name.
    """

    struct: Struct
    height: int
    looks: dict[str, Look] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    all_basic: frozenset[Look] = frozenset()
    counted: frozenset[Look] = frozenset()
    inner: dict[str, Inner] = field(default_factory=dict)


@dataclass(slots=True)
class _Weights:
    """Weights of the policy for a field and for the fields below it."""

    own: float | None = None
    below: Weights = field(default_factory=dict)


def record_to_profile(record: Record, field_weights: tuple[tuple[str, float], ...] = ()) -> StructProfile:
    """The top structure of a record type, prepared for comparison.

    The weight of a field is that of the policy, else that of its notes, else 1; a hidden field has weight 0.
    """
    structs = {struct.name: struct for struct in record.structs}
    heights = _heights(record)
    tree = _tree(field_weights)
    made: dict[tuple[str, int], StructProfile] = {}
    waiting: list[tuple[StructProfile, Weights]] = []

    def node_of(name: str, below: Weights) -> StructProfile:
        # Structures that no path of the policy enters are shared.
        key = name, id(below) if below else 0
        if key not in made:
            made[key] = StructProfile(structs[name], heights[name])
            waiting.append((made[key], below))
        return made[key]

    top = node_of(record.name, tree)
    for node, below in waiting:  # grows while it is walked
        for f in node.struct.fields:
            said = below.get(f.name, _NOTHING_SAID)
            weight = said.own if said.own is not None else _own_weight(f.notes)
            form = shape(f.type)
            if isinstance(form.core, Basic):
                node.looks[f.name], node.weights[f.name] = field_to_look(f), weight
            else:
                is_back = heights[form.core] == node.height
                node.inner[f.name] = Inner(form.dims, node_of(form.core, said.below), weight, is_back)
        node.all_basic = frozenset(node.looks.values())
        node.counted = frozenset(look for name, look in node.looks.items() if node.weights[name])
    return top


def _own_weight(notes: Notes) -> float:
    if notes.hidden:
        return 0
    return 1 if notes.weight is None else notes.weight


_NOTHING_SAID = _Weights()


def _tree(field_weights: tuple[tuple[str, float], ...]) -> Weights:
    top = _Weights()
    for path, weight in field_weights:
        here = top
        for name in path.split("."):
            here = here.below.setdefault(name, _Weights())
        here.own = float(weight)
    return top.below


def _heights(record: Record) -> dict[str, int]:
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(struct.name for struct in record.structs)
    graph.add_edges_from((struct.name, name) for struct in record.structs for name in _inner_names(struct))
    return {
        name: height for height, component in enumerate(nx.strongly_connected_components(graph)) for name in component
    }


def _inner_names(struct: Struct) -> Iterator[str]:
    for f in struct.fields:
        yield from references(f.type)
