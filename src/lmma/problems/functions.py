"""The six functions of the paper's Table 1, and Rastrigin's, for rows of candidates.

| function         | f(x)                                                   | optimum at |
|------------------|--------------------------------------------------------|------------|
| sphere           | sum x_i^2                                              | 0          |
| ellipsoid        | sum 10^(6 (i-1)/(n-1)) x_i^2                           | 0          |
| rosenbrock       | sum_{i<n} 100 (x_i^2 - x_{i+1})^2 + (x_i - 1)^2        | (1 ... 1)  |
| discus           | 10^6 x_1^2 + sum_{i>1} x_i^2                           | 0          |
| cigar            | x_1^2 + 10^6 sum_{i>1} x_i^2                           | 0          |
| different-powers | sum abs(x_i)^(2 + 4 (i-1)/(n-1))                       | 0          |
| rastrigin        | sum x_i^2 + 10 (1 - cos(2 pi x_i)); not in the paper   | 0          |

The least value is 0 in every case. Each function takes (rows, n) and returns (rows,), or takes one
x of shape (n,) and returns a float; float32 stays float32, integers become float64, the argument is
left alone. Sums run over each row by itself, so a candidate has the same value, to the last bit,
whatever batch it comes in.

At n = 1 the quotient (i-1)/(n-1) is read as 0, which leaves the first term of the ellipsoid and of
different powers, x^2. The sum of Rosenbrock's function is then empty, which would make every x
optimal; the term that needs no neighbour, (x_1 - 1)^2, is kept instead.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lmma.problems.base import Array, rowwise

# Each entry is one vector of n numbers; a run uses one, an experiment over dimensions a few.
_CACHED_VECTORS = 16


def _frozen(vector: Array, dtype: np.dtype[np.floating]) -> Array:
    """Return the vector in the given dtype, marked read-only since every caller shares it."""
    vector = vector.astype(dtype)
    vector.flags.writeable = False
    return vector


def _fractions(n: int) -> Array:
    """Return (i-1)/(n-1) for i = 1 ... n, which is 0 at n = 1."""
    return np.arange(n) / max(n - 1, 1)


@lru_cache(_CACHED_VECTORS)
def _ellipsoid_weights(n: int, dtype: np.dtype[np.floating]) -> Array:
    return _frozen(10.0 ** (6.0 * _fractions(n)), dtype)


@lru_cache(_CACHED_VECTORS)
def _exponents(n: int, dtype: np.dtype[np.floating]) -> Array:
    return _frozen(2.0 + 4.0 * _fractions(n), dtype)


def _dot(X: Array, Y: Array) -> Array:
    """Return the scalar products of the rows, each row summed by itself."""
    products: Array = np.vecdot(X, Y)
    return products


def ones(n: int) -> Array:
    """Return the n-dimensional vector of ones, the optimum of Rosenbrock's function."""
    return np.ones(n)


@rowwise
def sphere(X: Array) -> Array:
    """Return the squared length of every row."""
    return _dot(X, X)


@rowwise
def ellipsoid(X: Array) -> Array:
    """Return a sum of squares with weights that grow evenly on a log scale from 1 to 10^6."""
    return _dot(X * X, _ellipsoid_weights(X.shape[1], X.dtype))


@rowwise
def rosenbrock(X: Array) -> Array:
    """Return Rosenbrock's chain, a bent valley along x_{i+1} = x_i^2 that ends at (1 ... 1)."""
    from_one = X - 1
    if X.shape[1] == 1:
        return _dot(from_one, from_one)
    # One pass over the flat batch is faster than row by row. It also pairs the last number of a row
    # with the first of the next; those land in the last column, which the sums leave out.
    flat = X.reshape(-1)
    valley = flat * flat
    valley[:-1] -= flat[1:]
    valley = valley.reshape(X.shape)[:, :-1]
    from_one = from_one[:, :-1]
    return 100 * _dot(valley, valley) + _dot(from_one, from_one)


@rowwise
def discus(X: Array) -> Array:
    """Return a sum of squares in which the first coordinate alone weighs 10^6."""
    first = X[:, 0]
    return (1e6 - 1) * (first * first) + _dot(X, X)


@rowwise
def cigar(X: Array) -> Array:
    """Return a sum of squares in which every coordinate but the first weighs 10^6."""
    first, rest = X[:, 0], X[:, 1:]
    return 1e6 * _dot(rest, rest) + first * first


@rowwise
def different_powers(X: Array) -> Array:
    """Return a sum of powers whose exponents grow evenly from 2 to 6."""
    # exp(p log|x|) costs two thirds of np.power where no wide vector units serve the latter. The
    # rounding of p log|x| is magnified to about 1e-14 at |x| = 1e-10 and 1e-13 at 1e-50.
    powers = np.abs(X)
    with np.errstate(divide="ignore"):  # log 0 = -inf, and exp(-inf) = 0 is what is wanted
        np.log(powers, out=powers)
    powers *= _exponents(X.shape[1], X.dtype)
    np.exp(powers, out=powers)
    sums: Array = powers.sum(axis=1)
    return sums


@rowwise
def rastrigin(X: Array) -> Array:
    """Return a sphere with about 10^n local optima, one near every point of the integer grid."""
    # 10 (1 - cos 2a) = 20 sin(a)^2 does not cancel, so targets far below 1e-14 n can be reached.
    waves = X * np.pi
    np.sin(waves, out=waves)
    return _dot(X, X) + 20 * _dot(waves, waves)
