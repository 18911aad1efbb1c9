"""Record types that many tests of morph use: the paper's monitor, and versions of any record type."""

from __future__ import annotations

from hypothesis import strategies as st

from ecode.types import FLOAT64, INT32, STRING, Array, Basic, Field, Record, Struct, record
from morph import Transform, TransformGraph
from pbio_spark.testing.strategies import Limits, record_types

# Figures 4 to 6 of Morphable Messaging.
OLD = record("MonitoringMsg", [Field(name, INT32) for name in ("avg_rqueue_length", "free_memory", "rx_tx_bytes")])
NEW = record(
    "NewMonitoringMsg",
    [
        Field("number_of_cpus", INT32),
        Field("rqueue_length", Array(INT32, ("number_of_cpus",))),
        Field("total_memory", INT32),
        Field("used_memory", INT32),
        Field("rx_bytes", INT32),
        Field("tx_bytes", INT32),
    ],
)
TO_OLD = """{
int i, len = 0;
for (i = 0; i < new.number_of_cpus; i = i + 1)
    len += new.rqueue_length[i];
old.avg_rqueue_length = len / new.number_of_cpus;
old.free_memory = new.total_memory - new.used_memory;
old.rx_tx_bytes = new.rx_bytes + new.tx_bytes;
}"""


def monitors() -> TransformGraph:
    """Both formats of the paper and the transform from the new to the old."""
    return TransformGraph({"new": NEW, "old": OLD}, [Transform("new", "old", TO_OLD)])


def flat(name: str, fields: str) -> Record:
    """A record type of 32-bit integers with names of one letter."""
    return record(name, [Field(letter, INT32) for letter in fields])


BASICS = st.sampled_from((INT32, FLOAT64, STRING))


@st.composite
def version_pairs(draw: st.DrawFn, limits: Limits | None = None) -> tuple[Record, Record]:
    """A record type and another version of it: fields gone, come, or changed, in any of its structures."""
    old = draw(record_types(limits or Limits()))
    return old, Record(tuple(draw(_versions(struct)) for struct in old.structs))


@st.composite
def _versions(draw: st.DrawFn, struct: Struct) -> Struct:
    fields = []
    for f in struct.fields:
        match draw(st.sampled_from(("keep", "keep", "keep", "drop", "change"))):
            case "keep":
                fields.append(f)
            case "change" if isinstance(f.type, Basic):
                fields.append(Field(f.name, draw(BASICS)))
            case "change":
                fields.append(Field(f.name, Array(f.type, (2,))))
    if draw(st.booleans()):
        fields.append(Field("come", draw(BASICS)))
    return Struct(struct.name, tuple(fields))
