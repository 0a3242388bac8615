"""Products with a few directions beside a multiple of the identity."""

from __future__ import annotations

import numpy as np

from lmma.strategies.parts.recombination import Array


def folded_transposed(d: Array, alpha: float, mix: Array, vectors: Array) -> Array:
    """Return the transpose of ``alpha I + V^T mix^T V`` times each row of ``d``, see ``kernels.fold``."""
    return alpha * d + ((d @ vectors.T) @ mix.T).astype(d.dtype) @ vectors


def folded_variances(alpha: float, mix: Array, columns: Array, gram: Array) -> Array:
    """Return the diagonal of M M^T for M = ``alpha I + V^T mix^T V``, where V has these ``columns``.

    With v a column of V and K = mix^T it is alpha^2 + v^T (alpha (K + K^T) + K gram K^T) v.
    """
    v = columns.astype(np.float64, copy=False)
    form = mix.T @ (gram @ mix)
    form += (2 * alpha) * mix  # as good as the symmetric one
    variances: Array = alpha**2 + (v * (form @ v)).sum(axis=0)
    return variances
