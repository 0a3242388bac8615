"""LM-MA-ES with an archive of paths: Algorithm 1 of the paper's supplement.

In place of m vectors that fade at different speeds it stores m past states of one path, at least N
generations apart.

==========  ===================  ========  ==============================================================
supplement  code                 shape     meaning
==========  ===================  ========  ==============================================================
m_max       ``m``                int       number of stored vectors
M           ``vectors``          (m, n)    stored paths, in slots
ref         ``order``            (m,)      slots from the oldest vector to the newest
time        ``times``            (m,)      generation at which each slot was filled
N           ``distance``         float     temporal distance aimed at between neighbours
p_c         ``path``             (n,)      path of the selected z, what is stored
c_c         ``c_c``              float     its fading rate
c_1         ``c_1``              float     how strongly the newest vector stretches its direction
c'          ``rates()``          (k,)      the same for each vector, in the order of application
d_sigma     ``d_sigma``          float     damping of the step size
-           ``gram``             (m, m)    products of the stored vectors
==========  ===================  ========  ==============================================================

The listing has slips; we read it so: c' and c'_1 are one variable; of the closest pair the newer vector is
replaced; neighbours are kept *at least* N apart (the text says "not greater than", the procedure enforces
the opposite). The factors fold into two matrix products as those of LM-MA-ES do.

Departs for small n (docs/departures.md): rates are capped at 1/2, and N is at least n, as paths that are
closer than their own horizon 1/c_c = n point the same way and together stretch it without bound. This
changes nothing from n = 12 up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.strategies.es import ES, Transform
from lmma.strategies.parts.checks import MOST
from lmma.strategies.parts.integers import as_slice
from lmma.strategies.parts.lowrank import folded_transposed, folded_variances
from lmma.strategies.parts.parameters import Parameters, constant, derived
from lmma.strategies.parts.recombination import Array, Indices, Selection, cumulate, default_popsize

CAP = 0.5


@dataclass(frozen=True, kw_only=True)
class ArchiveParameters(Parameters):
    """The constants of LM-MA-ES with an archive."""

    c_sigma: float = constant(lambda p: 1 / p.m)  # [S1:1]
    d_sigma: float = 0.5  # [S1:1]
    crowd: float = derived(lambda p: 1.0)  # [S1:26] holds for every population
    m: int = constant(lambda p: default_popsize(p.n))  # [S1:1]
    c_1: float = constant(lambda p: min(1 / p.n, CAP))  # [S1:1]
    c_c: float = constant(lambda p: min(1 / p.n, CAP))  # [S1:1]
    distance: float = constant(lambda p: max(p.n * p.n / p.m, p.n))  # [S1:2]

    def _check(self) -> None:
        if not 1 <= self.m <= MOST:
            raise ValueError(f"m must be at least 1 and at most {MOST}, got {self.m}")


def row_to_replace(times: npt.NDArray[np.int64], distance: float) -> int:
    """Return which of the stored vectors, oldest first, makes room for a new one.

    It is the newer one of the closest pair, or the oldest of all where every pair is ``distance`` apart.
    """
    if len(times) < 2:
        return 0
    gaps = np.diff(times)
    closest = int(np.argmin(gaps))  # [S1:20]
    return 0 if gaps[closest] >= distance else closest + 1  # [S1:21] [S1:22]


@final
class PathArchive(Transform):
    """d = (factor of the oldest path) ... (factor of the newest path) z."""

    STATE = ("vectors", "gram", "path", "order", "times", "age")

    def __init__(self, n: int, parameters: ArchiveParameters, dtype: npt.DTypeLike) -> None:
        m = parameters.m
        self.parameters = parameters
        self.vectors = np.zeros((m, n), dtype=dtype)
        self.gram = np.zeros((m, m))
        self.path = np.zeros(n, dtype=dtype)
        self.order = np.arange(m)
        self.times = np.zeros(m, dtype=np.int64)
        self.age = 0  # generations learned from

    @property
    def active(self) -> int:
        """How many vectors are stored; they fill the first slots."""
        return min(self.age, self.parameters.m)  # [S1:16]

    def rates(self) -> Array:
        """Return c' of the stored vectors, newest first, the order in which they are applied."""
        c_1 = self.parameters.c_1
        gaps = np.diff(self.times[self.order[: self.active]])[::-1]
        rates = np.concatenate(([c_1], c_1 * gaps / self.parameters.distance))  # [S1:8] [S1:10]
        return np.minimum(rates, CAP)

    def _fold(self) -> tuple[float, Array]:
        newest_first = self.order[: self.active][::-1]  # [S1:7]
        alpha, mix = kernels.fold(self.gram[np.ix_(newest_first, newest_first)], self.rates())
        by_slot = np.empty_like(mix)
        by_slot[np.ix_(newest_first, newest_first)] = mix
        return alpha, by_slot

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return M z."""
        if self.active == 0:
            return np.positive(z, out=out)
        alpha, mix = self._fold()
        vectors = self.vectors[: self.active]
        d: Array = np.matmul(((z @ vectors.T) @ mix).astype(z.dtype), vectors, out=out)
        for row, numbers in zip(np.atleast_2d(d), np.atleast_2d(z), strict=True):
            row += alpha * numbers  # [S1:11], all factors at once; row by row: no large temporary
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

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Let the path fade, add the mean of the selected z, and store it."""
        cumulate(self.path, self.parameters.c_c, best.mu_w, best.z_mean)  # [S1:15]
        if self.age >= self.parameters.m:
            index = row_to_replace(self.times[self.order], self.parameters.distance)
            slot = self.order[index]
            self.order[index:-1] = self.order[index + 1 :]  # [S1:23]
            self.order[-1] = slot
        self.age += 1
        newest = self.order[self.active - 1]
        self.times[newest] = self.age  # [S1:24]
        self.vectors[newest] = self.path  # [S1:25]
        self.gram[newest] = self.gram[:, newest] = self.vectors @ self.path


@final
class LMMAESArchive(ES):
    """LM-MA-ES that stores past paths at temporal distances, O(n log n) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`ArchiveParameters`.

    Examples
    --------
    >>> lmma.LMMAESArchive(np.ones(10), 0.5).parameters.distance
    10.0

    References
    ----------
    Loshchilov, Glasmachers and Beyer, *Limited-memory matrix adaptation for large scale black-box
    optimization*, arXiv 1705.06693, supplement.
    """

    name = "lm-ma-es-archive"
    define = ArchiveParameters
    learns = PathArchive
    rows = staticmethod(lambda n, popsize: default_popsize(n) + 2 * popsize + 8)  # paths, candidates, their z
