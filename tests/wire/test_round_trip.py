"""Random values of random formats on random machines survive encoding and decoding."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pbio_spark.wire import decode, encode
from tests.strategies import formats, same_values, values

EXAMPLES = 5000 if os.environ.get("PBIO_LONG") else 200
relaxed = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@relaxed
@given(st.data())
def test_values_survive(data: st.DataObject) -> None:
    form = data.draw(formats())
    given_values = data.draw(values(form))
    record = encode(form, given_values)
    decoded = decode(form, record)
    assert same_values(decoded, given_values)
    assert encode(form, decoded) == record
