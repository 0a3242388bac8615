"""Weights for every rank, the lower half negative: what was selected against counts as well."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from lmma.strategies.parts.recombination import Array


@lru_cache(16)
def active_weights(lam: int) -> Array:
    """Return log((lam + 1)/2) - log i for i = 1 ... lam, the positive scaled to sum 1, the negative to -1.

    They sum to 0: weighted with them, z^2 and z^2 - 1 have the same sum, zero on average where ranks are
    random. A single candidate has no rank to learn from and weighs nothing.
    """
    if lam < 2:
        return np.zeros(lam)
    raw = math.log((lam + 1) / 2) - np.log(np.arange(1, lam + 1))
    positive, negative = np.maximum(raw, 0.0), np.minimum(raw, 0.0)
    weights: Array = positive / positive.sum() - negative / negative.sum()
    weights.flags.writeable = False  # every caller shares it
    return weights
