"""Pictures show what they should; without matplotlib, the error says what to install."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from matplotlib import pyplot

from ecode.types import FLOAT32, FLOAT64, INT32, Field, Pointer, Record, Ref, Struct, record
from morph import Transform, TransformGraph, lineage, scores
from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.explore import channel_flow, lineage_plot, presence_timeline, score_map
from pbio_spark.explore.lineage_plot import places_of
from pbio_spark.explore.presence_timeline import field_types
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.formats_to_graph import formats_to_graph
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import json_to_record as parse_record
from pbio_spark.tables import open_writer
from pbio_spark.testing.strategies import record_types
from tests.channels.publish.test_publisher import WIDER
from tests.channels.spaces import COUNT
from tests.morph.samples import flat


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def test_the_map_of_scores_has_a_number_in_every_cell() -> None:
    ax = score_map(scores({"v1": flat("r", "a"), "v2": flat("r", "ab"), "v3": flat("r", "abcd")}))
    assert [text.get_text() for text in ax.texts] == ["✓", "0.50", "0.75", "0.00", "✓", "0.50", "0.00", "0.00", "✓"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["v1", "v2", "v3"]
    ax.figure.canvas.draw()


def test_the_timeline_has_a_bar_where_a_field_is() -> None:
    point = Struct("point", (Field("x", FLOAT64),))
    ax = presence_timeline(
        {
            "v1": record("r", [Field("id", INT32), Field("t", FLOAT32)]),
            "v2": record("r", [Field("id", INT32), Field("t", FLOAT64), Field("p", Ref("point"))], [point]),
        }
    )
    assert [label.get_text() for label in ax.get_yticklabels()] == ["id", "t", "p", "p.x"]
    assert [(bar.get_x() + 0.5, round(bar.get_y() + 0.35)) for bar in ax.patches] == [
        *((0, 0), (1, 0)),
        *((0, 1), (1, 1)),
        *((1, 2), (1, 3)),
    ]
    assert [text.get_text() for text in ax.texts] == ["float64"]
    ax.figure.canvas.draw()


def test_the_plot_of_a_lineage_has_a_box_for_each_type_and_an_arrow_for_each_transform() -> None:
    graph = TransformGraph({"new": flat("r", "b"), "old": flat("r", "a")}, [Transform("new", "old", "{ }")])
    graph.add_format("old, elsewhere", flat("r", "a"))
    graph.add_transform(Transform("old", "0200001b54f71865393441e7", "{ }"))
    ax = lineage_plot(lineage(graph))
    assert [text.get_text() for text in ax.texts if text.get_text()] == ["?\n…393441e7", "r@1\nold +1", "r@2\nnew"]
    assert sum(not text.get_text() for text in ax.texts) == 2  # arrows are annotations without text
    places = places_of(lineage(graph))
    assert places["new"][1] > places["old"][1] > places["0200001b54f71865393441e7"][1]
    ax.figure.canvas.draw()


def test_what_users_have_is_a_picture(tmp_path: Path) -> None:
    old, new = (
        record_to_format(parse_record({"load": fields})) for fields in ({"n": "int"}, {"n": "int", "v": "int[]"})
    )
    new = evolve(old, new, "{ old.n = new.n; }")
    for number, form in enumerate((old, new)):
        with open_writer(tmp_path / f"{number}.ffs", form) as writer:
            writer.write({"n": 1} if form is old else {"n": 1, "v": [1]})
    for said in (tmp_path, str(tmp_path), [tmp_path / "0.ffs", tmp_path / "1.ffs"], [old, new]):
        texts = [text.get_text() for text in lineage_plot(said).texts]
        assert [text.partition("\n")[0] for text in texts if text] == ["load@1", "load@2"]
        ax = presence_timeline(said)
        assert [label.get_text() for label in ax.get_yticklabels()] == ["n", "v"]  # not the hidden count of v
        assert [label.get_text() for label in ax.get_xticklabels()] == ["load@1", "load@2"]
    graph = formats_to_graph([old, new])
    assert len(lineage_plot(graph).texts) == 3
    assert len(presence_timeline(graph).get_yticklabels()) == 2


@pytest.mark.parametrize("said", [7, None, [7], ["a.ffs", 7]], ids=range(4))
def test_a_wrong_argument_of_a_picture_of_formats_is_refused(said: Any) -> None:
    for draw in (lineage_plot, presence_timeline):
        with pytest.raises(PbioError, match=r"PBIO_BAD_VALUE(.|\n)*read_formats"):
            draw(said)
    with pytest.raises(PbioError, match=r"PBIO_BAD_VALUE(.|\n)*parse_record"):
        presence_timeline({"a": said})  # type: ignore[dict-item]


def test_cycles_have_places() -> None:
    graph = TransformGraph(
        {"a": flat("r", "a"), "b": flat("r", "b")}, [Transform("a", "b", "{ }"), Transform("b", "a", "{ }")]
    )
    assert len(set(places_of(lineage(graph)).values())) == 2
    lineage_plot(lineage(graph)).figure.canvas.draw()


def test_nothing_is_a_picture_too() -> None:
    lineage_plot(lineage(TransformGraph())).figure.canvas.draw()
    presence_timeline({}).figure.canvas.draw()


def test_given_axes_are_drawn_into() -> None:
    ax = pyplot.figure().add_subplot()
    assert score_map(scores({"a": flat("r", "a")}), ax) is ax


def test_recursive_types_end() -> None:
    node = record("list", [Field("v", INT32), Field("next", Pointer(Ref("list")))])
    assert [path for path, _ in field_types(node)] == ["v", "next"]


@given(record_types())
@settings(max_examples=30)
def test_every_top_field_has_a_path(type_: Record) -> None:
    paths = [path for path, _ in field_types(type_)]
    assert [f.name for f in type_.fields] == [path for path in paths if path in {f.name for f in type_.fields}]


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(PbioError, match=r"^\[PBIO_MISSING_EXTRA\]") as caught:
        score_map(scores({"a": flat("r", "a")}))
    assert caught.value.hint == "pip install 'pbio-spark[viz]'"


def test_the_flow_has_a_line_for_each_channel_and_a_dot_for_its_events_in_each_commit(tmp_path: Path) -> None:
    space = ChannelSpace.create(str(tmp_path / "space"))
    space.create_channel("counts", COUNT)
    space.derive_channel("odd", "counts", filter="{ return input.n % 2; }")
    space.channel("counts").submit([{"n": 1}, {"n": 2}])
    space.channel("counts").submit({"n": 3, "who": 1}, format=record_to_format(WIDER, "be32"))
    space.channel("counts").subscribe(name="watcher")
    ax = channel_flow(space)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["counts", "odd"]
    dots = sorted(tuple(map(float, place)) for drawn in ax.collections for place in drawn.get_offsets())
    assert dots == [(3, 0), (3, 1), (4, 0), (4, 1)]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["count, le64", "tally, be32"]
    [row] = space.derivations()
    saved = row.parent_bytes - row.bytes
    assert 0 < saved < row.bytes
    assert {"watcher", f"3 in, 2 out, {saved} B saved"} <= {text.get_text() for text in ax.texts}
    ax.figure.canvas.draw()
    assert [label.get_text() for label in channel_flow(space, ["odd"]).get_yticklabels()] == ["odd"]
    with pytest.raises(PbioError, match="PBIO_UNKNOWN_CHANNEL"):
        channel_flow(space, ["even"])
