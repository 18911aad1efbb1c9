"""A format and a request -> `Wanted`, compiled: what it takes to read events of one format, and to identify them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pyarrow as pa

from pbio_spark.channels.commits.groups import Int64s
from pbio_spark.columns.files.compile import compile_converter
from pbio_spark.columns.files.walk import walk_kernel
from pbio_spark.columns.files.wanted import Wanted
from pbio_spark.columns.programs.routes import Request
from pbio_spark.formats import Format
from pbio_spark.formats.store import FormatStore

PLACE = pa.field("\0place", pa.struct([("ordinal", pa.int64())]))
"""The last column of batches that say which event each row was."""

PLACES = pa.field(PLACE.name, pa.struct([*PLACE.type, ("run", pa.int64())]))
"""The same for events of a stretch: also which of its groups each one is of, by number."""


def format_to_wanted(
    form: Format,
    schema: pa.Schema,
    store: FormatStore,
    request: Request | None,
    *,
    others: Sequence[Format] = (),
    mode: Literal["FAILFAST", "DROPMALFORMED"] = "FAILFAST",
) -> Wanted:
    """What reads events of a format as the columns of a schema, the last of which may be PLACE.

    Args:
        others: formats that may help to find a way to what is requested.

    Raises what `compile_converter` raises.
    """
    wanted = Wanted(
        schema,
        formats=(form, *others),
        store=store,
        mode=mode,
        metadata_column=PLACE.name if PLACE.name in schema.names else None,
        walk=walk_kernel(),
        request=request,
    )
    return replace(wanted, converters={form.id: compile_converter(wanted, form, fused=False)})


def split_place(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64s]:
    """The columns of a batch but PLACE, and the ordinals that this one has."""
    ordinals = batch.column(batch.num_columns - 1).field(0).to_numpy(zero_copy_only=False)
    return batch.select(batch.schema.names[:-1]), ordinals
