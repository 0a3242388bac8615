"""Named sets of problems with the protocol they are run under."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lmma.problems import registry
from lmma.problems.base import Array, Problem

_TABLE_1 = ("sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers")


@dataclass(frozen=True)
class Suite:
    """Problems and how to run them; iterating gives the problems.

    Each run starts at `start(problem, n, rng)` with step size `problem.sigma0` and is over when a
    value at or below `target` is found.

    Parameters
    ----------
    name : str
        What `get` calls it.
    problems : tuple of Problem
        The problems in their customary order.
    target : float
        The value to be reached.
    doc : str
        One line about the suite.
    """

    name: str
    problems: tuple[Problem, ...]
    target: float
    doc: str = ""

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def __len__(self) -> int:
        return len(self.problems)

    def start(self, problem: Problem, n: int, rng: np.random.Generator | int | None = None) -> Array:
        """Return a point drawn uniformly from the problem's box [lower, upper]^n."""
        return start(problem, n, rng)


def start(problem: Problem, n: int, rng: np.random.Generator | int | None = None) -> Array:
    """Return a point drawn uniformly from the problem's box [lower, upper]^n."""
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n!r}")
    return np.random.default_rng(rng).uniform(problem.lower, problem.upper, n)


_SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "paper",
            tuple(registry.get(name) for name in _TABLE_1),
            target=1e-10,
            doc="Table 1: six functions, start uniform in [-5, 5]^n, sigma0 = 3, target 1e-10",
        ),
        Suite(
            "paper-rotated",
            tuple(registry.get(f"rotated-{name}") for name in _TABLE_1),
            target=1e-10,
            doc="the suite paper, its coordinates mixed by one random rotation for each n",
        ),
    )
}


def names() -> list[str]:
    """Return the names that `get` knows."""
    return list(_SUITES)


def get(name: str) -> Suite:
    """Return the suite of that name."""
    if name not in _SUITES:
        from difflib import get_close_matches

        close = get_close_matches(str(name), list(_SUITES), n=1)
        remedy = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"unknown suite {name!r}; {remedy}The names are {', '.join(_SUITES)}")
    return _SUITES[name]
