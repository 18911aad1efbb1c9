"""Why a record is bad: kernels only detect that; the plain-Python codec finds the place and the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pbio_spark.columns.decode.fill import EXPANDS
from pbio_spark.columns.decode.plan import (
    Absent,
    Chars,
    Deref,
    Filled,
    Items,
    Masked,
    Node,
    Plan,
    Scalar,
    Structure,
    Text,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.wire import decode, room_of
from pbio_spark.wire.foreign import unknown_format

_CODECS = {"UTF-8": "utf-8", "ISO-8859-1": "latin-1", "binary": None}


def explain(
    record: bytes, form: Format | None, plan: Plan | None, status: int, encoding: str, file: str, offset: int
) -> PbioError:
    """The error of a bad record.

    Args:
        record: with its header.
        form: None if the record's format is unknown.
        plan, status: the plan that decoded the record, and the kernels' result (`Decoded.status`).
        encoding: of strings, as in `Presentation`.
        offset: of the record's item in the file.
    """
    if form is None:
        hint = "if the format was described elsewhere, name its store with the option formatStore"
        return unknown_format(record, hint, file=file, offset=offset)
    try:
        decode(form, record, text=_CODECS[encoding], file=file, offset=offset + 8)
    except PbioError as error:
        return error
    nodes = _paths(plan.nodes, plan.schema.names, "$") if plan is not None else iter(())
    node, path = next(((node, path) for node, path in nodes if node.number == (status & ~EXPANDS) - 1), (None, None))
    if status > 0 and status & EXPANDS:
        return PbioError(
            "PBIO_RECORD_EXPANDS",
            f"the record's {len(record)} bytes become more than {room_of(len(record))} in columns",
            file=file,
            offset=offset,
            format=form.name,
            field=path,
            hint="shared targets of pointers are decoded each time; ask for fewer columns, or for fewer levels "
            "with recursiveFieldMaxDepth",
        )
    reason, hint = "the record does not fit into a batch", "it has pointers with shared targets, or is too large"
    if isinstance(node, Text | Chars):
        return PbioError(
            "PBIO_BAD_STRING",
            f"the characters are not {encoding}",
            file=file,
            offset=offset,
            format=form.name,
            field=path,
            hint="name their encoding with the option encoding, or ask for bytes: BINARY",
        )
    if isinstance(node, Scalar):
        reason, hint = beyond_to_text(node.type, is_named=bool(node.symbols))
    return PbioError(
        "PBIO_VALUE_BEYOND_TYPE", reason, file=file, offset=offset, format=form.name, field=path, hint=hint
    )


def beyond_to_text(want: pa.DataType, *, is_named: bool) -> tuple[str, str]:
    """Reason and hint for a number that does not fit its column."""
    if is_named:
        return "a number of the enumeration has no name", "ask for the numbers: BIGINT"
    return f"the value does not survive as {want}", "ask for a type that has all values of the field"


def _paths(nodes: tuple[Node, ...], names: list[str], path: str) -> Iterator[tuple[Filled, str]]:
    """Every numbered node and its path."""
    for node, name in zip(nodes, names, strict=True):
        yield from _paths_in(node, f"{path}.{name}")


def _paths_in(node: Node, path: str) -> Iterator[tuple[Filled, str]]:
    match node:
        case Absent():
            return
        case Structure(type=type_, nodes=nodes):
            yield from _paths(nodes, [type_.field(i).name for i in range(type_.num_fields)], path)
            return
        case Masked(node=inner):
            yield from _paths_in(inner, path)
            return
        case Items(item=item):
            yield from _paths_in(item, f"{path}[]")
        case Deref(target=target):
            yield from _paths_in(target, path)
    yield node, path
