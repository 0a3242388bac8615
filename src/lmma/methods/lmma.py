"""LM-MA-ES: O(log n) direction vectors in place of a matrix (the green lines of Algorithm 1).

=====  =================  ========  ================================================================
paper  code               shape     meaning
=====  =================  ========  ================================================================
m      ``m``              int       number of direction vectors
m_i    ``vectors``        (m, n)    fading records of selected z, fastest first
c_d,i  ``c_d``            (m,)      strength of the stretching along m_i
c_c,i  ``c_c``            (m,)      fading rate of m_i
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
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma._text import shown
from lmma.layers.integers import as_slice
from lmma.methods.ask_tell import Strategy
from lmma.methods.es import ES, StreamingTransform, Transform
from lmma.numerics.linalg import Factors, folded_transposed, folded_variances, padded_rows
from lmma.numerics.parameters import Parameters, check_vectors, constant, derived, size_given
from lmma.numerics.recombination import Array, Indices, Selection, default_vectors
from lmma.numerics.sampling import Batch, with_opposites
from lmma.numerics.state import COUNT, FINITE, Declared

CAP = 0.5  # sphere, ellipsoid and Rosenbrock are solved for every small n; with a cap of 1 not at n = 2
RENEW = 64  # generations between two exact computations of the Gram matrix, to limit rounding errors


@dataclass(frozen=True, kw_only=True)
class LMMAParameters(Parameters):
    """The constants of LM-MA-ES; i counts from 0, in the paper from 1."""

    c_sigma: float = constant(lambda p: min(2 * p.lam / p.n, CAP))  # [A1:1]
    m: int = constant(lambda p: default_vectors(p.n))  # [A1:1]
    i: Indices = derived(lambda p: np.arange(p.m), visible=False)
    c_d: Array = constant(lambda p: np.minimum(1 / (1.5**p.i * p.n), CAP), visible=False)  # [A1:1]
    c_c: Array = constant(lambda p: np.minimum(p.lam / (4.0**p.i * p.n), CAP), visible=False)  # [A1:1]

    def _check_sizes(self) -> None:
        check_vectors(self.m)

    def _check(self) -> None:
        for name in ("c_d", "c_c"):
            rates = np.asarray(getattr(self, name), float)
            if rates.shape != (self.m,) or np.any(rates < 0) or np.any(rates >= 1):
                raise ValueError(f"{name} must be {self.m} rates (m={self.m}) in [0, 1), got {shown(rates)}")
            self._set(**{name: rates})

    @classmethod
    def numbers_stored_for(cls, n: int, lam: int, given: Mapping[str, Any]) -> int:
        """Return the approximate number of values that a method stores because of the ``given`` constants."""
        m = size_given(given, "m")
        return m * (n + lam + m + 8)  # vectors, projections, their Gram matrix


class FoldedDirections(Transform):
    """Transform M = alpha I + a product of rank k, equal to successive factors along k vectors."""

    gram: Array  # (m, m)

    @abstractmethod
    def applied(self) -> Array:
        """Return the vectors in use, (k, n)."""

    @abstractmethod
    def _fold(self) -> tuple[float, Array]:
        """Return alpha and the (k, k) matrix between the vectors, see ``kernels.fold``."""

    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of M times d."""
        vectors = self.applied()
        return folded_transposed(d, *self._fold(), vectors) if len(vectors) else d.copy()

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return the diagonal of M M^T at ``columns``, from the vectors and their Gram matrix."""
        vectors = self.applied()
        k = len(vectors)
        if k == 0:
            return np.ones(len(columns))
        return folded_variances(*self._fold(), vectors[:, as_slice(columns)], self.gram[:k, :k])

    def factors(self) -> Factors:
        """Return the vectors in use."""
        vectors = self.applied()
        return Factors(rows=vectors, constant=self._fold()[0]) if len(vectors) else Factors()


@final
class DirectionVectors(FoldedDirections, StreamingTransform):
    """Transform d = (factor of m_k) ... (factor of m_1) z, the identity stretched along m directions."""

    STATE: ClassVar[Declared] = {"vectors": FINITE, "gram": FINITE, "age": COUNT}

    def __init__(self, n: int, parameters: LMMAParameters, dtype: npt.DTypeLike) -> None:
        m = parameters.m
        self.parameters = parameters
        self._vectors: Array = padded_rows(m, n, dtype)  # [A1:2]
        self._waiting: kernels.Update | None = None  # pending update of the vectors
        self.gram = np.zeros((m, m))
        self.age = 0  # number of updates; min(t, m) vectors are in use
        self.keep = 1.0 - parameters.c_c
        self.gain = np.sqrt(parameters.c_c * (2.0 - parameters.c_c))  # times sqrt(mu_w)
        self._gain = math.sqrt(parameters.mu_w) * self.gain  # if all candidates have values
        self.projections: Array = np.zeros((parameters.lam, m))
        self.u: Array = np.zeros(m)  # V z_mean of the current selection

    @staticmethod
    def workspace(n: int, popsize: int, itemsize: int) -> int:
        """Return the temporary memory of the kernels in bytes."""
        return kernels.lm_workspace(n, popsize, default_vectors(n), itemsize)

    @property
    def vectors(self) -> Array:
        """Direction vectors, after applying a pending update."""
        if self._waiting is not None:
            update, self._waiting = self._waiting, None
            kernels.lm_update(self._vectors, *update, threads=self.threads)
        return self._vectors

    def without_sample(self) -> DirectionVectors:
        """Return a copy without a pending update that does not hold the last sample."""
        stripped = copy.copy(self)
        stripped._vectors, stripped._waiting = self.vectors, None
        stripped.projections, stripped.u = np.zeros((0, self.parameters.m)), np.zeros(self.parameters.m)
        return stripped

    @property
    def active(self) -> int:
        """Number of direction vectors in use."""
        return min(self.age, self.parameters.m)  # [A1:9]

    def applied(self) -> Array:
        """Return the direction vectors in use."""
        return self.vectors[: self.active]

    def sample(self, batch: Batch) -> None:
        """Draw and transform in one kernel: [A1:5] to [A1:11] without a pass for each vector."""
        self.projections = self._draw(batch)

    def sample_block(self, batch: Batch) -> None:
        """Set ``out`` to the candidates from index ``first``, without storing their z."""
        self.projections[batch.first : batch.first + len(batch.out)] = self._draw(batch)

    def _draw(self, batch: Batch) -> Array:
        """Draw candidates, applying a pending update of the vectors in the same pass."""
        source, generation, mean, step, out, z, _, first = batch
        update, self._waiting = self._waiting, None
        try:
            return kernels.lm_sample(
                source.key, generation, first, self._vectors, self.active, self.gram, self.parameters.c_d,
                mean, step, z if len(z) else None, out, update=update, threads=self.threads,
            )  # fmt: skip
        except MemoryError:  # raised before any change
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

    def solve(self, d: Array) -> Array:
        """Return z with M z = d, by solving an m by m system (M is alpha I plus a product of rank m)."""
        if self.active == 0:
            return d.copy()
        alpha, mix = self._fold()
        vectors = self.vectors[: self.active]
        small = alpha * np.eye(self.active) + mix.T @ (vectors @ vectors.T)
        inner = np.linalg.solve(small, mix.T @ (vectors @ d))
        z: Array = ((d - inner @ vectors) / alpha).astype(d.dtype)
        return z

    def paired(self, count: int) -> None:
        """Add the negative of each projection."""
        self.projections = with_opposites(self.projections, count)

    def replaced(self, rows: Indices, z: Array) -> None:
        """Project the new z on the direction vectors."""
        self.projections[rows] = z @ self.vectors.T

    def _fold(self) -> tuple[float, Array]:
        k = self.active
        return kernels.fold(self.gram[:k, :k], self.parameters.c_d[:k])

    def mean_direction(self, order: Indices, weights: Array, z_mean: Array) -> Array:
        """Return M z_mean, from the projections on the m_i stored during sampling."""
        self.u, d_mean = kernels.lm_direction(  # Departs from [A1:10] as ``_apply`` does
            weights, order[: len(weights)], self.projections, self.active, self.gram, self.parameters.c_d,
            self.vectors, z_mean, threads=self.threads,
        )  # fmt: skip
        return d_mean

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Update each m_i with the mean of the selected z, at its own rate.

        The Gram matrix is updated immediately. The update of the vectors is deferred until they are read or
        the next candidates are drawn, which saves a pass over memory.
        """
        gain = self._gain if best.mu_w == self.parameters.mu_w else math.sqrt(best.mu_w) * self.gain
        self._waiting = (self.keep, gain, best.z_mean)  # [A1:17] [A1:18]
        kernels.lm_gram(self.gram, self.keep, gain, self.u, float(np.dot(best.z_mean, best.z_mean)))
        self.age += 1
        if self.age % RENEW == 0:
            self.gram[...] = self.vectors @ self.vectors.T


@final
class LMMAMethod(ES):
    """LM-MA-ES, the green lines of Algorithm 1: M from a few direction vectors."""

    name = "lm-ma-es"
    can_stream = True
    define = LMMAParameters
    learns = DirectionVectors
    rows = staticmethod(lambda n, popsize: default_vectors(n) + 2 * popsize + 8)  # m_i, candidates, their z
    workspace = staticmethod(DirectionVectors.workspace)


class LMMAES(Strategy):
    """Limited-memory matrix adaptation evolution strategy, O(n log n) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`LMMAParameters`.

    Examples
    --------
    >>> es = lmma.LMMAES(np.full(200, 3.0), 1.0, rng=1, m=10)
    >>> es.tell(np.sum(es.ask() ** 2, axis=1))
    >>> es.method.transform.vectors.shape
    (10, 200)

    References
    ----------
    Loshchilov, Glasmachers and Beyer, *Limited-memory matrix adaptation for large scale black-box
    optimization*, arXiv 1705.06693.
    """

    METHOD = LMMAMethod
    method: LMMAMethod
