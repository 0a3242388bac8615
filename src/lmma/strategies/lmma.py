"""LM-MA-ES: O(log n) direction vectors in place of a matrix (the green lines of Algorithm 1).

=====  =================  ========  ================================================================
paper  code               shape     meaning
=====  =================  ========  ================================================================
m      ``m``              int       number of direction vectors
m_i    ``vectors``        (m, n)    fading records of selected z, fastest first
c_d,i  ``c_d``            (m,)      how strongly m_i stretches its direction
c_c,i  ``c_c``            (m,)      how fast m_i fades
-      ``gram``           (m, m)    m_i . m_j, kept up to date without a pass over ``vectors``
-      ``projections``    (lam, m)  z_i . m_j of the last sample
=====  =================  ========  ================================================================

The factors of [A1:10], applied one after another, fold into two matrix products (``kernels.fold``).
From V' = diag(a) V + b w^T with w = z_mean follows

    gram' = diag(a) gram diag(a) + (a u) b^T + b (a u)^T + |w|^2 b b^T,    u = V w,

where u is a weighted mean of rows of ``projections``, known from sampling.

Departs from [A1:1] for small n (docs/departures.md): c_sigma, c_c and c_d are capped at 1/2. As printed
they exceed 1 for n <= 25, which flips the sign of paths, and 2 for n <= 9, which leaves no real root in
[A1:13] and [A1:18]. Nothing changes from n = 64 up with the default population.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.strategies.es import ES, Batch, StreamingTransform
from lmma.strategies.parts.aligned import spaced
from lmma.strategies.parts.checks import MOST, shown
from lmma.strategies.parts.integers import as_slice
from lmma.strategies.parts.lowrank import folded_transposed, folded_variances
from lmma.strategies.parts.pairs import in_pairs
from lmma.strategies.parts.parameters import Parameters, constant, derived
from lmma.strategies.parts.recombination import Array, Indices, Selection, default_popsize

CAP = 0.5  # solves sphere, ellipsoid and Rosenbrock for every small n; a cap of 1 does not at n = 2
RENEW = 64  # generations between two exact computations of the Gram matrix, against drift


@dataclass(frozen=True, kw_only=True)
class LMMAParameters(Parameters):
    """The constants of LM-MA-ES; i counts from 0, the paper's from 1."""

    c_sigma: float = constant(lambda p: min(2 * p.lam / p.n, CAP))  # [A1:1]
    m: int = constant(lambda p: default_popsize(p.n))  # [A1:1]
    i: Indices = derived(lambda p: np.arange(p.m), visible=False)
    c_d: Array = constant(lambda p: np.minimum(1 / (1.5**p.i * p.n), CAP), visible=False)  # [A1:1]
    c_c: Array = constant(lambda p: np.minimum(p.lam / (4.0**p.i * p.n), CAP), visible=False)  # [A1:1]

    def _check(self) -> None:
        if not 1 <= self.m <= MOST:
            raise ValueError(f"m must be at least 1 and at most {MOST}, got {self.m}")
        for name in ("c_d", "c_c"):
            rates = np.asarray(getattr(self, name), float)
            if rates.shape != (self.m,) or np.any(rates < 0) or np.any(rates >= 1):
                raise ValueError(f"{name} must be {self.m} rates (m={self.m}) in [0, 1), got {shown(rates)}")
            self._set(**{name: rates})


