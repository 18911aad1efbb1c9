"""Each commit names its predecessor by its digest, so that a replaced commit is noticed."""

from __future__ import annotations

import hashlib

from pbio_spark.channels.commits.checked import bad

_KEPT = 4096
"""How many digests are remembered: a reader needs the last one to continue."""


def digest_of(entry: bytes) -> str:
    """The digest by which the next commit refers to this one."""
    return hashlib.sha256(entry).hexdigest()


class Chain:
    """The digests of recently read commits, computed and as named by their successors.

    Threads may share one.
    """

    def __init__(self) -> None:
        self._digests: dict[int, str] = {}

    def join(self, version: int, digest: str, prior: str | None) -> None:
        """Take note of a commit that was read.

        Args:
            prior: the digest of the predecessor, as this commit names it; None for old commits, which do not.

        Raises PBIO_BAD_LOG, with nothing noted, if it contradicts commits read before, in any order.
        """
        if self._digests.get(version, digest) != digest:
            bad(f"commit {version} is not the one that commit {version + 1} was made on, or that was here before")
        if prior is not None and self._digests.get(version - 1, prior) != prior:
            bad(f"commit {version} was not made on the commit {version - 1} that is here: one of them was replaced")
        self._note(version, digest)
        if prior is not None:
            self._note(version - 1, prior)

    def _note(self, version: int, digest: str) -> None:
        self._digests.pop(version, None)
        self._digests[version] = digest
        while len(self._digests) > _KEPT:
            self._digests.pop(next(iter(self._digests)), None)
