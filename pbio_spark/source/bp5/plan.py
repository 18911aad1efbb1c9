"""A scan and a schema -> what to read from the datasets, and the parts for tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pbio_spark.bp5.dataset import Dataset
from pbio_spark.bp5.meta.index import Step
from pbio_spark.bp5.meta.variables import Variable
from pbio_spark.bp5.rows.arrow.leaves import wider
from pbio_spark.bp5.rows.blocks import VALUES, block_fields
from pbio_spark.bp5.rows.catalogue import ATTRIBUTES, VARIABLES
from pbio_spark.bp5.rows.survey import Survey, columns_of, element_type, scales_of
from pbio_spark.bp5.rows.wanted import CORRUPT_TYPE, METADATA_TYPE, ColumnOf, DatasetPart, Wanted
from pbio_spark.errors import PbioError
from pbio_spark.source.bp5.elements import check_shapes, element_fields, plan_elements
from pbio_spark.source.bp5.fitting import check_blocks, check_fixed, check_variables
from pbio_spark.source.bp5.options import Bp5Options
from pbio_spark.source.bp5.resolve import resolve
from pbio_spark.source.bp5.scan import DatasetScan, Scanned
from pbio_spark.source.bp5.selection import scan_to_where
from pbio_spark.source.files.partitions import partition_schema, partition_value
from pbio_spark.source.query.plan import check_special
from pbio_spark.source.query.schema import check_names

PARTITION_BYTES = 128 << 20
OPEN_COST = 1 << 20
"""The cost of opening a dataset, in bytes that could be read instead."""


def scan_to_schema(scan: DatasetScan, *, checked: bool = True) -> pa.Schema:
    """All columns that a scan can give. Raises what `DatasetScan.surveyed` and `columns_of` raise.

    Args:
        checked: whether columns that differ only in case are an error, PBIO_NAME_COLLISION.
    """
    schema = _all_columns(scan)
    if checked:
        _check_columns(schema, scan.options)
    return schema


def _all_columns(scan: DatasetScan) -> pa.Schema:
    options = scan.options
    surveys = scan.surveyed().surveys
    if options.rows == "elements":
        fields = [pa.field(options.step_column, pa.int64()), *element_fields(surveys, options)]
        return with_special_columns(fields, scan)
    if options.rows != "steps":
        return with_special_columns(_catalogue_fields(scan.surveyed()), scan)
    names = list(dict.fromkeys(name for found in surveys for name in found.types))
    if options.variables:
        names = list(dict.fromkeys(resolve(options.variables, names, options, is_stream=False).values()))
    fields = columns_of(surveys, names, options.unsigned_long_as, scaled=options.apply_unit_si)
    fields = [pa.field(options.step_column, pa.int64()), *fields]
    return with_special_columns(fields, scan)


def _catalogue_fields(scan: DatasetScan) -> list[pa.Field]:
    options = scan.options
    if options.rows == "blocks":
        types = [_element(one.dataset, *way, options) for one in scan.surveys for _, way in _arrays(one, options)]
        element = next(iter(types), pa.float64())
        for type_ in types:
            element = wider(element, type_) or pa.string()
        return [pa.field(options.step_column, pa.int64()), *block_fields(element)]
    return list(VARIABLES if options.rows == "variables" else ATTRIBUTES)


def _arrays(found: Survey, options: Bp5Options) -> Iterator[tuple[str, tuple[Variable, int]]]:
    """The requested arrays of a dataset, by name."""
    asked = set(resolve(options.variables, found.types, options, is_stream=True).values())
    for name, ways in found.types.items():
        for way in ways:
            if way[0].is_array and (not options.variables or name in asked):
                yield name, way


def _element(dataset: Dataset, variable: Variable, _: int, options: Bp5Options) -> pa.DataType:
    return element_type(dataset, variable, options.unsigned_long_as, scaled=False)


def with_special_columns(fields: Sequence[pa.Field], scan: DatasetScan) -> pa.Schema:
    """The schema of the columns, the `k=v` folders, and the columns that options request."""
    options = scan.options
    fields = [*fields, *partition_schema(scan.files)]
    if options.mode == "PERMISSIVE":
        fields.append(pa.field(options.column_name_of_corrupt_record, CORRUPT_TYPE))
    if options.metadata_column is not None:
        fields.append(pa.field(options.metadata_column, METADATA_TYPE))
    return pa.schema(fields)


def _check_columns(schema: pa.Schema, options: Bp5Options) -> None:
    try:
        check_names(schema)
    except PbioError as error:
        special = {
            options.step_column: "stepColumn",
            options.metadata_column: "metadataColumn",
            options.column_name_of_corrupt_record: "columnNameOfCorruptRecord",
        }
        alike = [option for name, option in special.items() if f"$.{name}".lower() == (error.field or "").lower()]
        one = f"rename one with {alike[0]}" if alike else "read one at a time, with the option variables"
        error.hint = f"{one}; or set spark.sql.caseSensitive=true and name the columns with .schema(...)"
        raise


def scan_to_wanted(scan: DatasetScan, schema: pa.Schema, *, is_stream: bool = False) -> Wanted:
    """What to read from the datasets.

    Raises PBIO_INCOMPATIBLE_TYPE for a special column of a wrong type, and what `resolve` raises.
    """
    scan = looked_at(scan)
    options = scan.options
    variables = _variables(scan) if options.rows in ("steps", "elements") else []
    corrupt = as_asked(options.column_name_of_corrupt_record, schema, variables)
    metadata = None if options.metadata_column is None else as_asked(options.metadata_column, schema, variables)
    step = as_asked(options.step_column, schema, variables)
    check_special(schema, corrupt, CORRUPT_TYPE, "columnNameOfCorruptRecord")
    check_special(schema, metadata, METADATA_TYPE, "metadataColumn")
    if step in schema.names:
        if step in variables:
            reason = f"the column {step!r} may be the number of the step or the variable"
            hint = "rename the step number with the option stepColumn"
            raise PbioError("PBIO_AMBIGUOUS_NAME", reason, field=step, hint=hint)
        check_fixed(step, schema.field(step).type, pa.int64())
    folders = {name.lower() for file in scan.files[:1] for name, _ in file.partition}
    partition = tuple(name for name in schema.names if name.lower() in folders)
    _check_folders(partition, [*variables, step])
    special = {corrupt, metadata, step, *partition}
    asked = [name for name in schema.names if name not in special]
    wanted = Wanted(
        schema,
        (),
        options.rows,
        step_column=step if step in schema.names else None,
        corrupt_column=corrupt if corrupt in schema.names else None,
        metadata_column=metadata if metadata in schema.names else None,
        partition_columns=partition,
        mode=options.mode,
        unsigned_long_as=options.unsigned_long_as,
        uncovered=options.uncovered,
        records_per_batch=options.records_per_batch,
        max_batch_bytes=options.max_batch_bytes,
    )
    if options.rows in ("blocks", "variables", "attributes"):
        return _with_catalogue(wanted, scan, asked, is_stream=is_stream)
    if options.rows == "elements":
        return _with_elements(wanted, scan, asked, is_stream=is_stream)
    found = resolve(asked, variables, options, is_stream=is_stream)
    columns = tuple(ColumnOf(name, variable) for name, variable in found.items())
    wanted = replace(wanted, columns=columns, where=scan_to_where(scan, (), (), is_stream=is_stream))
    check_variables(wanted, scan)
    return wanted


def _check_folders(partition: Sequence[str], names: Iterable[str]) -> None:
    """Refuse columns that both `k=v` folders and variables could fill. Raises PBIO_AMBIGUOUS_NAME."""
    others = {name.lower(): name for name in names}
    for name in partition:
        if name.lower() in others:
            reason = f"the column {name!r} may come from the folders' names, or be {others[name.lower()]!r} in them"
            hint = "recursiveFileLookup=true makes no columns from folders"
            raise PbioError("PBIO_AMBIGUOUS_NAME", reason, field=name, hint=hint)


def as_asked(name: str, schema: pa.Schema, variables: Sequence[str]) -> str:
    """The name of a special column in the schema's spelling, unless a variable has that name."""
    if name in schema.names:
        return name
    near = [one for one in schema.names if one.lower() == name.lower() and one not in variables]
    return near[0] if len(near) == 1 else name


