"""The offsets of a stream of BP5 folders: for each folder, how many steps are read and the index up to there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pbio_spark.errors import PbioError


@dataclass(frozen=True, slots=True)
class FolderProgress:
    """How far a folder has been read.

    Attributes:
        steps: the number of steps read.
        index: the bytes of md.idx for these steps, its header included.
        digest: of the bytes after the header, which itself changes while a writer is active.
    """

    steps: int
    index: int = 64
    digest: str = ""


Progress: TypeAlias = Mapping[str, FolderProgress]


def digest_of(index: bytes) -> str:
    return hashlib.blake2b(index[64:], digest_size=8).hexdigest()


def progress_to_json(progress: Progress) -> dict[str, Any]:
    return {
        "folders": {
            path: {"steps": place.steps, "index": place.index, "digest": place.digest}
            for path, place in sorted(progress.items())
        }
    }


def json_to_progress(said: Mapping[str, Any]) -> dict[str, FolderProgress]:
    """The progress in an offset. Raises PBIO_BAD_OFFSET for an offset of another source."""
    try:
        return {
            str(path): FolderProgress(int(place["steps"]), int(place["index"]), str(place["digest"]))
            for path, place in said["folders"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise PbioError(
            "PBIO_BAD_OFFSET",
            f"not an offset of BP5 folders: {str(said)[:200]}",
            hint="the checkpoint belongs to another query; start with a new one",
        ) from None
