"""Random orthogonal maps: dense ones, and ones that cost O(n) in time and memory.

All offer `apply(X)`, which maps every row x to R x, and `inverse(x)`, which gives R^T x. They are
built in float64 and applied in the dtype of X.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from lmma.problems.base import BLOCK, Array

Kind = Literal["auto", "haar", "reflections", "axis"]

# `auto` leaves the dense matrix when it would exceed 200 MB, that is for n > 5000.
LARGEST_MATRIX = 200_000_000

# A reflection of b coordinates mixes most evenly at b = 4, where entries of equal size make it a
# matrix of entries +-1/2; six layers reach 4^6 = 4096 coordinates from each. Share of the squared
# Hessian off its diagonal for ellipsoid / discus at n = 2000: six layers 0.85 / 1.00, a Haar matrix
# 0.85 / 1.00, but five reflections of all n coordinates 0.02 / 0.02 (each contributes about 8/n).
BLOCK_SIZE = 4
LAYERS = 6


class Rotation(Protocol):
    """An orthogonal map R of R^n."""

    n: int
    block: int  # how many numbers `apply` takes best at a time

    def apply(self, X: Array) -> Array:
        """Return R x for every row x of X, in a new array."""

    def inverse(self, x: Array) -> Array:
        """Return R^T x."""


class Haar:
    """A dense orthogonal matrix, uniformly distributed over all of them.

    The Q of a Gaussian matrix is uniform once the signs are chosen such that R has a positive
    diagonal; LAPACK chooses them otherwise.
    """

    block = 1 << 22  # matrix products want many rows at once; 32 MB

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.n = n
        q, r = np.linalg.qr(rng.standard_normal((n, n)))
        q *= np.where(np.diagonal(r) < 0, -1.0, 1.0)
        # Q and its transpose are equally distributed: taking R = Q^T lets rows be multiplied by Q.
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
    """A product of Householder reflections that costs O(n): six layers of small ones.

    Each layer shuffles the coordinates, deals them into blocks of four (of three and four, or of
    two and three at n = 5, where n is not a multiple of four) and reflects every block in a random
    direction of its own. A layer thus is a product of n/4 reflections that touch different
    coordinates, and the shuffles make it couple what the layers before it kept apart.
    """

    block = BLOCK

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.n = n
        # Coordinate j of block k sits at j * count + k: blocks are strided, so that the passes below
        # run over contiguous memory. The last slice is shorter where four does not divide n.
        count = -(-n // BLOCK_SIZE)
        self._slices = [slice(first, min(first + count, n)) for first in range(0, n, count)]
        self._layers: list[tuple[NDArray[np.intp], Array]] = []
        for _ in range(LAYERS):
            order = rng.permutation(n)
            # Near equal sizes mix evenly; equal ones would merely swap the coordinates of a pair.
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
    """One Householder reflection, which takes the first axis to a random direction.

    That is all a random orthogonal map does to a function in which the first coordinate alone differs from
    the others, as cigar and discus are: the rest of the map turns coordinates that count alike. Others hardly
    notice it.
    """

    block = BLOCK

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.n = n
        v = rng.standard_normal(n)
        v[0] += np.copysign(np.linalg.norm(v), v[0])  # R e_1 = -+ the direction; no cancellation
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
