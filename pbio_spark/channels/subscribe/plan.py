"""A format and a request -> the plan of reading events of that format, and of identifying them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from pbio_spark.channels.commits.groups import Int64s
from pbio_spark.columns import ErrorPolicy, ReadPlan, Request, Selection, plan_read
from pbio_spark.formats import Format
from pbio_spark.formats.store import FormatStore

PLACE = pa.field("\0place", pa.struct([("ordinal", pa.int64())]))
"""The last column of batches that identify the event of each row."""

PLACES = pa.field(PLACE.name, pa.struct([*PLACE.type, ("run", pa.int64())]))
"""`PLACE` for events of a stretch, with the number of each event's group."""


def format_to_plan(
    form: Format,
    schema: pa.Schema,
    store: FormatStore,
    request: Request | None,
    *,
    others: Sequence[Format] = (),
    mode: Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"] = "FAILFAST",
) -> ReadPlan:
    """The plan that reads events of a format as the columns of a schema, the last of which may be PLACE.

    Args:
        others: formats that may help to find a route to the requested type.

    Raises what `compile_converter` raises.
    """
    place = PLACE.name if PLACE.name in schema.names else None
    selection = Selection(schema, metadata_column=place, request=request)
    return plan_read(selection, (form, *others), coming=[form], store=store, errors=ErrorPolicy(mode))


def split_place(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64s]:
    """The columns of a batch without PLACE, and the ordinals in PLACE."""
    ordinals = batch.column(batch.num_columns - 1).field(0).to_numpy(zero_copy_only=False)
    return batch.select(batch.schema.names[:-1]), ordinals