@final
class DirectionVectors(StreamingTransform):
    """d = (factor of m_k) ... (factor of m_1) z, the identity stretched along m directions."""

    STATE = ("vectors", "gram", "age")

    def __init__(self, n: int, parameters: LMMAParameters, dtype: npt.DTypeLike) -> None:
        m = parameters.m
        self.parameters = parameters
        self._vectors: Array = spaced(m, n, dtype)  # [A1:2]
        self._waiting: kernels.Update | None = None  # an update of the vectors that is still to be done
        self.gram = np.zeros((m, m))
        self.age = 0  # generations learned from: min(t, m) vectors are applied
        self.keep = 1.0 - parameters.c_c
        self.gain = np.sqrt(parameters.c_c * (2.0 - parameters.c_c))  # times sqrt(mu_w)
        self._gain = math.sqrt(parameters.mu_w) * self.gain  # while all candidates have values
        self.projections: Array = np.zeros((parameters.lam, m))
        self.u: Array = np.zeros(m)  # V z_mean of the selection at hand

    @property
    def vectors(self) -> Array:
        """The direction vectors, up to date."""
        if self._waiting is not None:
            update, self._waiting = self._waiting, None
            kernels.lm_update(self._vectors, *update, threads=self.threads)
        return self._vectors

    def at_rest(self) -> DirectionVectors:
        """Return a copy, up to date and without the projections of the last sample."""
        resting = copy.copy(self)
        resting._vectors, resting._waiting = self.vectors, None
        resting.projections, resting.u = np.zeros((0, self.parameters.m)), np.zeros(self.parameters.m)
        return resting

    @property
    def active(self) -> int:
        """How many direction vectors are applied now."""
        return min(self.age, self.parameters.m)  # [A1:9]

    def sample(self, batch: Batch) -> None:
        """Draw and transform in one go; [A1:5] to [A1:11] without a pass for each vector."""
        self.projections = self._draw(batch)

    def sample_block(self, batch: Batch) -> None:
        """Do the same for some of the candidates, without keeping their z."""
        self.projections[batch.first : batch.first + len(batch.out)] = self._draw(batch)

    def _draw(self, batch: Batch) -> Array:
        """Draw candidates; the first pass over the vectors for it brings them up to date."""
        source, generation, mean, step, out, z, _, first = batch
        update, self._waiting = self._waiting, None
        try:
            return kernels.lm_sample(
                source.key, generation, first, self._vectors, self.active, self.gram, self.parameters.c_d,
                mean, step, z if len(z) else None, out, update=update, threads=self.threads,
            )  # fmt: skip
        except MemoryError:  # nothing has been done
            self._waiting = update
            raise

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return M z."""
        return self._apply(z, z @ self.vectors[: self.active].T, out)

    def _apply(self, z: Array, projections: Array, out: Array | None = None) -> Array:
        if self.active == 0:
            return np.positive(z, out=out)
        alpha, mix = self._fold()
        d: Array = np.matmul((projections @ mix).astype(z.dtype), self.vectors[: self.active], out=out)
        d += alpha * z  # Departs from [A1:10]: all factors in two products; docs/departures.md
        return d

    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of M times d."""
        if self.active == 0:
            return d.copy()
        return folded_transposed(d, *self._fold(), self.vectors[: self.active])

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return the diagonal of M M^T there, from the columns of the vectors and their Gram matrix."""
        if self.active == 0:
            return np.ones(len(columns))
        k = self.active
        return folded_variances(*self._fold(), self.vectors[:k, as_slice(columns)], self.gram[:k, :k])

    def solve(self, d: Array) -> Array:
        """Return z with M z = d, through an m by m system (M is alpha I plus a product of rank m)."""
        if self.active == 0:
            return d.copy()
        alpha, mix = self._fold()
        vectors = self.vectors[: self.active]
        small = alpha * np.eye(self.active) + mix.T @ (vectors @ vectors.T)
        inner = np.linalg.solve(small, mix.T @ (vectors @ d))
        z: Array = ((d - inner @ vectors) / alpha).astype(d.dtype)
        return z

    def paired(self, count: int) -> None:
        """Give each projection its opposite."""
        self.projections = in_pairs(self.projections, count)

    def replaced(self, rows: Indices, z: Array) -> None:
        """Project the new z on the direction vectors."""
        self.projections[rows] = z @ self.vectors.T

    def _fold(self) -> tuple[float, Array]:
        k = self.active
        return kernels.fold(self.gram[:k, :k], self.parameters.c_d[:k])

    def mean_direction(self, order: Indices, weights: Array, z_mean: Array) -> Array:
        """Return M z_mean; its projections on the m_i are known from sampling."""
        self.u, d_mean = kernels.lm_direction(  # Departs from [A1:10] as ``_apply`` does
            weights, order[: len(weights)], self.projections, self.active, self.gram, self.parameters.c_d,
            self.vectors, z_mean, threads=self.threads,
        )  # fmt: skip
        return d_mean

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Let every m_i fade and add the mean of the selected z, each at its own rate.

        The Gram matrix follows at once. The vectors do so when somebody looks at them, or on the way when
        the next candidates are drawn, which spares a pass over memory.
        """
        gain = self._gain if best.mu_w == self.parameters.mu_w else math.sqrt(best.mu_w) * self.gain
        self._waiting = (self.keep, gain, best.z_mean)  # [A1:17] [A1:18]
        kernels.lm_gram(self.gram, self.keep, gain, self.u, float(np.dot(best.z_mean, best.z_mean)))
        self.age += 1
        if self.age % RENEW == 0:
            self.gram[...] = self.vectors @ self.vectors.T


@final
class LMMAES(ES):
    """Limited-memory matrix adaptation evolution strategy, O(n log n) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`LMMAParameters`.

    Examples
    --------
    >>> es = lmma.LMMAES(np.full(200, 3.0), 1.0, rng=1, m=10)
    >>> es.tell(np.sum(es.ask() ** 2, axis=1))
    >>> es.transform.vectors.shape
    (10, 200)

    References
    ----------
    Loshchilov, Glasmachers and Beyer, *Limited-memory matrix adaptation for large scale black-box
    optimization*, arXiv 1705.06693.
    """

    name = "lm-ma-es"
    can_stream = True
    define = LMMAParameters
    learns = DirectionVectors
    rows = staticmethod(lambda n, popsize: default_popsize(n) + 2 * popsize + 8)  # m_i, candidates, their z

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return about how many bytes a run needs, the kernels' work space included."""
        work = kernels.lm_workspace(n, popsize, default_popsize(n), itemsize)
        return super().memory(n, popsize, itemsize) + work
