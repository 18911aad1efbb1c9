"""`Modulator`: the part of a subscriber's handler that runs at the sources of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict

from ecode.limits import SOURCE_WORK
from pbio_spark.channels.commits.checked import check_word, is_text, span_to_microseconds
from pbio_spark.channels.commits.derivation import MOST_TRAPS, Derivation, ParameterBlock, When
from pbio_spark.channels.derive.parameters import values_to_block
from pbio_spark.channels.derive.source import declared
from pbio_spark.channels.publish.submission import AnyType, type_to_format
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.keywords import suggesting_class, unknown_argument

_MOST_COST = 1 << 62


@suggesting_class
@dataclass(frozen=True, kw_only=True)
class Modulator:
    """Code that makes the events of a derived channel, at the sources of its parent's events (JECho's modulator).

    All programs are E-code. They see `param`, the parameters; `state`, what they keep for each producer, which they
    share; and the services that the source grants, as functions.

    Attributes:
        filter: selects events; sees `input`.
        transform: fills `output`, of `type`, from `input`; an event for which it returns 0 is left out. Without one,
            events stay unchanged.
        type: of the channel's events; needed with `transform` or `period`, unless that is the parent's.
        parameters: the initial fields of `param`: numbers, strings, lists and mappings of these; or the name of a
            block that derivations share, from `create_parameters`.
        state: the fields of `state` before the first event, as for parameters; lists keep their length.
        dequeue: sees each event, as `input`, when it is committed to the log, after `filter` and `transform` have seen
            all events of the commit: the last chance to drop it (return 0) or to alter it (`output`, initially a copy).
        period: makes events of its own, at the first commit with events of the producer after `every`: fills `output`,
            and returns 0 for no event, 1 for one, 2 for one and to be called again (`emitted` counts).
        every: the least time between runs of `period`; a number means seconds.
        services: functions that the source must grant: `clock`, `load`, `process`, or prototypes of its own.
        max_cost: units of work (about one operation each) that the code may take for an event.
        max_traps: the number of trapped events, in commits without a successful one, after which a source suspends the
            code.
        when: whether sources run it `always`, or only while somebody subscribes (`subscribed`). None: unchanged for
            a channel whose code is replaced, and `always` for a new one.
        frozen: whether the subscriber will never set the parameters, so that others with equal code may share it.
    """

    filter: str | None = None
    transform: str | None = None
    type: AnyType | None = None
    parameters: Mapping[str, Any] | str | None = None
    state: Mapping[str, Any] | None = None
    dequeue: str | None = None
    period: str | None = None
    every: timedelta | float | None = None
    services: Sequence[str] = ()
    max_cost: int = SOURCE_WORK
    max_traps: int = MOST_TRAPS
    when: When | None = None
    frozen: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether subscribers with equal code share a derived channel: it keeps no state, and its parameters never
        change."""
        keeps = self.state is not None or self.dequeue is not None or self.period is not None
        return not keeps and (self.frozen or not self.parameters)

    def output_format(self, parent: Format) -> Format:
        """The format of the channel's events. Raises PBIO_BAD_OPTION, and what `type_to_format` raises."""
        if self.transform is not None and self.type is None:
            raise PbioError(
                "PBIO_BAD_OPTION",
                "transform= and type= need each other: a transform makes events of a type",
                hint="give both: the program, and the type of the events that it makes",
            )
        if self.type is not None and self.transform is None:
            raise PbioError(
                "PBIO_BAD_OPTION",
                "transform= and type= need each other: without a transform events stay as they are",
                hint="leave type= out, or make the events of that type with transform=",
            )
        return parent if self.type is None else type_to_format(self.type)

    def to_derivation(
        self,
        parent: int,
        shared: tuple[int, ParameterBlock] | None,
        *,
        is_temporary: bool = False,
        known: When = "always",
    ) -> Derivation:
        """The derivation that commits record, before its programs are checked.

        Args:
            shared: the ID and the values of the block named by `parameters`.
            known: `when`, if the modulator leaves it open.

        Raises PBIO_BAD_OPTION, and PBIO_BAD_PROGRAM for an empty filter.
        """
        from pbio_spark.columns import check_says_something  # which needs the compiler

        if self.when is not None:
            check_word(self.when, ("always", "subscribed"), "when")
        for what in ("filter", "transform", "dequeue", "period"):
            text = getattr(self, what)
            if text is not None and not (isinstance(text, str) and is_text(text)):
                raise PbioError(
                    "PBIO_BAD_OPTION",
                    f"{what}= takes a program, not {str(text)[:80]!r}",
                    hint="give the text of a program in E-code, such as { return input.x > 3; }",
                )
            if text is not None:
                check_says_something(what, text)
        if isinstance(self.services, str):
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"services= takes a list, not {self.services[:80]!r}",
                hint="give a list of names, such as ['clock']",
            )
        for prototype in self.services:
            declared(prototype)
        block, parameters = shared or (0, values_to_block(_own(self.parameters)))
        return Derivation(
            parent,
            self.filter,
            self.transform,
            parameters,
            _whole(self.max_cost, "max_cost", "a positive number of units of work"),
            block,
            values_to_block(self.state, "state"),
            self.dequeue,
            self.period,
            self._every(),
            tuple(self.services),
            when=self.when or known,
            is_temporary=is_temporary,
            max_traps=_whole(self.max_traps, "max_traps", "a positive number of events"),
        )

    def _every(self) -> int:
        """`every` in microseconds; 0 without a period."""
        if (self.period is None) != (self.every is None):
            raise PbioError(
                "PBIO_BAD_OPTION",
                "period= and every= need each other: code, and how long it waits",
                hint="give both, such as every=timedelta(seconds=10)",
            )
        if self.every is None:
            return 0
        return span_to_microseconds(self.every, "every=", takes_seconds=True, is_positive=True)


class ModulatorOptions(TypedDict, total=False):
    """The attributes of `Modulator`, as keyword arguments."""

    filter: str | None
    transform: str | None
    type: AnyType | None
    parameters: Mapping[str, Any] | str | None
    state: Mapping[str, Any] | None
    dequeue: str | None
    period: str | None
    every: timedelta | float | None
    services: Sequence[str]
    max_cost: int
    max_traps: int
    when: When | None
    frozen: bool


def to_modulator(modulator: Modulator | None, options: ModulatorOptions) -> Modulator:
    """The modulator, given as such or by its attributes. Raises PBIO_BAD_OPTION for both a modulator and options, or
    for unknown ones."""
    if modulator is not None and options:
        raise PbioError(
            "PBIO_BAD_OPTION", "give either a modulator or its attributes, not both", hint="leave one of them out"
        )
    for name in options:
        if name not in ModulatorOptions.__annotations__:
            raise unknown_argument(name, ModulatorOptions.__annotations__)
    return Modulator(**options) if modulator is None else modulator


def _own(parameters: Mapping[str, Any] | str | None) -> Mapping[str, Any] | None:
    assert not isinstance(parameters, str)
    return parameters


def _whole(value: int, what: str, hint: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < _MOST_COST:
        raise PbioError("PBIO_BAD_OPTION", f"{what} cannot be {str(value)[:80]!r}", hint=hint)
    return value
