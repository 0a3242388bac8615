"""Ranking and weighted recombination, shared by every strategy of the paper.

==========  ===================  ========  ==============================================
paper       code                 shape     meaning
==========  ===================  ========  ==============================================
lambda      ``lam``              int       candidates per generation
mu          ``mu``               int       candidates selected
w_i         ``weights``          (mu,)     recombination weights, decreasing, summing to 1
mu_w        ``mu_w``             float     variance-effective selection mass
i:lambda    ``Selection.order``  (valid,)  indices of candidates, best first
==========  ===================  ========  ==============================================
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmma import kernels

Array = npt.NDArray[np.floating]
Indices = npt.NDArray[np.intp]
FLOAT64 = np.dtype(np.float64)


def default_popsize(n: int) -> int:
    """Return the paper's lambda, the population size for ``n`` variables."""
    return 4 + math.floor(3 * math.log(n))  # [A1:1]


def default_vectors(n: int) -> int:
    """Return the paper's m, the number of direction vectors for ``n`` variables."""
    return 4 + math.floor(3 * math.log(n))  # [A1:1]


def log_weights(lam: int, mu: int, tutorial: bool = False) -> Array:
    """Return Algorithm 1's weights of the ``mu`` best of ``lam`` candidates, which sum to 1.

    With ``tutorial`` they are ln((lam + 1)/2) - ln i as in Hansen's tutorial, which differs for odd ``lam``.
    """
    if not 1 <= mu <= lam:
        raise ValueError(f"mu must lie between 1 and popsize={lam}, got {mu}")
    top = max(mu, lam / 2) + 0.5 if tutorial else mu + 0.5
    weights = math.log(top) - np.log(np.arange(1, mu + 1))  # [A1:1]
    normalised: Array = weights / weights.sum()
    return normalised


def normalised_weights(lam: int, mu: int | None, weights: npt.ArrayLike) -> Array:
    """Return the weights given by the user, scaled to sum 1, after validation."""
    given = np.array(weights, dtype=np.float64)
    if given.ndim != 1 or not 1 <= len(given) <= lam or np.any(given <= 0):
        raise ValueError(
            f"weights must be 1 to {lam} positive numbers (one for each selected candidate), got {given!r}"
        )
    if mu not in (None, len(given)):
        raise ValueError(f"mu={mu} contradicts the {len(given)} weights: pass only mu or only weights")
    normalised: Array = given / given.sum()
    return normalised


class Selection(NamedTuple):
    """A ranked generation, the input of transforms and step-size rules.

    Access arrays in sampling order through ``mean_of`` and ``pick``, which rank the rows first; this keeps
    weights and candidates in the same order.
    """

    order: Indices  # (valid,) every candidate that has a value, best first
    values: Array  # (valid,) their values, increasing
    weights: Array  # (mu,), fewer if fewer candidates have a value
    mu_w: float
    z_mean: Array  # (n,) weighted mean of the selected z
    d_mean: Array  # (n,) weighted mean of the selected d
    sampled_z: Array  # (lam, n) in the order of sampling: use ``z``
    sampled_d: Array | None = None  # likewise: use ``d``
    threads: int = 0  # for kernels; 0: their default

    def mean_of(self, rows: Array, factors: Array | None = None) -> Array:
        """Return the weighted mean of the selected ``rows`` (given in sampling order).

        ``factors``, one per row in the same order, multiply the weights.
        """
        weights = self.weights if factors is None else self.weights * self.pick(factors)
        return weighted_mean(weights, self.order, rows, self.threads)

    def mean_square_of(self, rows: Array) -> Array:
        """Return the weighted mean of the squares of the selected ``rows``."""
        total = np.empty(rows.shape[1], dtype=rows.dtype)
        kernels.squares(self.weights, self.order[: len(self.weights)], rows, total, threads=self.threads)
        return total

    def pick(self, rows: Array, count: int | None = None) -> Array:
        """Return the ``count`` best of ``rows``, best first; by default one for each weight."""
        return rows[self.order[: len(self.weights) if count is None else count]]

    @property
    def z(self) -> Array:
        """The selected standard normal vectors, best first, (mu, n)."""
        return self.pick(self.sampled_z)

    @property
    def d(self) -> Array:
        """The selected mutation directions, best first, (mu, n)."""
        return self.pick(self._directions)

    def ranked(self, count: int) -> tuple[Array, Array]:
        """Return z and d of the ``count`` best candidates, best first, which may include unselected ones."""
        return self.pick(self.sampled_z, count), self.pick(self._directions, count)

    @property
    def _directions(self) -> Array:
        if self.sampled_d is None:
            raise ValueError("directions are not available: set keeps_directions = True on the transform")
        return self.sampled_d


def weighted_mean(weights: Array, order: Indices, rows: Array, threads: int = 0) -> Array:
    """Return the sum of ``weights[i] * rows[order[i]]``."""
    out = np.empty(rows.shape[1], dtype=rows.dtype)
    kernels.recombine(weights, order[: len(weights)], rows, out, threads=threads)
    return out


def cumulate(path: Array, rate: float, mu_w: float, step: Array, *, add: bool = True) -> None:
    """Multiply ``path`` by 1 - ``rate`` and, if ``add``, add the scaled step.

    With the scaling, the path stays standard normal under random selection. This is the recursion of p_sigma,
    p_c and every direction vector m_i of the paper.
    """
    if add:
        kernels.fade(path, 1.0 - rate, math.sqrt(mu_w * rate * (2.0 - rate)), step)
    else:
        path *= 1.0 - rate


def cumulate_all(path: Array, rate: float, steps: Array) -> Array:
    """Multiply ``path`` by (1 - ``rate``)^k for k ``steps``; return the weighted sum of the steps.

    After the caller has added the sum, the path is that of k calls of :func:`cumulate`. The steps, one per
    row, are already multiplied by sqrt(mu_w).
    """
    kept, weights = _fading(rate, len(steps), steps.dtype)
    path *= kept
    added: Array = weights @ steps
    return added


@lru_cache(32)
def _fading(rate: float, count: int, dtype: np.dtype[Any]) -> tuple[float, Array]:
    """Return the factor of the path after ``count`` generations and the weight of each step."""
    kept = (1.0 - rate) ** np.arange(count - 1, -1, -1)
    return (1.0 - rate) ** count, (math.sqrt(rate * (2.0 - rate)) * kept).astype(dtype)


def squared_length(vector: Array) -> float:
    """Return |vector|^2, in double precision if single precision overflows."""
    if vector.dtype is FLOAT64:
        return float(vector.dot(vector))
    with np.errstate(over="ignore"):
        length2 = float(np.dot(vector, vector))
    return length2 if length2 < math.inf else squared_length(vector.astype(np.float64))


@lru_cache(16)
def active_weights(lam: int) -> Array:
    """Return log((lam + 1)/2) - log i for i = 1 ... lam, the positive scaled to sum 1, the negative to -1.

    They sum to 0, so z^2 and z^2 - 1 have the same weighted sum, with mean 0 under random ranks. A single
    candidate gets weight 0.
    """
    if lam < 2:
        return np.zeros(lam)
    raw = math.log((lam + 1) / 2) - np.log(np.arange(1, lam + 1))
    positive, negative = np.maximum(raw, 0.0), np.minimum(raw, 0.0)
    weights: Array = positive / positive.sum() - negative / negative.sum()
    weights.flags.writeable = False  # cached: shared by all callers
    return weights
