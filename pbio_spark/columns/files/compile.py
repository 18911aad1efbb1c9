"""A selection and formats -> the plan of reading, with the converters of the expected formats."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ecode
from morph import Problem, Rejection, Transform
from pbio_spark.columns.decode.converter import Converter, SharedPlans, format_to_converter
from pbio_spark.columns.files.plan import BatchLimits, ErrorPolicy, ReadPlan, Selection
from pbio_spark.columns.files.walk import walk_kernel
from pbio_spark.columns.programs.routes import RecordRoute, find_route, rejection_to_error
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.store import FormatStore

if TYPE_CHECKING:
    from pbio_spark.columns.programs.converter import AnyConverter
    from pbio_spark.columns.programs.excluded import Excluding

log = logging.getLogger("pbio_spark.columns")


def plan_read(
    selection: Selection,
    formats: Iterable[Format] = (),
    *,
    coming: Iterable[Format] = (),
    store: FormatStore | None = None,
    errors: ErrorPolicy = ErrorPolicy(),  # noqa: B008 - frozen
    limits: BatchLimits = BatchLimits(),  # noqa: B008
) -> ReadPlan:
    """The plan of reading a selection.

    Args:
        formats: known beforehand; they may help others to reach what is requested.
        coming: the expected formats, whose converters are compiled now.
        store: for formats that files do not describe.

    Raises what `compile_converter` raises.
    """
    plan = ReadPlan(selection, errors, limits, tuple(formats), store, walk=walk_kernel())
    return with_converters(plan, coming, fused=False)


def with_converters(plan: ReadPlan, coming: Iterable[Format], *, fused: bool, is_strict: bool = False) -> ReadPlan:
    """A plan with the converters of more formats.

    Args:
        is_strict: whether a format that reaches no wanted type is an error, PBIO_REJECTED.

    Raises what `compile_converter` raises.
    """
    converters, shared = dict(plan.converters), plan_to_shared(plan)
    for form in coming:
        if form.id not in converters:
            converters[form.id] = found = compile_converter(plan, form, shared, fused=fused)
            if is_strict and isinstance(found, Rejection):
                raise rejection_to_error(found)
    return replace(plan, converters=converters)


def plan_to_shared(plan: ReadPlan) -> SharedPlans:
    """What the converters of a plan can share with others of the same selection."""
    inner = (getattr(converter, "inner", converter) for converter in plan.converters.values())
    known = {id(one.compiled): one.compiled for one in inner if isinstance(one, Converter)}
    return SharedPlans(known.values())


def compile_converter(
    plan: ReadPlan, form: Format, shared: SharedPlans | None = None, *, fused: bool
) -> AnyConverter | Rejection:
    """The converter of a format, or why there is none. Raises what `find_route` and `route_to_converter` raise.

    Args:
        shared: what it can share with other converters of the plan.
    """
    shared = shared or SharedPlans()
    unusable: dict[Transform, Problem] = {}
    while True:
        route = _route(plan, form, unusable)
        if isinstance(route, Rejection):
            return route
        try:
            return _route_to_converter(plan, form, route, shared, fused=fused)
        except ecode.NotCompilable as error:
            last = route.hops[-1] if route.hops else None
            if last is None or last in unusable or last.is_own:
                raise PbioError(
                    "PBIO_BAD_PROGRAM",
                    f"the route {route.text} cannot be compiled: {error.message}",
                    format=form.name,
                    hint="make the program smaller, or split what it does",
                ) from error
            problem = Problem("MORPH_BAD_TRANSFORM", f"it cannot be compiled: {error.message}", str(last))
            log.warning("%s %s: %s; taking the next best route", form.name, form.id.hex(), problem)
            unusable[last] = problem


def route_of(plan: ReadPlan, form: Format) -> tuple[Transform, ...]:
    """The transforms of formats on the route of a format; none if it is rejected."""
    route = _route(plan, form, {})
    return () if isinstance(route, Rejection) else route.hops


def _route_to_converter(
    plan: ReadPlan, form: Format, route: RecordRoute, shared: SharedPlans, *, fused: bool
) -> AnyConverter:
    if route.is_direct and route.keep is None:
        return format_to_converter(form, route.fill(plan.selection.columns), shared, target=route.target, fused=fused)
    # Imported here: loading the compiler of programs takes longer than the rest of reading.
    from pbio_spark.columns.programs.converter import route_to_converter

    return _sharing(route_to_converter(form, route, plan.selection.columns, shared, fused=fused), shared)


_PARTS = ("program", "names", "texts", "blocks", "samples", "excluding")


def _sharing(converter: AnyConverter, shared: SharedPlans) -> AnyConverter:
    """A converter whose parts are also those of others with equal programs, unless they keep state."""
    if isinstance(converter, Converter):
        return converter
    programs, inner = converter.programs, getattr(converter, "inner", None)
    if programs.initial or programs.blocks:
        return converter
    own: Any = {part: shared.same((part, programs.program.kernel.source), getattr(programs, part)) for part in _PARTS}
    own = {"programs": replace(programs, **own)}
    if inner is not None:
        own["inner"] = _sharing(inner, shared)
    return replace(converter, **own)


def _route(plan: ReadPlan, form: Format, unusable: Mapping[Transform, Problem]) -> RecordRoute | Rejection:
    selection = plan.selection
    if selection.request is None:
        return RecordRoute()
    return find_route(
        form,
        selection.request,
        plan.formats,
        plan.store,
        aliases=selection.aliases,
        defaults=selection.defaults,
        unusable=unusable,
    )


def plan_to_excluding(plan: ReadPlan, form: Format) -> Excluding | None:
    """The records of a format that a plan's filter certainly refuses; None if unknown."""
    selection = plan.selection
    converter = plan.converters.get(form.id)
    if selection.request is None or selection.request.ordered or isinstance(converter, Rejection | Converter | None):
        return None
    is_read = selection.only_name in (None, form.name) and selection.has(form) and converter.format == form
    excluding = converter.programs.excluding
    return excluding if is_read and excluding.bounds else None
