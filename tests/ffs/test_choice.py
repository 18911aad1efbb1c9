"""The policy `FFS` chooses like the FFS library itself, over random formats and targets."""

from __future__ import annotations

import ctypes

from hypothesis import given
from hypothesis import strategies as st

from ecode.types import (
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    UINT32,
    Array,
    Field,
    Pointer,
    Record,
    Ref,
    Struct,
    record,
)
from morph import FFS, Resolution, resolve
from pbio_spark.formats import Format
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.formats_to_graph import formats_to_graph
from pbio_spark.formats.layout import record_to_format
from tests.ffs.native import NativeField, NativeStruct
from tests.ffs_library import Context, description

NUMBERS = (INT32, INT32, INT32, INT64, UINT32, FLOAT64, FLOAT32, STRING, Pointer(INT32))
ARRAYS = tuple(Array(INT32, dims) for dims in ((4,), (2, 2), (3,), ("n",)))
TYPES = st.sampled_from(NUMBERS + ARRAYS + (Array(FLOAT64, ("n",)), Array(STRING, (2,)), Array(STRING, ("n",))))
INNER = st.sampled_from(
    (
        Ref("s"),
        Ref("s"),
        Ref("t"),
        Pointer(Ref("s")),
        Pointer(Ref("t")),
        Array(Ref("s"), (2,)),
        Array(Ref("s"), ("n",)),
        Array(Ref("t"), ("n",)),
        Array(Pointer(Ref("s")), ("n",)),
    )
)


@st.composite
def types(draw: st.DrawFn) -> Record:
    """Record types that have much in common: few names, few types, two structures."""
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True))
    fields = [Field("n", INT32), *(Field(name, draw(TYPES)) for name in names)]
    if draw(st.booleans()):
        fields.append(Field("p", draw(INNER)))
    structs = [Struct(draw(st.sampled_from(("r", "r", "r", "other"))), tuple(fields))]
    for name in "st":
        inner = draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True))
        structs.append(Struct(name, tuple(Field(f, draw(st.sampled_from((INT32, FLOAT64)))) for f in inner)))
    return Record(tuple(structs)).subrecord(structs[0].name)


@given(
    types(),
    st.lists(types(), min_size=1, max_size=4),
    st.lists(types(), max_size=3, unique=True),
    st.sets(st.integers(0, 2)),
)
def test_the_library_chooses_the_same(
    incoming: Record, wanted: list[Record], priors: list[Record], unknown: set[int]
) -> None:
    targets = [record_to_format(record) for record in wanted]
    older = [record_to_format(record) for record in priors]
    form = record_to_format(incoming)
    for prior in older:
        form = evolve(prior, form, "{ }")
    known = [prior for number, prior in enumerate(older) if number not in unknown]
    types_ = {str(number): record for number, record in enumerate(wanted)}
    answer = resolve(form.id.hex(), types_, formats_to_graph({f.id: f for f in (form, *known, *targets)}.values()), FFS)
    ours = wanted[int(answer.wanted)] if isinstance(answer, Resolution) else None
    assert chosen_by_the_library(form, known, targets) == ours


def test_the_library_counts_a_structure_and_what_is_in_it() -> None:
    """One field of six is missing, less than a fifth; without the structure itself it would be just a fifth."""
    inner = Struct("s", tuple(Field(name, INT32) for name in "xyz"))
    inside = Field("p", Ref("s"))
    incoming = record_to_format(record("r", [Field("a", INT32), inside], [inner]))
    wanted = record_to_format(record("r", [Field("a", INT32), Field("b", INT32), inside], [inner]))
    older = record_to_format(record("r", [Field("q", INT32)]))
    assert chosen_by_the_library(evolve(older, incoming, "{ }"), [older], [wanted]) == wanted.record
    assert chosen_by_the_library(incoming, [], [wanted]) is None


def chosen_by_the_library(incoming: Format, known: list[Format], targets: list[Format]) -> Record | None:
    """The target that the library chooses for records of a format; None if it would skip them."""
    context = Context()
    for form in (*known, incoming):
        context.load(form.id, form.body)
    calls = context.calls
    handles = {calls.FFSset_fixed_target(context.context, description(native(form))): form for form in targets}
    record = ctypes.create_string_buffer(incoming.id + bytes(200))
    handle = calls.FFS_target_from_encode(context.context, record)
    return handles[handle].record if handle else None


def native(form: Format) -> tuple[NativeStruct, ...]:
    return tuple(
        NativeStruct(s.name, tuple(NativeField(f.name, f.type, f.size, f.offset) for f in s.fields), s.record_length)
        for s in form.structs
    )
