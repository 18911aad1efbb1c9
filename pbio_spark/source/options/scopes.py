"""A row of the table of options: where the option applies, how it is parsed, what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from enum import StrEnum
from typing import Any


class Scope(StrEnum):
    """Where an option applies, in Spark's terms."""

    READ = "read"
    STREAM = "readStream"
    WRITE = "write"
    WRITE_STREAM = "writeStream"
    FROM = "from_pbio"
    TO = "to_pbio"


READS = (Scope.READ, Scope.STREAM)
WRITES = (Scope.WRITE, Scope.WRITE_STREAM)
DECODES = (*READS, Scope.FROM)
ENCODES = (*WRITES, Scope.TO)


def option(parse: Callable[[str], object], default: object, *scopes: Scope, doc: str) -> Any:
    metadata = {"parse": parse, "scopes": scopes, "doc": doc}
    if default is dict:  # settings of other clients, which may be passwords
        return field(default_factory=dict, repr=False, metadata=metadata)
    return field(default=default, metadata=metadata)


def option_name(attribute: str) -> str:
    """
    >>> option_name("max_partition_bytes"), option_name("apply_unit_si")
    ('maxPartitionBytes', 'applyUnitSI')
    """
    first, *rest = attribute.split("_")
    return first + "".join("SI" if word == "si" else word.capitalize() for word in rest)
