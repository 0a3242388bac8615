"""How far the candidates of a generation lie apart."""

from __future__ import annotations

import math

import numpy as np

from lmma.strategies.parts.recombination import Array

NUMBERS = 1 << 16  # looked at together: temporaries stay small, however many variables there are


def root_mean_variance(candidates: Array) -> float:
    """Return the distance of a typical candidate from the centre of all, per coordinate.

    It is the root of the variance of each coordinate, averaged over coordinates, in double precision.
    """
    rows, n = candidates.shape
    columns = max(1, NUMBERS // rows)
    total = 0.0
    for start in range(0, n, columns):
        part = candidates[:, start : start + columns]
        total += float(part.var(axis=0, ddof=1, dtype=np.float64).sum())
    return math.sqrt(total / n)
