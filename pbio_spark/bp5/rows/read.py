"""A part of a dataset -> its rows, whatever a row is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from pbio_spark.bp5.rows.steps import read_steps
from pbio_spark.bp5.rows.wanted import Part, Wanted

_READERS: dict[str, Callable[[Part, Wanted], Iterator[pa.RecordBatch]]] = {"steps": read_steps}


def read_part(part: Part, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The rows of a part, as batches of the wanted schema. Raises what is wrong with the dataset under FAILFAST."""
    return _READERS[wanted.rows](part, wanted)
