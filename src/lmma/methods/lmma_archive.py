"""LM-MA-ES with an archive of paths: Algorithm 1 of the paper's supplement.

Instead of m vectors that fade at different rates, it stores m past states of one path, at least N generations
apart.

==========  ===================  ========  ==============================================================
supplement  code                 shape     meaning
==========  ===================  ========  ==============================================================
m_max       ``m``                int       number of stored vectors
M           ``vectors``          (m, n)    stored paths, in slots
ref         ``order``            (m,)      slots from the oldest vector to the newest
time        ``times``            (m,)      generation at which each slot was filled
N           ``distance``         float     target of the temporal distance between neighbours
p_c         ``path``             (n,)      path of the selected z, stored in the archive
c_c         ``c_c``              float     its fading rate
c_1         ``c_1``              float     strength of the stretching along the newest vector
c'          ``rates()``          (k,)      the same for each vector, in the order of application
d_sigma     ``d_sigma``          float     damping of the step size
-           ``gram``             (m, m)    products of the stored vectors
==========  ===================  ========  ==============================================================

The listing has errors, which are resolved as follows: c' and c'_1 are the same variable; the newer vector of
the closest pair is replaced; neighbours are kept *at least* N apart (the text says "not greater than", but
the procedure enforces the opposite). The factors fold into two matrix products as in LM-MA-ES.

Departs for small n (docs/departures.md): rates are capped at 1/2, and N is at least n, because paths closer
than their horizon 1/c_c = n are nearly parallel and together stretch that direction without bound. This
changes nothing for n >= 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.methods.ask_tell import Strategy
from lmma.methods.es import ES
from lmma.methods.lmma import FoldedDirections
from lmma.numerics.parameters import Parameters, check_vectors, constant, derived, size_given
from lmma.numerics.recombination import Array, Selection, cumulate, default_vectors
from lmma.numerics.state import COUNT, FINITE, Declared

CAP = 0.5


@dataclass(frozen=True, kw_only=True)
class ArchiveParameters(Parameters):
    """The constants of LM-MA-ES with an archive."""

    c_sigma: float = constant(lambda p: 1 / p.m)  # [S1:1]
    d_sigma: float = 0.5  # [S1:1]
    population_damping: float = derived(lambda p: 1.0)  # [S1:26] holds for every population
    m: int = constant(lambda p: default_vectors(p.n))  # [S1:1]
    c_1: float = constant(lambda p: min(1 / p.n, CAP))  # [S1:1]
    c_c: float = constant(lambda p: min(1 / p.n, CAP))  # [S1:1]
    distance: float = constant(lambda p: max(p.n * p.n / p.m, p.n))  # [S1:2]

    def _check_sizes(self) -> None:
        check_vectors(self.m)

    @classmethod
    def numbers_stored_for(cls, n: int, lam: int, given: Mapping[str, Any]) -> int:
        """Return the approximate number of values that a method stores because of the ``given`` constants."""
        m = size_given(given, "m")
        return m * (n + lam + m + 8)  # vectors, projections, their Gram matrix


def row_to_replace(times: npt.NDArray[np.int64], distance: float) -> int:
    """Return the index of the stored vector, oldest first, that a new one replaces.

    It is the newer one of the closest pair, or the oldest if all pairs are at least ``distance`` apart.
    """
    if len(times) < 2:
        return 0
    gaps = np.diff(times)
    closest = int(np.argmin(gaps))  # [S1:20]
    return 0 if gaps[closest] >= distance else closest + 1  # [S1:21] [S1:22]


@final
class PathArchive(FoldedDirections):
    """Transform d = (factor of the oldest path) ... (factor of the newest path) z."""

    STATE: ClassVar[Declared] = {
        "vectors": FINITE, "gram": FINITE, "path": FINITE, "order": COUNT, "times": COUNT, "age": COUNT,
    }  # fmt: skip

    def __init__(self, n: int, parameters: ArchiveParameters, dtype: npt.DTypeLike) -> None:
        m = parameters.m
        self.parameters = parameters
        self.vectors = np.zeros((m, n), dtype=dtype)
        self.gram = np.zeros((m, m))
        self.path = np.zeros(n, dtype=dtype)
        self.order = np.arange(m)
        self.times = np.zeros(m, dtype=np.int64)
        self.age = 0  # number of updates

    @property
    def active(self) -> int:
        """Number of stored vectors, which fill the first slots."""
        return min(self.age, self.parameters.m)  # [S1:16]

    def rates(self) -> Array:
        """Return c' of the stored vectors, newest first, the order in which they are applied."""
        c_1 = self.parameters.c_1
        gaps = np.diff(self.times[self.order[: self.active]])[::-1]
        rates = np.concatenate(([c_1], c_1 * gaps / self.parameters.distance))  # [S1:8] [S1:10]
        return np.minimum(rates, CAP)

    def applied(self) -> Array:
        """Return the stored paths."""
        return self.vectors[: self.active]

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
            row += alpha * numbers  # [S1:11], all factors at once; row by row, to avoid a large temporary
        return d

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Update the path with the mean of the selected z, and store it."""
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
class ArchiveMethod(ES):
    """LM-MA-ES with the supplement's archive."""

    name = "lm-ma-es-archive"
    define = ArchiveParameters
    learns = PathArchive
    rows = staticmethod(lambda n, popsize: default_vectors(n) + 2 * popsize + 8)  # paths, candidates, their z


class LMMAESArchive(Strategy):
    """LM-MA-ES that stores past paths at temporal distances, O(n log n) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`ArchiveParameters`.

    Examples
    --------
    >>> lmma.LMMAESArchive(np.ones(10), 0.5).method.parameters.distance
    10.0

    References
    ----------
    Loshchilov, Glasmachers and Beyer, *Limited-memory matrix adaptation for large scale black-box
    optimization*, arXiv 1705.06693, supplement.
    """

    METHOD = ArchiveMethod
    method: ArchiveMethod
