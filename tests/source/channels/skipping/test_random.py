"""What a filter gives of channels with blocks skipped and without is the same, for every kind of reader."""

from __future__ import annotations

import logging
import os
import random
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ecode.columns import batch
from ecode.types import FLOAT32, FLOAT64, INT8, STRING, Field, Record, record
from pbio_spark.channels import ChannelSpace, problems
from pbio_spark.errors import PbioError
from pbio_spark.formats.record_json import record_to_json
from tests.channels.spaces import NEW, again
from tests.columns.checked import CheckedKernel
from tests.source.channels.query import Query
from tests.source.channels.skipping.made import COMMON, OF_CHANNEL, new_space, publish_records, publish_rows
from tests.source.files.skipping.made import EVERY, WIDE
from tests.source.files.skipping.test_rows import COMPARED, program
from tests.source.local import load

CASES, READS = (int(os.environ.get("PBIO_CASES", "2_000")), 3) if os.environ.get("PBIO_LONG") else (60, 1)
NOW = timedelta(0)
FLOATS = record("r", [Field("a", FLOAT32), Field("b", FLOAT64), Field("s", STRING)])
WANTED: dict[str, list[Record | None]] = {
    "r": [
        None,
        None,
        EVERY,
        WIDE,
        record("r", [Field("a", INT8), Field("s", STRING)]),
        FLOATS,
    ],
    "loads": [None, NEW.record],
}
"""What readers want; some of it cannot hold all values."""


REFUSED = ("PBIO_VALUE_BEYOND_TYPE", "PBIO_OUT_OF_ORDER", "PBIO_NULL_IN_DATA")


def fill(space: ChannelSpace, chance: random.Random) -> None:
    first = 0
    for _ in range(chance.randrange(1, 7)):
        count = chance.choice((1, 5, 40, 120))
        channel = chance.choice(("r", "r", "loads"))
        try:
            if channel == "r" and chance.random() < 0.3:
                publish_rows(space, chance, first, count)
            else:
                formats = OF_CHANNEL[channel]
                own = chance.sample(formats, chance.randrange(1, min(3, len(formats)) + 1))
                publish_records(space, channel, chance, own, first, count)
            first += count // 2
        except PbioError as error:
            if error.code not in REFUSED:
                raise
        if chance.random() < 0.2:
            space.compact(small=chance.choice((2_000, 1 << 20)), target=chance.choice((5_000, 1 << 20)))
        if chance.random() < 0.2:
            space.vacuum(grace=NOW, linger=NOW)


def subscribed(space: ChannelSpace, channel: str, wanted: Record | None, **options: Any) -> tuple[list[Any], str]:
    handlers = None if wanted is None else {wanted: print}
    found: list[Any] = []
    try:
        subscription = space.channel(channel).subscribe(handlers, on_reject="drop", on_unfilled="ignore", **options)
        found += (repr(event) for event in subscription.events())
        found.append(subscription.position)
    except PbioError as error:
        return found, f"{error}"
    return found, ""


def loaded(space: ChannelSpace, **options: Any) -> tuple[str, str]:
    try:
        return repr(load(space.root, metadataColumn="_m", **options)), ""
    except PbioError as error:
        return "", f"{error}"


def streamed(space: ChannelSpace, **options: Any) -> tuple[str, str]:
    try:
        query = Query(space, startingOffsets="earliest", maxRecordsPerTrigger=70, metadataColumn="_m", **options)
        rows: list[Any] = []
        while (batch := query.batch()) is not None:
            rows += batch
        return repr(sorted(rows, key=lambda row: tuple(map(int, row["_m"]["position"].split("."))))), ""
    except PbioError as error:
        return "", f"{error}"


def compare(space: ChannelSpace, chance: random.Random) -> bool:
    """Read a channel by a filter in all ways, with blocks skipped and without; whether a subscriber got events."""
    channel = chance.choice(("r", "r", "r", "above", "twice", "loads"))
    wanted = chance.choice(WANTED["loads" if channel == "loads" else "r"])
    fields = {field.name for field in (wanted or COMMON).structs[0].fields}
    names = [name for name in COMPARED if name.split(".")[0] in fields] or ["total"]
    text = program(chance, names if channel != "loads" or wanted else ["average"])
    if channel == "loads":
        text = text.replace('input.s != "xx"', "1")
    if channel == "loads" or wanted is FLOATS:
        text = text.replace("(int) input.a", "1")
    mode = chance.choice(("FAILFAST", "DROPMALFORMED"))
    version = chance.randrange(1, space.history.catch_up().version + 1)
    start = chance.choice(("earliest", "earliest", f"{version}.0.{chance.randrange(50)}"))
    plain = {"start": start, "filter": text, "mode": mode}
    found, ended = subscribed(space, channel, wanted, **plain)
    every, same = subscribed(space, channel, wanted, skip_blocks=False, **plain)
    assert ended == same, plain
    # The events of the batch in which one is bad do not come; where blocks are skipped, batches end elsewhere.
    assert found[: len(every)] == every[: len(found)] if ended else found == every, plain
    options: dict[str, Any] = {"channel": channel, "filter": text, "mode": mode, "onReject": "drop"}
    options |= {"maxPartitionBytes": chance.choice((500, 3_000, 1 << 20)), "onUnfilled": "ignore"}
    if wanted is not None:
        options |= {"readerFormat": record_to_json(wanted), "mismatchThreshold": 1}
    if chance.random() < 0.3:
        assert streamed(space, **options) == streamed(space, skipBlocks=False, **options), options
    else:
        options["startingOffsets"] = start
        assert loaded(space, **options) == loaded(space, skipBlocks=False, **options), options
    return len(found) > 1


def test_skipped_and_not_skipped_agree(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = os.environ.get("PBIO_SEED", "11")
    caplog.set_level(logging.DEBUG, "pbio_spark.channels")
    kept = 0
    for case in range(CASES):
        chance = random.Random(f"{seed} {case}")
        space = new_space(str(tmp_path / str(case)))
        fill(space, chance)
        with monkeypatch.context() as patch:  # filters run as Python
            patch.setattr(batch, "compile_kernel", lambda source: CheckedKernel(source, [(0, 1 << 63)]))
            for _ in range(READS):
                kept += compare(again(space), chance)
        if case % 5 == 0:
            assert list(problems(space)) == []
        shutil.rmtree(space.root)
    skipping = [one for one in caplog.records if one.message.startswith("the filter skips")]
    assert len(skipping) > CASES / 4
    assert kept > CASES / 8
