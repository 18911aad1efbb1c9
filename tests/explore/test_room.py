"""Pictures have room for their text: nothing is cut, and no two strings overlap."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.text import Text

from morph import scores
from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.explore import channel_flow, lineage_plot, presence_timeline, score_map
from pbio_spark.formats import Format
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.record_json import json_to_record

FIELD, NAME = "a_field_name_that_only_a_code_generator_writes_", "TheRecordTypeOfSomeSimulationWithALongName"


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def flaws(ax: Axes) -> list[str]:
    """Strings that leave the picture, and strings and boxes that overlap."""
    figure: Any = ax.figure
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that there is no room for the axes
        figure.canvas.draw()
    renderer, around = figure.canvas.get_renderer(), figure.bbox
    axes = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    beyond = [tick for axis in axes for tick in axis.get_major_ticks() if not _is_seen(axis, tick.get_loc())]
    hidden = {label for tick in beyond for label in (tick.label1, tick.label2)}
    shown = [one for one in figure.findobj(Text) if one.get_visible() and one.get_text().strip() and one not in hidden]
    found = []
    places = []
    for text in shown:
        patch = text.get_bbox_patch()
        box = Text.get_window_extent(text, renderer) if patch is None else patch.get_window_extent(renderer)
        if box.x0 < -1 or box.y0 < -1 or box.x1 > around.x1 + 1 or box.y1 > around.y1 + 1:
            found.append(f"cut: {text.get_text()}")
        if not text.get_rotation():  # the boxes around slanted texts say little
            places.append((text.get_text(), box))
    for (one, first), (other, second) in combinations(places, 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        if wide > 2 and min(first.y1, second.y1) - max(first.y0, second.y0) > 2:
            found.append(f"{one} lies on {other}")
    return found


def _is_seen(axis: Axis, place: float) -> bool:
    least, most = sorted(axis.get_view_interval())
    return bool(least <= place <= most)


def form(fields: dict[str, str], name: str = "load") -> Format:
    return record_to_format(json_to_record({name: fields}))


def rising(count: int, field: str = "f", name: str = "load", *, descend: bool = False) -> list[Format]:
    """Versions, each with one field more than the one before, and from which it descends."""
    made: list[Format] = []
    for number in range(count):
        one = form({f"{field}{n}": "float64" for n in range(max(number - 5, 0), number + 1)}, name)
        made.append(evolve(made[-1], one, f"{{ old.{field}{number - 1} = 0; }}") if descend and made else one)
    return made


GIVEN: dict[str, Callable[[], list[Format]]] = {
    "one": lambda: rising(1),
    "three": lambda: rising(3, descend=True),
    "types": lambda: [form({"a": "int32"}), form({"a": "decimal(38,10)[]"}), form({"a": "float64[]"})],
    "long": lambda: rising(4, FIELD, NAME),
    "sixty": lambda: rising(60),
}


@pytest.mark.parametrize("given", GIVEN)
def test_pictures_of_formats_have_room(given: str) -> None:
    formats = GIVEN[given]()
    assert flaws(lineage_plot(formats)) == []
    assert flaws(presence_timeline(formats)) == []
    named = {f"{one.name}@{number}": one.record for number, one in enumerate(formats)}
    assert flaws(score_map(scores(named))) == []
    by_id = {one.id.hex(): one.record for one in formats}
    assert flaws(score_map(scores(by_id))) == []


def test_the_flow_has_room(tmp_path: Path) -> None:
    space = ChannelSpace.create(str(tmp_path / "space"))
    assert flaws(channel_flow(space)) == []
    formats = rising(8, FIELD, NAME)
    first = space.create_channel("a-channel-whose-name-some-tool-has-made-for-it", formats[0])
    assert flaws(channel_flow(space)) == []
    first.subscribe(name="a-subscriber-whose-name-some-tool-has-made")
    first.subscribe(name="another")
    first.submit({f"{FIELD}0": 1.0})
    assert flaws(channel_flow(space)) == []
    space.create_channel("between", formats[0])
    space.derive_channel("heavy", first.info.name, filter=f"{{ return input.{FIELD}0 > 0; }}")
    for one in formats[1:5]:
        first.submit({field.name: 1.0 for field in one.record.fields}, format=one)
        first.subscribe(name=f"after-{len(one.record.fields)}")
    assert flaws(channel_flow(space)) == []


@pytest.mark.parametrize("draw", [lineage_plot, presence_timeline])
def test_a_folder_without_files_makes_no_picture(tmp_path: Path, draw: Callable[[Path], Axes]) -> None:
    with pytest.raises(PbioError, match="PBIO_NO_SCHEMA"):
        draw(tmp_path)


def test_scores_of_nothing_make_no_picture() -> None:
    with pytest.raises(PbioError, match="the scores are empty"):
        score_map(scores({}))
