"""Every option of the data source "bp5": `Bp5Options`. Rows shared with "pbio" come from its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pbio_spark.errors import PbioError
from pbio_spark.source.options import values
from pbio_spark.source.options.options import Options
from pbio_spark.source.options.parse import parse_table
from pbio_spark.source.options.scopes import READS, Scope, option, option_name

_SHARED = {entry.name: entry for entry in fields(Options)}


def shared(name: str) -> Any:
    """A row of the table of "pbio"."""
    entry = _SHARED[name]
    return field(default=entry.default, metadata=entry.metadata)


@dataclass(frozen=True, slots=True)
class Bp5Options:
    """All options, parsed. The name of an option is the attribute's name in camelCase."""

    rows: Literal["steps", "elements", "blocks", "variables", "attributes"] = option(
        values.one_of("steps", "elements", "blocks", "variables", "attributes"),
        "steps",
        *READS,
        doc="What a row is: a step, an element of the arrays in `variables`, a block as written, a variable, "
        "or an attribute.",
    )
    variables: tuple[str, ...] = option(
        values.names,
        (),
        *READS,
        doc="The variables to read. For `elements`, arrays of equal shape, or one table of two dimensions; "
        "otherwise the default is all.",
    )
    columns: tuple[str, ...] = option(
        values.names, (), *READS, doc="For `elements` of one table of two dimensions, the names of its columns."
    )
    column_attributes: str | None = option(
        values.text,
        None,
        *READS,
        doc="A prefix of attributes: `<prefix> 0`, `<prefix> 1` and so on name the columns.",
    )
    index_columns: tuple[str, ...] = option(
        values.names,
        (),
        *READS,
        doc="For `elements`, the names of the columns with the index in each dimension; by default `index`, or "
        "`index0`, `index1` and so on.",
    )
    step_column: str = option(values.text, "step", *READS, doc="The name of the column with the number of the step.")
    where: str | None = option(
        values.text,
        None,
        *READS,
        doc="E-code that selects rows before other data is read, `{ return input.energy > 2.5; }`. `input` has the "
        "scalars of the step, and `step`; for `elements` also the variables and the index. Characters that E-code "
        "does not allow in names become `_`.",
    )
    trust_statistics: Literal["none", "integers", "all"] = option(
        values.one_of("none", "integers", "all"),
        "integers",
        *READS,
        doc="Variables for which `where` skips blocks by their writer's least and greatest values. ADIOS2 records "
        "wrong values for floating-point blocks that contain a NaN, so `all` loses rows of such blocks.",
    )
    from_step: int = option(values.whole, 0, Scope.READ, doc="The first step to read.")
    to_step: int | None = option(values.whole, None, Scope.READ, doc="The step before which to stop.")
    starting_step: int | Literal["earliest", "latest"] = option(
        values.starting_step,
        "earliest",
        Scope.STREAM,
        doc="Where a new stream begins in each folder that exists at its start.",
    )
    max_steps_per_trigger: int | None = option(
        values.positive, None, Scope.STREAM, doc="The most steps that one micro-batch reads."
    )
    uncovered: Literal["zero", "null"] = option(
        values.one_of("zero", "null"),
        "zero",
        *READS,
        doc="The value of elements that no block contains: zero, as in the reference library with a zeroed buffer, "
        "or null.",
    )
    apply_unit_si: bool = option(
        values.boolean,
        False,
        *READS,
        doc="Whether values are multiplied by the attribute `unitSI` of their variable; they then become doubles.",
    )
    mode: Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"] = option(
        values.one_of("FAILFAST", "PERMISSIVE", "DROPMALFORMED"),
        "FAILFAST",
        *READS,
        doc="What happens to a damaged step: it fails the query, becomes a row (or rows) with its sound parts and "
        "the reason in the corrupt-record column, or is left out.",
    )
    column_name_of_corrupt_record: str = option(
        values.text, "_corrupt_record", *READS, doc="The column that describes the damage of a step under PERMISSIVE."
    )
    metadata_column: str | None = option(
        values.text, None, *READS, doc="The name of a column with the origin of each row: the folder, the step."
    )
    path_glob_filter: str | None = shared("path_glob_filter")
    recursive_file_lookup: bool = shared("recursive_file_lookup")
    modified_before: float | None = shared("modified_before")
    modified_after: float | None = shared("modified_after")
    ignore_missing_files: bool = shared("ignore_missing_files")
    max_partition_bytes: int | None = shared("max_partition_bytes")
    records_per_batch: int = shared("records_per_batch")
    max_batch_bytes: int = shared("max_batch_bytes")
    unsigned_long_as: Literal["decimal", "long", "binary"] = option(
        values.one_of("decimal", "long", "binary"),
        "decimal",
        *READS,
        doc=_SHARED["unsigned_long_as"].metadata["doc"].replace("makes a bad record", "is damage"),
    )
    on_unfilled: Literal["fail", "warn", "ignore"] | None = option(
        values.one_of("fail", "warn", "ignore"),
        None,
        *READS,
        doc="What happens to a column of `.schema()` or a name in `where` that is not a variable of any dataset: "
        "`fail` (the default in batches), `warn` (the default in streams, except for a name in `where` that is "
        "close to an existing one, which fails) or `ignore`. With the last two, the column is null and the name is "
        "absent.",
    )
    schema_inference: bool = shared("schema_inference")
    max_bytes_per_trigger: int | None = shared("max_bytes_per_trigger")


def parse_bp5_options(given: Mapping[str, str], *scopes: Scope) -> Bp5Options:
    """The options as given. Raises PBIO_UNKNOWN_OPTION and PBIO_BAD_OPTION."""
    parsed = parse_table(Bp5Options, given, *scopes)
    options = Bp5Options(**parsed)  # type: ignore[arg-type]
    if options.to_step is not None and options.to_step < options.from_step:
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"toStep {options.to_step} comes before fromStep {options.from_step}",
            hint="swap the two",
        )
    for name in ("columns", "column_attributes", "index_columns"):
        if getattr(options, name) and options.rows != "elements":
            raise _other_rows(option_name(name), options, "rows=elements has such columns; else leave it out")
    if options.variables and options.rows == "attributes":
        raise _other_rows("variables", options, "leave it out, and select the rows in Spark by the attribute's name")
    if options.columns and options.column_attributes:
        raise PbioError(
            "PBIO_BAD_OPTION", "options columns and columnAttributes exclude each other", hint="leave one of them out"
        )
    if options.rows == "elements" and not options.variables:
        raise PbioError(
            "PBIO_BAD_OPTION",
            "rows=elements needs the option variables",
            hint='name arrays of equal shapes, .option("variables", "x,y,id"); rows=variables lists all',
        )
    if options.trust_statistics != "integers" and (options.rows != "elements" or options.where is None):
        raise PbioError(
            "PBIO_BAD_OPTION",
            "option 'trustStatistics' needs rows=elements and the option where",
            hint="add both, or leave it out",
        )
    if options.apply_unit_si and options.rows not in ("steps", "elements"):
        raise _other_rows("applyUnitSI", options, "leave it out; these rows show what writers put")
    if options.where and options.rows not in ("steps", "elements"):
        raise _other_rows("where", options, "leave it out, or filter the rows in Spark")
    return options


def _other_rows(name: str, options: Bp5Options, hint: str) -> PbioError:
    return PbioError("PBIO_BAD_OPTION", f"option {name!r} does not apply to rows={options.rows}", hint=hint)