def _with_catalogue(wanted: Wanted, scan: DatasetScan, asked: Sequence[str], *, is_stream: bool) -> Wanted:
    options = scan.options
    known = {field.name: field for field in _catalogue_fields(replace(scan, surveys=()))}
    _check_folders(wanted.partition_columns, known)
    columns = resolve(asked, known, options, is_stream=is_stream)
    arrays = [
        name
        for one in scan.found
        for name, ways in one.dataset.formats.variables.items()
        if any(variable.is_array for variable in ways)
    ]
    if options.rows == "blocks":
        _check_have_blocks(scan)
    chosen = resolve(options.variables, arrays, options, is_stream=is_stream)
    for column, name in columns.items():
        if options.rows != "blocks" or name not in VALUES:
            check_fixed(column, wanted.schema.field(column).type, known[name].type)
    wanted = replace(
        wanted,
        columns=tuple(ColumnOf(column, name) for column, name in columns.items()),
        variables=tuple(chosen.values() if options.variables else dict.fromkeys(arrays)),
    )
    if options.rows == "blocks":
        check_blocks(wanted, scan)
    return wanted


def _check_have_blocks(scan: DatasetScan) -> None:
    """Refuse variables that are only scalars. Raises PBIO_INCOMPATIBLE_TYPE."""
    for name in scan.options.variables:
        ways = [way for one in scan.found for way in one.dataset.formats.variables.get(name, [])]
        if ways and not any(way.is_array for way in ways):
            reason, hint = (
                f"{name!r} is a {ways[0].shape}, which has no blocks",
                "it is a column of rows=steps, and of rows=elements in .schema(...)",
            )
            raise PbioError("PBIO_INCOMPATIBLE_TYPE", reason, field=name, hint=hint)


