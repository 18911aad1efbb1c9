"""Checks that variables fit the types of columns, when a read is planned rather than in a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pbio_spark.bp5.dataset import Dataset
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.blocks import dimensions_of
from pbio_spark.bp5.meta.variables import STRING, Shape, Variable
from pbio_spark.bp5.rows.arrow.leaves import kind_of_scaled, leaf_of
from pbio_spark.bp5.rows.arrow.nested import list_levels
from pbio_spark.bp5.rows.survey import Survey, element_type
from pbio_spark.bp5.rows.wanted import ColumnOf, Wanted
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.arrow_to_ddl import arrow_to_ddl
from pbio_spark.source.bp5.scan import DatasetScan, Scanned

UNIT = 1.0
"""An arbitrary scale: only its effect on the type matters here."""


def check_variables(wanted: Wanted, scan: DatasetScan) -> None:
    """Refuse columns whose type no form of their variable in a dataset can fill.

    The dimensions of an array are looked up where a dataset first has it. Raises PBIO_INCOMPATIBLE_TYPE with the
    variable, its type, and a type that would fit.
    """
    owners = _owners(scan)
    for column in wanted.columns:
        _check(column, column.variable, wanted, owners)


def check_blocks(wanted: Wanted, scan: DatasetScan) -> None:
    """`check_variables` for columns of blocks that hold values: each variable must fit."""
    owners = _owners(scan)
    for column in wanted.columns:
        if column.variable in ("min", "max", "value"):
            for name in wanted.variables:
                _check(column, name, wanted, owners)


def check_fixed(column: str, want: pa.DataType, own: pa.DataType) -> None:
    """Refuse a type other than a column's own. Integers of any size are accepted, since values are checked."""
    if not _is_alike(want, own):
        reason = f"the column {column!r} cannot be {want}"
        raise PbioError("PBIO_INCOMPATIBLE_TYPE", reason, field=column, hint=f"it is {_ddl(column, own)}")


def _is_alike(want: pa.DataType, own: pa.DataType) -> bool:
    if pa.types.is_list(want) and pa.types.is_list(own):
        return _is_alike(want.value_type, own.value_type)
    return bool(want == own or (pa.types.is_signed_integer(want) and pa.types.is_signed_integer(own)))


class _Owner:
    """A dataset, and what is known about it."""

    def __init__(self, one: Scanned, survey: Survey | None, *, scaled: bool) -> None:
        self.dataset: Dataset = one.dataset
        self.survey = survey
        self.scaled = set(survey.units) if scaled and survey is not None else set[str]()
        self._steps = iter(one.steps)
        self._seen: dict[Variable, set[int]] = {}

    def scale(self, way: Variable) -> float | None:
        return UNIT if way.name in self.scaled else None

    def ways(self, name: str, rows: str) -> Iterator[tuple[Variable, int]]:
        """Each form of a variable in the dataset, and its dimensions; unknown ones are left out."""
        if self.survey is not None:
            yield from self.survey.types.get(name, [])
            return
        for way in self.dataset.formats.variables.get(name, []):
            if not way.is_array or rows != "steps":
                yield way, int(way.is_array)
            else:
                yield from ((way, dimensions) for dimensions in sorted(self._dimensions(way)))

    def _dimensions(self, way: Variable) -> set[int]:
        """The dimensions of an array in the first step that has it; they are constant within a writing run."""
        while way not in self._seen:
            step = next(self._steps, None)
            if step is None:
                return set()
            with DatasetFolder(self.dataset.path) as folder:
                try:
                    for group in self.dataset.locate(folder, [step]).groups:
                        for place in group.form.places.values():
                            if place.array is not None and group.present(place).any():
                                self._seen.setdefault(place.variable, dimensions_of(group, place))
                except PbioError:
                    continue  # reading the step reports what is wrong with it
        return self._seen[way]


def _owners(scan: DatasetScan) -> list[_Owner]:
    surveys = scan.surveys or [None] * len(scan.found)
    return [
        _Owner(one, survey, scaled=scan.options.apply_unit_si) for one, survey in zip(scan.found, surveys, strict=True)
    ]


def _check(column: ColumnOf, name: str, wanted: Wanted, owners: Sequence[_Owner]) -> None:
    error: PbioError | None = None
    for owner in owners:
        for way, dimensions in owner.ways(name, wanted.rows):
            try:
                _fit(owner, way, dimensions, wanted, column)
                return
            except PbioError as found:
                if found.code != "PBIO_INCOMPATIBLE_TYPE":
                    return  # a structure, which is not supported: reading it reports that
                error = error or _refused(owner, way, dimensions, wanted, column)
    if error is not None:
        raise error


def _fit(owner: _Owner, way: Variable, dimensions: int, wanted: Wanted, column: ColumnOf) -> None:
    """Raises PBIO_INCOMPATIBLE_TYPE if a variable's values cannot become the type of a column."""
    kind = np.dtype(object) if way.type == STRING else kind_of_scaled(owner.dataset.kind(way), owner.scale(way))
    want = wanted.schema.field(column.name).type
    leaf = list_levels(want, _levels(way, dimensions, wanted, column), way.name)[-1]
    if wanted.rows != "blocks" or leaf != pa.string():  # in blocks, values of several types become text
        leaf_of(kind, way, leaf, wanted.unsigned_long_as)


def _levels(way: Variable, dimensions: int, wanted: Wanted, column: ColumnOf) -> int:
    """The depth of nested lists of a variable's values in a column."""
    if wanted.rows == "blocks":
        return 1 if column.variable == "value" else 0
    if not way.is_array:
        return 1 if way.shape is Shape.LOCAL_VALUE else 0
    return 0 if wanted.rows == "elements" else dimensions + (way.shape is Shape.LOCAL_ARRAY)


def _refused(owner: _Owner, way: Variable, dimensions: int, wanted: Wanted, column: ColumnOf) -> PbioError:
    """The error for a variable that cannot fill a column, with its own type."""
    want = wanted.schema.field(column.name).type
    own = element_type(owner.dataset, way, wanted.unsigned_long_as, scaled=owner.scale(way) is not None)
    for _ in range(_levels(way, dimensions, wanted, column)):
        own = pa.list_(own)
    shown = f"a {way.shape} of {way.type_name}"
    if way.is_array and wanted.rows == "steps":
        shown += f" with {dimensions} dimension{'s' * (dimensions != 1)}"
    if owner.scale(way) is not None:
        shown += ", times its unitSI"
    hint = f"ask for {_ddl(column.name, own)}"
    if wanted.rows == "blocks":
        text = pa.list_(pa.string()) if column.variable == "value" else pa.string()
        hint += f", or {_ddl(column.name, text)} for variables of several types; the option variables chooses some"
    reason = f"the variable {way.name!r} is {shown}, which cannot become {want}"
    return PbioError("PBIO_INCOMPATIBLE_TYPE", reason, file=owner.dataset.path, field=column.name, hint=hint)


def _ddl(name: str, type_: pa.DataType) -> str:
    try:
        return arrow_to_ddl(pa.schema([pa.field(name, type_)]))
    except PbioError:
        return f"{name} {type_}"
