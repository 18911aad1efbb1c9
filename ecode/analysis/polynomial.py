"""Polynomials with integer coefficients in named sizes: what a program costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of products of names, e.g. `3 + 5 input.n`. `terms` maps sorted names to coefficients, none of them 0.

    >>> n = Polynomial.named("n")
    >>> cost = Polynomial.of(3) + Polynomial.of(5) * n * n
    >>> print(cost)
    3 + 5 n^2
    >>> cost.at({"n": 10}), cost.degree
    (503, 2)
    """

    terms: Mapping[tuple[str, ...], int]

    @classmethod
    def of(cls, constant: int) -> Polynomial:
        return cls({(): constant} if constant else {})

    @classmethod
    def named(cls, name: str) -> Polynomial:
        return cls({(name,): 1})

    @property
    def degree(self) -> int:
        return max(map(len, self.terms), default=0)

    def at(self, sizes: Mapping[str, int]) -> int:
        """The value for given sizes; KeyError for an unknown name."""
        total = 0
        for names, coefficient in self.terms.items():
            for name in names:
                coefficient *= sizes[name]
            total += coefficient
        return total

    def bounded(self) -> Polynomial:
        """An upper bound for sizes that are not negative: drops the negative terms."""
        return Polynomial({names: c for names, c in self.terms.items() if c > 0})

    def most(self, other: Polynomial) -> Polynomial:
        """An upper bound of both, for sizes that are not negative."""
        keys = self.terms.keys() | other.terms.keys()
        return Polynomial({key: max(self.terms.get(key, 0), other.terms.get(key, 0)) for key in keys}).bounded()

    def __add__(self, other: Polynomial) -> Polynomial:
        return _collected([*self.terms.items(), *other.terms.items()])

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * Polynomial.of(-1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        return _collected(
            [(tuple(sorted(a + b)), x * y) for a, x in self.terms.items() for b, y in other.terms.items()]
        )

    def __str__(self) -> str:
        parts = []
        for names, coefficient in sorted(self.terms.items(), key=lambda term: (len(term[0]), term[0])):
            powers = [name + (f"^{names.count(name)}" if names.count(name) > 1 else "") for name in sorted(set(names))]
            number = [str(coefficient)] if coefficient != 1 or not names else []
            parts.append(" ".join(number + powers))
        return " + ".join(parts) or "0"


def _collected(terms: list[tuple[tuple[str, ...], int]]) -> Polynomial:
    total: dict[tuple[str, ...], int] = {}
    for names, coefficient in terms:
        total[names] = total.get(names, 0) + coefficient
    return Polynomial({names: c for names, c in total.items() if c})
