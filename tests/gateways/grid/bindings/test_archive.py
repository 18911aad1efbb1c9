"""Commits of an archive with an unknown outcome: numbered events are tried again, others are not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.gateways.grid.bindings import archive as module
from pbio_spark.gateways.grid.bindings.archive import Archive, Inflow, PendingEvent
from pbio_spark.gateways.grid.bindings.news import News
from pbio_spark.gateways.grid.settings import GridSettings
from tests.channels.spaces import COUNT


@pytest.mark.parametrize("numbered", ["", "p", "pq"])
def test_events_whose_commit_may_have_happened_are_never_there_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numbered: str
) -> None:
    space = ChannelSpace.create(str(tmp_path / "space"))
    channel = space.create_channel("counts", COUNT)
    publish, failures = space.publish, iter([True])

    def uncertain(submissions: Sequence[Any]) -> Any:
        done = publish(submissions)
        if next(failures, False):
            raise PbioError("PBIO_OUTCOME_UNKNOWN", "the disk said nothing")
        return done

    monkeypatch.setattr(space, "publish", uncertain)
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    now = datetime.now(UTC)
    inflows = {name: Inflow(channel, name) for name in "pq"}
    taken = [(one, [PendingEvent({"n": 7}, now, 0 if name in numbered else None)]) for name, one in inflows.items()]

    async def commit() -> None:
        Archive(space, GridSettings(), News(space))._publish(taken)

    asyncio.run(commit())
    events = [(event.producer, event.values) for event in channel.subscribe(start="earliest").events()]
    assert events == [("p", {"n": 7}), ("q", {"n": 7})]
    for name, one in inflows.items():
        said = None if one.error is None else one.error.code
        assert said == (None if name in numbered else "PBIO_OUTCOME_UNKNOWN")
