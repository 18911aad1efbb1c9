"""Datasets -> the columns that they can give, and what attributes say about them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ecode.errors import valid_text
from pbio_spark.bp5.dataset import Dataset
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.attributes import DatasetAttribute
from pbio_spark.bp5.meta.blocks import dimensions_of
from pbio_spark.bp5.meta.index import Step
from pbio_spark.bp5.meta.metadata import Located
from pbio_spark.bp5.meta.variables import STRING, STRUCTURE, Shape, Variable
from pbio_spark.bp5.rows.arrow.leaves import kind_of_scaled, natural_type, wider
from pbio_spark.bp5.trouble import bad
from pbio_spark.errors import PbioError

CHUNK = 16 << 20
"""About how many bytes of metadata are held at once."""
SEPARATOR = "/"
UNIT_SI = "unitSI"
NO_NUMBERS = (11, STRING, STRUCTURE)
"""Types whose values are not multiplied."""


@dataclass
class Survey:
    """The content of some steps of a dataset.

    Attributes:
        types: by variable, each form that a format gives it, with its dimensions; no variable that all steps lack.
        attributes: those after the last step, whichever step defined them.
        first: by variable, the number of the first step that has it.
        units: by variable, each value that its `unitSI` had, and the step that set it.
        errors: what is wrong with steps that were left out.
    """

    dataset: Dataset
    types: dict[str, list[tuple[Variable, int]]] = field(default_factory=dict)
    attributes: dict[str, DatasetAttribute] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    units: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    errors: list[PbioError] = field(default_factory=list)


def survey(dataset: Dataset, folder: DatasetFolder, steps: Sequence[Step], *, strict: bool) -> Survey:
    """The content of the steps, and the attributes of the dataset up to the last of them, including earlier steps.

    Args:
        strict: whether a bad step is an error; otherwise it is left out.

    Raises what `Dataset.locate` and `Dataset.attributes` raise.
    """
    found = Survey(dataset)
    missing: dict[bytes, dict[str, None]] = {}
    for some in chunks(steps):
        for located in _located(found, folder, some, strict=strict):
            _take_types(found, located, missing, strict=strict)
    first, last = (steps[0].number, steps[-1].number) if steps else (0, -1)
    _take_attributes(found, folder, dataset.steps[:first], strict=False)
    _take_attributes(found, folder, dataset.steps[first : last + 1], strict=strict)
    return found


def chunks(steps: Sequence[Step], most: int = CHUNK) -> Iterator[Sequence[Step]]:
    """Steps in groups with a limited size of metadata."""
    begin = size = 0
    for i, step in enumerate(steps):
        if i > begin and size + step.length > most:
            yield steps[begin:i]
            begin, size = i, 0
        size += step.length
    if begin < len(steps):
        yield steps[begin:]


def halves(error: PbioError, steps: Sequence[Step], *, flatten: bool) -> list[Sequence[Step]]:
    """Steps in two parts, if they cannot be read together because a type changes among them; else none."""
    if error.code != "PBIO_CANNOT_MERGE" or len(steps) < 2 or flatten:
        return []
    return [steps[: len(steps) // 2], steps[len(steps) // 2 :]]


def _located(found: Survey, folder: DatasetFolder, steps: Sequence[Step], *, strict: bool) -> Iterator[Located]:
    try:
        yield found.dataset.locate(folder, steps)
    except PbioError as error:
        if strict:
            raise
        if len(steps) == 1:
            found.errors.append(error)
        else:
            for step in steps:
                yield from _located(found, folder, [step], strict=False)


def _take_types(found: Survey, located: Located, missing: dict[bytes, dict[str, None]], *, strict: bool) -> None:
    """Note the variables. Dimensions do not change within a format, so each is examined once."""
    for group in located.groups:
        left = missing.setdefault(group.form.form.id, dict.fromkeys(group.form.places))
        for name in list(left):
            place = group.form.places[name]
            if not group.present(place).any():
                continue
            try:
                ways = sorted(dimensions_of(group, place)) if place.variable.is_array else [0]
            except PbioError as error:
                if strict:
                    raise
                found.errors.append(error)
                continue
            del left[name]
            step = located.steps[int(group.step[group.present(place)].min())].number
            found.first[name] = min(step, found.first.get(name, step))
            for dimensions in ways:
                known = found.types.setdefault(name, [])
                if (place.variable, dimensions) not in known:
                    known.append((place.variable, dimensions))


def _take_attributes(found: Survey, folder: DatasetFolder, steps: Sequence[Step], *, strict: bool) -> None:
    try:
        changes = list(found.dataset.attribute_changes(folder, steps))
    except PbioError as error:
        if strict:
            raise
        if len(steps) == 1:
            found.errors.append(error)
        for step in steps if len(steps) > 1 else ():
            _take_attributes(found, folder, [step], strict=False)
        return
    for step, attribute in changes:
        found.attributes[attribute.name] = attribute
        owner, _, last = attribute.name.rpartition(SEPARATOR)
        if last == UNIT_SI and owner:
            values = found.units.setdefault(owner, [])
            is_alone = attribute.is_array and len(attribute.value) == 1
            value = attribute.value[0] if is_alone else attribute.value
            if not values or repr(values[-1][1]) != repr(value):
                values.append((step.number, value))


def scales_of(found: Survey, names: Iterable[str]) -> dict[str, float]:
    """The `unitSI` of some variables, by name.

    Raises PBIO_BAD_BP5 if it is not a number by which values can be multiplied, or is not the same in all steps.
    """
    scales: dict[str, float] = {}
    for name in names:
        values, first = found.units.get(name, []), found.first.get(name, 0)
        if not values or name not in found.types:
            continue
        before = [one for one in values if one[0] <= first]
        (step, value), *others = before[-1:] + values[len(before) :]
        reason = None
        if others:
            reason = f"unitSI changes from {value} to {others[0][1]} in step {others[0][0]}"
        elif step > first:
            reason = f"unitSI is set in step {step}, but values come from step {first} on"
        elif isinstance(value, bool) or not isinstance(value, int | float):
            reason = f"unitSI is {value!r}, not a number"
        elif not math.isfinite(value) or not value:
            reason = f"unitSI is {value}, by which nothing can be multiplied"
        elif any(way.type in NO_NUMBERS for way, _ in found.types[name]):
            reason = f"values of type {found.types[name][0][0].type_name} cannot be multiplied by unitSI"
        if reason is not None:
            error = bad(reason, file=found.dataset.path, variable=name)
            error.hint = "read other steps (fromStep, toStep), leave the variable out, or do without applyUnitSI"
            raise error
        scales[name] = float(value)
    return scales


def columns_of(
    surveys: Sequence[Survey], names: Iterable[str], unsigned_long_as: str, *, scaled: bool
) -> list[pa.Field]:
    """A column for each of some variables of datasets.

    Args:
        names: of variables that at least one dataset has.
        scaled: whether values are multiplied by `unitSI`, where they have one.

    Raises PBIO_CANNOT_MERGE for a variable that no column can hold.
    """
    fields = []
    for name in names:
        type_: pa.DataType | None = None
        for found in surveys:
            for variable, dimensions in found.types.get(name, []):
                unit = scaled and name in found.units
                own = _column_type(found.dataset, variable, dimensions, unsigned_long_as, scaled=unit)
                merged = own if type_ is None else wider(type_, own)
                if merged is None:
                    hint = "name its type with .schema(...), or read runs by themselves with fromStep and toStep"
                    reason = f"a variable is {type_} in some steps and {own} in others"
                    raise PbioError("PBIO_CANNOT_MERGE", reason, file=found.dataset.path, field=name, hint=hint)
                type_ = merged
        fields.append(pa.field(valid_text(name), type_, metadata=_metadata(name, surveys)))
    return fields


def element_type(dataset: Dataset, variable: Variable, unsigned_long_as: str, *, scaled: bool) -> pa.DataType:
    """The type of an element of a variable, or of its value."""
    kind = np.dtype(object) if variable.type == STRING else dataset.kind(variable)
    return natural_type(kind_of_scaled(kind, 1.0 if scaled else None), variable, unsigned_long_as)


def _column_type(
    dataset: Dataset, variable: Variable, dimensions: int, unsigned_long_as: str, *, scaled: bool
) -> pa.DataType:
    type_ = element_type(dataset, variable, unsigned_long_as, scaled=scaled)
    levels = dimensions + (variable.shape is Shape.LOCAL_ARRAY)
    for _ in range(1 if variable.shape is Shape.LOCAL_VALUE else levels):
        type_ = pa.list_(type_)
    return type_


def _metadata(name: str, surveys: Sequence[Survey]) -> dict[str, str] | None:
    """The attributes of a variable, as a column's metadata, where all datasets that have them agree."""
    found: dict[str, str] = {}
    differing: set[str] = set()
    for one in surveys:
        longer = tuple(other + SEPARATOR for other in one.types if other.startswith(name + SEPARATOR))
        for attribute, value in one.attributes.items():
            if attribute.startswith(name + SEPARATOR) and not attribute.startswith(longer):
                key = valid_text(attribute[len(name) + 1 :])
                shown = json.dumps(plain(value.value))
                if found.setdefault(key, shown) != shown:
                    differing.add(key)
    return {key: value for key, value in found.items() if key not in differing} or None


def plain(value: Any) -> Any:
    """A value as JSON; a value that JSON lacks becomes text."""
    if isinstance(value, list):
        listed = [plain(one) for one in value]
        kinds = {type(one) for one in listed}
        if kinds == {int, float}:
            return [float(one) for one in listed]
        return listed if len(kinds) < 2 else [str(one) for one in listed]
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, int) and abs(value) >= 1 << 63 else value
