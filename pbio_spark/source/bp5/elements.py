"""`rows=elements`: the columns, by the content of datasets and by options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ecode.errors import valid_text
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.variables import Shape
from pbio_spark.bp5.rows.survey import Survey, columns_of
from pbio_spark.errors import PbioError
from pbio_spark.source.bp5.options import Bp5Options
from pbio_spark.source.bp5.resolve import resolve


@dataclass(frozen=True, slots=True)
class ElementColumns:
    """The columns of elements.

    Attributes:
        variables: the variables whose elements are rows.
        index: the names of the index columns.
        parts: for a table, the names of its columns.
    """

    variables: tuple[str, ...]
    index: tuple[str, ...]
    parts: tuple[str, ...]


def plan_elements(surveys: Sequence[Survey], options: Bp5Options, *, is_stream: bool = False) -> ElementColumns:
    """The columns of elements; none if no step has a variable, which may happen in a micro-batch.

    Raises PBIO_UNFILLED, PBIO_BAD_OPTION, PBIO_INCOMPATIBLE_TYPE, PBIO_NAME_COLLISION.
    """
    names = dict.fromkeys(name for found in surveys for name in found.types)
    if is_stream:  # variables in other steps are known, too
        names |= dict.fromkeys(name for found in surveys for name in found.dataset.formats.variables)
    variables = tuple(resolve(options.variables, names, options, is_stream=is_stream).values())
    if not any(name in found.types for found in surveys for name in variables):
        return ElementColumns((), options.index_columns or ("index",), ())
    have = {(name, _dimensions(found, name)): None for name in variables for found in surveys if name in found.types}
    dimensions = {count for _, count in have}
    if len(dimensions) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in have)
        raise PbioError(
            "PBIO_INCOMPATIBLE_TYPE",
            f"variables differ in their dimensions: {listed}; elements have one index",
            hint="read variables of other shapes by themselves",
        )
    (count,) = dimensions
    parts = _parts(surveys, options)
    index = _index(options, 1 if parts else count)
    _check_names(options, index, parts or tuple(map(valid_text, variables)))
    if parts and (len(variables) > 1 or count != 2):
        reason = "columns of a table need one variable of two dimensions"
        raise PbioError(
            "PBIO_BAD_OPTION",
            reason,
            field=", ".join(variables),
            hint="name one such variable, or leave columns and columnAttributes out",
        )
    if parts and options.mode == "FAILFAST":
        _check_count(next(found for found in surveys if variables[0] in found.types), variables[0], len(parts))
    return ElementColumns(variables, index, parts)


def _check_count(found: Survey, name: str, count: int) -> None:
    """Refuse a number of names other than that of the table's columns at its first occurrence. Raises
    PBIO_BAD_OPTION."""
    dataset = found.dataset
    if dataset.index.header.flatten:
        return
    with DatasetFolder(dataset.path) as folder:
        steps = [dataset.steps[found.first[name]]]
        blocks = dataset.blocks(dataset.locate(folder, steps), name, 2)
    if blocks is None or blocks.variable.shape is Shape.LOCAL_ARRAY or not len(blocks.shape):
        return
    if (width := int(blocks.shape[0, 1])) != count:
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"the table has {width} columns, but {count} are named",
            file=dataset.path,
            field=name,
            hint=f"name {width} in the option columns, or leave it out and take the index in both dimensions",
        )


def element_fields(surveys: Sequence[Survey], options: Bp5Options) -> list[pa.Field]:
    """All columns of elements. Raises as `plan_elements` and `columns_of`."""
    plan = plan_elements(surveys, options)
    fields = [pa.field(name, pa.int64()) for name in plan.index]
    for field in columns_of(surveys, plan.variables, options.unsigned_long_as, scaled=options.apply_unit_si):
        type_ = field.type
        while pa.types.is_list(type_):
            type_ = type_.value_type
        fields += [pa.field(name, type_) for name in plan.parts] or [field.with_type(type_)]
    return fields


def _check_names(options: Bp5Options, index: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse columns whose names Spark cannot distinguish. Raises PBIO_NAME_COLLISION."""
    own = [(options.step_column, "stepColumn"), *((name, "indexColumns") for name in index)]
    own += [(name, "columns") for name in options.columns]
    others = [(name, "stepColumn or indexColumns") for name in columns if name not in options.columns]
    seen: dict[str, str] = {}
    for name, option in [*own, *others]:
        twin = seen.get(name.lower())
        if twin is not None:
            reason = f"Spark does not distinguish the columns {twin!r} and {name!r}"
            hint = f"rename one with the option {option}"
            raise PbioError("PBIO_NAME_COLLISION", reason, field=name, hint=hint)
        if (name, option) in own:
            seen[name.lower()] = name


def check_shapes(plan: ElementColumns, variables: Sequence[str], surveys: Sequence[Survey]) -> None:
    """Refuse columns of arrays whose dimensions differ from those of the rows' elements.

    Raises PBIO_INCOMPATIBLE_TYPE.
    """
    if not plan.variables:
        return
    first, count = next(
        (name, _dimensions(found, name)) for name in plan.variables for found in surveys if name in found.types
    )
    for name in dict.fromkeys(variables):
        ways = [way for found in surveys for way in found.types.get(name, [])]
        if ways and all(way.is_array and dimensions != count for way, dimensions in ways):
            reason = f"{name!r} has {ways[0][1]} dimensions and {first!r} {count}; elements have one index"
            hint = "read variables of other shapes by themselves"
            raise PbioError("PBIO_INCOMPATIBLE_TYPE", reason, field=name, hint=hint)


def _dimensions(found: Survey, name: str) -> int:
    (variable, dimensions), *_ = found.types[name]
    if variable.shape in (Shape.VALUE, Shape.LOCAL_VALUE) or not dimensions:
        reason = f"{name!r} is a {variable.shape}, which has no elements"
        raise PbioError(
            "PBIO_INCOMPATIBLE_TYPE", reason, file=found.dataset.path, field=name, hint="read it with rows=steps"
        )
    return dimensions


def _index(options: Bp5Options, dimensions: int) -> tuple[str, ...]:
    if options.index_columns:
        if len(options.index_columns) != dimensions:
            reason = f"indexColumns has {len(options.index_columns)} names for {dimensions} dimensions"
            raise PbioError("PBIO_BAD_OPTION", reason, hint=f"give {dimensions} names, separated by commas")
        return options.index_columns
    return ("index",) if dimensions == 1 else tuple(f"index{i}" for i in range(dimensions))


def _parts(surveys: Sequence[Survey], options: Bp5Options) -> tuple[str, ...]:
    """The names of a table's columns."""
    if options.columns or options.column_attributes is None:
        return options.columns
    prefix = options.column_attributes
    for found in surveys:
        names: list[str] = []
        while (one := found.attributes.get(f"{prefix} {len(names)}")) is not None:
            names.append(valid_text(str(one.value)))
        if names:
            return tuple(names)
    raise PbioError(
        "PBIO_BAD_OPTION",
        f"no dataset has the attribute {prefix + ' 0'!r}, which names the first column",
        hint="`pbio bp5 ls -a` lists the attributes; the option columns names columns without them",
    )
