"""diff, weight and mismatch ratio: the paper's numbers, every rule by hand, and an oracle that walks all paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecode.types import (
    BOOLEAN,
    CHAR,
    ENUMERATION,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    STRING,
    UINT64,
    Array,
    Field,
    Notes,
    Pointer,
    Record,
    Ref,
    Struct,
    Type,
    record,
)
from morph import MorphError, Policy, compare, diff, edit_script, map_fields, mismatch_ratio, weight
from morph.comparison.convertible import SAME_KIND, field_fits
from pbio_spark.testing.strategies import Limits, record_types
from tests.morph.paper import by_the_paper
from tests.morph.samples import NEW, OLD, flat, version_pairs

POINT = Struct("point", (Field("x", FLOAT64), Field("y", FLOAT64)))


def test_the_papers_monitor() -> None:
    assert (weight(OLD), weight(NEW)) == (3, 6)
    assert (diff(OLD, NEW), diff(NEW, OLD)) == (3, 6)
    assert mismatch_ratio(NEW, OLD) == 1


def test_the_papers_reason_for_a_ratio() -> None:
    """One field each and both different, against four that differ among a hundred that match."""
    small = compare(flat("r", "a"), flat("r", "b"))
    assert (small.diff + small.missing, small.mismatch_ratio) == (2, 1)
    shared = [Field(f"f{i}", INT32) for i in range(100)]
    large = compare(
        record("r", [*shared, Field("a", INT32), Field("b", INT32)]),
        record("r", [*shared, Field("c", INT32), Field("d", INT32)]),
    )
    assert (large.diff + large.missing, large.mismatch_ratio) == (4, 2 / 102)


def test_a_structure_without_partner_counts_with_all_of_its_fields() -> None:
    flat_, deep = flat("r", "a"), record("r", [Field("a", INT32), Field("p", Ref("point"))], [POINT])
    assert weight(deep) == 3
    assert (diff(deep, flat_), diff(flat_, deep)) == (2, 0)
    assert mismatch_ratio(flat_, deep) == 2 / 3


def test_structures_meet_by_the_name_of_their_field_and_are_compared_inside() -> None:
    old = record("r", [Field("p", Ref("point"))], [POINT])
    new = record("r", [Field("p", Ref("place"))], [Struct("place", (Field("x", FLOAT64), Field("z", FLOAT64)))])
    assert compare(new, old) == compare(old, new)
    assert (diff(new, old), mismatch_ratio(new, old)) == (1, 0.5)


@pytest.mark.parametrize("type_", [INT32, Array(Ref("point"), (2,)), Array(Array(Ref("point"), (2,)), (3,))])
def test_a_structure_does_not_meet_a_number_or_an_array(type_: Type) -> None:
    old = record("r", [Field("p", Ref("point"))], [POINT])
    assert diff(old, record("r", [Field("p", type_)], [POINT])) == 2


def test_arrays_of_structures_meet_where_every_extent_fits() -> None:
    def of(type_: Type) -> Record:
        return record("r", [Field("n", INT32), Field("p", type_)], [POINT])

    fixed, open_ = of(Array(Ref("point"), (4,))), of(Array(Ref("point"), ("n",)))
    assert compare(fixed, open_).is_perfect
    assert (compare(open_, fixed).diff, compare(open_, fixed).missing) == (2, 2)
    assert compare(of(Array(Pointer(Ref("point")), ("n",))), open_).is_perfect


def test_pointers_and_the_names_of_counts_do_not_matter() -> None:
    one = record("r", [Field("n", INT32), Field("m", INT32), Field("v", Array(FLOAT64, ("n",)))])
    other = record("r", [Field("n", INT32), Field("m", Pointer(INT32)), Field("v", Array(FLOAT64, ("m",)))])
    assert compare(one, other).is_perfect


LIST = record("list", [Field("v", INT32), Field("next", Pointer(Ref("list")))])
RING = Record(
    (
        Struct("a", (Field("x", INT32), Field("b", Pointer(Ref("b"))))),
        Struct("b", (Field("y", INT32), Field("z", INT32), Field("a", Pointer(Ref("a"))))),
    )
)


def test_a_structure_in_a_cycle_counts_once() -> None:
    assert (weight(LIST), weight(RING)) == (1, 3)
    assert (diff(LIST, LIST), diff(RING, RING)) == (0, 0)


def test_cycles_of_different_lengths_end() -> None:
    """A list against a list that is unrolled once: the walk that counts goes round its own cycle once."""
    unrolled = Record(
        (
            Struct("list", (Field("v", INT32), Field("next", Pointer(Ref("other"))))),
            Struct("other", (Field("v", INT32), Field("w", INT32), Field("next", Pointer(Ref("list"))))),
        )
    )
    assert weight(unrolled) == 3
    assert (diff(LIST, unrolled), diff(unrolled, LIST)) == (0, 1)
    assert mismatch_ratio(LIST, unrolled) == 1 / 3


def test_a_cycle_below_a_missing_field_counts_whole() -> None:
    owner = Record((Struct("owner", (Field("id", INT32), Field("ring", Ref("a")))), *RING.structs))
    assert diff(owner, record("owner", [Field("id", INT32)])) == 3


@pytest.mark.parametrize(
    ("source", "wanted", "fits"),
    [
        (INT8, INT64, True),
        (INT64, INT8, True),
        (INT32, UINT64, True),
        (INT32, FLOAT32, True),
        (FLOAT64, FLOAT32, True),
        (FLOAT32, INT64, False),
        (INT32, STRING, False),
        (STRING, INT32, False),
        (CHAR, INT32, True),
        (INT32, CHAR, False),
        (BOOLEAN, INT8, True),
        (INT8, BOOLEAN, False),
        (ENUMERATION, INT32, True),
        (INT32, ENUMERATION, False),
        (FLOAT64, STRING, False),
        (Array(CHAR, (8,)), STRING, True),
        (Array(CHAR, (8,)), Array(CHAR, (16,)), True),
        (Array(CHAR, (16,)), Array(CHAR, (8,)), False),
        (STRING, Array(CHAR, (8,)), False),
        (STRING, Array(CHAR, ("n",)), True),
        (Array(INT32, (3,)), Array(FLOAT64, ("n",)), True),
        (Array(INT32, ("n",)), Array(INT32, (3,)), False),
        (Array(INT32, (3,)), Array(INT32, (4,)), False),
        (Array(INT32, (2, 2)), Array(INT32, (4,)), False),
        (INT32, Array(INT32, (1,)), False),
        (Array(Array(INT32, (2,)), (3,)), Array(INT32, (3, 2)), True),
    ],
)
def test_what_may_become_what(source: Type, wanted: Type, fits: bool) -> None:
    assert field_fits(Field("f", source), Field("f", wanted)) is fits
    there = compare(record("r", [Field("f", source)]), record("r", [Field("f", wanted)]))
    assert (there.diff, there.missing) == ((0, 0) if fits else (1, 1))


@pytest.mark.parametrize(
    ("source", "wanted", "fits"),
    [
        (Notes(units="kPa"), Notes(units="Pa"), False),
        (Notes(units="kPa"), Notes(), True),
        (Notes(logical="timestamp"), Notes(logical="timestamp"), True),
        (Notes(logical="timestamp"), Notes(), False),
        (Notes(accuracy="0.1", default=3), Notes(), True),
    ],
)
def test_what_is_said_of_fields_must_agree(source: Notes, wanted: Notes, fits: bool) -> None:
    assert field_fits(Field("f", INT64, source), Field("f", INT64, wanted)) is fits


def test_the_values_of_an_enumeration_are_names_whatever_numbers_they_have() -> None:
    def colours(*symbols: tuple[str, int]) -> Field:
        return Field("colour", ENUMERATION, Notes(symbols=symbols))

    old = colours(("red", 0), ("green", 1))
    assert field_fits(colours(("red", 0), ("green", 1), ("blue", 2)), old)
    assert field_fits(colours(("green", 0), ("red", 1)), old)
    assert field_fits(old, Field("colour", STRING))
    assert not field_fits(Field("colour", ENUMERATION), Field("colour", STRING))


DECIMAL, WIDE = Notes(logical="decimal(10,2)"), Notes(logical="decimal(38,2)")


@pytest.mark.parametrize(
    ("source", "wanted", "fits"),
    [
        (Field("f", INT64, DECIMAL), Field("f", INT64), True),
        (Field("f", INT64, DECIMAL), Field("f", FLOAT64), True),
        (Field("f", INT64, DECIMAL), Field("f", Array(CHAR, (16,)), WIDE), True),
        (Field("f", Array(CHAR, (16,)), WIDE), Field("f", INT64, DECIMAL), True),
        (Field("f", Array(CHAR, (16,)), WIDE), Field("f", INT32), True),
        (Field("f", UINT64), Field("f", Array(CHAR, (16,)), WIDE), True),
        (Field("f", Array(CHAR, ("n", 16)), WIDE), Field("f", Array(FLOAT64, ("n",))), True),
        (Field("f", FLOAT64), Field("f", INT64, DECIMAL), False),
        (Field("f", Array(CHAR, (16,)), WIDE), Field("f", STRING), False),
        (Field("f", INT64, DECIMAL), Field("f", INT64, Notes(logical="timestamp")), False),
        (Field("f", INT32, Notes(logical="date")), Field("f", INT32), False),
    ],
)
def test_a_decimal_is_a_number(source: Field, wanted: Field, fits: bool) -> None:
    assert field_fits(source, wanted) is fits


def test_a_policy_may_convert_less() -> None:
    one, other = record("r", [Field("v", INT32)]), record("r", [Field("v", FLOAT64)])
    assert compare(one, other).is_perfect
    assert diff(one, other, Policy(convertible=SAME_KIND)) == 1


def test_hidden_fields_count_nothing_and_notes_give_weights() -> None:
    fields = [Field("n", INT32, Notes(hidden=True)), Field("a", INT32, Notes(weight=2.5)), Field("b", INT32)]
    assert weight(record("r", fields)) == 3.5
    assert diff(record("r", fields), flat("r", "b")) == 2.5


def test_the_weight_of_a_structure_multiplies_and_the_policy_has_the_last_word() -> None:
    fields = [Field("id", INT32), Field("p", Ref("point"), Notes(weight=3)), Field("q", Ref("point"))]
    deep = record("r", fields, [POINT])
    assert weight(deep) == 1 + 3 * 2 + 2
    assert weight(deep, Policy(field_weights=(("p", 10), ("q.x", 4), ("id", 0)))) == 0 + 10 * 2 + 4 + 1
    assert diff(deep, flat("r", "z"), Policy(field_weights=(("p.x", 5),))) == 1 + 3 * (5 + 1) + 2


def test_weights_reach_into_cycles() -> None:
    assert weight(RING, Policy(field_weights=(("b.y", 5), ("x", 2)))) == 2 + 5 + 1


def test_nothing_wanted_is_nothing_missing() -> None:
    assert mismatch_ratio(flat("r", "a"), flat("r", "")) == 0


def test_deep_and_wide_types_are_compared_in_no_time() -> None:
    """Each of 600 structures holds the next one twice: the paths are beyond counting, the structures are not."""
    structs = [
        Struct(f"s{i}", (Field("v", INT32), Field("a", Ref(f"s{i + 1}")), Field("b", Ref(f"s{i + 1}"))))
        for i in range(600)
    ]
    deep = Record((*structs, Struct("s600", (Field("w", INT32),))))
    assert weight(deep) == 2**601 - 1
    less = Record((*deep.structs[:-1], Struct("s600", (Field("x", INT32),))))
    assert diff(deep, less) == 2**600
    assert mismatch_ratio(less, deep) == pytest.approx(0.5)


def test_types_beyond_measure_are_refused() -> None:
    structs = [Struct(f"s{i}", (Field("a", Ref(f"s{i + 1}")), Field("b", Ref(f"s{i + 1}")))) for i in range(1200)]
    deep = Record((*structs, Struct("s1200", (Field("w", INT32),))))
    with pytest.raises(MorphError, match=r"^\[MORPH_TOO_COMPLEX\]"):
        weight(deep)


def test_types_whose_structures_pair_in_too_many_ways_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("morph.errors.MAX_PAIRS", 10)
    structs = [Struct(f"s{i}", (Field("next", Ref(f"s{i + 1}")),)) for i in range(20)]
    chain = Record((*structs, Struct("s20", (Field("v", INT32),))))
    for compared in (diff, map_fields, edit_script):
        with pytest.raises(MorphError, match="pair more than 10 structures"):
            compared(chain, chain)


# -- properties


@given(record_types())
def test_nothing_of_a_type_is_not_in_itself(f: Record) -> None:
    assert compare(f, f).is_perfect
    assert compare(f, f).weight == weight(f)


@given(version_pairs())
def test_a_ratio_is_between_0_and_1(pair: tuple[Record, Record]) -> None:
    for one, other in (pair, pair[::-1]):
        found = compare(one, other)
        assert 0 <= found.missing <= found.weight
        assert 0 <= found.diff <= weight(one)
        assert 0 <= found.mismatch_ratio <= 1
        assert found.is_perfect == (found.diff == 0 and found.missing == 0)


@given(version_pairs(), st.sampled_from((INT32, STRING, Array(FLOAT64, (2,)))), st.data())
def test_a_field_more_on_arrival_never_raises_the_ratio(
    pair: tuple[Record, Record], type_: Type, data: st.DataObject
) -> None:
    incoming, wanted = pair
    position = data.draw(st.integers(0, len(incoming.structs) - 1))
    struct = incoming.structs[position]
    names = {f.name for f in struct.fields}
    name = data.draw(st.sampled_from(["one more", *(f.name for s in wanted.structs for f in s.fields)]))
    if name in names:
        return
    larger = Struct(struct.name, (*struct.fields, Field(name, type_)))
    more = Record((*incoming.structs[:position], larger, *incoming.structs[position + 1 :]))
    assert mismatch_ratio(more, wanted) <= mismatch_ratio(incoming, wanted)


@given(version_pairs(Limits(recursive=False)))
def test_without_cycles_it_is_the_algorithm_of_the_paper(pair: tuple[Record, Record]) -> None:
    one, other = pair
    found = compare(one, other)
    assert found.diff == by_the_paper(one, one.name, other, other.name, is_source=True)
    assert found.missing == by_the_paper(other, other.name, one, one.name, is_source=False)


@given(version_pairs())
def test_the_map_of_fields_holds_what_the_numbers_count(pair: tuple[Record, Record]) -> None:
    maps = map_fields(*pair)
    found = compare(*pair)
    assert any(not source.is_present for map_ in maps for source in map_.fields) or not found.missing
    assert any(map_.dropped for map_ in maps) or not found.diff
