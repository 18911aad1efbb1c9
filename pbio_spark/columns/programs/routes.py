"""How records of a format become rows when a reader wants more than their fields.

A `Request` says what the reader wants: record types, E-code of its own. `find_route` asks `morph` for the best route
from one format to it. The answer is a `RecordRoute`, programs in a row and the type at their end, or a `Rejection`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Generic, Literal, TypeVar

import ecode
from ecode.typed import StringPointer, walk
from ecode.types import Default, Record, Ref
from morph import PAPER, Criterion, Policy, Problem, Rejection, Resolution, Resolver, Transform, TransformGraph
from morph.in_place import in_place
from morph.resolver import NO_PROBLEMS
from morph.transforms import Route
from pbio_spark.columns.programs.seen import record_to_seen
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.mapping import NOTHING, ColumnSpec
from pbio_spark.formats.arrow.names import record_to_counts
from pbio_spark.formats.formats_to_graph import carries_transforms, formats_to_graph
from pbio_spark.formats.store import FormatStore

T = TypeVar("T")

log = logging.getLogger("pbio_spark.columns")

PROJECTION = Policy(mismatch_threshold=1.0, same_name=False, prefer=(Criterion.MISMATCH_RATIO, Criterion.HOPS))
"""A schema alone never rejects: each format gives as much as it can, by as few transforms as it can (decision 4)."""


_EMPTY = re.compile(r"\s*\{(\s|/\*([^*]|\*(?!/))*\*/|//[^\n]*\n)*\}\s*")
"""A program of nothing but comments. There is at most one way to match a text: else each comment doubles the work."""

PARAMETERS = "param"
"""The name by which programs know their parameter block."""

STATE = "state"
"""The name by which programs know the record that they keep from event to event."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a reader wants of records beside columns.

    Attributes:
        targets: the wanted record types by name; without one, `columns` is a projection that rejects nothing.
        columns: the record type of the wanted columns; None if they were inferred from the formats themselves.
        typed: what `keep` and `make` see where there are no targets, filled from the record as it came; without it,
            `keep` sees `columns`.
        policy: of MaxMatch, for targets.
        transforms: the reader's own, beside those that formats carry; keys are hexadecimal IDs.
        described: formats that these name, which no file need have.
        keep: E-code that says which records are kept; its parameter is `input`.
        make: E-code that makes the columns, `output`, from `input`; one that returns 0 leaves the record out.
        records: types that `keep` and `make` may name.
        parameters: the type of their parameter block, `param`, whose values come with each read.
        state: the type of the record `state`, which they have in common and keep from record to record.
        ordered: whether records come in order, so that programs may keep state (see `converter.with_state`).
        functions: services that they may call.
        work: units of work that all programs together may take for a record; None for the limit that E-code has itself.
        on_reject: what records do that reach no target: fail the query, be left out, or be bad records.
    """

    targets: tuple[tuple[str, Record], ...] = ()
    columns: Record | None = None
    typed: Record | None = None
    policy: Policy = PAPER
    transforms: tuple[Transform, ...] = ()
    keep: str | None = None
    make: str | None = None
    records: tuple[Record, ...] = ()
    parameters: Record | None = None
    work: int | None = None
    on_reject: Literal["fail", "drop", "corrupt"] = "fail"
    described: tuple[Format, ...] = ()
    state: Record | None = None
    ordered: bool = False
    functions: tuple[ecode.Function, ...] = ()


def records_to_targets(records: Iterable[Record]) -> tuple[tuple[str, Record], ...]:
    """The targets of a request: wanted record types, each under its own name, made unique."""
    named: dict[str, Record] = {}
    for record in records:
        name = record.name
        while name in named:
            name += "'"
        named[name] = record
    return tuple(named.items())


@dataclass(frozen=True, slots=True)
class RecordRoute:
    """How records of one format become rows.

    Attributes:
        text: for the metadata column: `direct`, or `via` and the IDs of the formats on it.
        target: the name of the wanted type that is reached; None without targets.
        transforms: programs in a row, each with a name for error messages; `hops` are the same as morph knows them.
        keep, make: the caller's programs, which run after them, in this order.
        keeps_first: whether `keep` comes before the transforms instead.
        seen: the record type that `keep` and `make` see.
        defaults: of the fields that may be missing at the end, by path.
        counts: fields of the wanted type that say how long an array is (see `record_to_counts`).
    """

    text: str = "direct"
    target: str | None = None
    transforms: tuple[tuple[str, ecode.Program], ...] = ()
    keep: ecode.Program | None = None
    make: ecode.Program | None = None
    keeps_first: bool = False
    seen: Record | None = None
    defaults: Mapping[str, Default] = field(default_factory=dict)
    hops: Route = ()
    counts: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)

    @property
    def is_direct(self) -> bool:
        return not (self.transforms or self.make)

    def fill(self, spec: ColumnSpec) -> ColumnSpec:
        """The columns wanted, with what the type at the end says of them."""
        return replace(spec, defaults={**self.defaults, **spec.defaults}, counts=self.counts)


def find_route(
    form: Format,
    request: Request,
    known: Iterable[Format],
    store: FormatStore | None,
    *,
    aliases: Mapping[str, str] = NOTHING,
    defaults: Mapping[str, Default] = NOTHING,
    unusable: Mapping[Transform, Problem] = NO_PROBLEMS,
) -> RecordRoute | Rejection:
    """The best route from a format to what is wanted.

    Args:
        known: other formats, which transforms may lead to.
        aliases, defaults: those of columns (see `ColumnSpec`), which `keep` and `make` see as the columns do.
        unusable: transforms that were tried before, and why no route can lead through them.

    Raises:
        PbioError: PBIO_BAD_PROGRAM if `keep` or `make` is wrong, or a program keeps state between records.
    """
    text, target, wanted = "direct", None, request.columns
    hops: Route = ()
    programs: tuple[tuple[str, ecode.Program], ...] = ()
    is_projection = request.columns is not None and request.make is None
    known = tuple(dict.fromkeys((*known, form, *request.described)))
    if request.targets or (is_projection and (request.transforms or any(map(carries_transforms, known)))):
        targets = dict(request.targets) if request.targets else {"": request.columns}
        formats = tuple(dict.fromkeys((*known, *_mentioned(request.transforms, store))))
        wishes = tuple((key, record) for key, record in targets.items() if record)
        policy = request.policy if request.targets else PROJECTION
        graph, resolver, missing = _resolver(formats, request.transforms, wishes, policy, store)
        if store is not None and any(store.get(format_id) is not None for format_id in missing):
            _resolver.cache_clear()  # a body has come that was not there
            graph, resolver, _ = _resolver(formats, request.transforms, wishes, policy, store)
        answer, unusable = _resolved(resolver, graph, form, unusable)
        if isinstance(answer, Rejection) and request.targets:
            return answer
        for problem in answer.problems:
            log.warning("%s %s: %s", form.name, form.id.hex(), problem)
        if not isinstance(answer, Rejection):
            hops = answer.route
            programs = tuple((f"transform {hop}", graph.program(hop)) for hop in hops)
            text = f"via {', '.join(hop.target for hop in answer.route)}" if programs else "direct"
            if request.targets:
                target, wanted = answer.wanted, targets[answer.wanted]
    own = _own_programs(_Same(request), _Same(wanted), _Same(aliases), _Same(defaults))
    own.check_state(form, request)
    counts = record_to_counts(wanted) if target is not None and wanted is not None and own.make is None else {}
    keeps_first = _is_as_it_came(request)
    return RecordRoute(text, target, programs, own.keep, own.make, keeps_first, own.seen, own.defaults, hops, counts)


def check_says_something(what: str, source: str) -> None:
    """Raise PBIO_BAD_PROGRAM for a filter that is empty: it is E-code, and keeps nothing.

    >>> check_says_something("transform", "{}")
    """
    if what in ("filter", "dequeue", "where") and isinstance(source, str) and _EMPTY.fullmatch(source):
        hint = "leave it out to keep everything, or return a condition: { return input.x > 1; }"
        raise PbioError("PBIO_BAD_PROGRAM", f"the {what} is empty, which keeps nothing", hint=hint)


def check_filter(source: str, record: Record) -> None:
    """Check a reader's filter against a wanted record type, before there are records. Raises PBIO_BAD_PROGRAM."""
    _program("filter", source, record_to_seen(record, {}, _defaults(record)), [], Request())


