"""The names of an enumeration's values, from other versions if a format lacks them.

FFS's own writers leave no symbols in a format; this package's do. A column of names takes those of the versions that
have them. If versions name numbers differently, numbers have no common meaning: such a column must be one of names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from ecode.types import Array, Basic, Field, Kind, Pointer, Record, Ref, Struct
from pbio_spark.errors import PbioError, path_to_text
from pbio_spark.formats.arrow.mapping import Symbols
from pbio_spark.formats.arrow.names import Names


def schema_to_symbols(schema: pa.Schema, records: Iterable[Record], aliases: Mapping[str, str]) -> dict[str, Symbols]:
    """The symbols of each column that is an enumeration in some record type, by path; empty if they contradict each
    other.

    Raises PBIO_INCOMPATIBLE_TYPE where they contradict each other and the column is one of numbers.

    >>> from ecode.types import ENUMERATION, Notes, record
    >>> plain = record("r", [Field("c", ENUMERATION)])
    >>> named = record("r", [Field("c", ENUMERATION, Notes(symbols=(("RED", 0), ("GREEN", 1))))])
    >>> schema_to_symbols(pa.schema([("c", pa.string())]), [plain, named], {})
    {'c': (('RED', 0), ('GREEN', 1))}
    """
    names: dict[str, dict[int, str]] = {}
    contradicting: set[str] = set()
    for record in records:
        for path, field, want in _enumerations(record, record.structs[0], list(schema), aliases, ()):
            known = names.setdefault(path, {})
            for symbol, number in field.notes.symbols:
                if known.setdefault(number, symbol) != symbol:
                    contradicting.add(path)
                    if not pa.types.is_string(want):
                        raise PbioError(
                            "PBIO_INCOMPATIBLE_TYPE",
                            f"{number} means {known[number]!r} in one version, {symbol!r} in another",
                            field=path_to_text(path.split(".")),
                            hint="numbers would mix them: ask for the names, STRING",
                        )
    return {
        path: () if path in contradicting else tuple((symbol, number) for number, symbol in known.items())
        for path, known in names.items()
    }


def _enumerations(
    record: Record, struct: Struct, wanted: list[pa.Field], aliases: Mapping[str, str], path: tuple[str, ...]
) -> Iterator[tuple[str, Field, pa.DataType]]:
    """The path, field and wanted type of each requested enumeration; the columns end every recursion."""
    for want in wanted:
        here = (*path, want.name)
        field = Names(aliases).find(struct, want.name, here)
        if field is None:
            continue
        core, leaf = field.type, want.type
        while isinstance(core, Array | Pointer):
            core = core.element if isinstance(core, Array) else core.target
        while pa.types.is_list(leaf):
            leaf = leaf.value_type
        if isinstance(core, Basic) and core.kind is Kind.ENUMERATION:
            yield ".".join(here), field, leaf
        elif isinstance(core, Ref) and pa.types.is_struct(leaf):
            yield from _enumerations(record, record.struct(core.name), list(leaf), aliases, here)
