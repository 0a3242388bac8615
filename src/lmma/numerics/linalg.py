"""In-place updates of dense arrays, built on NumPy's BLAS."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmma.numerics.recombination import Array, Indices

BLOCK = 65536  # numbers processed at a time: fits in the second-level cache


class Factors(NamedTuple):
    """Factors of a transform M = D R N; N is ``constant`` times the identity outside the span of ``rows``."""

    diagonal: Array | None = None  # (n,) of D
    matrix: Array | None = None  # (n, n) R
    rows: Array | None = None  # (k, n)
    constant: float = 1.0


def add_product(matrix: Array, keep: float, left: Array, right: Array) -> None:
    """Set ``matrix`` to ``keep * matrix + left^T right`` without a temporary of its size.

    ``matrix`` is (n, n), ``left`` and ``right`` are (k, n), one vector per row. Uses NumPy's BLAS on blocks
    of rows: SciPy bundles a second BLAS, whose threads would spin while they wait for the first one.
    """
    height = max(1, BLOCK // len(matrix))
    for start in range(0, len(matrix), height):
        rows = matrix[start : start + height]
        rows *= keep
        rows += left[:, start : start + height].T @ right


def subtract_outer(rows: Array, coefficients: Array, vector: Array, columns: int = 8192) -> None:
    """Subtract ``coefficients[i] * vector`` from row ``i`` without a temporary of the size of ``rows``."""
    coefficients = coefficients.astype(rows.dtype, copy=False)[:, None]
    for start in range(0, len(vector), columns):
        part = slice(start, start + columns)
        rows[:, part] -= coefficients * vector[part]


def row_squares(matrix: Array, rows: Indices) -> Array:
    """Return the squared lengths of the given rows of ``matrix``, in double precision."""
    some = matrix[rows]
    squares: Array = np.vecdot(some, some).astype(np.float64)
    return squares


def excess(size: float) -> float:
    """Return the power of two nearest to ``size``, or 1 if ``size`` is within a factor of 2^20 of 1."""
    if 2.0**-20 <= size <= 2.0**20 or not (math.isfinite(size) and size > 0):
        return 1.0
    return 2.0 ** round(math.log2(size))


def divide_by_excess(size: float, *arrays: tuple[Array, int]) -> float:
    """Divide each array in place by :func:`excess` of ``size``, to the given power; return the excess."""
    factor = excess(size)
    if factor != 1:
        for array, power in arrays:
            array /= factor**power
    return factor


def divide_by_geometric_mean(scales: Array) -> float:
    """Divide ``scales`` by their geometric mean in place; return the mean."""
    factor = math.exp(float(np.mean(np.log(scales, dtype=np.float64))))
    scales /= scales.dtype.type(factor)
    return factor


def folded_transposed(d: Array, alpha: float, mix: Array, vectors: Array) -> Array:
    """Return the transpose of ``alpha I + V^T mix^T V`` times each row of ``d``, see ``kernels.fold``."""
    return alpha * d + ((d @ vectors.T) @ mix.T).astype(d.dtype) @ vectors


def folded_variances(alpha: float, mix: Array, columns: Array, gram: Array) -> Array:
    """Return the diagonal of M M^T for M = ``alpha I + V^T mix^T V``, where V has these ``columns``.

    With v a column of V and K = mix^T it is alpha^2 + v^T (alpha (K + K^T) + K gram K^T) v.
    """
    v = columns.astype(np.float64, copy=False)
    form = mix.T @ (gram @ mix)
    form += (2 * alpha) * mix  # the quadratic form is the same as with K + K^T
    variances: Array = alpha**2 + (v * (form @ v)).sum(axis=0)
    return variances


CACHE_LINE = 64  # bytes of a cache line
PADDING_LINES = 17  # cache lines between rows; odd, so that a column of many rows maps to many cache sets
LONG_ROW = 65536  # bytes; shorter rows do not conflict, and padding costs NumPy half a microsecond per row


def padded_rows(rows: int, n: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return zeros of shape (rows, n), aligned to a cache line, with padding after long rows.

    The padding avoids cache-set conflicts between rows that start a power of two apart.
    """
    itemsize = np.dtype(dtype).itemsize
    stride = (
        n
        if n * itemsize < LONG_ROW
        else (-(-n * itemsize // CACHE_LINE) + PADDING_LINES) * CACHE_LINE // itemsize
    )
    space = np.zeros(rows * stride + CACHE_LINE // itemsize, dtype=dtype)
    start = -space.ctypes.data % CACHE_LINE // itemsize
    return space[start : start + rows * stride].reshape(rows, stride)[:, :n]