class _Same(Generic[T]):
    """A value as part of a key, equal only to itself: comparing types of many fields takes as long as compiling."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


@dataclass(frozen=True, slots=True)
class _Own:
    """The filter and the transform of the reader; `seen` and `defaults` as in `RecordRoute`."""

    seen: Record | None
    defaults: Mapping[str, Default]
    keep: ecode.Program | None = None
    make: ecode.Program | None = None

    def check_state(self, form: Format, request: Request) -> None:
        """Raise PBIO_BAD_PROGRAM if a program keeps state between records that have no order."""
        for name, program in (("filter", self.keep), ("transform", self.make)):
            if program is not None and program.statics and not request.ordered:
                raise PbioError(
                    "PBIO_BAD_PROGRAM",
                    f"the {name} keeps state ({', '.join(program.statics)}), but the records of a read have no order",
                    format=form.name,
                    hint="keep state in Spark",
                )


@lru_cache(maxsize=16)
def _own_programs(
    request: _Same[Request],
    wanted: _Same[Record | None],
    aliases: _Same[Mapping[str, str]],
    defaults: _Same[Mapping[str, Default]],
) -> _Own:
    """What is the same for all formats of a read, of which there may be thousands. Raises PBIO_BAD_PROGRAM."""
    asked = request.value
    filling = _defaults(wanted.value) if wanted.value is not None else {}
    seen = asked.typed if _is_as_it_came(asked) else wanted.value
    if seen is None:
        return _Own(None, filling)
    seen = record_to_seen(seen, aliases.value, {**filling, **defaults.value})
    keep = make = None
    more = ((PARAMETERS, asked.parameters, ecode.Mode.PARAM), (STATE, asked.state, ecode.Mode.STATE))
    params = [ecode.Param(name, type_, mode) for name, type_, mode in more if type_ is not None]
    if asked.keep is not None:
        keep = _program("filter", asked.keep, seen, params, asked)
    if asked.make is not None and asked.columns is not None:
        output = ecode.Param("output", asked.columns, ecode.Mode.OUT)
        make = _program("transform", asked.make, seen, [*params, output], asked, optional=True)
    return _Own(seen, filling, keep, make)


def _is_as_it_came(request: Request) -> bool:
    """Whether `keep` and `make` see records before any transform."""
    return request.typed is not None and not request.targets


def _resolved(
    resolver: Resolver, graph: TransformGraph, form: Format, unusable: Mapping[Transform, Problem]
) -> tuple[Resolution | Rejection, Mapping[Transform, Problem]]:
    """The answer of morph; a transform that keeps state is as good as none, for the records of a read have no order."""
    while True:
        answer = resolver.resolve(form.id.hex(), unusable)
        stateful = {
            hop: Problem("MORPH_BAD_TRANSFORM", f"it keeps state ({', '.join(graph.program(hop).statics)})", str(hop))
            for hop in (() if isinstance(answer, Rejection) else answer.route)
            if graph.program(hop).statics
        }
        if not stateful or stateful.keys() <= unusable.keys():
            return answer, unusable
        unusable = {**unusable, **stateful}


@lru_cache(maxsize=8)
def _resolver(
    formats: tuple[Format, ...],
    transforms: tuple[Transform, ...],
    targets: tuple[tuple[str, Record], ...],
    policy: Policy,
    store: FormatStore | None,
) -> tuple[TransformGraph, Resolver, list[bytes]]:
    """One for all formats that are known at once: what it finds out of one of them, it need not find again. And the IDs
    of formats that the store does not have yet."""
    missing: list[bytes] = []
    graph = formats_to_graph(formats, store, missing)
    for transform in transforms:
        graph.add_transform(transform)
    return graph, Resolver(dict(targets), graph, policy), missing


def _mentioned(transforms: Iterable[Transform], store: FormatStore | None) -> Iterator[Format]:
    """The formats that transforms lead from and to, as far as the store has them."""
    for key in {key for transform in transforms for key in (transform.source, transform.target)}:
        if store is not None and (found := store.get(bytes.fromhex(key))) is not None:
            yield found


def _program(
    what: str,
    source: str,
    seen: Record,
    params: list[ecode.Param],
    request: Request,
    *,
    optional: bool = False,
) -> ecode.Program:
    """A program of the caller's; where its result is optional, one without any passes every record.

    It sees numbers where the columns show numbers. One that goes to them by their pointers itself sees the pointers,
    also where `*x` could be the first character of a string that it would see in place.
    """
    check_says_something(what, source)
    plain = in_place(seen)
    limits = ecode.Limits() if request.work is None else ecode.Limits(budget=request.work)
    compiled = partial(ecode.compile, records=request.records, functions=request.functions, limits=limits)
    reason: ecode.EcodeError | None = None
    for record in (plain,) if plain == seen else (plain, seen):
        given = [ecode.Param("input", record), *params]
        for returns in ((None,), ()) if optional else ((),):
            try:
                program = compiled(source, given, *returns)
            except ecode.EcodeError as error:
                reason = reason or (error if not returns else None)
                continue
            if record is plain and plain != seen and (spelled := _characters(program)):
                with suppress(ecode.EcodeError):
                    other = compiled(source, [ecode.Param("input", seen), *params], *returns)
                    return other if _characters(other) < spelled else program
            return program
    assert reason is not None
    text = f"the {what} does not compile: {reason.summary}"
    raise PbioError("PBIO_BAD_PROGRAM", text, hint=reason.hint or None) from reason


def _characters(program: ecode.Program) -> int:
    """How often a program reads a string character by character."""
    return sum(isinstance(node, StringPointer) for node in walk(program.typed.body))


def _defaults(record: Record) -> dict[str, Default]:
    """The defaults of a type's fields, structures in place included."""
    found: dict[str, Default] = {}

    def walk(struct: str, path: str, inside: tuple[str, ...]) -> None:
        for f in record.struct(struct).fields:
            if f.notes.default is not None:
                found[f"{path}{f.name}"] = f.notes.default
            if isinstance(f.type, Ref) and f.type.name not in inside:
                walk(f.type.name, f"{path}{f.name}.", (*inside, f.type.name))

    walk(record.name, "", (record.name,))
    return found


def rejection_to_error(rejection: Rejection) -> PbioError:
    """The error of records that reach no wanted type."""
    return PbioError(
        "PBIO_REJECTED",
        replace(rejection, hint="").explain(),
        format=f"{rejection.name} ({rejection.incoming})",
        hint=rejection.hint or "the option onReject decides what becomes of such records",
    )
