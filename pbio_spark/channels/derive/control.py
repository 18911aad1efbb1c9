"""Creating, changing and replacing derivations, each in one commit."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from ecode.suggest import did_you_mean
from pbio_spark.channels.commits.checked import check_name, span_to_microseconds
from pbio_spark.channels.commits.commit import Change, Create, Drop, Replace, Share
from pbio_spark.channels.commits.derivation import Derivation, ParameterBlock, When
from pbio_spark.channels.commits.derivation_json import derivation_to_json
from pbio_spark.channels.derive.check import Checked, check_derivation
from pbio_spark.channels.derive.deriver import Deriver
from pbio_spark.channels.derive.modulator import Modulator
from pbio_spark.channels.derive.parameters import changed_block, values_to_block
from pbio_spark.channels.log.derived import SharedBlock
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.state import ChannelInfo, State
from pbio_spark.channels.named import AnyChannel
from pbio_spark.channels.presence import subscribers
from pbio_spark.channels.presence.subscribers import ANONYMOUS, new_anonymous
from pbio_spark.channels.presence.watch import watch
from pbio_spark.channels.publish.submission import channel_format
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.store import FormatStore

_LONGEST_PARENT = 150

log = logging.getLogger("pbio_spark.channels")


@dataclass(frozen=True, slots=True)
class Control:
    """What changes derivations in one space."""

    history: History
    formats: FormatStore
    deriver: Deriver
    named: Callable[[AnyChannel, State], ChannelInfo]
    """The channel of a name. Raises PBIO_UNKNOWN_CHANNEL."""
    _costs: dict[tuple[int, int, str], int | None] = field(default_factory=dict)

    def cost(self, info: ChannelInfo) -> int | None:
        """The most units of work per event of a derived channel's code, as far as its text tells.

        None if it no longer compiles, because its parent was replaced or a format is lost.
        """
        with self.history.lock:
            parent = self.history.state.channels[self._derivation(info).parent]
        key = info.id, info.since, parent.format
        if key not in self._costs:
            try:
                form, own = (channel_format(one, self.formats) for one in (parent, info))
                programs = check_derivation(form, own, self._derivation(info)).programs
            except PbioError:
                self._costs[key] = None
            else:
                costs = [one.analysis.fixed_cost for what, one in programs.items() if what != "period"]
                self._costs[key] = sum(costs)
        return self._costs[key]

    def derivation(
        self, parent: ChannelInfo, modulator: Modulator, *, is_temporary: bool = False, when: When = "always"
    ) -> tuple[Format, Checked]:
        """The type of a derived channel, and its derivation, with all programs checked.

        Raises PBIO_BAD_OPTION, PBIO_BAD_PROGRAM.
        """
        if not isinstance(modulator, Modulator):
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"expected a Modulator, not {type(modulator).__name__}",
                hint="give pbio.Modulator(filter=...), or its attributes by name",
            )
        has_code = any((modulator.filter, modulator.transform, modulator.dequeue, modulator.period))
        if is_temporary and not has_code:
            raise PbioError(
                "PBIO_BAD_OPTION",
                "the modulator has no code: its subscriber would get the channel's own events",
                hint="give it filter=, transform=, dequeue= or period=, or subscribe without one",
            )
        form = channel_format(parent, self.formats)
        own = modulator.output_format(form)
        shared = None if not isinstance(modulator.parameters, str) else self._shared(modulator.parameters)
        derivation = modulator.to_derivation(parent.id, shared, is_temporary=is_temporary, known=when)
        return own, self.deriver.check(form, own, derivation)

    def replace(self, name: AnyChannel, modulator: Modulator) -> int:
        """Replace the code of a channel from the next commit on; returns the version of that commit.

        State is kept if the programs declare the same state.
        """
        with self.history.lock:
            state = self.history.catch_up()
            info = self.named(name, state)
            known = self._derivation(info)
            parent = state.channels[known.parent]
        own, made = self.derivation(parent, modulator, is_temporary=known.is_temporary, when=known.when)
        form = channel_format(parent, self.formats)
        self.formats.put(own)

        def change(state: State) -> Replace:
            now = self.named(name, state)
            if now.id != info.id:
                raise PbioError(
                    "PBIO_UNKNOWN_CHANNEL",
                    f"the channel {info.name!r} was dropped and created again",
                    hint="open it again, with space.channel(name), and repeat the call",
                )
            # If another program has replaced the code meanwhile, this replaces that.
            return Replace(info.id, own.id.hex(), current(made.derivation, state), self._kept(form, now) == made.kept)

        version = self.history.commit(change)
        assert version is not None
        return version

    def _kept(self, parent: Format, info: ChannelInfo) -> tuple[tuple[str, str], ...] | None:
        """The state of a channel's code; None if it no longer compiles because its parent was replaced."""
        try:
            return self.deriver.check(parent, channel_format(info, self.formats), self._derivation(info)).kept
        except PbioError:
            return None

    def set_parameters(self, name: AnyChannel, values: Mapping[str, Any], lazy: timedelta | float | None) -> int:
        """Set parameters; returns the version of the commit."""
        microseconds = 0 if lazy is None else span_to_microseconds(lazy, "lazy=", takes_seconds=True)
        if isinstance(values, Mapping) and not values:
            raise PbioError("PBIO_BAD_OPTION", "no parameters are given", hint="name at least one, with its new value")

        def change(state: State) -> Change:
            info = self._holder(name, state)
            if isinstance(info, SharedBlock):
                return Change(info.id, changed_block(info.parameters, values), microseconds)
            derivation = self._derivation(info)
            if derivation.shared:
                shared = state.derived.blocks[derivation.shared]
                raise PbioError(
                    "PBIO_BAD_OPTION",
                    f"the parameters of {info.name!r} are the block {shared.name!r}, which other channels may share",
                    hint=f"set_parameters({shared.name!r}, ...) changes them for all",
                )
            return Change(info.id, changed_block(derivation.parameters, values), microseconds)

        version = self.history.commit(change)
        assert version is not None
        return version

    def create_parameters(self, name: str, values: Mapping[str, Any], *, exist_ok: bool) -> None:
        """Create a block of parameters that derivations share."""
        check_name(name, "parameter block")
        block = values_to_block(values)
        if not block:
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"the parameter block {name!r} has no parameters",
                hint="name at least one, with its value",
            )

        def create(state: State) -> Share | None:
            known = state.derived.named(name)
            if known is None and name not in state.names:
                return Share(name, block)
            if known is not None and exist_ok and known.parameters.shape == block.shape:
                return None
            what = "a channel" if known is None else "a parameter block"
            raise PbioError("PBIO_CHANNEL_EXISTS", f"{what} {name!r} already exists", hint="choose another name")

        self.history.commit(create)

    def drop_parameters(self, name: str) -> None:
        """Drop a block that no derivation uses any more."""

        def drop(state: State) -> Drop:
            number, _ = self._block(name, state)
            users = [info.name for info in state.sharing(number)]
            if users:
                raise PbioError(
                    "PBIO_BAD_OPTION",
                    f"cannot drop {name!r} before the channels that use it: {', '.join(users)}",
                    hint="drop those first, or give them other parameters with replace_channel",
                )
            return Drop(number)

        self.history.commit(drop)

    def parameters(self, name: AnyChannel) -> dict[str, Any]:
        """The values of a derived channel's parameters, or of a shared block's."""
        with self.history.lock:
            state = self.history.catch_up()
            info = self._holder(name, state)
            if isinstance(info, SharedBlock):
                return info.parameters.values
            return self._derivation(info).parameters.values

    def attach(
        self, folder: Folder, parent: ChannelInfo, modulator: Modulator, subscriber: str | None, expire_after: timedelta
    ) -> tuple[ChannelInfo, str, bool]:
        """A channel derived for one subscriber, or shared by several that want the same; the name that marks this
        subscriber as present; and whether that name is new.

        Args:
            subscriber: its name; None for one that is forgotten when it leaves.
        """
        own, checked = self.derivation(parent, modulator, is_temporary=True)
        derivation = checked.derivation
        self.formats.put(own)
        presence = subscriber or new_anonymous()
        # Static variables of its programs are state, too.
        is_shared = modulator.is_shared and not derivation.is_ordered
        name = _own_name(parent, own, derivation, presence, is_shared=is_shared)

        def create(state: State) -> Create | None:
            if derivation.parent not in state.channels:
                raise PbioError(
                    "PBIO_UNKNOWN_CHANNEL",
                    f"the channel {parent.name!r} has been dropped",
                    hint="channels() of the space lists those that exist",
                )
            return None if name in state.names else Create(name, own.id.hex(), current(derivation, state))

        while True:
            self.history.commit(create)
            with self.history.lock:
                info = self.history.catch_up().channels.get(self.history.state.names.get(name, 0))
            is_new = info is not None and subscribers.read(folder, info.id, presence) is None
            if info is not None and watch(self.history, folder, info, presence, expire_after):
                if not is_new and self._derivation(info).parameters != derivation.parameters:
                    log.warning("%r keeps the parameters that were set: set_parameters changes them", presence)
                if is_new and subscriber is not None and self._has_other_code(folder, parent, info, subscriber):
                    log.warning(
                        "%r has other code at the sources of %r, which stays until it expires; that channel's "
                        "unsubscribe(%r) ends all of it",
                        subscriber,
                        parent.name,
                        subscriber,
                    )
                return info, presence, is_new

    def _has_other_code(self, folder: Folder, parent: ChannelInfo, own: ChannelInfo, subscriber: str) -> bool:
        """Whether a subscriber has already given code to a channel's sources under the same name."""
        with self.history.lock:
            children = self.history.catch_up().children(parent.id)
        others = {child.id for child in children if self._derivation(child).is_temporary} - {own.id}
        return any(one.channel in others for one in subscribers.of_name(folder, subscriber))

    def _holder(self, name: AnyChannel, state: State) -> ChannelInfo | SharedBlock:
        """The channel or the block of a name. Raises PBIO_UNKNOWN_CHANNEL."""
        block = state.derived.named(name)
        if isinstance(name, str) and name not in state.names:
            if block is not None:
                return block
            hint = did_you_mean(name, [*state.names, *(one.name for one in state.derived.blocks.values())])
            if hint:
                raise PbioError("PBIO_UNKNOWN_CHANNEL", f"unknown channel or parameter block {name!r}", hint=hint)
        return self.named(name, state)

    def _shared(self, name: str) -> tuple[int, ParameterBlock]:
        with self.history.lock:
            return self._block(name, self.history.catch_up())

    def _block(self, name: str, state: State) -> tuple[int, ParameterBlock]:
        block = state.derived.named(name)
        if block is None:
            names = [one.name for one in state.derived.blocks.values()]
            hint = did_you_mean(name, names) or "create_parameters(name, values) begins one"
            if any(sign in name for sign in "{=["):
                hint = "values are a mapping in Python, and --param NAME=VALUE on the command line"
            raise PbioError("PBIO_BAD_OPTION", f"unknown parameter block {name[:80]!r}", hint=hint)
        return block.id, block.parameters

    def _derivation(self, info: ChannelInfo) -> Derivation:
        if info.derivation is None:
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"the channel {info.name!r} is not derived: it has no code and no parameters",
                hint="derive_channel makes one that has; parameter blocks also have parameters",
            )
        return info.derivation


def _own_name(parent: ChannelInfo, own: Format, how: Derivation, presence: str, *, is_shared: bool) -> str:
    """The name of a channel derived for subscribers: the same for all that can share it."""
    said = json.dumps(derivation_to_json(how), sort_keys=True) + own.id.hex()
    digest = hashlib.sha256(said.encode()).hexdigest()[:16]
    whose = "" if is_shared else f"-{hashlib.sha256(presence.encode()).hexdigest()[:8]}"
    return f"{parent.name[:_LONGEST_PARENT]}{ANONYMOUS}{digest}{whose}"


def current(derivation: Derivation, state: State) -> Derivation:
    """A derivation with the current values of its shared block. Raises PBIO_BAD_OPTION if that was dropped."""
    if not derivation.shared:
        return derivation
    block = state.derived.blocks.get(derivation.shared)
    if block is None:
        raise PbioError(
            "PBIO_BAD_OPTION", "the parameter block has been dropped", hint="create it again: create_parameters(...)"
        )
    return replace(derivation, parameters=block.parameters)


def making(derivation: Derivation | None) -> object:
    """The part of a derivation that does not depend on parameter values."""
    if derivation is None:
        return None
    return replace(derivation, parameters=replace(derivation.parameters, text=""), max_cost=0)
