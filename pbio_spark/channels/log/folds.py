"""Old commits in folds: one file holds many, so that the listing of a log stays short (decision 10).

A fold is a line of JSON with the length of each commit, then the commits as they were written. Folds have fixed
boundaries, a hundred or ten thousand commits, so every program makes the same ones. The commits' own files, and folds
of a hundred, are removed once a fold that contains them is on the disk: a reader that does not find a commit's own file
looks for the smaller fold, then for the larger one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from threading import RLock

from pbio_spark.channels.commits.chain import digest_of
from pbio_spark.channels.commits.checked import a_digest, a_list, a_number, bad, parse
from pbio_spark.channels.commits.commit import VERSION
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.layout import fold_path
from pbio_spark.errors import PbioError

SIZES = (100, 10_000)
"""The numbers of commits in folds: the smaller folds are removed when the larger one exists."""

LONGEST_FOLD = 64 << 20
"""The most bytes that a fold may have: it is read as a whole."""

_LONGEST_HEAD = 1 << 20
_REMEMBERED = 2


@dataclass(frozen=True, slots=True)
class Fold:
    """Consecutive commits, as they were written.

    Attributes:
        first: the version.
        written: the commits, in order.
    """

    first: int
    written: Sequence[bytes]

    @property
    def last(self) -> int:
        return self.first + len(self.written) - 1

    def __getitem__(self, version: int) -> bytes:
        return self.written[version - self.first]

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def check(self) -> None:
        """Raise PBIO_BAD_LOG if one of the commits was not made on the one before it."""
        digest = None
        for version, text in enumerate(self.written, self.first):
            prior = prior_of(text, version)
            if None not in (digest, prior) and digest != prior:
                bad(f"commit {version} was not made on the commit {version - 1} before it")
            digest = digest_of(text)


def prior_of(text: bytes, version: int) -> str | None:
    """The digest of the previous commit, as stated in a written one; None in format version 1.

    Raises PBIO_BAD_LOG.
    """
    # The usual form first; any other JSON is also valid.
    for form in (VERSION, 2):
        front = b'{"version":%d,"number":%d,"prior":"' % (form, version)
        if text.startswith(front) and text[len(front) + 64 : len(front) + 66] == b'",':
            return a_digest(text[len(front) : len(front) + 64].decode("latin-1"))
    made = parse(text)
    if a_number(made.get("version", 1)) == 1:
        return None
    if a_number(made.get("number")) != version:
        bad(f"found commit {made['number']} in the place of commit {version}")
    return a_digest(made.get("prior"), is_first=version == 1)


def fold_to_bytes(fold: Fold) -> bytes:
    """The bytes of a fold's file."""
    head = {"version": 1, "first": fold.first, "lengths": [len(text) for text in fold.written]}
    return b"".join([json.dumps(head, separators=(",", ":")).encode(), b"\n", *fold.written])


def bytes_to_fold(data: bytes, first: int, count: int) -> Fold:
    """The fold in a file, which must have `count` commits from version `first` on. Raises PBIO_BAD_LOG."""
    end = data.find(b"\n", 0, _LONGEST_HEAD)
    if end < 0:
        bad("not a fold, or incomplete")
    head = parse(data[:end])
    if a_number(head.get("version")) != 1:
        bad(
            f"the fold has format version {head['version']}, but this program reads version 1: a newer program wrote it"
        )
    if a_number(head.get("first")) != first:
        bad(f"the fold starts with commit {head['first']} instead of {first}")
    lengths = [a_number(length, most=len(data)) for length in a_list(head.get("lengths"), count)]
    if end + 1 + sum(lengths) != len(data):
        bad("the fold does not have the length that it states")
    places = accumulate(lengths, initial=end + 1)
    fold = Fold(first, [data[begin:stop] for begin, stop in pairwise(places)])
    fold.check()
    return fold


def firsts(last: int, size: int) -> Iterator[int]:
    """The first versions of the folds of a size that are complete if `last` is the last commit."""
    return iter(range(1, last - size + 2, size))


class Folds:
    """The folds of a log. Threads may share it; one of them reads a fold, and the others wait for it."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = RLock()
        self._known: list[Fold] = []

    def find(self, version: int) -> Fold | None:
        """The fold that has a commit; None if there is none. Raises PBIO_BAD_LOG if it is damaged."""
        with self._lock:
            known = next((fold for fold in self._known if version in fold), None)
            for size in SIZES if known is None else ():
                known = known or self.read((version - 1) // size * size + 1, size)
            if known is not None:
                self._known = [known, *(fold for fold in self._known if fold is not known)][:_REMEMBERED]
            return known

    def read(self, first: int, size: int) -> Fold | None:
        """The fold of `size` commits from version `first` on, read afresh."""
        name = fold_path(first, size)
        data = self._folder.read(name, LONGEST_FOLD)
        if data is None:
            return None
        try:
            if len(data) > LONGEST_FOLD:
                bad(f"more than {LONGEST_FOLD} bytes")
            return bytes_to_fold(data, first, size)
        except PbioError as error:
            raise error.at(file=self._folder.path(name)) from None
