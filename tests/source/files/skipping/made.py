"""Files of random records, and their outlines."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from ecode.types import (
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    STRING,
    UINT16,
    UINT64,
    Basic,
    Field,
    Kind,
    Notes,
    Record,
    Ref,
    Struct,
    record,
)
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.written import columns_to_record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.source.files.listing import list_files
from pbio_spark.source.files.outlines import file_to_outline
from pbio_spark.source.options.options import Options
from pbio_spark.wire import FileWriter
from pbio_spark.wire.hints.sidecar import Outline, write_sidecar

FS = LocalFileSystem()


INNER = Struct("inner", (Field("d", INT32), Field("e", FLOAT32)))


EVERY = Record(
    (
        Struct(
            "r",
            (
                Field("a", INT32),
                Field("b", FLOAT64),
                Field("c", UINT64),
                Field("f", FLOAT32),
                Field("g", INT8),
                Field("h", Basic(Kind.ENUMERATION, 4), Notes(symbols=(("no", 0), ("yes", 4_000_000_000)))),
                Field("in", Ref("inner")),
                Field("s", STRING),
            ),
        ),
        INNER,
    )
)


WIDE = record("r", [Field("s", STRING), Field("b", FLOAT32), Field("a", INT64), Field("c", UINT16), Field("k", INT64)])


FEW = record("r", [Field("a", INT8), Field("s", STRING)])


MASKED = columns_to_record(
    pa.schema([("a", pa.int32()), ("b", pa.float64()), ("k", pa.int64()), ("s", pa.string())]), "r", "mask"
)


FORMATS = [
    record_to_format(one, machine)
    for one, machine in ((EVERY, "le64"), (EVERY, "be32"), (WIDE, "be64"), (FEW, "le32"), (MASKED, "le64"))
]


def index(path: Path) -> Outline:
    (file,) = list_files([str(path)], Options())
    with path.open("rb") as source:
        outline, error = file_to_outline(file, source, ranged=True)
    assert error is None
    write_sidecar(FS, str(path), outline)
    return outline


def number_for(chance: random.Random, form: Format, name: str, type_: Basic, near: float) -> Any:
    """A value of a field near some number, or an odd one."""
    has_null = any(f.notes.null_bit is not None for f in form.record.structs[0].fields)
    if has_null and chance.random() < 0.1:
        return None
    is_odd = chance.random() < 0.01
    if type_.kind is Kind.FLOAT:
        odd = (math.nan, math.inf, -math.inf, -0.0, 0.1, 1e300 if type_.size == 8 else 1e30, 2.0**60)
        value = chance.choice(odd) if is_odd or chance.random() < 0.05 else round(near * 4) / 4
        return float(np.float32(value)) if type_.size == 4 else value
    bits = 8 * type_.size
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type_.kind is Kind.INTEGER else (0, (1 << bits) - 1)
    value = chance.choice((low, high, high // 2 + 1, 0, 2**53 + 1)) if is_odd else int(near)
    return min(max(value, low), high)


def values_for(chance: random.Random, form: Format, near: float) -> dict[str, Any]:
    def of(struct: Struct) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for field in struct.fields:
            match field.type:
                case Basic(Kind.STRING):
                    made[field.name] = "x" * chance.randrange(30)
                case Ref(name):
                    made[field.name] = of(form.record.struct(name))
                case Basic() as type_ if not field.notes.hidden:
                    made[field.name] = number_for(chance, form, field.name, type_, near + chance.gauss(0, 3))
        return made

    return of(form.record.structs[0])


def write(path: Path, chance: random.Random, formats: list[Format], count: int = 120) -> None:
    """A file whose values grow, with odd ones between."""
    with path.open("wb") as file, FileWriter(file) as writer:
        for number in range(count):
            form = formats[number * len(formats) // count] if chance.random() < 0.95 else chance.choice(formats)
            writer.data(form, values_for(chance, form, number))
            if chance.random() < 0.05:
                writer.comment("between")
