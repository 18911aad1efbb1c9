"""Why a record is bad: the kernels only say that it is; the plain-Python codec finds the place and the reason."""

from __future__ import annotations

from collections.abc import Iterator

from pbio_spark.columns.plan import Absent, Deref, Group, Items, Node, Plan
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.wire import decode

_CODECS = {"UTF-8": "utf-8", "ISO-8859-1": "latin-1", "binary": None}


def explain(
    record: bytes, form: Format | None, plan: Plan | None, status: int, encoding: str, file: str, offset: int
) -> PbioError:
    """The error of a bad record.

    Args:
        record: with its header.
        form: None if nobody knows the record's format.
        plan, status: what the record was decoded by, and what the kernels said (`Decoded.status`).
        encoding: of texts, as in `Presentation`.
        offset: of the record's item in the file.
    """
    if form is None:
        return PbioError(
            "PBIO_UNKNOWN_FORMAT",
            f"no format is known with the ID that the record begins with, {record[:12].hex()}",
            file=file,
            offset=offset,
            hint="if the format was described elsewhere, name its store with the option formatStore",
        )
    try:
        decode(form, record, text=_CODECS[encoding], file=file, offset=offset + 8)
    except PbioError as error:
        return error
    reason = "the record holds more than a batch of columns can"
    found: str | None = None
    if plan is not None and status > 0:
        reason = "a value is beyond the type of its column"
        found = next(
            (path for number, path in _paths(plan.nodes, plan.schema.names, "$") if number == status - 1), None
        )
    return PbioError(
        "PBIO_VALUE_BEYOND_TYPE",
        reason,
        file=file,
        offset=offset,
        format=form.name,
        field=found,
        hint="a number without a symbol, an unsigned long as long, or pointers that repeat",
    )


def _paths(nodes: tuple[Node, ...], names: list[str], path: str) -> Iterator[tuple[int, str]]:
    """The path of every numbered node."""
    for node, name in zip(nodes, names, strict=True):
        yield from _paths_in(node, f"{path}.{name}")


def _paths_in(node: Node, path: str) -> Iterator[tuple[int, str]]:
    match node:
        case Absent():
            return
        case Group(type=type_, nodes=nodes):
            yield from _paths(nodes, [type_.field(i).name for i in range(type_.num_fields)], path)
            return
        case Items(item=item):
            yield from _paths_in(item, f"{path}[]")
        case Deref(target=target):
            yield from _paths_in(target, path)
    yield node.number, path
