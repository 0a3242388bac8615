"""Named sets of problems, each with its experimental protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lmma._text import nearest
from lmma.problems import Problem, get as get_problem

_TABLE_1 = ("sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers")


@dataclass(frozen=True)
class Suite:
    """A set of problems and the protocol for running them; iterating yields the problems.

    Each run starts at `problem.start(n, rng)` with step size `problem.sigma0`. It ends when a value at or
    below `target` is found.

    Parameters
    ----------
    name : str
        Name under which `get` finds the suite.
    problems : tuple of Problem
        The problems in their customary order.
    target : float
        Value to reach.
    doc : str
        One-line description.
    """

    name: str
    problems: tuple[Problem, ...]
    target: float
    doc: str = ""

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def __len__(self) -> int:
        return len(self.problems)


_SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "paper",
            tuple(map(get_problem, _TABLE_1)),
            target=1e-10,
            doc="Table 1: six functions, start uniform in [-5, 5]^n, sigma0 = 3, target 1e-10",
        ),
        Suite(
            "paper-rotated",
            tuple(get_problem(f"rotated-{name}") for name in _TABLE_1),
            target=1e-10,
            doc="the suite paper with rotated coordinates, one random rotation per n",
        ),
    )
}


def names() -> list[str]:
    """Return the names that `get` accepts."""
    return list(_SUITES)


def get(name: str) -> Suite:
    """Return the suite called ``name``."""
    if name not in _SUITES:
        hint = nearest(name, _SUITES)
        raise ValueError(f"unknown suite {name!r}{hint}; the names are {', '.join(_SUITES)}")
    return _SUITES[name]