def _variables(scan: DatasetScan) -> list[str]:
    return list(dict.fromkeys(name for one in scan.found for name in one.dataset.formats.variables))


def _with_elements(wanted: Wanted, scan: DatasetScan, asked: Sequence[str], *, is_stream: bool) -> Wanted:
    plan = plan_elements(scan.surveys, scan.options, is_stream=is_stream)
    if not plan.variables:
        return wanted  # no rows
    _check_folders(wanted.partition_columns, [*plan.index, *plan.parts])
    folded = {name.lower(): i for i, name in enumerate(plan.parts)}
    index = {name.lower(): i for i, name in enumerate(plan.index)}
    others = [name for name in asked if name.lower() not in folded and name.lower() not in index]
    found = resolve(others, _variables(scan), scan.options, is_stream=is_stream)
    columns = [ColumnOf(name, variable) for name, variable in found.items()]
    columns += [ColumnOf(n, plan.variables[0], folded[n.lower()]) for n in asked if n.lower() in folded]
    for name in asked:
        if name.lower() in index:
            check_fixed(name, wanted.schema.field(name).type, pa.int64())
    check_shapes(plan, [column.variable for column in columns], scan.surveys)
    wanted = replace(
        wanted,
        columns=tuple(columns),
        variables=plan.variables,
        index_names=plan.index,
        index_columns={name: index[name.lower()] for name in asked if name.lower() in index},
        parts=plan.parts,
        where=scan_to_where(scan, plan.index, plan.parts, is_stream=is_stream),
        trust_statistics=scan.options.trust_statistics,
    )
    check_variables(wanted, scan)
    return wanted


@dataclass(frozen=True, slots=True)
class _Sized:
    part: DatasetPart
    size: int


def plan_parts(scan: DatasetScan, wanted: Wanted) -> list[tuple[DatasetPart, ...]]:
    """The parts that tasks read: ranges of steps of about `maxPartitionBytes`; small ones share a part."""
    most = scan.options.max_partition_bytes or PARTITION_BYTES
    partitions: list[list[DatasetPart]] = []
    room = 0
    for sized in _parts(scan, wanted, most):
        cost = sized.size + OPEN_COST
        if cost > room or not partitions:
            partitions.append([])
            room = most + OPEN_COST
        partitions[-1].append(sized.part)
        room -= cost
    return [tuple(partition) for partition in partitions]


def _parts(scan: DatasetScan, wanted: Wanted, most: int) -> Iterator[_Sized]:
    scan, scaled = looked_at(scan), _scaled(wanted)
    for i, one in enumerate(scan.found):
        values = {name.lower(): value for name, value in one.file.partition}
        partition = tuple(
            partition_value(values[name.lower()], wanted.schema.field(name), one.file.path)
            for name in wanted.partition_columns
        )
        scales = scales_of(scan.surveys[i], scaled) if scan.options.apply_unit_si else {}
        for steps, size in _ranges(one, wanted, most):
            # A step that is too large for one task is divided, if it has more than one row.
            is_one = len(steps) == 1 or one.dataset.index.header.flatten
            shares = -(-size // most) if wanted.rows in ("elements", "blocks") and is_one else 1
            for share in range(shares):
                part = DatasetPart(one.dataset.without_steps(), steps, partition, scales, (share, shares))
                yield _Sized(part, size // shares)


def looked_at(scan: DatasetScan, *, is_stream: bool = False) -> DatasetScan:
    """The scan, surveyed if more than the types of columns is needed. Raises what `DatasetScan.surveyed` raises."""
    return scan.surveyed(is_stream=is_stream) if scan.options.apply_unit_si or scan.options.rows == "elements" else scan


def _scaled(wanted: Wanted) -> list[str]:
    """The variables whose values are used, in columns and in a program."""
    reads = () if wanted.where is None else wanted.where.reads
    asked = [wanted.variable_of(given.name) for given in reads if not given.is_step]
    return list(dict.fromkeys([*(column.variable for column in wanted.columns), *asked]))


def _ranges(one: Scanned, wanted: Wanted, most: int) -> Iterator[tuple[tuple[Step, ...], int]]:
    """The steps of a dataset in ranges of about `most` bytes. A flattened dataset is one range."""
    if not one.steps:
        return
    each = max(1, one.file.size // max(1, len(one.dataset.steps)))
    is_whole = one.dataset.index.header.flatten or wanted.rows in ("variables", "attributes")
    count = len(one.steps) if is_whole else max(1, most // each)
    for begin in range(0, len(one.steps), count):
        steps = one.steps[begin : begin + count]
        yield steps, each * len(steps)
