"""A few directions unlike the rest: powers of I + U^T diag(s) U, and how to learn them from rows.

======  ============  ========  ==================================================
symbol  code          shape     meaning
======  ============  ========  ==================================================
U       ``axes``      (k, n)    orthonormal directions, one per row
s       ``sizes``     (k,)      the eigenvalue along each beyond 1, not negative
======  ============  ========  ==================================================
"""

from __future__ import annotations

import numpy as np

from lmma.strategies.parts.recombination import Array


def scaled(rows: Array, axes: Array, sizes: Array, power: float) -> Array:
    """Return ``(I + U^T diag(s) U)^power`` times each row, or times a single vector."""
    gain = ((1 + sizes) ** power - 1).astype(rows.dtype)
    return rows + ((rows @ axes.T) * gain) @ axes


def folded_transposed(d: Array, alpha: float, mix: Array, vectors: Array) -> Array:
    """Return the transpose of ``alpha I + V^T mix^T V`` times each row of ``d``, see ``kernels.fold``."""
    return alpha * d + ((d @ vectors.T) @ mix.T).astype(d.dtype) @ vectors


def folded_variances(alpha: float, mix: Array, columns: Array, gram: Array) -> Array:
    """Return the diagonal of M M^T for M = ``alpha I + V^T mix^T V``, where V has these ``columns``.

    With v a column of V and K = mix^T it is alpha^2 + 2 alpha v^T K v + v^T K gram K^T v.
    """
    v = columns.astype(np.float64)
    w = mix @ v  # K^T v
    variances: Array = alpha**2 + np.einsum("ij,ij->j", w, 2 * alpha * v + gram @ w)
    return variances


def leading_axes(rows: Array, k: int) -> tuple[Array, Array]:
    """Return the ``k`` leading eigenvectors of ``rows^T rows`` as rows, and their eigenvalues.

    They come from the smaller of ``rows rows^T`` and ``rows^T rows``. An eigenvalue lost to rounding gives
    a row of zeros, as does one that so few rows cannot have.
    """
    count, n = rows.shape
    wide = count <= n
    gram = (rows @ rows.T if wide else rows.T @ rows).astype(np.float64)
    eigenvalues, vectors = np.linalg.eigh(gram)
    found = min(k, count, n)
    leading = eigenvalues[: -found - 1 : -1]
    kept = leading > max(1e-12, 100 * float(np.finfo(rows.dtype).eps) * float(eigenvalues[-1]))
    directions = vectors[:, : -found - 1 : -1].T
    axes, sizes = np.zeros((k, n), dtype=rows.dtype), np.zeros(k)
    sizes[:found] = np.where(kept, leading, 0.0)
    if wide:
        scales = np.where(kept, 1 / np.sqrt(np.where(kept, leading, 1.0)), 0.0)
        axes[:found] = (scales[:, None] * directions).astype(rows.dtype) @ rows
    else:
        axes[:found] = kept[:, None] * directions
    return axes, sizes
