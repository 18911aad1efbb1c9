"""The union of versions: as wide as the widest, everything kept, contradictions named."""

from __future__ import annotations

import pytest
from hypothesis import given

from ecode.types import (
    BOOLEAN,
    CHAR,
    ENUMERATION,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Array,
    Basic,
    Field,
    Kind,
    Notes,
    Pointer,
    Record,
    Ref,
    Struct,
    Type,
    record,
)
from pbio_spark.errors import PbioError
from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.merge import Symbols, merge
from pbio_spark.testing.strategies import Limits, record_types

DECIMAL_BYTES = Array(CHAR, (16,))
N = Field("n", INT32)
M = Field("m", INT16)


def of(type_: Type, **notes: object) -> Record:
    inner = Struct("s", (Field("x", INT32),))
    return record("r", [N, M, Field("a", type_, Notes(**notes))], [inner])  # type: ignore[arg-type]


SAME: list[Type] = [
    INT8,
    UINT64,
    FLOAT32,
    CHAR,
    BOOLEAN,
    ENUMERATION,
    STRING,
    Array(INT32, (2, "n")),
    Ref("s"),
    Pointer(Ref("s")),
]
UNIONS: list[tuple[Type, Type, Type]] = [(type_, type_, type_) for type_ in SAME] + [
    (INT32, INT64, INT64),
    (UINT8, UINT32, UINT32),
    (FLOAT32, FLOAT64, FLOAT64),
    (BOOLEAN, Basic(Kind.BOOLEAN, 4), Basic(Kind.BOOLEAN, 4)),
    (ENUMERATION, Basic(Kind.ENUMERATION, 1), ENUMERATION),
    (INT8, UINT8, INT16),
    (INT64, UINT16, INT64),
    (INT8, UINT32, INT64),
    (INT8, FLOAT32, FLOAT64),
    (INT64, FLOAT32, FLOAT64),
    (UINT64, FLOAT64, FLOAT64),
    (FLOAT32, Basic(Kind.FLOAT, 16), Basic(Kind.FLOAT, 16)),
    (Array(INT32, (2, 5)), Array(INT64, (3, 4)), Array(INT64, (3, 5))),
    (Array(INT32, (2,)), Array(INT32, ("n",)), Array(INT32, ("n",))),
    (Array(CHAR, (8,)), Array(CHAR, (16,)), Array(CHAR, (16,))),
    (Pointer(INT32), INT64, Pointer(INT64)),
    (Pointer(Ref("s")), Ref("s"), Pointer(Ref("s"))),
    (Array(Pointer(Ref("s")), ("n",)), Array(Ref("s"), (2,)), Array(Pointer(Ref("s")), ("n",))),
]


@pytest.mark.parametrize(("one", "other", "union"), UNIONS)
def test_fields_are_as_wide_as_their_widest(one: Type, other: Type, union: Type) -> None:
    for versions in ([of(one), of(other)], [of(other), of(one)]):
        assert merge(versions).fields[2].type == union


def test_of_two_counts_the_first_stays() -> None:
    versions = [of(Array(INT32, ("m",))), of(Array(INT32, ("n",)))]
    assert merge(versions).fields[2].type == Array(INT32, ("m",))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *((INT32, type_) for type_ in (STRING, CHAR, BOOLEAN, ENUMERATION, Array(INT32, (1,)), Ref("s"))),
        *((INT64, UINT64), (INT8, UINT64), (STRING, Array(CHAR, (8,))), (FLOAT64, BOOLEAN), (ENUMERATION, FLOAT32)),
        *(
            (Array(INT32, (2, 2)), Array(INT32, (4,))),
            (Pointer(STRING), INT32),
            (Array(STRING, (2,)), Array(CHAR, (2,))),
        ),
    ],
)
def test_what_no_column_can_hold_is_refused_with_the_path(one: Type, other: Type) -> None:
    for versions in ([of(one), of(other)], [of(other), of(one)]):
        with pytest.raises(PbioError, match="PBIO_CANNOT_MERGE") as caught:
            merge(versions)
        assert caught.value.field in ("$.a", "$.a[]")


def test_a_count_must_stay_an_integer() -> None:
    versions = [of(Array(INT32, ("n",))), record("r", [Field("n", FLOAT64)])]
    with pytest.raises(PbioError, match="PBIO_CANNOT_MERGE") as caught:
        merge(versions)
    assert caught.value.field == "$.a"


def test_missing_fields_are_kept_nested_ones_too() -> None:
    old = record("r", [Field("p", Ref("point")), Field("gone", Ref("extra"))], [
        Struct("point", (Field("x", INT32), Field("y", INT32))), Struct("extra", (Field("e", INT8),)),
    ])  # fmt: skip
    new = record("r", [Field("new", STRING), Field("p", Pointer(Ref("place")))], [
        Struct("place", (Field("z", INT32), Field("x", FLOAT32))),
    ])  # fmt: skip
    assert str(merge([old, new])) == (
        "r {\n  p: *point\n  gone: extra\n  new: string\n}\n"
        "point {\n  x: float64\n  y: int32\n  z: int32\n}\n"
        "extra {\n  e: int8\n}"
    )


def test_structures_pair_by_path_not_by_name() -> None:
    """What one version calls `s` here and there meets two different structures of the other."""
    old = record("r", [Field("a", Ref("s")), Field("b", Ref("s"))], [Struct("s", (Field("x", INT32),))])
    new = record("r", [Field("a", Ref("s")), Field("b", Ref("t"))], [
        Struct("s", (Field("x", INT64),)), Struct("t", (Field("x", FLOAT64),)),
    ])  # fmt: skip
    assert str(merge([old, new])) == "r {\n  a: s\n  b: s_2\n}\ns {\n  x: int64\n}\ns_2 {\n  x: float64\n}"


