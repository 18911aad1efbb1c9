"""A fold -> where the events of its commits are, as columns over all commits.

With it, a subscriber that reads a channel's old events need not examine each commit.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbio_spark.channels.commits.checked import LARGEST, LATEST, a_format, a_path, a_text
from pbio_spark.channels.commits.groups import ABSENT, ROW, Group, Int64s, row_to_group
from pbio_spark.channels.commits.groups_from_json import check_rows
from pbio_spark.channels.log.folds import Fold
from pbio_spark.errors import PbioError

_COLUMNS = ("channel", "file", "start", "end", "ordinal", "count", "format")
_PLAIN = {"control", "files", "groups", "transaction", "refused", "source", "made", "suspended", "states"}
"""The most that a commit may have to be read together with others; a larger one is read alone."""
_PLAIN_GROUPS = {*_COLUMNS, *ABSENT, "formats", "producers"}


class Placed(NamedTuple):
    """Events of one group.

    Attributes:
        group: the group.
        version: of its commit.
        published: when it was published, in microseconds since 1970 UTC.
        path: of the data file, as the commit names it.
    """

    group: Group
    version: int
    published: int
    path: str


@dataclass(frozen=True, slots=True)
class FoldBlock:
    """The events of the commits of a fold.

    Attributes:
        first, last: their versions.
        rows: the groups, in order; formats, producers and files by their numbers in the lists.
        versions, times: of the groups' commits.
        first_files: the number of the first file of each group's commit.
        formats, producers, paths: of all commits, concatenated.
        alone: the versions of commits that must be read one by one, ascending.
    """

    first: int
    last: int
    rows: npt.NDArray[np.void]
    versions: Int64s
    times: Int64s
    first_files: Int64s
    formats: Sequence[str]
    producers: Sequence[str]
    paths: Sequence[str]
    alone: Sequence[int] = field(default=())

    def walk(self, channels: Collection[int], start: int, end: int | None = None) -> Iterator[Placed | int]:
        """The groups of some channels in commits from one version to before another, in order.

        Commits that must be read one by one are yielded as their versions.
        """
        end = self.last + 1 if end is None else end
        chosen = (self.versions >= start) & (self.versions < end)
        chosen &= np.isin(self.rows["channel"], np.fromiter(channels, np.int64))
        at = np.flatnonzero(chosen)
        alone = iter([version for version in self.alone if start <= version < end])
        next_alone = next(alone, None)
        columns = (
            self.rows[at].tolist(),
            self.versions[at].tolist(),
            self.times[at].tolist(),
            self.first_files[at].tolist(),
        )
        for row, version, published, first_file in zip(*columns, strict=True):
            while next_alone is not None and next_alone < version:
                yield next_alone
                next_alone = next(alone, None)
            group = row_to_group(row, self.formats, self.producers, first_file)
            yield Placed(group, version, published, self.paths[group.file + first_file])
        while next_alone is not None:
            yield next_alone
            next_alone = next(alone, None)


def fold_to_block(fold: Fold, space: str) -> FoldBlock | None:
    """The block of a fold; None if something in it is wrong, which reading the commits one by one will report."""
    try:
        return _Maker(space).make(fold)
    except (PbioError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


class _Maker:
    def __init__(self, space: str) -> None:
        self._space = space
        self._columns: dict[str, list[Any]] = {name: [] for name in (*_COLUMNS, *ABSENT)}
        self._counts: list[int] = []
        """The number of groups of each commit that is read together with others."""
        self._versions: list[int] = []
        self._times: list[int] = []
        self._formats: list[str] = []
        self._producers: list[str] = []
        self._paths: list[str] = []
        self._sizes: list[int] = []
        self._bases: list[tuple[int, int, int]] = []
        """How many formats, producers and files there were before each commit's."""
        self._limits: list[tuple[int, int, int]] = []
        """How many there are with each commit's."""
        self._alone: list[int] = []

    def make(self, fold: Fold) -> FoldBlock:
        for version, text in enumerate(fold.written, fold.first):
            made = json.loads(text)
            if made["space"] != self._space:
                raise ValueError(version)
            data = made.get("data")
            if data is None:
                # A reader of events needs only these of the other commits.
                if not made.keys().isdisjoint({"create", "drop"}):
                    self._alone.append(version)
            elif data.keys() <= _PLAIN and data["groups"].keys() <= _PLAIN_GROUPS:
                self._add(version, made["time"], data)
            else:
                self._alone.append(version)
        return self._block(fold)

    def _add(self, version: int, time: int, data: dict[str, Any]) -> None:
        groups = data["groups"]
        count = len(groups["count"])
        for name in _COLUMNS:
            self._take(name, groups[name], count)
        for name, absent in ABSENT.items():
            said = groups.get(name)
            values = [absent] * count if said is None else [absent if value is None else value for value in said]
            self._take(name, values, count)
        self._counts.append(count)
        self._versions.append(version)
        self._times.append(time)
        self._bases.append((len(self._formats), len(self._producers), len(self._paths)))
        self._formats += map(a_format, groups["formats"])
        self._producers += map(a_text, groups.get("producers", ()))
        for path, size in data["files"]:
            self._paths.append(a_path(path))
            self._sizes.append(size)
        self._limits.append((len(self._formats), len(self._producers), len(self._paths)))

    def _take(self, name: str, values: list[Any], count: int) -> None:
        if type(values) is not list or len(values) != count:
            raise ValueError(name)
        self._columns[name] += values

    def _block(self, fold: Fold) -> FoldBlock:
        rows = np.empty(sum(self._counts), ROW)
        for name, values in self._columns.items():
            rows[name] = _whole(values)
        if any((rows[name] < 0).any() for name in _COLUMNS) or any(
            (rows[name] < least).any() for name, least in ABSENT.items()
        ):
            raise ValueError
        times, sizes = _whole(self._times), _whole(self._sizes)
        if (times < 0).any() or (times > LATEST).any() or (sizes < 0).any() or (sizes > LARGEST).any():
            raise ValueError
        bases = np.repeat(np.array(self._bases, np.int64).reshape(-1, 3), self._counts, axis=0)
        limits = np.repeat(np.array(self._limits, np.int64).reshape(-1, 3), self._counts, axis=0)
        for place, name in enumerate(("format", "producer", "file")):
            is_named = rows[name] != ABSENT.get(name, -1)
            rows[name] += np.where(is_named, bases[:, place], 0)
            if (is_named & (rows[name] >= limits[:, place])).any():
                raise ValueError(name)
        versions = np.repeat(np.array(self._versions, np.int64), self._counts)
        if len(rows):
            check_rows(rows, self._formats, self._producers, sizes, versions)
        return FoldBlock(
            fold.first,
            fold.last,
            rows,
            versions,
            np.repeat(times, self._counts),
            bases[:, 2],
            self._formats,
            self._producers,
            self._paths,
            self._alone,
        )


def _whole(values: list[Any]) -> Int64s:
    """Values, all of which are integers."""
    if not {int}.issuperset(map(type, values)):
        raise ValueError
    return np.array(values, np.int64)
