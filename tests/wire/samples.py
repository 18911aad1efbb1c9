"""Small formats and a small file that several tests use."""

from __future__ import annotations

import io

from ecode.types import CHAR, FLOAT64, INT32, STRING, Array, Field, Pointer, Ref, Struct, record
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import FileWriter, attribute

POINT = record_to_format(record("point", [Field("x", INT32), Field("y", FLOAT64)]), "le64")
READING = record_to_format(
    record("reading", [Field("n", INT32), Field("v", Array(FLOAT64, ("n",))), Field("unit", STRING)]), "be32"
)
TREE = record_to_format(
    record(
        "forest",
        [Field("n", INT32), Field("roots", Array(Pointer(Ref("tree")), ("n",)))],
        [
            Struct(
                "tree",
                (
                    Field("tag", Array(CHAR, (2,))),
                    Field("left", Pointer(Ref("tree"))),
                    Field("right", Pointer(Ref("tree"))),
                ),
            )
        ],
    ),
    "le64",
)


def sample(indexed: bool = False) -> bytes:
    """A file with two comments, two formats and twelve records."""
    file = io.BytesIO()
    with FileWriter(file, indexed=indexed) as writer:
        writer.comment("first")
        for i in range(6):
            writer.data(POINT, {"x": i, "y": i / 2}, [attribute("step", i)] if indexed else None)
            writer.data(READING, {"n": i, "v": [0.5] * i or None, "unit": "kPa" * i})
        writer.comment("last")
    return file.getvalue()
