"""Records in memory for the kernels, and their results."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pyarrow as pa

from ecode.native import Kernel
from pbio_spark.columns.decode.converter import CompiledLevel, CompiledPlan, Decoded, Decoder, compile_plan
from pbio_spark.columns.decode.generate import level_to_texts
from pbio_spark.columns.decode.plan import levels_of
from pbio_spark.columns.decode.planner import format_to_plan
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.mapping import ColumnSpec
from pbio_spark.formats.arrow.schema import DEFAULT, Presentation, record_to_arrow
from tests.columns.checked import CheckedKernel


def decode_records(
    form: Format,
    records: list[bytes],
    presentation: Presentation = DEFAULT,
    schema: pa.Schema | None = None,
    *,
    spec: ColumnSpec | None = None,
    fused: bool = True,
    checked: bool = False,
) -> Decoded:
    """Encoded records, headers included, through a fresh converter; `checked` does not compile its kernels."""
    spec = spec or ColumnSpec(schema or record_to_arrow(form.record, presentation), presentation)
    plan = format_to_plan(form, spec)
    memory = np.frombuffer(b"".join(records) or b"\0", np.uint8)
    lengths = np.array([len(record) for record in records], np.int64)
    ends = memory.__array_interface__["data"][0] + np.cumsum(lengths)
    starts = ends - lengths + form.header_size
    if not checked:
        return Decoder(compile_plan(plan, fused=fused)).decode(starts, ends)
    readable = [(memory.__array_interface__["data"][0], memory.nbytes)]
    levels = [(level, level_to_texts(level, fused)) for level in levels_of(plan)]
    compiled = CompiledPlan(
        plan,
        tuple(
            CompiledLevel(level, tuple((text, cast(Kernel, CheckedKernel(text.source, readable))) for text in texts))
            for level, texts in levels
        ),
    )
    return Decoder(compiled).decode(starts, ends)


def same(left: Any, right: Any) -> bool:
    """Equality in which NaN equals NaN and 0.0 is not -0.0."""
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right
