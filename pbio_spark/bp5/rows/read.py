"""A part of a dataset -> its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from pbio_spark.bp5.rows.blocks import read_block_rows
from pbio_spark.bp5.rows.catalogue import read_attributes, read_variables
from pbio_spark.bp5.rows.elements.elements import read_elements
from pbio_spark.bp5.rows.steps import read_steps
from pbio_spark.bp5.rows.wanted import DatasetPart, Wanted

_READERS: dict[str, Callable[[DatasetPart, Wanted], Iterator[pa.RecordBatch]]] = {
    "steps": read_steps,
    "elements": read_elements,
    "blocks": read_block_rows,
    "variables": read_variables,
    "attributes": read_attributes,
}


def read_part(part: DatasetPart, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The rows of a part, as batches of the wanted schema. Raises what is wrong with the dataset under FAILFAST."""
    return _READERS[wanted.rows](part, wanted)
