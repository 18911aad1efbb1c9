"""Datasets that the adios2 wheel writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adios2
import numpy as np


@dataclass(frozen=True)
class PerWriter:
    """A local value."""

    value: Any


@dataclass(frozen=True)
class Local:
    """The blocks of a local array."""

    blocks: Sequence[Any]


@dataclass(frozen=True)
class Joined:
    """Blocks that are stacked along their first dimension."""

    blocks: Sequence[Any]


class Maker:
    """Writes one dataset, one step after the other.

    `put` takes numbers and strings as scalars, arrays as global arrays, (shape, [(start, block), ...]) as an array
    in several blocks, and `PerWriter`, `Local`, `Joined`.
    """

    def __init__(self, path: Path, *, append: bool = False, operator: str | None = None, **parameters: str) -> None:
        self._adios = adios2.Adios()
        self.io = self._adios.declare_io("io")
        self.io.set_engine("BP5")
        self.io.set_parameters({"StripeSize": "4096", **parameters})
        self.operator = None if operator is None else self._adios.define_operator("op", operator, {})
        self.engine = self.io.open(str(path), adios2.bindings.Mode.Append if append else adios2.bindings.Mode.Write)

    def step(self, values: dict[str, Any], attributes: dict[str, Any] | None = None) -> None:
        self.engine.begin_step()
        for name, value in (attributes or {}).items():
            self.io.define_attribute(name, value)
        for name, value in values.items():
            self.put(name, value)
        self.engine.end_step()

    def put(self, name: str, value: Any) -> None:
        sync = adios2.bindings.Mode.Sync
        known = self.io.inquire_variable(name)
        if isinstance(value, str):
            self.engine.put(known or self.io.define_variable(name), value)
        elif isinstance(value, np.ndarray) and value.ndim:
            self._blocks(name, known, value.shape, [((0,) * value.ndim, value)])
        elif isinstance(value, tuple):
            self._blocks(name, known, *value)
        elif isinstance(value, PerWriter):
            array = np.asarray(value.value)
            self.engine.put(known or self.io.define_variable(name, array, [adios2.LocalValueDim], [], []), array, sync)
        elif isinstance(value, Local | Joined):
            self._unplaced(name, known, value)
        else:
            array = np.asarray(value)
            self.engine.put(known or self.io.define_variable(name, array, [], [], []), array, sync)

    def _blocks(self, name: str, known: Any, shape: Sequence[int], blocks: Sequence[tuple[Any, Any]]) -> None:
        for start, block in blocks:
            block = np.array(block)  # adios2 takes no array that it could not write to
            if not known:
                known = self.io.define_variable(name, block, list(shape), list(start), list(block.shape))
                if self.operator is not None:
                    known.add_operation(self.operator, {})
            known.set_shape(list(shape))
            known.set_selection([list(start), list(block.shape)])
            self.engine.put(known, block, adios2.bindings.Mode.Sync)

    def _unplaced(self, name: str, known: Any, value: Local | Joined) -> None:
        """Blocks that say only how large they are."""
        for block in map(np.array, value.blocks):
            if not known:
                shape = [adios2.JoinedDim, *block.shape[1:]] if isinstance(value, Joined) else []
                known = self.io.define_variable(name, block, shape, [], list(block.shape))
            known.set_selection([[], list(block.shape)])
            self.engine.put(known, block, adios2.bindings.Mode.Sync)

    def flush(self) -> None:
        """Write the data that was put so far, in the middle of a step."""
        self.engine.perform_data_write()

    def close(self) -> None:
        self.engine.close()


def make(path: Path, steps: Sequence[dict[str, Any]], **parameters: str) -> Path:
    maker = Maker(path, **parameters)
    for values in steps:
        maker.step(values)
    maker.close()
    return path
