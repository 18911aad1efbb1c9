"""Old commits in blocks: one file has the texts of many, so that the listing of a log stays short (decision 10).

A fold is a line of JSON that says how long each text is, then the texts as they were. It always has the same commits, a
hundred or ten thousand, so everyone who makes it makes the same. The commits' own files, and folds of a hundred, go
when a fold that has them is on the disk: whoever does not find a commit's own file looks for the smaller fold, then for
the larger one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from threading import RLock

from pbio_spark.channels.commits.chain import digest_of
from pbio_spark.channels.commits.checked import a_digest, a_list, a_number, bad, parse
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.layout import fold_path
from pbio_spark.errors import PbioError

SIZES = (100, 10_000)
"""How many commits a fold has, by turns: the smaller ones go when the larger one is there."""

LONGEST_FOLD = 64 << 20
"""Bytes that a fold may have: it is read as a whole."""

_LONGEST_HEAD = 1 << 20
_REMEMBERED = 2


@dataclass(frozen=True, slots=True)
class Fold:
    """The texts of the commits from one version on.

    Attributes:
        first: the version.
        texts: of the commits, in order.
    """

    first: int
    texts: Sequence[bytes]

    @property
    def last(self) -> int:
        return self.first + len(self.texts) - 1

    def __getitem__(self, version: int) -> bytes:
        return self.texts[version - self.first]

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def check(self) -> None:
        """Raise PBIO_BAD_LOG if one of the commits was not made on the one before it."""
        digest = None
        for version, text in enumerate(self.texts, self.first):
            prior = prior_of(text, version)
            if None not in (digest, prior) and digest != prior:
                bad(f"the commit {version} was not made on the commit {version - 1} that is there")
            digest = digest_of(text)


def prior_of(text: bytes, version: int) -> str | None:
    """The digest of the commit before the one of a text, as this one has it; None if it is of a form that has none.

    Raises PBIO_BAD_LOG.
    """
    # As it is written; anybody may have written it in another way.
    front = b'{"version":2,"number":%d,"prior":"' % version
    if text.startswith(front) and text[len(front) + 64 : len(front) + 66] == b'",':
        return a_digest(text[len(front) : len(front) + 64].decode("latin-1"))
    made = parse(text)
    if a_number(made.get("version", 1)) == 1:
        return None
    if a_number(made.get("number")) != version:
        bad(f"it is the commit {made['number']}, and stands in the place of {version}")
    return a_digest(made.get("prior"), is_first=version == 1)


def fold_to_bytes(fold: Fold) -> bytes:
    """A fold as a file has it."""
    head = {"version": 1, "first": fold.first, "lengths": [len(text) for text in fold.texts]}
    return b"".join([json.dumps(head, separators=(",", ":")).encode(), b"\n", *fold.texts])


def bytes_to_fold(data: bytes, first: int, count: int) -> Fold:
    """The fold of a file that should have so many commits from a version on. Raises PBIO_BAD_LOG."""
    end = data.find(b"\n", 0, _LONGEST_HEAD)
    if end < 0:
        bad("it is no fold, or only a part of it")
    head = parse(data[:end])
    if a_number(head.get("version")) != 1:
        bad(f"the fold is of form {head['version']}, and this program knows the first one: a newer one wrote it")
    if a_number(head.get("first")) != first:
        bad(f"the commits from {head['first']} on stand in the place of those from {first} on")
    lengths = [a_number(length, most=len(data)) for length in a_list(head.get("lengths"), count)]
    if end + 1 + sum(lengths) != len(data):
        bad("the fold has not the bytes that it says")
    places = accumulate(lengths, initial=end + 1)
    fold = Fold(first, [data[begin:stop] for begin, stop in pairwise(places)])
    fold.check()
    return fold


def firsts(last: int, size: int) -> Iterator[int]:
    """The first versions of the folds of a size whose commits are all there, if `last` is the last one."""
    return iter(range(1, last - size + 2, size))


class Folds:
    """The folds of a log. Threads may share it; one of them reads a fold, and the others wait for it."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = RLock()
        self._known: list[Fold] = []

    def find(self, version: int) -> Fold | None:
        """The fold that has a commit; None if there is none. Raises PBIO_BAD_LOG if it is not as it should be."""
        with self._lock:
            known = next((fold for fold in self._known if version in fold), None)
            for size in SIZES if known is None else ():
                known = known or self.read((version - 1) // size * size + 1, size)
            if known is not None:
                self._known = [known, *(fold for fold in self._known if fold is not known)][:_REMEMBERED]
            return known

    def read(self, first: int, size: int) -> Fold | None:
        """The fold of so many commits from a version on, as it is now."""
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
