"""Random values of random formats on random machines survive encoding and decoding."""

from __future__ import annotations

import io
import json
import os

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pbio_spark.testing.strategies import Limits, formats, same_values, values
from pbio_spark.wire import FileWriter, ItemKind, Scanner, attribute, decode, encode, read_index, record_to_json
from tests.wire.json_values import json_to_values

EXAMPLES = 2000 if os.environ.get("PBIO_LONG") else 200
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


@relaxed
@given(st.data())
def test_json_holds_all_of_a_record(data: st.DataObject) -> None:
    form = data.draw(formats(Limits(recursive=False)))
    given_values = data.draw(values(form))
    line = json.loads(record_to_json(form, encode(form, given_values)))
    assert same_values(json_to_values(form, line), given_values)


@settings(relaxed, max_examples=EXAMPLES // 8)
@given(st.data(), st.booleans())
def test_files_survive(data: st.DataObject, indexed: bool) -> None:
    forms = data.draw(st.lists(formats(Limits(structs=2, fields=3)), min_size=1, max_size=3))
    assume(len({form.body for form in forms}) == len({form.id for form in forms}))  # short IDs are not unique
    file, written = io.BytesIO(), []
    with FileWriter(file, indexed=indexed) as writer:
        for step in range(data.draw(st.integers(0, 12))):
            form = data.draw(st.sampled_from(forms))
            written.append((form, encode(form, data.draw(values(form)))))
            writer.data(*written[-1], [attribute("step", step)] if indexed and step % 2 else None)
    scanner = Scanner(file.getvalue())
    items = [item for item in scanner.items() if item.kind is ItemKind.DATA]
    assert [(scanner.format_of(item), scanner.read(item)) for item in items] == written
    blocks = read_index(Scanner(file.getvalue())) or ()
    assert [e.offset for block in blocks for e in block.entries if e.is_data] == [i.offset for i in items if indexed]
