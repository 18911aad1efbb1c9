"""Finds a subscriber's types that no event can reach, and fields that no event can fill."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from ecode.types import Record
from morph import Policy, Rejection
from pbio_spark.channels.subscribe.plan import format_to_plan
from pbio_spark.columns import (
    NAMES_SHOWN,
    Request,
    converter_to_unfilled,
    is_below,
    rejection_to_error,
    schema_to_paths,
    struct_at,
    suggestion,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.store import FormatStore


def refuse_unfilled(name: str, type_: Record, own: Format, formats: FormatStore, policy: Policy) -> PbioError | None:
    """Raise PBIO_UNFILLED if a type has fields that events of no format can fill; returns the error if none reaches it.

    Args:
        own: the format of the channel's type.
        formats: of the space; an event may have more fields than its channel's type.
    """
    lacking: list[str] | None = None
    rejection: Rejection | None = None
    for form in _known(own, formats):
        try:
            unfilled = _unfilled(form, name, type_, formats, policy)
        except PbioError:
            if form is own:
                raise
            continue  # it may belong to another channel
        if isinstance(unfilled, Rejection):
            rejection = rejection or unfilled
        else:
            paths = list(schema_to_paths(record_to_arrow(type_))) if lacking is None else lacking
            lacking = [path for path in paths if is_below(path, unfilled)]
            if not lacking:
                return None
    if lacking:
        _raise(name, [path for path in lacking if path.rpartition(".")[0] not in lacking], own)
    if rejection is None or lacking is not None:
        return None
    error = rejection_to_error(rejection)
    error.hint = f"{rejection.hint or 'ask for a type that events reach'}; on_unfilled='warn' waits for one that does"
    return error


def _known(own: Format, formats: FormatStore) -> Iterator[Format]:
    yield own
    yield from (form for form in formats if form.id != own.id)


def _unfilled(
    form: Format, name: str, type_: Record, formats: FormatStore, policy: Policy
) -> frozenset[str] | Rejection:
    """The fields that events of a format leave null; or why they do not reach the type."""
    request = Request(((name, type_),), policy=policy)
    converter = format_to_plan(form, record_to_arrow(type_), formats, request).converters[form.id]
    return converter if isinstance(converter, Rejection) else converter_to_unfilled(converter)


def _raise(name: str, paths: list[str], own: Format) -> NoReturn:
    parent, _, field = paths[0].rpartition(".")
    struct = struct_at(own.record, parent)
    known = [] if struct is None else [f.name for f in struct.fields if not f.notes.hidden]
    fields = ("fields " if len(paths) > 1 else "field ") + ", ".join(map(repr, paths[:NAMES_SHOWN]))
    hint = suggestion(field, known)
    raise PbioError(
        "PBIO_UNFILLED",
        f"no event can fill the {fields}{' and more' if len(paths) > NAMES_SHOWN else ''}: no format in the space has "
        "such a field, and no transform makes one",
        format=name,
        field=f"$.{paths[0]}",
        hint=f"{hint}; on_unfilled='warn' or 'ignore' accepts it" if hint else "on_unfilled='warn' accepts it",
    )
