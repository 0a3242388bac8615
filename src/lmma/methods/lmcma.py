"""LM-CMA-ES: a Cholesky factor rebuilt from O(log n) stored paths (Loshchilov 2017).

With A_0 = I the factor grows by one stored path p_r at a time, oldest first,

    A_{r+1} = a A_r + b_r p_r v_r^T,    v_r = A_r^{-1} p_r,    A_{r+1}^{-1} x = A_r^{-1} (...) as below,

so that A A^T is the covariance matrix of rank-one updates with rate c_1. Because the v_r are stored, A z only
needs two matrix products.

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
N_steps   ``distance``          int       target number of generations between neighbours
T         ``period``            int       generations between two updates of the store
m_sigma   ``base``              float     scale of the number of vectors that a candidate uses
========  ====================  ========  ===============================================================

Sampling, step size and storage are those of the paper: Rademacher vectors in mirrored pairs, the population
success rule, and candidates that use only the newest |N(0, base^2)| vectors (ten times more for the first
pair). The paper's index array is not needed, because rows are stored in order of age.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.methods.ask_tell import Strategy
from lmma.methods.es import ES, Transform
from lmma.methods.lmma_archive import row_to_replace
from lmma.numerics.checks import check_choice
from lmma.numerics.linalg import Factors, subtract_outer
from lmma.numerics.parameters import Parameters, check_vectors, constant, size_given
from lmma.numerics.recombination import (
    Array,
    Indices,
    Selection,
    cumulate,
    default_vectors,
    weighted_mean,
)
from lmma.numerics.sampling import Batch, Mirrored, Rademacher, Source, independent_key
from lmma.numerics.state import COUNT, FINITE, Declared
from lmma.numerics.stepsize import PopulationSuccess

Sampling = Literal["rademacher", "gaussian"]


@dataclass(frozen=True, kw_only=True)
class LMCMAParameters(Parameters):
    """The constants of LM-CMA-ES."""

    c_sigma: float = 0.3
    d_sigma: float = 1.0
    z_star: float = 0.3
    m: int = constant(lambda p: default_vectors(p.n))
    c_c: float = constant(lambda p: 0.5 / math.sqrt(p.n))
    c_1: float = constant(lambda p: 1 / (10 * math.log(p.n + 1)))
    distance: float = constant(lambda p: p.n)
    period: int = constant(lambda p: max(1, math.floor(math.log(p.n))))
    base: float = 4.0
    sampling: Sampling = "rademacher"
    mirrored: bool = True

    def _check_sizes(self) -> None:
        check_vectors(self.m)

    def _check(self) -> None:
        if self.period < 1:
            raise ValueError(f"period must be at least 1, got {self.period}")
        check_choice("sampling", self.sampling, ("rademacher", "gaussian"))
        if not 0 < self.c_1 < 1:
            raise ValueError(f"c_1 must lie between 0 and 1, got {self.c_1}")

    @classmethod
    def numbers_stored_for(cls, n: int, lam: int, given: Mapping[str, Any]) -> int:
        """Return the approximate number of values that a method stores because of the ``given`` constants."""
        return size_given(given, "m") * (2 * n + lam + 8)


@final
class CholeskyFactor(Transform):
    """Transform d = A z, with A built for each candidate from the newest stored paths."""

    STATE: ClassVar[Declared] = {
        "path": FINITE, "paths": FINITE, "inverses": FINITE, "gains": FINITE, "losses": FINITE,
        "times": COUNT, "stored": COUNT, "age": COUNT,
    }  # fmt: skip

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
        self.age = 0  # number of updates
        self.z: Array = np.zeros((0, n), dtype=dtype)  # of the last sample, like the next three
        self.first: Indices = np.zeros(lam, dtype=np.intp)  # first vector used
        self.kept: Array = np.ones(lam)  # d_i = kept_i z_i + mixed_i P
        self.mixed: Array = np.zeros((lam, m))

    def sample(self, batch: Batch) -> None:
        """Draw z and set ``out`` to the candidates, each of which uses a random number of newest vectors."""
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

    def without_sample(self) -> CholeskyFactor:
        """Return a copy that does not hold the last sample."""
        stripped = copy.copy(self)
        for name in ("z", "first", "kept", "mixed"):
            setattr(stripped, name, getattr(self, name)[:0].copy())
        return stripped

    def replaced(self, rows: Indices, z: Array) -> None:
        """Update stored samples: the replaced candidates use all stored vectors."""
        self.first[rows] = 0
        self.kept[rows], self.mixed[rows] = self._mix(z, 0)

    def _first_used(self, key: kernels.Key, generation: int, count: int) -> Indices:
        """Return the first vector used by each candidate (the paper's SelectSubset), equal within a pair."""
        k = self.stored
        if k < 2:
            return np.zeros(count, dtype=np.intp)
        lengths = np.empty((count, 1))
        kernels.normals(independent_key(key), generation, 0, lengths)
        used = self.parameters.base * np.abs(lengths[:, 0])
        used[0] *= 10
        first: Indices = np.floor(k - np.minimum(used, k)).astype(np.intp)
        if self.parameters.mirrored:
            first = np.repeat(first, 2)[:count]
        return first

    def _mix(self, z: Array, first: Indices | int) -> tuple[Array, Array]:
        """Return ``kept`` and ``mixed`` such that A z = kept z + mixed P, using vectors from ``first``."""
        k = self.stored
        index = np.arange(k)
        start = np.asarray(first)[..., None]
        later = self.gains[:k] * self.shrink ** (k - 1.0 - index)
        mixed = np.where(index >= start, (z @ self.inverses[:k].T) * later, 0.0)
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
        """Return the diagonal of A A^T at ``columns``, with all stored vectors."""
        k = self.stored
        kept = self.shrink**k
        later = self.gains[:k] * self.shrink ** (k - 1.0 - np.arange(k))
        w = later[:, None] * self.paths[:k, columns]
        inverses = self.inverses[:k]
        inner = 2 * kept * inverses[:, columns] + (inverses @ inverses.T) @ w
        variances: Array = kept**2 + np.einsum("ij,ij->j", w, inner)
        return variances

    def mean_direction(self, order: Indices, weights: Array, z_mean: Array) -> Array:
        """Return the weighted mean of the selected d; it is not A z_mean, as A differs between candidates."""
        order = order[: len(weights)]
        mean = weighted_mean(weights * self.kept[order], order, self.z)
        mean += (weights @ self.mixed[order]).astype(mean.dtype) @ self.paths[: self.stored]
        return mean

    def factors(self) -> Factors:
        """Return the stored paths and their inverses."""
        return Factors(
            rows=np.vstack((self.paths[: self.stored], self.inverses[: self.stored])),
            constant=self.shrink**self.stored,
        )

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Update the path with the mean of the selected d; store it every ``period`` generations."""
        cumulate(self.path, self.parameters.c_c, best.mu_w, best.d_mean)
        if self.age % self.parameters.period == 0:
            self._rebuild(self._store())
        self.age += 1

    def _store(self) -> int:
        """Store the path as the newest row; return the first row that changed."""
        if self.stored < self.parameters.m:
            first = self.stored
            self.stored += 1
        else:
            first = row_to_replace(self.times, self.parameters.distance)
            self.times[first:-1] = self.times[first + 1 :]
            for row in range(first, self.stored - 1):  # row by row, to avoid a large temporary
                self.paths[row] = self.paths[row + 1]
        self.times[self.stored - 1] = self.age
        self.paths[self.stored - 1] = self.path
        return first

    def _rebuild(self, first: int) -> None:
        """Recompute v_r = A_r^{-1} p_r and its scalars, starting at row ``first``."""
        k, c_1 = self.stored, self.parameters.c_1
        self.inverses[first:k] = self.paths[first:k]
        for row in range(k):
            v = self.inverses[row]
            if row >= first:
                length2 = max(float(np.dot(v, v)), float(np.finfo(v.dtype).tiny))
                stretch = math.sqrt(1 + c_1 / (1 - c_1) * length2)
                self.gains[row] = self.shrink / length2 * (stretch - 1)
                self.losses[row] = (1 - 1 / stretch) / (self.shrink * length2)
            below = self.inverses[max(first, row + 1) : k]  # rows that still need the inverse of this factor
            projections = self.losses[row] * (below @ v)
            below /= self.shrink
            subtract_outer(below, projections, v)


@final
class LMCMAMethod(ES):
    """Sampling and update of LM-CMA-ES: corners of a cube or normal steps, Cholesky factor from paths."""

    name = "lm-cma-es"
    define = LMCMAParameters
    parameters: LMCMAParameters
    learns = CholeskyFactor
    rows = staticmethod(lambda n, popsize: 2 * default_vectors(n) + 2 * popsize + 8)  # p_r, v_r, candidates

    def _make_source(self) -> Source:
        p = self.parameters
        # The integer layer assumes normal steps; steps of equal length may never reach another integer
        corners = p.sampling == "rademacher" and self.settings.integers is None
        source = Rademacher(self.key) if corners else Source(self.key)
        return Mirrored(source) if p.mirrored else source

    def _make_step(self) -> PopulationSuccess:
        p = self.parameters
        return PopulationSuccess(p.lam, p.c_sigma, p.z_star, p.d_sigma)


class LMCMAES(Strategy):
    """Limited-memory CMA-ES: a Cholesky factor from stored paths, O(n log n) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`LMCMAParameters`.

    Examples
    --------
    By default candidates come in mirrored pairs of corners of a cube around the mean:

    >>> es = lmma.LMCMAES(np.zeros(5), 1.0, rng=1)
    >>> bool(np.all(es.ask()[0] == -es.candidates[1]))
    True
    >>> normal = lmma.LMCMAES(np.zeros(5), 1.0, rng=1, sampling="gaussian", mirrored=False)

    References
    ----------
    Loshchilov, *LM-CMA: an alternative to L-BFGS for large-scale black-box optimization*, Evolutionary
    Computation 25 (2017).
    """

    METHOD = LMCMAMethod
    method: LMCMAMethod
