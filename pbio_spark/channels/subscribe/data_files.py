"""The data files of a space, opened where they are now; and the reasons for lost files.

Compaction moves events, and `vacuum` removes files, while others read: a file named by a commit may be gone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from pbio_spark.channels.commits.checked import PUT_BACK
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.log import FolderLog
from pbio_spark.channels.log.root import no_space_to_error, read_id
from pbio_spark.channels.log.state import ChannelInfo
from pbio_spark.channels.subscribe.reading import Stretch, read_stretch
from pbio_spark.columns import ReadPlan
from pbio_spark.errors import PbioError
from pbio_spark.paths import trouble_at

log = logging.getLogger("pbio_spark.channels")


class DataFiles:
    """Reads stretches from the data files of one space.

    If part of a stretch is lost because `vacuum` removed its file, that is an error: PBIO_EVENTS_GONE, or
    PBIO_UNKNOWN_CHANNEL if the channel has been dropped. If `fail_on_loss` is false, the part is skipped with a warning
    in the log. A file that should exist is PBIO_BAD_LOG in either case.
    """

    def __init__(self, root: Folder | str, history: History | None = None, *, fail_on_loss: bool) -> None:
        """
        Args:
            history: the log of the space; by default it is opened when a file is not found.
        """
        self._folder = Folder(root) if isinstance(root, str) else root
        self._history = history
        self._fail_on_loss = fail_on_loss

    def read(self, plan: ReadPlan, stretch: Stretch) -> Iterator[pa.RecordBatch]:
        """The events of a stretch, as from `read_stretch`; none if they are lost and loss is allowed."""
        opened = self._open(stretch)
        if opened is not None:
            source, name, shift = opened
            with source:
                yield from read_stretch(plan, stretch, source, self._folder.path(name), shift)

    def read_bytes(self, stretch: Stretch) -> bytes | None:
        """The raw items of a stretch; None if they are lost and loss is allowed."""
        opened = self._open(stretch)
        if opened is None:
            return None
        source, name, shift = opened
        start, end = int(stretch.runs["start"][0]) + shift, int(stretch.runs["end"][-1]) + shift
        with source, trouble_at(self._folder.path(name)):
            source.seek(start)
            return bytes(source.read(end - start))

    def _open(self, stretch: Stretch) -> tuple[Any, str, int] | None:
        """A file, its present path, and the shift of the stretch in it; None if it is lost and loss is allowed."""
        try:
            return self._folder.open(stretch.path), stretch.path, 0
        except FileNotFoundError:
            history = self._history = self._history or _open_history(self._folder)
        located = history.locate(stretch.version, stretch.path)
        if located is not None:
            name, shift = located
            with suppress(FileNotFoundError):
                return self._folder.open(name), name, shift
        path = self._folder.path(stretch.path)
        versions: Mapping[int, int] = dict(stretch.runs[["channel", "version"]].tolist())  # the last one of each
        losses = [
            loss_to_error(history, channel, stretch.channels[channel], last, path) for channel, last in versions.items()
        ]
        for loss in losses:
            if self._fail_on_loss or loss.code == "PBIO_BAD_LOG":
                raise loss
        log.warning("%s", losses[0])
        return None


def _open_history(folder: Folder) -> History:
    space = read_id(folder)
    if space is None:
        raise no_space_to_error(folder)
    return History(FolderLog(folder), space)


def loss_to_error(history: History, channel: int, name: str, version: int, path: str) -> PbioError:
    """Why a data file of a channel is lost: PBIO_EVENTS_GONE, PBIO_UNKNOWN_CHANNEL or PBIO_BAD_LOG."""
    with history.lock:
        info = history.catch_up().channels.get(channel)
    if info is None:
        return PbioError(
            "PBIO_UNKNOWN_CHANNEL",
            f"the channel {name!r} has been dropped",
            hint="channels() of the space lists those that exist",
        )
    if version >= info.first:
        return PbioError(
            "PBIO_BAD_LOG",
            "a data file that the log names is missing",
            file=path,
            hint=PUT_BACK,
        )
    return gone_to_error(info)


def gone_to_error(info: ChannelInfo) -> PbioError:
    """PBIO_EVENTS_GONE, for a subscriber that comes too late."""
    return PbioError(
        "PBIO_EVENTS_GONE",
        f"the events of {info.name!r} before {info.gone} are no longer kept",
        hint="fail_on_loss=False, in Spark failOnDataLoss=false, continues after them",
    )
