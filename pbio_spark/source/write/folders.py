"""Columns that become `k=v` folders in writing: the partition columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.python_rows import check_years
from pbio_spark.source.files.listing import NULL_PARTITION, ListedFile
from pbio_spark.source.files.partitions import partition_schema

_ESCAPED = {*map(chr, range(32)), *"\"#%'*/:=?\\\x7f{[]^"}
"""The characters that Spark escapes in the names of folders, and NUL, which no name can have."""


@dataclass(frozen=True, slots=True)
class FolderColumns:
    """The columns of a schema that become folders.

    Attributes:
        names: names of the folders, outermost first, as the user wrote them.
        columns: the columns with their values; names may differ in case.
        rest: the schema of the other columns.
    """

    names: tuple[str, ...]
    columns: tuple[pa.Field, ...]
    rest: pa.Schema

    @classmethod
    def of(cls, schema: pa.Schema, wanted: Sequence[str]) -> Self:
        """Raises PBIO_BAD_OPTION if a column does not exist, is named twice or cannot be a folder, or none is left."""
        columns = tuple(_column(schema, name) for name in wanted)
        if len(set(columns)) < len(columns):
            raise _refusal(",".join(wanted), "a column is named twice", "leave one out")
        rest = pa.schema([field for field in schema if field not in columns])
        if wanted and not len(rest):
            raise _refusal(",".join(wanted), "the records would have no column left", "leave one out")
        return cls(tuple(wanted), columns, rest)

    def refuse_other_types(self, files: Sequence[ListedFile], path: str) -> None:
        """Raise PBIO_BAD_PARTITIONS if a column is a number or a date, but the existing folders' values are not.

        A string column fits any folder names.
        """
        there = partition_schema(files)
        for name, column in zip(self.names, self.columns, strict=True):
            type_ = column.type
            if pa.types.is_string(type_) or not any(dict(file.partition).get(name) for file in files):
                continue
            known = there.field(name).type
            if pa.types.is_date(type_) != pa.types.is_date(known) or pa.types.is_string(known):
                raise PbioError(
                    "PBIO_BAD_PARTITIONS",
                    f"the column {name} is of type {type_}, but its folders are of type {known}: both would be read as "
                    "strings",
                    file=path,
                    hint="cast the column to a string if that is intended",
                )

    def of_nulls(self) -> str:
        """The folder of rows that have a null in each of the columns."""
        return "".join(f"{_escape(name)}={NULL_PARTITION}/" for name in self.names)

    def divide(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of a batch by their folder (`a=1/b=x/`, empty without partition columns), in their order."""
        if not self.names:
            yield "", batch
            return
        levels = [
            _folder_names(name, batch.column(column.name))
            for name, column in zip(self.names, self.columns, strict=True)
        ]
        folders = pc.binary_join_element_wise(*levels, "")
        coded = folders.dictionary_encode()
        codes, rest = coded.indices.to_numpy(zero_copy_only=False), batch.select(self.rest.names)
        for code, folder in enumerate(coded.dictionary.to_pylist()):
            rows = np.nonzero(codes == code)[0]
            yield folder, rest if len(rows) == batch.num_rows else rest.take(pa.array(rows))


def _column(schema: pa.Schema, name: str) -> pa.Field:
    """The column that becomes folders. Raises PBIO_BAD_OPTION."""
    same = [field for field in schema if field.name == name] or [
        field for field in schema if field.name.lower() == name.lower()
    ]
    if len(same) != 1:
        raise _refusal(
            name, "several columns have this name" if same else "unknown column", did_you_mean(name, schema.names)
        )
    type_ = same[0].type
    if not (pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_date(type_)):
        raise _refusal(name, f"values of type {type_} cannot be folder names", "cast it to a string")
    return same[0]


def _folder_names(name: str, column: pa.Array) -> pa.Array:
    coded = column.dictionary_encode()
    check_years(coded.dictionary, name)
    values = coded.dictionary.cast(pa.string()).to_pylist()
    names = pa.array(
        [f"{_escape(name)}={_escape(value) if value is not None else NULL_PARTITION}/" for value in values], pa.string()
    )
    null = f"{_escape(name)}={NULL_PARTITION}/"
    return pc.fill_null(names.take(coded.indices), null)


def _escape(text: str) -> str:
    """
    >>> _escape("a/b=c")
    'a%2Fb%3Dc'
    """
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def _refusal(name: str, reason: str, hint: str) -> PbioError:
    return PbioError("PBIO_BAD_OPTION", f"option 'partitionColumns' cannot be {name!r}: {reason}", hint=hint or None)
