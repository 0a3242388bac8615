"""Lookup of built-in problems by name, with the prefixes rotated- and shifted-."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from lmma._text import nearest
from lmma.problems import functions
from lmma.problems.base import Array, Problem, origin
from lmma.problems.wrappers import BY_PREFIX


def _plain(function: Callable[[Array], Array], doc: str, x_opt: Callable[[int], Array] = origin) -> Problem:
    return Problem(function.__name__.replace("_", "-"), function, x_opt=x_opt, doc=doc)


_PLAIN = {
    problem.name: problem
    for problem in (
        _plain(functions.sphere, "sum of squares, the easiest problem"),
        _plain(functions.ellipsoid, "squares weighted from 1 to 10^6: every axis has a different scale"),
        _plain(functions.rosenbrock, "a long curved valley, with a local optimum for n >= 4", functions.ones),
        _plain(functions.discus, "squares, one of them weighted 10^6: one short axis"),
        _plain(functions.cigar, "squares, all but one weighted 10^6: one long axis"),
        _plain(
            functions.different_powers,
            "powers from 2 to 6: the scales diverge near the optimum",
        ),
        _plain(functions.rastrigin, "a sphere with waves: about 10^n local optima; a test of restarts"),
    )
}


def names(*, wrapped: bool = False) -> list[str]:
    """Return the names accepted by `get`; if `wrapped`, include names with one prefix."""
    plain = list(_PLAIN)
    if not wrapped:
        return plain
    return plain + [f"{prefix}-{name}" for prefix in BY_PREFIX for name in plain]


def get(name: str) -> Problem:
    """Return the problem with the given name.

    Parameters
    ----------
    name : str
        One of `names()`, optionally with the prefixes `rotated-` and `shifted-`, the outermost first:
        `shifted-rotated-cigar` is the shifted rotated cigar.

    Returns
    -------
    Problem
        A problem for any n. The rotation or offset of a prefix is drawn from a fixed seed for each n, so it
        is the same in every process; use `rotated` and `shifted` for others.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string such as 'sphere', got {name!r}")
    return _get(name)


@lru_cache(64)  # the same name returns the same object
def _get(name: str) -> Problem:
    prefixes, rest = [], name
    while rest not in _PLAIN:
        prefix, _, rest = rest.partition("-")
        if prefix not in BY_PREFIX:
            raise ValueError(_unknown(name))
        prefixes.append(prefix)
    problem = _PLAIN[rest]
    for prefix in reversed(prefixes):
        problem = BY_PREFIX[prefix](problem)
    return problem


def _unknown(name: str) -> str:
    return (
        f"unknown problem {name!r}{nearest(name, names(wrapped=True))}; "
        f"valid names are {', '.join(_PLAIN)}, each optionally prefixed by {'- or '.join(BY_PREFIX)}-"
    )
