"""Mirrored sampling: candidates in opposite pairs, mean + step d and mean - step d, for any linear transform.

Candidates 2j and 2j + 1 are made of vector j of the generation and of its opposite, so that only half of them
are drawn and transformed. Of a smooth function, pairs cancel what is even around the mean.

Brockhoff, Auger, Hansen, Arnold, Hohm: Mirrored sampling and sequential selection for evolution strategies,
PPSN 2010. Salimans et al. 2017 (arXiv 1703.03864) call it antithetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lmma.strategies.parts.recombination import Array

if TYPE_CHECKING:
    from lmma.strategies.es import Batch, Transform

LEAST = 0.1  # of the squared length that unpaired candidates would have: what is taken for that of pairs


def sample_pairs(transform: Transform, batch: Batch) -> None:
    """Fill ``batch`` with pairs; the last of an odd number of candidates stays alone."""
    out, z, d = batch.out, batch.z, batch.d
    drawn = (len(out) + 1) // 2
    transform.sample(batch._replace(out=out[:drawn], z=z[:drawn], d=d[:drawn]))
    twice = 2 * batch.mean
    for row in reversed(range(len(out))):  # from the last: a row is read before it is written over
        if row % 2:
            np.subtract(twice, out[row // 2], out=out[row])
        elif row:
            out[row] = out[row // 2]
    spread_pairs(z)
    if d is not out:
        spread_pairs(d)
    transform.paired(len(out))


def spread_pairs(rows: Array) -> None:
    """Make rows 2j and 2j + 1 what row j is, and its opposite."""
    for row in reversed(range(len(rows))):
        if row % 2:
            np.negative(rows[row // 2], out=rows[row])
        elif row:
            rows[row] = rows[row // 2]


def in_pairs(drawn: Array, count: int) -> Array:
    """Return ``count`` entries, those that were ``drawn`` each followed by its opposite."""
    signs = np.ones(count, dtype=drawn.dtype)
    signs[1::2] = -1
    paired: Array = np.repeat(drawn, 2, axis=0)[:count] * signs.reshape(-1, *[1] * (drawn.ndim - 1))
    return paired


def mass_of_pairs(mu_w: float, lam: int) -> float:
    """Return the selection mass with which random selection among pairs leaves paths standard normal.

    The mean of the selected z has the squared length sum w^2 - 2 sum w_a w_b over pairs (a, b), per
    coordinate. Ranks being random, two of the lam weights multiply to (1 - sum w^2)/(lam (lam - 1)) on
    average, as all sum to 1.
    """
    squares = 1 / mu_w
    opposed = 2 * (lam // 2) * (1 - squares) / (lam * (lam - 1))
    return 1 / max(squares - opposed, LEAST * squares)
