"""The machine types that records can be laid out for."""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from typing import Literal

from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError

ByteOrder = Literal["little", "big"]


@dataclass(frozen=True, slots=True)
class Machine:
    """The properties that determine a C compiler's memory layout; sizes in bytes."""

    byte_order: ByteOrder
    pointer_size: int
    max_alignment: int = 16

    @property
    def float_format(self) -> int:
        """The code of the machine's IEEE floats in a body (ffs-wire-format 5.6)."""
        return 1 if self.byte_order == "big" else 2


MACHINES: dict[str, Machine] = {
    "native": Machine(sys.byteorder, struct.calcsize("P"), 16 if struct.calcsize("@iq") == 16 else 4),
    "le64": Machine("little", 8),
    "be64": Machine("big", 8),
    "le32": Machine("little", 4, max_alignment=4),
    "be32": Machine("big", 4),
    "x86-64": Machine("little", 8),
    "aarch64": Machine("little", 8),
    "i386": Machine("little", 4, max_alignment=4),
    "arm": Machine("little", 4),
    "ppc64": Machine("big", 8),
    "s390x": Machine("big", 8),
    "sparc": Machine("big", 4),
}
"""Machines by name. `le32` is 32-bit x86, which aligns nothing beyond 4 bytes, unlike 32-bit ARM and SPARC."""


def machine_named(name: str | Machine) -> Machine:
    """The machine of that name, or itself. Raises PBIO_UNKNOWN_MACHINE."""
    if isinstance(name, Machine):
        return name
    if not isinstance(name, str) or name not in MACHINES:
        hint = did_you_mean(str(name), MACHINES) or f"one of {', '.join(MACHINES)}"
        raise PbioError("PBIO_UNKNOWN_MACHINE", f"unknown machine {name!r}", hint=hint)
    return MACHINES[name]
