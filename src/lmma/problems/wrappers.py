"""Wrappers that shift or rotate a problem.

A wrapped problem is a `Problem`, so it can be wrapped again and sent to other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import index
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmma.problems.base import BLOCK, Array, Problem, as_rows, in_blocks

# Named problems must be the same in every process and version: `rotated-` and `shifted-` draw from
# np.random.default_rng([seed, n]) with these seeds. Changing them changes published results.
ROTATION_SEED = 1
SHIFT_SEED = 2

# Offsets of `shifted-` problems are uniform in [-2.5, 2.5]^n, so that every optimum, including
# Rosenbrock's (1 ... 1), lies well inside the customary start in [-5, 5]^n.
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
    """The problem f(R x), where `rotation` returns R for n variables."""

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
    """An offset passed by the caller: a number for any n, or a vector for one n."""

    offset: Array

    def __call__(self, n: int) -> Array:
        if self.offset.ndim == 1 and self.offset.size != n:
            raise ValueError(
                f"problem has an offset of length {self.offset.size} but is used with n = {n}; "
                f"call shifted() with an offset of length {n} or a single number"
            )
        return np.broadcast_to(self.offset, (n,))


@dataclass(frozen=True, eq=False)
class _FixedRotation:
    """A rotation drawn for one n; raises ValueError for any other n."""

    rotation: Rotation

    def __call__(self, n: int) -> Rotation:
        if self.rotation.n != n:
            raise ValueError(
                f"problem was rotated for n = {self.rotation.n} but is used with n = {n}; "
                f"call rotated() with n={n}, or use get('rotated-...'), which accepts any n"
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
            f"problem must be a lmma.problems.Problem, got {problem!r}; lmma.problems.get(name) returns one"
        )
    return problem


def shifted(problem: Problem, offset: ArrayLike) -> Problem:
    """Return the problem translated by `offset`, including its optimum.

    Parameters
    ----------
    problem : Problem
        The problem f to shift; the result is f(x - offset).
    offset : float or array_like of shape (n,)
        A number, valid for any n, or a vector, which fixes n.

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
    """Return the problem in n dimensions, with its coordinates transformed by a random orthogonal map R.

    Parameters
    ----------
    problem : Problem
        The problem f to rotate; the result is f(R x), with its optimum at R^T x_opt.
    n : int
        The dimension. The result raises ValueError for any other.
    rng : numpy.random.Generator, int or None
        The source of R: a generator, a seed, or None for a different R in every call.
    kind : {"auto", "haar", "reflections", "axis"}
        "haar" draws R uniformly from all orthogonal matrices and stores n x n numbers;
        "reflections" multiplies six layers of small Householder reflections, which costs O(n) in time and
        memory. "auto" uses "haar" up to 200 MB (n = 5000), else "reflections". "axis" is one reflection that
        maps the first axis to a random direction. It is equivalent to "haar", at a fraction of the cost, for
        functions in which only the first coordinate differs from the others, such as cigar and discus. It has
        little effect on other functions.

    Returns
    -------
    Problem
        Named `rotated-<name>`.

    Notes
    -----
    With "haar", values may differ in the last bits between batches of different sizes, and R between builds
    of LAPACK, because the order of summation in matrix products differs.
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


# Prefixes of problem names. Unlike `rotated` and `shifted`, these accept any n: the map is drawn from its
# fixed seed when n is first used.
BY_PREFIX: dict[str, Callable[[Problem], Problem]] = {
    "rotated": lambda problem: _wrap(problem, "rotated", _Rotated(problem, _named_rotation)),
    "shifted": lambda problem: _wrap(problem, "shifted", _Shifted(problem, _named_offset)),
}


Kind = Literal["auto", "haar", "reflections", "axis"]

# Bytes of a dense matrix above which `auto` uses reflections: n > 5000.
LARGEST_MATRIX = 200_000_000

# A reflection of b coordinates mixes most evenly at b = 4, where a vector of equal entries gives a matrix of
# entries +-1/2. Six layers couple each coordinate with 4^6 = 4096 others. Share of the squared Hessian off
# its diagonal for ellipsoid / discus at n = 2000: six layers 0.85 / 1.00, a Haar matrix 0.85 / 1.00, but five
# reflections of all n coordinates 0.02 / 0.02 (each contributes about 8/n).
BLOCK_SIZE = 4
LAYERS = 6


class Rotation(Protocol):
    """An orthogonal map R of R^n."""

    n: int
    block: int  # numbers per call at which `apply` is most efficient

    def apply(self, X: Array) -> Array:
        """Return R x for every row x of X, in a new array."""

    def inverse(self, x: Array) -> Array:
        """Return R^T x."""


class Haar:
    """A dense orthogonal matrix, drawn from the uniform (Haar) distribution.

    The Q of the QR decomposition of a Gaussian matrix is uniform if its signs are chosen such that the
    triangular factor has a positive diagonal, which LAPACK does not guarantee.
    """

    block = 1 << 22  # matrix products are efficient with many rows; 32 MB

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.n = n
        q, r = np.linalg.qr(rng.standard_normal((n, n)))
        q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)
        # Q and Q^T have the same distribution; with R = Q^T, rows are multiplied by Q.
        self._transposed = {q.dtype: q}

    def apply(self, X: Array) -> Array:
        """Return R x for every row x of X, in a new array."""
        if X.dtype not in self._transposed:
            self._transposed[X.dtype] = self._transposed[np.dtype(np.float64)].astype(X.dtype)
        rotated: Array = np.matmul(X, self._transposed[X.dtype])
        return rotated

    def inverse(self, x: Array) -> Array:
        """Return R^T x."""
        return self._transposed[np.dtype(np.float64)] @ x


class Reflections:
    """Six layers of small Householder reflections, with a cost of O(n).

    Each layer permutes the coordinates, divides them into blocks of four (of three and four if n is not a
    multiple of four, of two and three at n = 5) and reflects every block along its own random direction. A
    layer is thus a product of n/4 reflections of disjoint coordinates, and the permutations let each layer
    couple coordinates that earlier layers left uncoupled.
    """

    block = BLOCK

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.n = n
        # Coordinate j of block k has index j * count + k: blocks are strided, so that the loops below access
        # contiguous memory. The last slice is shorter if n is not a multiple of four.
        count = -(-n // BLOCK_SIZE)
        self._slices = [slice(first, min(first + count, n)) for first in range(0, n, count)]
        self._layers: list[tuple[NDArray[np.intp], Array]] = []
        for _ in range(LAYERS):
            order = rng.permutation(n)
            # Nearly equal sizes mix evenly; equal ones would only swap the coordinates of a block of two.
            v = rng.uniform(0.7, 1.3, n) * rng.choice([-1.0, 1.0], n)
            lengths = np.zeros(count)
            for part in self._slices:
                lengths[: part.stop - part.start] += v[part] ** 2
            for part in self._slices:
                v[part] *= np.sqrt(2.0 / lengths[: part.stop - part.start])  # I - vv^T, |v|^2 = 2
            self._layers.append((order, v))

    def _reflect(self, X: Array, v: Array) -> None:
        """Reflect every block of every row of X, in place."""
        along = X[:, self._slices[0]] * v[self._slices[0]]
        for part in self._slices[1:]:
            along[:, : part.stop - part.start] += X[:, part] * v[part]
        for part in self._slices:
            X[:, part] -= along[:, : part.stop - part.start] * v[part]

    def apply(self, X: Array) -> Array:
        """Return R x for every row x of X, in a new array."""
        for order, v in self._layers:
            X = np.take(X, order, axis=1)
            self._reflect(X, v.astype(X.dtype, copy=False))
        return X

    def inverse(self, x: Array) -> Array:
        """Return R^T x."""
        X: Array = x[np.newaxis].astype(np.float64)
        for order, v in reversed(self._layers):
            self._reflect(X, v)  # a reflection is its own inverse
            X[:, order] = X.copy()
        return X.reshape(-1)


class Axis:
    """One Householder reflection, which maps the first axis to a random direction.

    It is equivalent to a random orthogonal map for functions in which only the first coordinate differs from
    the others, such as cigar and discus: the rest of the map rotates coordinates with equal weights. It has
    little effect on other functions.
    """

    block = BLOCK

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.n = n
        v = rng.standard_normal(n)
        v[0] += np.copysign(np.linalg.norm(v), v[0])  # R e_1 = -+ the direction; avoids cancellation
        v *= np.sqrt(2.0) / np.linalg.norm(v)  # I - vv^T, |v|^2 = 2
        self._in: dict[np.dtype[np.floating], Array] = {np.dtype(np.float64): v}

    def apply(self, X: Array) -> Array:
        """Return R x for every row x of X, in a new array."""
        if X.dtype not in self._in:
            self._in[X.dtype] = self._in[np.dtype(np.float64)].astype(X.dtype)
        v = self._in[X.dtype]
        rotated: Array = -np.vecdot(X, v)[:, np.newaxis] * v
        rotated += X
        return rotated

    def inverse(self, x: Array) -> Array:
        """Return R^T x."""
        return self.apply(x[np.newaxis].astype(np.float64)).reshape(-1)  # its own inverse


def draw(n: int, rng: np.random.Generator, kind: Kind = "auto") -> Rotation:
    """Return a random orthogonal map of R^n of the given kind."""
    if kind == "auto":
        kind = "haar" if 8 * n * n <= LARGEST_MATRIX else "reflections"
    if kind == "haar":
        return Haar(n, rng)
    if kind == "reflections":
        return Reflections(n, rng)
    if kind == "axis":
        return Axis(n, rng)
    raise ValueError(f"kind must be 'auto', 'haar', 'reflections' or 'axis', got {kind!r}")
