"""Dense updates in place, at the speed of BLAS."""

from __future__ import annotations

import math

import numpy as np

from lmma.strategies.recombination import Array


def add_product(matrix: Array, keep: float, left: Array, right: Array) -> None:
    """Set ``matrix`` to ``keep * matrix + left^T right`` without a temporary of its size.

    ``matrix`` is (n, n) and C-contiguous, ``left`` and ``right`` are (k, n), one vector a row.
    """
    from scipy.linalg import blas

    gemm = blas.dgemm if matrix.dtype == np.float64 else blas.sgemm
    # BLAS stores columns: it sees the transposes, and (left^T right)^T = right^T left.
    result = gemm(1.0, right.T, left.T, beta=keep, c=matrix.T, trans_b=True, overwrite_c=True)
    if not np.shares_memory(result, matrix):
        matrix[...] = result.T


def subtract_outer(rows: Array, coefficients: Array, vector: Array, columns: int = 8192) -> None:
    """Subtract ``coefficients[i] * vector`` from row ``i`` without a temporary of the size of ``rows``."""
    coefficients = coefficients.astype(rows.dtype, copy=False)[:, None]
    for start in range(0, len(vector), columns):
        part = slice(start, start + columns)
        rows[:, part] -= coefficients * vector[part]


def excess(size: float) -> float:
    """Return 1 while ``size`` is within a factor of 2^20 of 1, and the power of two nearest to it beyond."""
    if 2.0**-20 <= size <= 2.0**20 or not (math.isfinite(size) and size > 0):
        return 1.0
    return 2.0 ** round(math.log2(size))
