"""The state of programs while they decode."""

from __future__ import annotations

from copy import deepcopy

from ecode import Statics


class KeptState:
    """The state that outlives decoders: only what has been decoded for good changes it."""

    def __init__(self, initial: Statics, kept: Statics | None) -> None:
        """
        Args:
            initial: what programs begin with.
            kept: the caller's dict, which is updated; None for one of its own.
        """
        self._initial = initial
        self._kept: Statics = {} if kept is None else kept

    def copy(self) -> Statics:
        """The state now, for programs to change."""
        return {name: self._kept[name] if name in self._kept else deepcopy(v) for name, v in self._initial.items()}

    def keep(self, statics: Statics) -> None:
        """Take what they made of it."""
        self._kept.update(statics)
