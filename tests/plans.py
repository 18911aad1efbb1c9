"""Plans of reading, with all that a test says about them in one place."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pyarrow as pa

from pbio_spark.columns.files.compile import plan_read
from pbio_spark.columns.files.plan import BatchLimits, ErrorPolicy, ReadPlan, Selection
from pbio_spark.formats.arrow.schema import DEFAULT, Presentation

_PARTS = {"selection": Selection, "errors": ErrorPolicy, "limits": BatchLimits}


def plan_of(schema: pa.Schema, presentation: Presentation = DEFAULT, **given: Any) -> ReadPlan:
    """The plan of reading columns; what is given are attributes of the plan or of its parts."""
    return changed(plan_read(Selection(schema, presentation)), **given)


def changed(plan: ReadPlan, **given: Any) -> ReadPlan:
    """A plan with other values for some attributes of its own or of its parts."""
    for name, part in _PARTS.items():
        own = {field.name: given.pop(field.name) for field in fields(part) if field.name in given}
        plan = replace(plan, **{name: replace(getattr(plan, name), **own)})
    return replace(plan, **given)
