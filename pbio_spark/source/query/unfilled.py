"""Reports columns that no record can fill, names that match nothing, and programs that no record needs.

All readers follow one rule (option `onUnfilled`). If the user names something and nothing fills it, that is an error if
all possible formats are known, else a warning. What only some formats lack is a warning, once for each query.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from ecode.errors import valid_text
from ecode.suggest import did_you_mean
from ecode.types import Record
from morph import Rejection, edit_script
from morph.evolution.renames import suspected_renames
from morph.transforms import record_to_meaning
from pbio_spark.columns import (
    NAMES_SHOWN,
    ReadPlan,
    Selection,
    converter_to_unfilled,
    is_below,
    listed,
    route_of,
    schema_to_paths,
    struct_at,
    suggestion,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.arrow_to_record import arrow_to_record
from pbio_spark.formats.formats_to_graph import versions
from pbio_spark.source.options.options import Options
from pbio_spark.source.query.schema import infer_schema

log = logging.getLogger("pbio_spark.source")


@dataclass(slots=True)
class Unfilled:
    """Reports what a query cannot fill, each once.

    Attributes:
        is_projection: the user named the columns.
        is_open: unknown formats may appear, and fill what known ones do not.
        told: warnings already given.
    """

    options: Options
    is_projection: bool
    is_open: bool = False
    told: set[str] = field(default_factory=set)

    def check(
        self,
        pairs: Sequence[tuple[ReadPlan, Format]],
        plans: Sequence[ReadPlan],
        counts: Mapping[bytes, int] | None = None,
        *,
        has_all: bool = True,
    ) -> None:
        """Report what the converters of formats leave null, and useless names and programs of options.

        Args:
            pairs: each format with the plan that has its converter.
            plans: all plans, even before any format is known.
            counts: by format ID, the numbers of records; None if unknown.
            has_all: whether these are all formats of the records, so that a program that none needs is useless.

        Raises PBIO_UNFILLED.
        """
        if self.options.on_unfilled == "ignore":
            return
        self._check_names(plans, [form for _, form in pairs])
        if has_all:
            self._check_programs(pairs)  # an unused program may be why a column is empty
        if self.is_projection or self.options.reader_format:
            self._check_columns(pairs, counts)

    def _check_columns(self, pairs: Sequence[tuple[ReadPlan, Format]], counts: Mapping[bytes, int] | None) -> None:
        lacking: dict[str, list[Format]] = {}
        having: set[str] = set()
        readers: list[tuple[Selection, Format]] = []
        for plan, form in pairs:
            converter = plan.converters.get(form.id)
            if converter is None or isinstance(converter, Rejection):
                continue
            readers.append((plan.selection, form))
            unfilled = converter_to_unfilled(converter)
            reached = _target(plan.selection, converter.target)
            for path in schema_to_paths(plan.selection.data_schema):
                if is_below(path, unfilled):
                    # With several wanted types, a record fills the columns of the one that it reaches.
                    if reached is None or any(f.name.lower() == path.partition(".")[0].lower() for f in reached.fields):
                        lacking.setdefault(path, []).append(form)
                    else:
                        lacking.setdefault(path, [])
                else:
                    having.add(path)
        if not (self.is_projection or any(isinstance(said, Record) for said in self.options.reader_format)):
            having |= lacking.keys()  # naming a type that some format has does not name its fields
        # Nor is a field misspelled that a format has but loses on its route.
        having |= {path for path in lacking if any(_has(form.record, path) for _, form in readers)}
        nothing = [path for path in lacking if path not in having and not _is_inside(path, lacking, having)]
        if nothing:
            self._report_never_filled(nothing, readers)
        some = {
            path: tuple(forms)
            for path, forms in lacking.items()
            if forms and path in having and not _is_inside(path, lacking, set())
        }
        if some and not self._are_all_columns(readers):
            self._report_sometimes_null(some, readers, counts)

    def _are_all_columns(self, readers: Sequence[tuple[Selection, Format]]) -> bool:
        """Whether the columns are just those that formats have, as of a table, whatever columns a query on it uses."""
        if self.options.reader_format:
            return False
        try:
            found = infer_schema([form for _, form in readers], self.options)
        except PbioError:  # formats that cannot be merged: someone chose
            return False
        return {name.lower() for name in found.names} == {name.lower() for name in readers[0][0].data_schema.names}

    def _report_never_filled(self, paths: Sequence[str], readers: Sequence[tuple[Selection, Format]]) -> None:
        path = paths[0]
        own = path.rpartition(".")[2]
        known = [*dict.fromkeys(name for selection, form in readers for name in _names_beside(path, selection, form))]
        known = [name for name in known if name != own]
        what = f"columns {_quoted(paths)}" if len(paths) > 1 else f"column {_quoted(paths)}"
        self._fail(
            f"no record can fill the {what}: no format has such a field, and no transform or default makes one",
            path,
            suggestion(own, known),
        )

    def _report_sometimes_null(
        self,
        lacking: Mapping[str, tuple[Format, ...]],
        readers: Sequence[tuple[Selection, Format]],
        counts: Mapping[bytes, int] | None,
    ) -> None:
        """One warning for all columns: those that the same formats lack stand together."""
        groups: dict[tuple[tuple[Format, ...], bool], list[str]] = {}
        for path, forms in lacking.items():
            if f"some:{path}:{forms}" not in self.told:
                self.told.add(f"some:{path}:{forms}")
                groups.setdefault((forms, any(_has(form.record, path) for form in forms)), []).append(path)
        if not groups:
            return
        all_ = [form for _, form in readers]
        labels = {key: one.label for one in versions(tuple(all_)) for key in (one.key, *one.others)}
        parts = []
        for (forms, is_lost), paths in groups.items():
            verb, them = ("is", "it") if len(paths) == 1 else ("are", "them")
            why = f"which lose {them} on the way to the wanted type" if is_lost else f"whose formats lack {them}"
            renames = "".join(_perhaps(path, forms, readers[0][0]) for path in paths)
            share = _share(forms, all_, counts)
            parts.append(f"{_quoted(paths)} {verb} null for {share}, {why}: {_which(forms, labels)}{renames}")
        them = "it" if sum(map(len, groups.values())) == 1 else "them"
        subject = "the column" if them == "it" else "the columns"
        self._warn(
            "; ".join(parts),
            f"{subject} {'; '.join(parts)}. A transform or the option defaults fills {them}; onUnfilled=ignore says "
            f"that {'it' if them == 'it' else 'they'} may be null",
        )

    def _check_names(self, plans: Sequence[ReadPlan], formats: Sequence[Format]) -> None:
        """Report names in `fieldAliases` and `defaults` that match nothing."""
        selections = [plan.selection for plan in plans]
        paths = list(dict.fromkeys(path for one in selections for path in schema_to_paths(one.data_schema)))
        targets = [record for one in selections if one.request for _, record in one.request.targets]
        types = [*(form.record for form in formats), *targets]
        has_program = bool(self.options.filter or self.options.transform)
        for path in self.options.defaults:
            if path not in paths and not (has_program and any(_has(record, path) for record in types)):
                if not types and has_program:
                    continue
                fields = [f.name for record in types for f in record.fields] if has_program else []
                hint = did_you_mean(path, [*paths, *fields]) or listed(paths)
                self._fail(f"the option defaults names {path!r}, which is not a column", path, hint)
        for path, name in self.options.field_aliases.items():
            parent, _, own = path.rpartition(".")
            structs = [struct for record in types if (struct := struct_at(record, parent)) is not None]
            # If all formats have the column under its own name, no alias is needed.
            is_needed = len(structs) < len(types) or not all(struct.like(own) for struct in structs)
            if types and is_needed and not any(struct.like(name) for struct in structs):
                known = list(dict.fromkeys(f.name for s in structs for f in s.fields if not f.notes.hidden))
                self._fail(
                    f"the option fieldAliases says that {path!r} is called {name!r}, which no format has",
                    path,
                    suggestion(name, known),
                )

    def _check_programs(self, pairs: Sequence[tuple[ReadPlan, Format]]) -> None:
        """Report the user's transforms that no record uses."""
        request = pairs[0][0].selection.request if pairs else None
        if request is None or not request.transforms or self.is_open:
            return
        formats = [form for _, form in pairs]
        used = {hop for plan, form in pairs for hop in route_of(plan, form)}
        types = {form.id.hex(): form for form in (*request.described, *formats)}
        done = {(hop.ecode, hop.target) for hop in used}
        for transform in request.transforms:
            # Record types that differ only in how they write nulls need not all use one transform.
            if transform not in used and (transform.ecode, transform.target) not in done:
                names = {form.id.hex(): form.name for form in (*formats, *request.described)}
                what = (
                    f"{names[transform.source]} ({transform.source}) to {names[transform.target]} ({transform.target})"
                )
                self._fail(
                    f"no record uses the transform from {what}",
                    "",
                    _why_unused(types[transform.source], formats)
                    if request.targets or request.columns is not None
                    else "name the wanted type with readerFormat or .schema(...)",
                )

    def _fail(self, reason: str, path: str, hint: str) -> None:
        said = self.options.on_unfilled
        if said == "fail" or (said is None and not self.is_open):
            _raise(reason, path, hint)
        self._warn(reason, f"{reason}{f': {hint}' if hint else ''}")

    def _warn(self, key: str, message: str) -> None:
        if key not in self.told:
            self.told.add(key)
            log.warning("%s", valid_text(message))


