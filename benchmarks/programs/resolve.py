"""Resolving: 1,000 versions of a format against 100 wanted types, beside Algorithm 1 as the paper prints it."""

from __future__ import annotations

import random
from collections.abc import Iterator

from benchmarks import Row, side_by_side
from ecode.types import FLOAT64, INT32, Field, Record, record
from morph import Resolver, TransformGraph, weight
from tests.morph.paper import by_the_paper


def version(number: int) -> Record:
    """About 30 fields that all versions share, one more every 40 versions, three of them left out, a few floats."""
    chance = random.Random(number)
    names = [f"field{i}" for i in range(30)] + [f"added{i}" for i in range(number // 40)]
    for name in chance.sample(names, 3):
        names.remove(name)
    return record("reading", [Field(name, FLOAT64 if chance.random() < 0.05 else INT32) for name in names])


def rows() -> Iterator[Row]:
    versions = {f"{number:04}": version(number) for number in range(1000)}
    wanted = {f"w{number:03}": version(10 * number + 5) for number in range(100)}

    def ours() -> None:
        resolver = Resolver(wanted, TransformGraph(versions))
        for key in versions:
            resolver.resolve(key)

    def theirs() -> None:
        """A hundredth of the work."""
        for incoming in list(versions.values())[::100]:
            for want in wanted.values():
                by_the_paper(incoming, incoming.name, want, want.name, is_source=True)
                by_the_paper(want, want.name, incoming, incoming.name, is_source=False)
                weight(want)

    fast, slow = side_by_side(ours, theirs, repeats=3)
    yield Row("1,000 x 100 types", "every field by itself", fast, 100 * slow)
