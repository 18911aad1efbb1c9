"""Fields that may only have changed their names."""

from __future__ import annotations

import pytest
from hypothesis import given

from ecode.types import CHAR, FLOAT64, INT32, INT64, STRING, Array, Field, Notes, Record, Ref, Struct, record
from morph.evolution.renames import suspected_renames
from tests.morph.samples import version_pairs


def r(**fields: object) -> Record:
    return record("r", [Field(name, type_) for name, type_ in fields.items()])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (r(id=INT64, temp=FLOAT64), r(id=INT64, temperature_k=FLOAT64), {"temperature_k": "temp"}),
        (r(id=INT64, temp=FLOAT64), r(id=INT64, temperature_k=STRING), {}),  # another type
        (r(id=INT64, temp=INT32), r(id=INT64, temperature_k=FLOAT64), {"temperature_k": "temp"}),  # one that fits
        (r(a=INT32, host=STRING, b=INT32), r(a=INT32, machine=STRING, b=INT32), {"machine": "host"}),  # the same place
        (r(a=INT32, host=STRING, b=INT32), r(a=INT32, b=INT32, machine=STRING), {}),
        (r(x=INT32), r(x=INT32, y=INT32), {}),  # what has a partner is not free
        (r(name=Array(CHAR, (8,))), r(nome=STRING), {"nome": "name"}),
        (r(value_a=INT32), r(value_b=INT32, value_c=INT32), {"value_b": "value_a"}),  # each only once
    ],
)
def test_a_name_or_a_place_that_is_alike(old: Record, new: Record, found: dict[str, str]) -> None:
    assert suspected_renames(old, new) == found


def test_structures_are_looked_into() -> None:
    def of(name: str) -> Record:
        inner = Struct("at", (Field(name, FLOAT64), Field("next", Ref("at")) if name == "" else Field("z", INT32)))
        return record("r", [Field("p", Array(Ref("at"), (2,)))], [inner])

    assert suspected_renames(of("latitude"), of("lat")) == {"p.lat": "latitude"}


def test_what_is_hidden_has_no_name_to_change() -> None:
    hidden = record("r", [Field("count", INT32, Notes(hidden=True))])
    assert suspected_renames(hidden, r(counts=INT32)) == suspected_renames(r(counts=INT32), hidden) == {}


@given(version_pairs())
def test_renames_lead_from_what_is_missing_to_what_is_not_wanted(pair: tuple[Record, Record]) -> None:
    old, new = pair
    assert suspected_renames(old, old) == {}
    for path, name in suspected_renames(old, new).items():
        last = path.rpartition(".")[2]
        assert any(struct.find(last) for struct in new.structs)
        assert any(struct.find(name) and not struct.find(last) for struct in old.structs)
