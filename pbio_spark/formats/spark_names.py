"""The names of types in Spark and SQL: accepted in hand-written record types.

>>> spark_type("BIGINT")
(Basic(kind=<Kind.INTEGER: 'integer'>, size=8), None)
>>> spark_type("decimal(10,2)")[1]
'decimal(10,2)'
"""

from __future__ import annotations

import re
from typing import Final

from ecode.types import BOOLEAN, CHAR, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, STRING, Array, Basic, Type

SPARK_NAMES: Final[dict[str, tuple[Basic, str | None]]] = {
    **dict.fromkeys(("tinyint", "byte"), (INT8, None)),
    **dict.fromkeys(("smallint", "short"), (INT16, None)),
    **dict.fromkeys(("int", "integer"), (INT32, None)),
    **dict.fromkeys(("bigint", "long"), (INT64, None)),
    **dict.fromkeys(("float", "real"), (FLOAT32, None)),
    **dict.fromkeys(("double", "double precision"), (FLOAT64, None)),
    **dict.fromkeys(("boolean", "bool"), (BOOLEAN, None)),
    **dict.fromkeys(("string", "varchar", "text"), (STRING, None)),
    "date": (INT32, "date"),
    **dict.fromkeys(("timestamp", "timestamp_ltz"), (INT64, "timestamp")),
    "timestamp_ntz": (INT64, "timestamp_ntz"),
}
"""Names without parameters -> a type and the meaning of its bytes."""

BINARY: Final = "binary"
"""The Spark type whose field needs a second field, for its length."""

_LENGTH = re.compile(r"(varchar|char) ?\( ?[1-9]\d* ?\)")
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?: ?\( ?(\d{1,2}) ?(?:, ?(\d{1,2}) ?)?\))?")


def spark_type(text: str) -> tuple[Type, str | None] | None:
    """The type and the logical type of a name, in any case; None if Spark has no scalar type of that name.

    `decimal` without parameters is `decimal(10,0)`, as in Spark; a length, as in `varchar(20)`, is ignored.
    """
    name = " ".join(text.lower().split())
    if _LENGTH.fullmatch(name):
        return STRING, None
    match = _DECIMAL.fullmatch(name)
    if match is None:
        return SPARK_NAMES.get(name)
    precision, scale = int(match[1] or 10), int(match[2] or 0)
    if not 1 <= precision <= 38 or scale > precision:
        return None
    return INT64 if precision <= 18 else Array(CHAR, (16,)), f"decimal({precision},{scale})"
