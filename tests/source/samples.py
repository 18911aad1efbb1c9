"""Files of readings, as three generations of a sender write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ecode.types import FLOAT64, INT32, INT64, STRING, Array, Field, Record, record
from pbio_spark.formats import Format
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter

OLD = record("reading", [Field("n", INT32)])
MIDDLE = record("reading", [Field("n", INT32), Field("unit", STRING)])
NEW = record(
    "reading", [Field("n", INT64), Field("unit", STRING), Field("count", INT32), Field("v", Array(FLOAT64, ("count",)))]
)
OTHER = record("event", [Field("n", INT32)])


def formatted(type_: Record, machine: str = "native") -> Format:
    return record_to_format(type_, machine)


def reading(type_: Record, n: int) -> dict[str, Any]:
    """The values of a record in which everything follows from its number."""
    values = {"n": n, "unit": f"u{n}", "count": n % 3, "v": [n + i / 2 for i in range(n % 3)] or None}
    return {field.name: values[field.name] for field in type_.fields}


def write_readings(
    path: Path, type_: Record, numbers: range, machine: str = "native", *, append: bool = False, indexed: bool = False
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileWriter(path, append=append, indexed=indexed) as writer:
        for n in numbers:
            writer.data(formatted(type_, machine), reading(type_, n))
    return path
