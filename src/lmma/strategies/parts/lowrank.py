"""A few stretched directions: I + U diag(s) U^T, its root, and how to learn it from rows.

======  ============  ========  ==================================================
symbol  code          shape     meaning
======  ============  ========  ==================================================
U       ``axes``      (k, n)    orthonormal directions, one per row
s       ``stretch``   (k,)      variance along each beyond 1
L       -             -         I + U (sqrt(1 + s) - 1) U^T, the symmetric root
======  ============  ========  ==================================================
"""

from __future__ import annotations

import numpy as np

from lmma.strategies.parts.recombination import Array


def stretched(z: Array, axes: Array, stretch: Array) -> Array:
    """Return L z for each row of ``z``, or for a single vector."""
    gain = (np.sqrt(1 + stretch) - 1).astype(z.dtype)
    return z + ((z @ axes.T) * gain) @ axes


def shrunk(z: Array, axes: Array, stretch: Array) -> Array:
    """Return the inverse of L times each row of ``z``, or times a single vector."""
    gain = (1 / np.sqrt(1 + stretch) - 1).astype(z.dtype)
    return z + ((z @ axes.T) * gain) @ axes


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

    They come from the small Gram matrix ``rows rows^T``; an eigenvalue lost to rounding gives a row of zeros.
    """
    gram = (rows @ rows.T).astype(np.float64)
    eigenvalues, vectors = np.linalg.eigh(gram)
    leading = eigenvalues[: -k - 1 : -1]
    floor = max(1e-12, 100 * float(np.finfo(rows.dtype).eps) * float(eigenvalues[-1]))
    kept = leading > floor
    scales = np.where(kept, 1 / np.sqrt(np.where(kept, leading, 1.0)), 0.0)
    axes: Array = (vectors[:, : -k - 1 : -1] * scales).T.astype(rows.dtype) @ rows
    return axes, np.where(kept, leading, 0.0)