def _raise(reason: str, path: str, hint: str) -> NoReturn:
    also = "onUnfilled=warn or ignore accepts it"
    raise PbioError(
        "PBIO_UNFILLED",
        reason,
        field=f"$.{path}" if path else None,
        hint=f"{hint}; {also}" if hint else also,
    )


def _quoted(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - NAMES_SHOWN} more" if len(paths) > NAMES_SHOWN else ""
    return ", ".join(map(repr, paths[:NAMES_SHOWN])) + more


def _share(forms: Sequence[Format], all_: Sequence[Format], counts: Mapping[bytes, int] | None) -> str:
    """Of how many records, or at least formats."""
    if counts is not None and all(form.id in counts for form in all_):
        return f"{sum(counts[form.id] for form in forms)} of {sum(counts[form.id] for form in all_)} records"
    return f"all records of {len(forms)} of {len(all_)} formats"


def _which(forms: Sequence[Format], labels: Mapping[str, str]) -> str:
    ids: dict[str, list[str]] = {}
    for form in forms[:NAMES_SHOWN]:
        ids.setdefault(labels[form.id.hex()], []).append(form.id.hex())
    more = f" and {len(forms) - NAMES_SHOWN} more" if len(forms) > NAMES_SHOWN else ""
    return ", ".join(f"{label} ({', '.join(its)})" for label, its in ids.items()) + more


