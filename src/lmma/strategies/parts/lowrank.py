"""Products with a few directions beside a multiple of the identity."""

from __future__ import annotations

from lmma.strategies.parts.recombination import Array


def folded_transposed(d: Array, alpha: float, mix: Array, vectors: Array) -> Array:
    """Return the transpose of ``alpha I + V^T mix^T V`` times each row of ``d``, see ``kernels.fold``."""
    return alpha * d + ((d @ vectors.T) @ mix.T).astype(d.dtype) @ vectors
