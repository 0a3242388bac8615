"""Dense updates in place, at the speed of BLAS."""

from __future__ import annotations

import math

import numpy as np

from lmma.strategies.parts.recombination import Array, Indices

BLOCK = 65536  # numbers handled at a time: they stay in the second-level cache


def add_product(matrix: Array, keep: float, left: Array, right: Array) -> None:
    """Set ``matrix`` to ``keep * matrix + left^T right`` without a temporary of its size.

    ``matrix`` is (n, n), ``left`` and ``right`` are (k, n), one vector per row. NumPy's own BLAS does it,
    block by block of rows: SciPy brings a second BLAS whose threads would wait for the first's, spinning.
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
    """Return the squared lengths of some rows of ``matrix``, in double precision."""
    some = matrix[rows]
    squares: Array = np.vecdot(some, some).astype(np.float64)
    return squares


def excess(size: float) -> float:
    """Return 1 while ``size`` is within a factor of 2^20 of 1, and the power of two nearest to it beyond."""
    if 2.0**-20 <= size <= 2.0**20 or not (math.isfinite(size) and size > 0):
        return 1.0
    return 2.0 ** round(math.log2(size))


def taken_out(size: float, *arrays: tuple[Array, int]) -> float:
    """Divide arrays by a power each of the :func:`excess` of ``size``, in place; return the excess."""
    factor = excess(size)
    if factor != 1:
        for array, power in arrays:
            array /= factor**power
    return factor


def centred(scales: Array) -> float:
    """Divide ``scales`` by their geometric mean, in place, and return it."""
    factor = math.exp(float(np.mean(np.log(scales, dtype=np.float64))))
    scales /= scales.dtype.type(factor)
    return factor
