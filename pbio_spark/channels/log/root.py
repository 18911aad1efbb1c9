"""The file SPACE marks a folder as a channel space; it is created last, in an otherwise empty folder."""

from __future__ import annotations

import json
import time
import uuid

from pbio_spark.channels.commits.checked import a_number, a_text, bad, parse
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.layout import FOLDERS, SPACE
from pbio_spark.channels.log.state import State
from pbio_spark.errors import PbioError
from pbio_spark.paths import from_where


def make_root(folder: Folder) -> str | None:
    """Make a folder a channel space, or complete an interrupted attempt. Returns its ID; None if it already is a space.

    Raises PBIO_CHANNEL_SPACE inside of another space, PBIO_NOT_EMPTY, and PBIO_PATH_NOT_FOUND without its bucket.
    """
    above = folder.space_above()
    if above is not None and folder.read(SPACE) is None:
        reason, hint = (
            f"the folder is inside the channel space {above}",
            "choose another, or add a channel to that space",
        )
        raise PbioError("PBIO_CHANNEL_SPACE", reason, file=folder.root, hint=hint)
    folder.make("")
    others = [] if above is not None else _others(folder)
    if folder.read(SPACE) is not None:
        return None
    if others:
        raise PbioError(
            "PBIO_NOT_EMPTY",
            f"the folder holds other files, such as {others[0]}",
            file=folder.root,
            hint="choose an empty folder, or one that does not exist yet",
        )
    folder.make(*FOLDERS)
    space = uuid.uuid4().hex
    made = json.dumps({"version": 1, "id": space, "created": time.time_ns() // 1000}).encode()
    try:
        is_made = folder.create(SPACE, made)
    except PbioError as error:
        if error.code != "PBIO_NO_SPACE":
            raise
        hint = "make the bucket first, or check its name"
        raise PbioError("PBIO_PATH_NOT_FOUND", "the bucket does not exist", file=folder.root, hint=hint) from None
    return space if is_made or folder.read(SPACE) == made else None


def read_id(folder: Folder) -> str | None:
    """The ID of the channel space in a folder; None if there is none. Raises PBIO_BAD_LOG."""
    data = folder.read(SPACE, 10_000)
    if data is None:
        return None
    try:
        made = parse(data)
        if a_number(made.get("version")) != 1:
            bad(f"format version {made['version']}, but this program reads version 1: a newer program made the space")
        return a_text(made.get("id"))
    except PbioError as error:
        raise error.at(file=folder.path(SPACE)) from None


def look(history: History, folder: Folder, space: str) -> State:
    """The current state of a space. Raises PBIO_BAD_LOG, and PBIO_NO_SPACE if it is gone or was replaced."""
    before = history.state.version
    state = history.catch_up()
    if state.version == before and (found := read_id(folder)) != space:
        if found is None:
            raise no_space_to_error(folder)
        reason, hint = "the folder is now another space", "open it again: `ChannelSpace.open(path)`"
        raise PbioError("PBIO_NO_SPACE", reason, file=folder.root, hint=hint)
    return state


def no_space_to_error(folder: Folder) -> PbioError:
    """PBIO_NO_SPACE, with the reason why a folder is not a channel space."""
    reason, hint = "the folder is empty, and not a channel space yet", "`pbio space init` makes it one"
    above = folder.space_above()
    if above is not None:
        reason = f"the folder is inside the channel space {above}, and is not one itself"
        hint = "open that one, and name the channel; in Spark with the option channel"
    elif folder.is_file:
        reason, hint = "the path is a file, and a channel space is a folder", "`pbio cat` and `read` take files"
    elif not folder.is_there:
        reason, hint = (
            f"folder not found{from_where(folder.root)}",
            "check the path; `pbio space init` makes a new space",
        )
    elif _others(folder):
        reason = "the folder holds other files and is not a channel space"
        hint = "check the path; `pbio space init` makes a new space, in an empty folder"
    return PbioError("PBIO_NO_SPACE", reason, file=folder.root, hint=hint)


def _others(folder: Folder) -> list[str]:
    """The contents of a folder that no interrupted `make_root` leaves behind; hidden names do not count."""
    beside = [name for name in folder.names("") if name not in FOLDERS]
    return beside + [f"{part}/{name}" for part in FOLDERS for name in folder.names(part)]
