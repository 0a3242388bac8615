"""Weights for every rank, the lower half negative: what was selected against counts as well."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from lmma import kernels
from lmma.strategies.recombination import Array, Selection


@lru_cache(16)
def active_weights(lam: int) -> Array:
    """Return log((lam + 1)/2) - log i for i = 1 ... lam, the positive scaled to sum 1, the negative to -1."""
    raw = math.log((lam + 1) / 2) - np.log(np.arange(1, lam + 1))
    positive, negative = np.maximum(raw, 0.0), np.minimum(raw, 0.0)
    weights: Array = positive / positive.sum() - negative / negative.sum()
    weights.flags.writeable = False  # every caller shares it
    return weights


def active_squares(best: Selection) -> Array:
    """Return sum_i v_i z_i^2 for each coordinate, over every candidate that has a value.

    As the v_i sum to 0 this is also sum_i v_i (z_i^2 - 1): zero on average where ranks are random.
    """
    z = best.sampled_z
    squares = np.empty(z.shape[1], dtype=z.dtype)
    if len(best.order) > 1:
        kernels.squares(active_weights(len(best.order)), best.order, z, squares, threads=best.threads)
    else:
        squares[...] = 0.0  # one candidate alone has no rank
    return squares
