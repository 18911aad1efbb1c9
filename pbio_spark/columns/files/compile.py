"""What is wanted x a format -> the converter of its records, or why there is none."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import ecode
from morph import Problem, Rejection, Transform
from pbio_spark.columns.decode.converter import format_to_converter
from pbio_spark.columns.files.wanted import Wanted
from pbio_spark.columns.programs.routes import Way, find_way
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format

if TYPE_CHECKING:
    from pbio_spark.columns.programs.converter import AnyConverter

log = logging.getLogger("pbio_spark.columns")


def compile_converter(wanted: Wanted, form: Format, *, fused: bool) -> AnyConverter | Rejection:
    """The converter of a format, or why there is none. Raises what `find_way` and `way_to_converter` raise."""
    unusable: dict[Transform, Problem] = {}
    while True:
        way = _way(wanted, form, unusable)
        if isinstance(way, Rejection):
            return way
        try:
            return _way_to_converter(wanted, form, way, fused=fused)
        except ecode.NotCompilable as error:
            last = way.route[-1] if way.route else None
            if last is None or last in unusable or last.is_own:
                raise PbioError(
                    "PBIO_BAD_PROGRAM",
                    f"the way {way.text} cannot be compiled: {error.message}",
                    format=form.name,
                    hint="make the program smaller, or split what it does",
                ) from error
            problem = Problem("MORPH_BAD_TRANSFORM", f"it cannot be compiled: {error.message}", str(last))
            log.warning("%s %s: %s; the next best way is taken", form.name, form.id.hex(), problem)
            unusable[last] = problem


def route_of(wanted: Wanted, form: Format) -> tuple[Transform, ...]:
    """The transforms of formats that records of one go through; none if they reach nothing."""
    way = _way(wanted, form, {})
    return () if isinstance(way, Rejection) else way.route


def _way_to_converter(wanted: Wanted, form: Format, way: Way, *, fused: bool) -> AnyConverter:
    if way.is_direct and way.keep is None:
        return format_to_converter(form, way.fill(wanted.columns), target=way.target, fused=fused)
    # Imported here: what compiles programs takes a process longer to load than all the rest of reading.
    from pbio_spark.columns.programs.converter import way_to_converter

    return way_to_converter(form, way, wanted.columns, fused=fused)


def _way(wanted: Wanted, form: Format, unusable: Mapping[Transform, Problem]) -> Way | Rejection:
    if wanted.request is None:
        return Way()
    return find_way(
        form,
        wanted.request,
        wanted.formats,
        wanted.store,
        aliases=wanted.aliases,
        defaults=wanted.defaults,
        unusable=unusable,
    )