def test_a_nested_contradiction_has_its_whole_path() -> None:
    structs = [Struct("s", (Field("x", type_),)) for type_ in (INT32, STRING)]
    versions = [record("r", [Field("p", Array(Ref("s"), (2,)))], [struct]) for struct in structs]
    with pytest.raises(PbioError) as caught:
        merge(versions)
    assert caught.value.field == "$.p[].x"
    assert "'int32' in one version, 'string' in another" in str(caught.value)


def test_recursive_types_meet() -> None:
    old = record("list", [Field("v", INT32), Field("next", Pointer(Ref("list")))])
    new = record("node", [Field("v", INT64), Field("next", Pointer(Ref("node"))), Field("w", INT8)])
    assert str(merge([old, new])) == "list {\n  v: int64\n  next: *list\n  w: int8\n}"


def test_many_pairs_of_structures_end() -> None:
    """Rings of coprime lengths: their pairs are as many as the product."""

    def ring(length: int) -> Record:
        return Record(
            tuple(Struct(f"s{i}", (Field("x", Pointer(Ref(f"s{(i + 1) % length}"))),)) for i in range(length))
        )

    assert len(merge([ring(30), ring(31)]).structs) == 930
    with pytest.raises(PbioError, match="PBIO_CANNOT_MERGE"):
        merge([ring(80), ring(81)])


def test_notes_meet() -> None:
    old = of(ENUMERATION, symbols=(("a", 0), ("b", 1)), units="m", hidden=True, weight=2.0, default="a")
    new = of(ENUMERATION, symbols=(("a", 0), ("c", 2)), accuracy="1", default="c")
    assert merge([old, new]).fields[2].notes == Notes(
        symbols=(("a", 0), ("b", 1), ("c", 2)), units="m", accuracy="1", weight=2.0, default="c"
    )


@pytest.mark.parametrize(
    ("one", "other", "union"),
    [
        ((("a", 0),), (("a", 1),), (("a", 0),)),
        ((("a", 0),), (("b", 0),), (("a", 0), ("b", 1))),
        ((("a", 0), ("b", 1)), (("b", 0), ("a", 1), ("c", 7)), (("a", 0), ("b", 1), ("c", 7))),
        ((), (("a", 0),), (("a", 0),)),
    ],
)
def test_an_enumeration_has_the_names_of_all_versions(one: Symbols, other: Symbols, union: Symbols) -> None:
    assert merge([of(ENUMERATION, symbols=one), of(ENUMERATION, symbols=other)]).fields[2].notes.symbols == union


@pytest.mark.parametrize(
    ("one", "other", "union"),
    [
        (of(INT64, logical="decimal(5,2)"), of(INT64, logical="decimal(6,2)"), (INT64, "decimal(6,2)")),
        (of(INT64, logical="decimal(5,2)"), of(INT64, logical="decimal(5,4)"), (INT64, "decimal(7,4)")),
        (of(INT64, logical="decimal(5,2)"), of(INT32), (INT64, "decimal(12,2)")),
        (of(INT64, logical="decimal(5,2)"), of(UINT64), (DECIMAL_BYTES, "decimal(22,2)")),
        (
            of(INT64, logical="decimal(5,2)"),
            of(DECIMAL_BYTES, logical="decimal(38,2)"),
            (DECIMAL_BYTES, "decimal(38,2)"),
        ),
        (
            of(Array(INT64, ("n",)), logical="decimal(5,2)"),
            of(Array(CHAR, ("n", 16)), logical="decimal(20,0)"),
            (Array(CHAR, ("n", 16)), "decimal(22,2)"),
        ),
    ],
)
def test_decimals_have_the_digits_of_all_versions(one: Record, other: Record, union: tuple[Type, str]) -> None:
    for versions in ([one, other], [other, one]):
        field = merge(versions).fields[2]
        assert (field.type, field.notes.logical) == union


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (of(INT64, logical="timestamp"), of(INT64)),
        (of(INT64, logical="decimal(5,2)"), of(FLOAT64)),
        (of(INT64, logical="decimal(18,18)"), of(DECIMAL_BYTES, logical="decimal(38,2)")),
        (of(INT64, units="m"), of(INT64, units="km")),
    ],
)
def test_notes_that_change_the_meaning_are_refused(one: Record, other: Record) -> None:
    for versions in ([one, other], [other, one]):
        with pytest.raises(PbioError, match="PBIO_CANNOT_MERGE") as caught:
            merge(versions)
        assert caught.value.field == "$.a"


@given(record_types())
def test_a_version_adds_nothing_to_itself(type_: Record) -> None:
    assert set(merge([type_]).structs) == set(type_.structs)
    assert set(merge([type_, type_, type_]).structs) == set(type_.structs)


@given(record_types(Limits(long_double=False)), record_types(Limits(long_double=False)))
def test_a_union_holds_both_and_can_be_laid_out_and_presented(old: Record, new: Record) -> None:
    try:
        union = merge([old, new])
    except PbioError as error:
        assert error.code == "PBIO_CANNOT_MERGE"  # noqa: PT017 - some unions are refused
        return
    assert {f.name for f in union.fields} == {f.name for f in (*old.fields, *new.fields)}
    record_to_format(union)
    record_to_arrow(union, Presentation(recursive_depth=1))
    assert set(merge([union, old]).structs) == set(union.structs)