def _perhaps(path: str, forms: Sequence[Format], selection: Selection) -> str:
    renames = dict.fromkeys(name for form in forms if (name := _renamed(path, form, selection)) is not None)
    if not renames:
        return ""
    return (
        f"; {path!r} may be called {' or '.join(map(repr, renames))} there: if that means the same in the same unit, "
        "use fieldAliases, else give a transform"
    )


def _why_unused(source: Format, formats: Sequence[Format]) -> str:
    """How the nearest record type differs from a transform's source type."""
    alike = [form for form in formats if record_to_meaning(form.record) == record_to_meaning(source.record)]
    changes = {form: _changes(source.record, form.record) for form in formats}
    near = min(formats, key=lambda form: len(changes[form]), default=None)
    if near is None or alike:
        return "records have other types, or reach the wanted type without it"
    differs = "; ".join(changes[near][:NAMES_SHOWN])
    return f"no record has its source type; {near.name} ({near.id.hex()}), the nearest, differs: {differs}"


def _changes(said: Record, found: Record) -> list[str]:
    return [str(edit) for edit in edit_script(said, found).changes]


def _is_inside(path: str, lacking: Mapping[str, Collection[Format]], having: Collection[str]) -> bool:
    """Whether the parent of a column is itself reported for as many formats."""
    parent = path.rpartition(".")[0]
    return parent in lacking and parent not in having and len(lacking[parent]) >= len(lacking[path])


def _target(selection: Selection, name: str | None) -> Record | None:
    targets = dict(selection.request.targets) if selection.request is not None else {}
    return targets.get(name) if name is not None else None


def _has(record: Record, path: str) -> bool:
    parent, _, name = path.rpartition(".")
    struct = struct_at(record, parent)
    return struct is not None and bool(struct.like(name))


def _names_beside(path: str, selection: Selection, form: Format) -> Iterator[str]:
    """The fields beside a column's missing field, and those that transforms of the reader produce."""
    described = selection.request.described if selection.request is not None else ()
    for one in (form, *described):
        struct = struct_at(one.record, path.rpartition(".")[0])
        yield from (f.name for f in (() if struct is None else struct.fields) if not f.notes.hidden)


def _renamed(path: str, form: Format, selection: Selection) -> str | None:
    """What a missing column may be called in a format."""
    targets = [record for _, record in selection.request.targets] if selection.request is not None else []
    for record in targets:
        if (found := suspected_renames(form.record, record).get(path)) is not None:
            return found
    if targets:
        return None
    try:
        return suspected_renames(form.record, arrow_to_record(selection.data_schema, form.name)).get(path)
    except PbioError:  # columns that no record can have
        return None
