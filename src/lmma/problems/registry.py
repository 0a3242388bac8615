"""Problems by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from lmma.problems import functions
from lmma.problems.base import Array, Problem, origin
from lmma.problems.wrappers import BY_PREFIX


def _plain(function: Callable[[Array], Array], doc: str, x_opt: Callable[[int], Array] = origin) -> Problem:
    return Problem(function.__name__.replace("_", "-"), function, x_opt=x_opt, doc=doc)


_PLAIN = {
    problem.name: problem
    for problem in (
        _plain(functions.sphere, "the sum of squares, the easiest of all"),
        _plain(functions.ellipsoid, "squares weighted from 1 to 10^6: every axis has a scale of its own"),
        _plain(functions.rosenbrock, "a long bent valley, with a local optimum for n >= 4", functions.ones),
        _plain(functions.discus, "squares, one of them weighted 10^6: one short axis"),
        _plain(functions.cigar, "squares, all but one weighted 10^6: one long axis"),
        _plain(
            functions.different_powers,
            "powers from 2 to 6: the scales drift apart as the optimum comes near",
        ),
        _plain(functions.rastrigin, "a sphere under waves: about 10^n local optima, for restarts"),
    )
}


def names(*, wrapped: bool = False) -> list[str]:
    """Return the names that `get` knows; with `wrapped`, also those with one prefix before them."""
    plain = list(_PLAIN)
    if not wrapped:
        return plain
    return plain + [f"{prefix}-{name}" for prefix in BY_PREFIX for name in plain]


def get(name: str) -> Problem:
    """Return the problem of that name.

    Parameters
    ----------
    name : str
        One of `names()`, with any of the prefixes `rotated-` and `shifted-` before it, the
        outermost first: `shifted-rotated-cigar` is the shifted rotated cigar.

    Returns
    -------
    Problem
        It serves every n. The rotation or offset of a prefix is drawn from a fixed seed when n is
        first seen, and so is the same in every process; `rotated` and `shifted` make others.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string such as 'sphere', got {name!r}")
    return _get(name)


@lru_cache(64)  # so that one name always is one object
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
    from difflib import get_close_matches  # only mistakes need it

    close = get_close_matches(name, names(wrapped=True), n=1)
    remedy = f"did you mean {close[0]!r}? " if close else ""
    return (
        f"unknown problem {name!r}; {remedy}"
        f"The names are {', '.join(_PLAIN)}, each also with {' or '.join(BY_PREFIX)}- before it"
    )
