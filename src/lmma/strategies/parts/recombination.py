"""Ranking and weighted recombination: what every strategy of the paper shares.

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
    """Return the paper's lambda for ``n`` variables."""
    return 4 + math.floor(3 * math.log(n))  # [A1:1]


def log_weights(lam: int, mu: int, tutorial: bool = False) -> Array:
    """Return Algorithm 1's weights of the ``mu`` best of ``lam`` candidates, which sum to 1.

    Those of Hansen's tutorial are ln((lam + 1)/2) - ln i, which differs for odd ``lam``.
    """
    if not 1 <= mu <= lam:
        raise ValueError(f"mu must lie between 1 and popsize={lam}, got {mu}")
    top = max(mu, lam / 2) + 0.5 if tutorial else mu + 0.5
    weights = math.log(top) - np.log(np.arange(1, mu + 1))  # [A1:1]
    normalised: Array = weights / weights.sum()
    return normalised


def normalised_weights(lam: int, mu: int | None, weights: npt.ArrayLike) -> Array:
    """Return the weights a user gives, scaled to sum 1, or say what is wrong with them."""
    given = np.array(weights, dtype=np.float64)
    if given.ndim != 1 or not 1 <= len(given) <= lam or np.any(given <= 0):
        raise ValueError(
            f"weights must be 1 to {lam} positive numbers (one for each selected candidate), got {given!r}"
        )
    if mu not in (None, len(given)):
        raise ValueError(f"mu={mu} contradicts the {len(given)} weights given: pass one of them")
    normalised: Array = given / given.sum()
    return normalised


class Selection(NamedTuple):
    """One generation, ranked: all that a transform or a step-size rule may learn from.

    Arrays in the order of sampling stay behind ``mean_of`` and ``pick``, which rank first; so weights can
    never meet candidates in the wrong order.
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
        """Return the weighted mean of the selected among ``rows`` (given in the order of sampling).

        ``factors``, one for each row and in the same order, multiply the weights.
        """
        weights = self.weights if factors is None else self.weights * self.pick(factors)
        return weighted_mean(weights, self.order, rows, self.threads)

    def mean_square_of(self, rows: Array) -> Array:
        """Return the weighted mean of the squares of the selected among ``rows``."""
        total = np.empty(rows.shape[1], dtype=rows.dtype)
        kernels.squares(self.weights, self.order[: len(self.weights)], rows, total, threads=self.threads)
        return total

    def pick(self, rows: Array, count: int | None = None) -> Array:
        """Return the ``count`` best of ``rows``, best first; as many as there are weights by default."""
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
        """Return z and d of the ``count`` best candidates, best first; not only of the selected."""
        return self.pick(self.sampled_z, count), self.pick(self._directions, count)

    @property
    def _directions(self) -> Array:
        if self.sampled_d is None:
            raise ValueError("this strategy does not keep directions: set keeps_directions on its transform")
        return self.sampled_d


def weighted_mean(weights: Array, order: Indices, rows: Array, threads: int = 0) -> Array:
    """Return the sum of ``weights[i] * rows[order[i]]``."""
    out = np.empty(rows.shape[1], dtype=rows.dtype)
    kernels.recombine(weights, order[: len(weights)], rows, out, threads=threads)
    return out


def cumulate(path: Array, rate: float, mu_w: float, step: Array, *, add: bool = True) -> None:
    """Fade ``path`` by ``rate`` and ``add`` the step so that a random walk keeps it standard normal.

    p_sigma, p_c and every direction vector m_i of the paper obey this one recursion.
    """
    if add:
        kernels.fade(path, 1.0 - rate, math.sqrt(mu_w * rate * (2.0 - rate)), step)
    else:
        path *= 1.0 - rate


def cumulate_all(path: Array, rate: float, steps: Array) -> Array:
    """Fade ``path`` as :func:`cumulate` does for each of ``steps``, and return what is to be added to it.

    The steps, one a row, come multiplied by sqrt(mu_w).
    """
    kept, weights = _fading(rate, len(steps), steps.dtype)
    path *= kept
    added: Array = weights @ steps
    return added


@lru_cache(32)
def _fading(rate: float, count: int, dtype: np.dtype[Any]) -> tuple[float, Array]:
    """Return what ``count`` generations leave of a path, and what each step counts for in it."""
    kept = (1.0 - rate) ** np.arange(count - 1, -1, -1)
    return (1.0 - rate) ** count, (math.sqrt(rate * (2.0 - rate)) * kept).astype(dtype)


def squared_length(vector: Array) -> float:
    """Return |vector|^2, in double precision where single is too narrow for it."""
    if vector.dtype is FLOAT64:
        return float(vector.dot(vector))
    with np.errstate(over="ignore"):
        length2 = float(np.dot(vector, vector))
    return length2 if length2 < math.inf else squared_length(vector.astype(np.float64))
