"""`dispatch`: hands the rows of a read with several wanted types to one function per type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Handler = Callable[["DataFrame"], object]


def dispatch(
    df: DataFrame, handlers: Mapping[str, Handler], default: Handler | None = None, *, column: str = "_pbio"
) -> None:
    """Call each handler with the rows that reached its type (*Morphable Messaging*: a receiver's handlers).

    Args:
        df: read with `readerFormat` and `metadataColumn`.
        handlers: by the name of the wanted type; `'` is appended for a second type of the same name.
        default: gets the other rows, which are otherwise ignored.
        column: the value of `metadataColumn`.
    """
    for name, handler in handlers.items():
        handler(df.filter(df[column]["target"].eqNullSafe(name)))
    if default is not None:
        is_known = df[column]["target"].isin(*handlers)
        default(df.filter(~is_known | df[column]["target"].isNull()))
