"""The layout of a channel space on disk: all names in it are built and parsed only here.

    <root>/
        _space.json                      marks the folder as a channel space; written last
        _formats/
            <format ID>                  a format's body; written before its first use
        _log/
            <version>.json               a commit
            <version>.checkpoint         the state after a commit
            <first>-<last>.fold          many old commits in one file; see `folds`
            <ID>.groups                  where the events of a commit are, if that is long
            <ID>.numbers                 sequence numbers and times of single events, if they are many: int64
            <ID>.states                      the states of derivations after a commit, if they are long
            _newest                      the version of a recent checkpoint: a hint, which may be old or missing
        _subscribers/
            <channel>-<digest>.json      the position of a named subscriber
            <channel>-<digest>.missing   when it was first missed; see `expiry`
        data/
            <ID>.pbio                    events, in an FFS file that never changes

A version has 20 decimal digits, an ID of a file 32 hexadecimal ones. A file that is being written has a temporary name,
which starts with a dot. Paths are relative to the root, with `/` between the parts; a name is the last part.
"""

from __future__ import annotations

import hashlib
import re
import uuid

from pbio_spark.formats.store import FORMAT_NAME as FORMAT_NAME
from pbio_spark.formats.store import FORMATS as FORMATS
from pbio_spark.spaces import SPACE as SPACE

LOG = "_log"
SUBSCRIBERS = "_subscribers"
DATA = "data"
FOLDERS = (FORMATS, LOG, SUBSCRIBERS, DATA)
NEWEST = f"{LOG}/_newest"

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint")
_FOLD = re.compile(r"(\d{20})-(\d{20})\.fold")
_BESIDE = re.compile(r"[0-9a-f]{32}\.(groups|numbers|states)")
_SUBSCRIBER = re.compile(r"(\d+)-[0-9a-f]{32}\.json")
_MISSING = re.compile(r"\d+-[0-9a-f]{32}\.missing")
_DATA = re.compile(r"[0-9a-f]{32}\.pbio")
_OWN = {
    FORMATS: (FORMAT_NAME,),
    LOG: (_COMMIT, _CHECKPOINT, _FOLD, _BESIDE, re.compile(NEWEST.removeprefix(f"{LOG}/"))),
    SUBSCRIBERS: (_SUBSCRIBER, _MISSING),
    DATA: (_DATA,),
}


def commit_path(version: int) -> str:
    """
    >>> commit_path(12)
    '_log/00000000000000000012.json'
    """
    return f"{LOG}/{version:020}.json"


def checkpoint_path(version: int) -> str:
    """The path of a checkpoint."""
    return f"{LOG}/{version:020}.checkpoint"


def fold_path(first: int, count: int) -> str:
    """
    >>> fold_path(101, 100)
    '_log/00000000000000000101-00000000000000000200.fold'
    """
    return f"{LOG}/{first:020}-{first + count - 1:020}.fold"


def new_groups_path() -> str:
    """A new path for the groups of a commit."""
    return f"{LOG}/{uuid.uuid4().hex}.groups"


def new_numbers_path() -> str:
    """A new path for the numbers of single events."""
    return f"{LOG}/{uuid.uuid4().hex}.numbers"


def new_states_path() -> str:
    """A new path for the states of derivations."""
    return f"{LOG}/{uuid.uuid4().hex}.states"


def new_data_path() -> str:
    """A new path for a data file."""
    return f"{DATA}/{uuid.uuid4().hex}.pbio"


def new_temporary_path() -> str:
    """A new path for a temporary file."""
    return f"{LOG}/.{uuid.uuid4().hex}.tmp"


def subscriber_path(channel: int, name: str) -> str:
    """The path of the file with a subscriber's position."""
    return f"{SUBSCRIBERS}/{channel}-{_name_digest(name)}.json"


def missing_path(channel: int, name: str) -> str:
    """The path of the note that a subscriber is missing."""
    return f"{SUBSCRIBERS}/{channel}-{_name_digest(name)}.missing"


def _name_digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def is_subscriber_named(path: str, name: str) -> bool:
    """Whether a subscriber's file is that of a given name, on any channel."""
    return path.endswith(f"-{_name_digest(name)}.json")


def name_to_commit(name: str) -> int | None:
    """The version of a commit's file; None for any other file."""
    found = _COMMIT.fullmatch(name)
    return None if found is None else int(found[1])


def name_to_checkpoint(name: str) -> int | None:
    """The version of a checkpoint; None for any other file."""
    found = _CHECKPOINT.fullmatch(name)
    return None if found is None else int(found[1])


def name_to_fold(name: str) -> tuple[int, int] | None:
    """The first and the last version in a fold; None for any other file."""
    found = _FOLD.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))


def name_to_channel(name: str) -> int | None:
    """The ID of the channel of a subscriber's file; None for any other file."""
    found = _SUBSCRIBER.fullmatch(name)
    return None if found is None else int(found[1])


def name_of(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def is_checkpoint_path(path: str) -> bool:
    """Whether a path is that of a checkpoint."""
    return _in_folder(path, LOG) and name_to_checkpoint(name_of(path)) is not None


def is_data_path(path: str) -> bool:
    """Whether a path is that of a data file."""
    return _in_folder(path, DATA) and _DATA.fullmatch(name_of(path)) is not None


def is_groups_path(path: str) -> bool:
    """Whether a path is that of the groups of a commit."""
    return _kind_beside(path) == "groups"


def is_numbers_path(path: str) -> bool:
    """Whether a path is that of the numbers of single events."""
    return _kind_beside(path) == "numbers"


def is_states_path(path: str) -> bool:
    """Whether a path is that of the states of derivations."""
    return _kind_beside(path) == "states"


def is_named_by_commits(path: str) -> bool:
    """Whether a file belongs to the space only if a commit names it: data, groups, numbers and states."""
    return is_data_path(path) or _kind_beside(path) is not None


def _kind_beside(path: str) -> str | None:
    found = _BESIDE.fullmatch(name_of(path)) if _in_folder(path, LOG) else None
    return None if found is None else found[1]


def _in_folder(path: str, folder: str) -> bool:
    return path.rpartition("/")[0] == folder


def is_own(folder: str, name: str) -> bool:
    """Whether a name in one of the FOLDERS is one that programs of a space give."""
    return any(pattern.fullmatch(name) for pattern in _OWN[folder])


def is_temporary(name: str) -> bool:
    """Whether a name is that of a file being written."""
    return name.startswith(".")
