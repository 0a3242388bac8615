"""The six functions of the paper's Table 1 and Rastrigin's function, for rows of candidates.

| function         | f(x)                                                   | optimum at |
|------------------|--------------------------------------------------------|------------|
| sphere           | sum x_i^2                                              | 0          |
| ellipsoid        | sum 10^(6 (i-1)/(n-1)) x_i^2                           | 0          |
| rosenbrock       | sum_{i<n} 100 (x_i^2 - x_{i+1})^2 + (x_i - 1)^2        | (1 ... 1)  |
| discus           | 10^6 x_1^2 + sum_{i>1} x_i^2                           | 0          |
| cigar            | x_1^2 + 10^6 sum_{i>1} x_i^2                           | 0          |
| different-powers | sum abs(x_i)^(2 + 4 (i-1)/(n-1))                       | 0          |
| rastrigin        | sum x_i^2 + 10 (1 - cos(2 pi x_i)); not in the paper   | 0          |

The minimum is 0 in every case. Each function maps (rows, n) to (rows,), or one x of shape (n,) to a float.
float32 stays float32, integers become float64, and the argument is not changed. Each row is summed
separately, so the value of a candidate is the same, to the last bit, in any batch.

At n = 1 the quotient (i-1)/(n-1) is defined as 0, which leaves the first term of the ellipsoid and of
different powers, x^2. The sum of Rosenbrock's function would be empty and every x optimal, so the term
(x_1 - 1)^2 is used instead.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lmma.problems.base import Array, rowwise

# Each entry is one vector of n numbers; a run uses one, an experiment over dimensions several.
_CACHED_VECTORS = 16


def _frozen(vector: Array, dtype: np.dtype[np.floating]) -> Array:
    """Return a read-only copy of the vector in the given dtype, to be shared by all callers."""
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
    """Return the dot product of each row of X with the same row of Y, summed row by row."""
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
    """Return Rosenbrock's function, a curved valley along x_{i+1} = x_i^2 that ends at (1 ... 1)."""
    from_one = X - 1
    if X.shape[1] == 1:
        return _dot(from_one, from_one)
    # One pass over the flat batch is faster than row by row. It also combines the last number of a row
    # with the first of the next; these results are in the last column, which the sums omit.
    flat = X.reshape(-1)
    valley = flat * flat
    valley[:-1] -= flat[1:]
    valley = valley.reshape(X.shape)[:, :-1]
    from_one = from_one[:, :-1]
    return 100 * _dot(valley, valley) + _dot(from_one, from_one)


@rowwise
def discus(X: Array) -> Array:
    """Return a sum of squares in which the first coordinate has weight 10^6."""
    first = X[:, 0]
    return (1e6 - 1) * (first * first) + _dot(X, X)


@rowwise
def cigar(X: Array) -> Array:
    """Return a sum of squares in which every coordinate but the first has weight 10^6."""
    first, rest = X[:, 0], X[:, 1:]
    return 1e6 * _dot(rest, rest) + first * first


@rowwise
def different_powers(X: Array) -> Array:
    """Return a sum of powers whose exponents grow evenly from 2 to 6."""
    # exp(p log|x|) needs two thirds of the time of np.power on machines where np.power is not vectorised.
    # The rounding error of p log|x| is amplified to about 1e-14 at |x| = 1e-10 and 1e-13 at 1e-50.
    powers = np.abs(X)
    with np.errstate(divide="ignore"):  # log 0 = -inf, and exp(-inf) = 0 is correct
        np.log(powers, out=powers)
    powers *= _exponents(X.shape[1], X.dtype)
    np.exp(powers, out=powers)
    sums: Array = powers.sum(axis=1)
    return sums


@rowwise
def rastrigin(X: Array) -> Array:
    """Return Rastrigin's function: a sphere with about 10^n local optima, one near every integer point."""
    # 20 sin(a)^2 = 10 (1 - cos 2a) without cancellation, so targets far below 1e-14 n can be reached.
    waves = X * np.pi
    np.sin(waves, out=waves)
    return _dot(X, X) + 20 * _dot(waves, waves)
