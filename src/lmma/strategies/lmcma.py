"""LM-CMA-ES: a Cholesky factor rebuilt from O(log n) stored paths (Loshchilov 2017).

With A_0 = I the factor grows by one stored path p_r at a time, oldest first,

    A_{r+1} = a A_r + b_r p_r v_r^T,    v_r = A_r^{-1} p_r,    A_{r+1}^{-1} x = A_r^{-1} (...) as below,

so that A A^T is the covariance matrix of rank-one updates with rate c_1. As every v_r is known, A z needs
the stored p_r and v_r only: two matrix products.

========  ====================  ========  ===============================================================
paper     code                  shape     meaning
========  ====================  ========  ===============================================================
m         ``m``                 int       number of stored vectors
p_c       ``path``              (n,)      path of the selected d
c_c       ``c_c``               float     its fading rate
P         ``paths``             (m, n)    stored paths, oldest first
V         ``inverses``          (m, n)    v_r = A_r^{-1} p_r
l         ``times``             (m,)      generation at which each was stored
c_1       ``c_1``               float     rate of the rank-one updates
a         ``shrink``            float     sqrt(1 - c_1)
b, d      ``gains``, ``losses`` (m,)      scalars of A and of its inverse (the paper's d_r is not our d)
N_steps   ``distance``          int       generations aimed at between neighbours
T         ``period``            int       generations between two updates of the store
m_sigma   ``base``              float     scale of how many vectors a candidate uses
========  ====================  ========  ===============================================================

Sampling, step size and store are the paper's own: Rademacher vectors in mirrored pairs, the population
success rule, and candidates that use only the newest |N(0, base^2)| vectors (ten times more for the first
pair). The paper's index array is the identity here: rows are kept in order of age.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.strategies.es import ES, Batch, Source, Transform
from lmma.strategies.lmma_archive import row_to_replace
from lmma.strategies.parts.checks import MOST, checked_choice
from lmma.strategies.parts.linalg import subtract_outer
from lmma.strategies.parts.parameters import Parameters, constant
from lmma.strategies.parts.recombination import (
    Array,
    Indices,
    Selection,
    cumulate,
    default_popsize,
    weighted_mean,
)
from lmma.strategies.parts.sources import Mirrored, Rademacher, companion
from lmma.strategies.parts.stepsize import PopulationSuccess

Sampling = Literal["rademacher", "gaussian"]


@dataclass(frozen=True, kw_only=True)
class LMCMAParameters(Parameters):
    """The constants of LM-CMA-ES."""

    c_sigma: float = 0.3
    d_sigma: float = 1.0
    z_star: float = 0.3
    m: int = constant(lambda p: default_popsize(p.n))
    c_c: float = constant(lambda p: 0.5 / math.sqrt(p.n))
    c_1: float = constant(lambda p: 1 / (10 * math.log(p.n + 1)))
    distance: float = constant(lambda p: p.n)
    period: int = constant(lambda p: max(1, math.floor(math.log(p.n))))
    base: float = 4.0
    sampling: Sampling = "rademacher"
    mirrored: bool = True

    def _check(self) -> None:
        if not 1 <= self.m <= MOST or self.period < 1:
            raise ValueError(
                f"m and period must be at least 1, m at most {MOST}; got m={self.m}, period={self.period}"
            )
        checked_choice("sampling", self.sampling, ("rademacher", "gaussian"))
        if not 0 < self.c_1 < 1:
            raise ValueError(f"c_1 must lie between 0 and 1, got {self.c_1}")


@final
class CholeskyFactor(Transform):
    """d = A z, with A rebuilt for each candidate from the newest of the stored paths."""

    STATE = ("path", "paths", "inverses", "gains", "losses", "times", "stored", "age")

    def __init__(self, n: int, parameters: LMCMAParameters, dtype: npt.DTypeLike) -> None:
        m, lam = parameters.m, parameters.lam
        self.parameters = parameters
        self.shrink = math.sqrt(1 - parameters.c_1)
        self.path = np.zeros(n, dtype=dtype)
        self.paths = np.zeros((m, n), dtype=dtype)
        self.inverses = np.zeros((m, n), dtype=dtype)
        self.gains = np.zeros(m)
        self.losses = np.zeros(m)
        self.times = np.zeros(m, dtype=np.int64)
        self.stored = 0
        self.age = 0  # generations learned from
        self.z: Array = np.zeros((0, n), dtype=dtype)  # of the last sample, as are the next three
        self.first: Indices = np.zeros(lam, dtype=np.intp)  # first vector used
        self.kept: Array = np.ones(lam)  # d_i = kept_i z_i + mixed_i P
        self.mixed: Array = np.zeros((lam, m))

    def sample(self, batch: Batch) -> None:
        """Draw z and let each candidate use its own newest vectors."""
        z = batch.z
        batch.source.draw(batch.generation, batch.first, z)
        self.z = z
        self.first = self._first_used(batch.source.key, batch.generation, len(z))
        self.kept, self.mixed = self._mix(z, self.first)
        np.matmul(self.mixed.astype(z.dtype), self.paths[: self.stored], out=batch.out)
        for row, numbers, kept in zip(batch.out, z, self.kept.tolist(), strict=True):
            row += kept * numbers
            row *= batch.step
            row += batch.mean

    def at_rest(self) -> CholeskyFactor:
        """Return a copy without z of the last sample and what was made of it."""
        resting = copy.copy(self)
        for name in ("z", "first", "kept", "mixed"):
            setattr(resting, name, getattr(self, name)[:0].copy())
        return resting

    def replaced(self, rows: Indices, z: Array) -> None:
        """Take note of candidates that use all stored vectors."""
        self.first[rows] = 0
        self.kept[rows], self.mixed[rows] = self._mix(z, 0)

    def _first_used(self, key: kernels.Key, generation: int, count: int) -> Indices:
        """Return the first vector each candidate uses (the paper's SelectSubset); pairs share theirs."""
        k = self.stored
        if k < 2:
            return np.zeros(count, dtype=np.intp)
        lengths = np.empty((count, 1))
        kernels.normals(companion(key), generation, 0, lengths)
        used = self.parameters.base * np.abs(lengths[:, 0])
        used[0] *= 10
        first: Indices = np.floor(k - np.minimum(used, k)).astype(np.intp)
        if self.parameters.mirrored:
            first = np.repeat(first, 2)[:count]
        return first

    def _mix(self, z: Array, first: Indices | int) -> tuple[Array, Array]:
        """Return ``kept`` and ``mixed`` such that A z = kept z + mixed P, from vector ``first`` on."""
        k = self.stored
        index = np.arange(k)
        begin = np.asarray(first)[..., None]
        later = self.gains[:k] * self.shrink ** (k - 1.0 - index)
        mixed = np.where(index >= begin, (z @ self.inverses[:k].T) * later, 0.0)
        return self.shrink ** (k - np.asarray(first, dtype=np.float64)), mixed

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return A z with all stored vectors."""
        kept, mixed = self._mix(z, 0)
        d: Array = np.matmul(mixed.astype(z.dtype), self.paths[: self.stored], out=out)
        d += float(kept) * z
        return d

    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of A times d, with all stored vectors."""
        k = self.stored
        later = self.gains[:k] * self.shrink ** (k - 1.0 - np.arange(k))
        mixed = ((d @ self.paths[:k].T) * later).astype(d.dtype)
        return self.shrink**k * d + mixed @ self.inverses[:k]

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return those of A with all stored vectors."""
        k = self.stored
        kept = self.shrink**k
        later = self.gains[:k] * self.shrink ** (k - 1.0 - np.arange(k))
        w = later[:, None] * self.paths[:k, columns]
        inverses = self.inverses[:k]
        inner = 2 * kept * inverses[:, columns] + (inverses @ inverses.T) @ w
        variances: Array = kept**2 + np.einsum("ij,ij->j", w, inner)
        return variances

    def mean_direction(self, order: Indices, weights: Array, z_mean: Array) -> Array:
        """Return the weighted mean of the selected d; A differs between candidates, so not A z_mean."""
        order = order[: len(weights)]
        mean = weighted_mean(weights * self.kept[order], order, self.z)
        mean += (weights @ self.mixed[order]).astype(mean.dtype) @ self.paths[: self.stored]
        return mean

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Let the path fade, add the mean of the selected d; store it every ``period`` generations."""
        cumulate(self.path, self.parameters.c_c, best.mu_w, best.d_mean)
        if self.age % self.parameters.period == 0:
            self._rebuild(self._store())
        self.age += 1

    def _store(self) -> int:
        """Store the path as the newest; return the first row that changed."""
        if self.stored < self.parameters.m:
            first = self.stored
            self.stored += 1
        else:
            first = row_to_replace(self.times, self.parameters.distance)
            self.times[first:-1] = self.times[first + 1 :]
            for row in range(first, self.stored - 1):  # row by row: no temporary of the size of the store
                self.paths[row] = self.paths[row + 1]
        self.times[self.stored - 1] = self.age
        self.paths[self.stored - 1] = self.path
        return first

    def _rebuild(self, first: int) -> None:
        """Renew v_r = A_r^{-1} p_r and its scalars from row ``first`` on."""
        k, c_1 = self.stored, self.parameters.c_1
        self.inverses[first:k] = self.paths[first:k]
        for row in range(k):
            v = self.inverses[row]
            if row >= first:
                length2 = max(float(np.dot(v, v)), float(np.finfo(v.dtype).tiny))
                stretch = math.sqrt(1 + c_1 / (1 - c_1) * length2)
                self.gains[row] = self.shrink / length2 * (stretch - 1)
                self.losses[row] = (1 - 1 / stretch) / (self.shrink * length2)
            below = self.inverses[max(first, row + 1) : k]  # those that still need this factor's inverse
            projections = self.losses[row] * (below @ v)
            below /= self.shrink
            subtract_outer(below, projections, v)


@final
class LMCMAES(ES):
    """Limited-memory CMA-ES: a Cholesky factor from stored paths, O(n log n) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`LMCMAParameters`.

    Examples
    --------
    Candidates come in mirrored pairs of corners of a cube around the mean, unless told otherwise:

    >>> es = lmma.LMCMAES(np.zeros(5), 1.0, rng=1)
    >>> bool(np.all(es.ask()[0] == -es.candidates[1]))
    True
    >>> normal = lmma.LMCMAES(np.zeros(5), 1.0, rng=1, sampling="gaussian", mirrored=False)

    References
    ----------
    Loshchilov, *LM-CMA: an alternative to L-BFGS for large-scale black-box optimization*, Evolutionary
    Computation 25 (2017).
    """

    name = "lm-cma-es"
    define = LMCMAParameters
    parameters: LMCMAParameters
    learns = CholeskyFactor
    rows = staticmethod(lambda n, popsize: 2 * default_popsize(n) + 2 * popsize + 8)  # p_r, v_r, candidates

    def _make_source(self) -> Source:
        p = self.parameters
        # How often an integer changes is known of normal steps; those of one length may never reach another
        corners = p.sampling == "rademacher" and self.integers is None
        source = Rademacher(self.key) if corners else Source(self.key)
        return Mirrored(source) if p.mirrored else source

    def _make_step(self) -> PopulationSuccess:
        p = self.parameters
        return PopulationSuccess(p.lam, p.c_sigma, p.z_star, p.d_sigma)
