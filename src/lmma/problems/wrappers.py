"""Problems made from problems: the optimum moved, or the coordinates mixed.

A wrapped problem is a `Problem` again: it can be wrapped once more, and sent to other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import index

import numpy as np
from numpy.typing import ArrayLike

from lmma.problems.base import Array, Problem, as_rows, in_blocks
from lmma.problems.rotations import Kind, Rotation, draw

# Problems by name must be the same everywhere and always: `rotated-` and `shifted-` draw from
# np.random.default_rng([seed, n]) with these seeds. Changing them changes published results.
ROTATION_SEED = 1
SHIFT_SEED = 2

# Offsets of `shifted-` problems are uniform in this box, so that every optimum, Rosenbrock's ones
# included, lies well inside the customary start in [-5, 5]^n.
SHIFT_RANGE = 2.5


@dataclass(frozen=True, eq=False)
class _Shifted:
    """f(x - offset), where `offset` maps n to the offset."""

    problem: Problem
    offset: Callable[[int], Array]

    def __call__(self, X: ArrayLike) -> Array:
        rows = as_rows(X)
        offset = self.offset(rows.shape[1]).astype(rows.dtype, copy=False)
        return in_blocks(lambda block: self.problem.function(block - offset), rows)

    def x_opt(self, n: int) -> Array:
        return self.problem.x_opt(n) + self.offset(n)


@dataclass(frozen=True, eq=False)
class _Rotated:
    """f(R x), where `rotation` maps n to R."""

    problem: Problem
    rotation: Callable[[int], Rotation]

    def __call__(self, X: ArrayLike) -> Array:
        rows = as_rows(X)
        rotation = self.rotation(rows.shape[1])
        return in_blocks(lambda block: self.problem.function(rotation.apply(block)), rows, rotation.block)

    def x_opt(self, n: int) -> Array:
        return self.rotation(n).inverse(self.problem.x_opt(n))


@dataclass(frozen=True, eq=False)
class _FixedOffset:
    """An offset the caller gave: one number for every n, or a vector for one n."""

    offset: Array

    def __call__(self, n: int) -> Array:
        if self.offset.ndim == 1 and self.offset.size != n:
            raise ValueError(
                f"this problem was shifted by an offset of {self.offset.size} numbers but is used "
                f"with n = {n}; shift it again for that n, or by a single number"
            )
        return np.broadcast_to(self.offset, (n,))


@dataclass(frozen=True, eq=False)
class _FixedRotation:
    """A rotation drawn for one n."""

    rotation: Rotation

    def __call__(self, n: int) -> Rotation:
        if self.rotation.n != n:
            raise ValueError(
                f"this problem was rotated for n = {self.rotation.n} but is used with n = {n}; "
                "rotate it again for that n, or take it by name: get('rotated-...') serves every n"
            )
        return self.rotation


@lru_cache(4)  # matrices of up to 200 MB each; all `rotated-` problems of one n share one
def _named_rotation(n: int) -> Rotation:
    return draw(n, np.random.default_rng([ROTATION_SEED, n]))


@lru_cache(16)
def _named_offset(n: int) -> Array:
    offset = np.random.default_rng([SHIFT_SEED, n]).uniform(-SHIFT_RANGE, SHIFT_RANGE, n)
    offset.flags.writeable = False
    return offset


def _wrap(problem: Problem, prefix: str, wrapper: _Shifted | _Rotated) -> Problem:
    return replace(
        problem,
        name=f"{prefix}-{problem.name}",
        function=wrapper,
        x_opt=wrapper.x_opt,
        doc=f"{problem.doc} ({prefix})".lstrip(),
    )


def _checked(problem: Problem) -> Problem:
    if not isinstance(problem, Problem):
        raise TypeError(
            f"problem must be a lmma.problems.Problem, got {problem!r}; lmma.problems.get finds one by name"
        )
    return problem


def shifted(problem: Problem, offset: ArrayLike) -> Problem:
    """Return the problem with everything, its optimum included, moved by `offset`.

    Parameters
    ----------
    problem : Problem
        What to shift; the result is f(x - offset).
    offset : float or array_like of shape (n,)
        A number serves every n; a vector fixes n.

    Returns
    -------
    Problem
        Named `shifted-<name>`.
    """
    vector = np.array(offset, dtype=np.float64)
    if vector.ndim > 1 or vector.size == 0:
        raise ValueError(f"offset must be a number or have shape (n,), got shape {vector.shape}")
    if not np.all(np.isfinite(vector)):
        raise ValueError(f"offset must be finite, got {offset!r}")
    vector.flags.writeable = False
    return _wrap(_checked(problem), "shifted", _Shifted(problem, _FixedOffset(vector)))


def rotated(
    problem: Problem,
    n: int,
    rng: np.random.Generator | int | None = None,
    kind: Kind = "auto",
) -> Problem:
    """Return the problem in n dimensions with its coordinates mixed by a random orthogonal map R.

    Parameters
    ----------
    problem : Problem
        What to rotate; the result is f(R x), and its optimum R^T x_opt.
    n : int
        The dimension. The result refuses any other.
    rng : numpy.random.Generator, int or None
        Where R is drawn from: a generator, a seed, or None for a different R every time.
    kind : {"auto", "haar", "reflections", "axis"}
        "haar" draws R uniformly from all orthogonal matrices and stores n x n numbers;
        "reflections" multiplies six layers of small Householder reflections, which costs O(n) in
        time and memory. "auto" takes the matrix up to 200 MB (n = 5000). "axis" is one reflection, which
        takes the first axis in a random direction: the same as "haar" for functions in which that
        coordinate alone differs from the others, cigar and discus, at a fraction of the cost; nearly nothing
        for others.

    Returns
    -------
    Problem
        Named `rotated-<name>`.

    Notes
    -----
    With "haar", values may differ in the last bits between batches of different sizes, and R
    between builds of LAPACK, because matrix products are summed in different orders.
    """
    _checked(problem)
    try:
        n = index(n)
    except TypeError:
        raise TypeError(f"n must be an integer, got {n!r}") from None
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    rotation = draw(n, np.random.default_rng(rng), kind)
    return _wrap(problem, "rotated", _Rotated(problem, _FixedRotation(rotation)))


# What may stand before a problem's name, and what it does there. Unlike `rotated` and `shifted`,
# these serve every n: the map is drawn from its fixed seed when n is first seen.
BY_PREFIX: dict[str, Callable[[Problem], Problem]] = {
    "rotated": lambda problem: _wrap(problem, "rotated", _Rotated(problem, _named_rotation)),
    "shifted": lambda problem: _wrap(problem, "shifted", _Shifted(problem, _named_offset)),
}
