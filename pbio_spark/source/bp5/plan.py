"""A scan and a schema -> what is wanted of the datasets, and the parts that tasks read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ecode.errors import valid_text
from ecode.suggest import did_you_mean
from pbio_spark.bp5.meta.index import Step
from pbio_spark.bp5.rows.survey import columns_of, scales_of
from pbio_spark.bp5.rows.wanted import CORRUPT_TYPE, METADATA_TYPE, ColumnOf, Part, Wanted
from pbio_spark.errors import PbioError
from pbio_spark.source.bp5.options import Bp5Options
from pbio_spark.source.bp5.scan import Scan, Scanned
from pbio_spark.source.files.partitions import partition_schema, partition_value
from pbio_spark.source.query.plan import check_special
from pbio_spark.source.query.schema import check_names

log = logging.getLogger("pbio_spark.source")

PARTITION_BYTES = 128 << 20
OPEN_COST = 1 << 20
"""What opening a dataset costs, in bytes that could be read meanwhile."""


def scan_to_schema(scan: Scan) -> pa.Schema:
    """All columns that a scan can give. Raises what `Scan.surveyed`, `columns_of` and `check_names` raise."""
    options = scan.options
    surveys = scan.surveyed().surveys
    fields = columns_of(surveys, options.unsigned_long_as, scaled=options.apply_unit_si)
    if options.variables:
        chosen = resolve(options.variables, [field.name for field in fields], options, is_stream=False)
        by_name = {field.name: field for field in fields}
        fields = [by_name[name] for name in chosen.values()]
    fields = [pa.field(options.step_column, pa.int64()), *fields]
    return with_special_columns(fields, scan)


def with_special_columns(fields: Sequence[pa.Field], scan: Scan) -> pa.Schema:
    """The schema of columns, of `k=v` folders and of what options ask for. Raises PBIO_NAME_COLLISION."""
    options = scan.options
    fields = [*fields, *partition_schema(scan.files)]
    if options.mode == "PERMISSIVE":
        fields.append(pa.field(options.column_name_of_corrupt_record, CORRUPT_TYPE))
    if options.metadata_column is not None:
        fields.append(pa.field(options.metadata_column, METADATA_TYPE))
    schema = pa.schema(fields)
    try:
        check_names(schema)
    except PbioError as error:
        error.hint = (
            "rename the column of steps with stepColumn; or set spark.sql.caseSensitive=true and name the columns "
            "with .schema(...)"
        )
        raise
    return schema


def resolve(asked: Iterable[str], known: Iterable[str], options: Bp5Options, *, is_stream: bool) -> dict[str, str]:
    """Names as they were asked for -> names of variables; those that fit none are left out if that is borne.

    Raises PBIO_UNFILLED, and PBIO_AMBIGUOUS_NAME for one that fits several, and none exactly.
    """
    variables = {valid_text(name): name for name in known}
    folded: dict[str, list[str]] = {}
    for name in variables:
        folded.setdefault(name.lower(), []).append(name)
    found: dict[str, str] = {}
    for name in asked:
        near = folded.get(name.lower(), [])
        if name in variables:
            found[name] = variables[name]
        elif len(near) == 1:
            found[name] = variables[near[0]]
        elif near:
            reason = f"the column {name!r} may be any of {', '.join(map(repr, near))}"
            raise PbioError("PBIO_AMBIGUOUS_NAME", reason, field=name)
        else:
            _unfilled(name, variables, options, is_stream=is_stream)
    return found


def _unfilled(name: str, variables: Mapping[str, str], options: Bp5Options, *, is_stream: bool) -> None:
    reason = f"no dataset has a variable {name!r}"
    said = options.on_unfilled or ("warn" if is_stream else "fail")
    if said == "fail":
        hint = did_you_mean(name, variables) or "rows=variables lists the variables"
        raise PbioError("PBIO_UNFILLED", reason, field=name, hint=f"{hint}; onUnfilled=warn or ignore lets it be")
    if said == "warn":
        log.warning("%s", reason)


def scan_to_wanted(scan: Scan, schema: pa.Schema, *, is_stream: bool = False) -> Wanted:
    """What is wanted of the datasets.

    Raises PBIO_INCOMPATIBLE_TYPE for a special column of another type than it can be, and what `resolve` raises.
    """
    options = scan.options
    corrupt, metadata = options.column_name_of_corrupt_record, options.metadata_column
    check_special(schema, corrupt, CORRUPT_TYPE, "columnNameOfCorruptRecord")
    check_special(schema, metadata, METADATA_TYPE, "metadataColumn")
    _check_step(schema, options.step_column)
    folders = {name.lower() for file in scan.files[:1] for name, _ in file.partition}
    partition = tuple(name for name in schema.names if name.lower() in folders)
    special = {corrupt, metadata, options.step_column, *partition}
    known = dict.fromkeys(name for one in scan.found for name in one.dataset.formats.variables())
    asked = [name for name in schema.names if name not in special]
    found = resolve(asked, known, options, is_stream=is_stream)
    return Wanted(
        schema,
        tuple(ColumnOf(name, variable) for name, variable in found.items()),
        options.rows,
        step_column=options.step_column if options.step_column in schema.names else None,
        corrupt_column=corrupt if corrupt in schema.names else None,
        metadata_column=metadata if metadata in schema.names else None,
        partition_columns=partition,
        mode=options.mode,
        unsigned_long_as=options.unsigned_long_as,
        uncovered=options.uncovered,
        records_per_batch=options.records_per_batch,
        max_batch_bytes=options.max_batch_bytes,
    )


def _check_step(schema: pa.Schema, name: str) -> None:
    if name in schema.names and not pa.types.is_integer(schema.field(name).type):
        reason = f"the column of steps cannot be {schema.field(name).type}"
        raise PbioError("PBIO_INCOMPATIBLE_TYPE", reason, field=name, hint="it is BIGINT")


@dataclass(frozen=True, slots=True)
class _Sized:
    part: Part
    size: int


def plan_parts(scan: Scan, wanted: Wanted) -> list[tuple[Part, ...]]:
    """The parts that tasks read: ranges of steps of about `maxPartitionBytes`, small ones together."""
    most = scan.options.max_partition_bytes or PARTITION_BYTES
    partitions: list[list[Part]] = []
    room = 0
    for sized in _parts(scan, wanted, most):
        cost = sized.size + OPEN_COST
        if cost > room or not partitions:
            partitions.append([])
            room = most + OPEN_COST
        partitions[-1].append(sized.part)
        room -= cost
    return [tuple(partition) for partition in partitions]


def _parts(scan: Scan, wanted: Wanted, most: int) -> Iterator[_Sized]:
    if scan.options.apply_unit_si:
        scan = scan.surveyed()
    for i, one in enumerate(scan.found):
        values = {name.lower(): value for name, value in one.file.partition}
        partition = tuple(
            partition_value(values[name.lower()], wanted.schema.field(name), one.file.path)
            for name in wanted.partition_columns
        )
        scales = scales_of(scan.surveys[i]) if scan.options.apply_unit_si else {}
        for steps, size in _ranges(one, most):
            yield _Sized(Part(one.dataset.without_steps(), steps, partition, scales), size)


def _ranges(one: Scanned, most: int) -> Iterator[tuple[tuple[Step, ...], int]]:
    """The steps of a dataset in ranges of about so many bytes. All steps of a flattened dataset stay together."""
    if not one.steps:
        return
    each = max(1, one.file.size // max(1, len(one.dataset.steps)))
    count = len(one.steps) if one.dataset.index.header.flatten else max(1, most // each)
    for begin in range(0, len(one.steps), count):
        steps = one.steps[begin : begin + count]
        yield steps, each * len(steps)
