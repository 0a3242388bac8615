"""d-LM-MA-ES: a diagonal matrix times the direction vectors of LM-MA-ES. New in lmma, not in the paper.

=======  ===============  ========  ==================================================================
symbol   code             shape     meaning
=======  ===============  ========  ==================================================================
D        ``scales``       (n,)      one step size for each coordinate, x = mean + sigma D (M z)
M        ``inner``        -         the direction vectors of ``lmma.py``, unchanged
v_i      ``weights``      (lam,)    active weights: log((lam + 1)/2) - log i, positive part scaled to sum
                                    1, negative part to -1
c_D      ``c_scale``      float     learning rate of D
kappa    ``kappa``        float     stretch of the m_i relative to random selection, at least 1
=======  ===============  ========  ==================================================================

After the path p_sigma is updated, for each coordinate,

    g = sum_i v_i (z_i^2 - 1) + 0.3 (p_sigma^2 - 1),    D <- D exp(c_D g / (2 kappa)),

and the geometric mean of D moves into sigma every RECENTRE generations, as only sigma D matters. The rate is
that of separable CMA-ES, (c_1 + c_mu)(n + 2)/3 (Ros and Hansen 2008). The form of the update is that of
exponential natural evolution strategies. If the m_i are long, z no longer describes single coordinates, and

    kappa = max(1, prod_j (1 - c_d,j + c_d,j |m_j|^2) / prod_j (1 - c_d,j + c_d,j n))

slows the updates of D: without it the search stalls on cigar and Rosenbrock.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.methods.ask_tell import Strategy
from lmma.methods.es import ES, Transform
from lmma.methods.lmma import CAP, DirectionVectors, LMMAParameters
from lmma.numerics.linalg import Factors, divide_by_geometric_mean
from lmma.numerics.parameters import Parameters, RankParameters, constant
from lmma.numerics.recombination import (
    Array,
    Indices,
    Selection,
    active_weights,
    default_vectors,
)
from lmma.numerics.sampling import Batch
from lmma.numerics.state import NOT_NEGATIVE, Declared

RECENTRE = 16  # generations between two moves of the geometric mean into sigma; sigma D is unchanged
PATH_SHARE = 0.3  # weight of the path relative to the candidates; docs/research.md, "Constants"


@dataclass(frozen=True, kw_only=True)
class DLMMAParameters(LMMAParameters):
    """The constants of d-LM-MA-ES: those of LM-MA-ES and ``c_scale``."""

    c_scale: float = constant(lambda p: diagonal_rate(p))

    def _check(self) -> None:
        super()._check()
        if not 0 <= self.c_scale <= 1:
            raise ValueError(f"c_scale must lie in [0, 1], got {self.c_scale}")


def diagonal_rate(p: Parameters) -> float:
    """Return (c_1 + c_mu)(n + 2)/3 with the rates of CMA-ES, at most ``CAP``."""
    cma = RankParameters(p.n, p.lam, weights=p.weights)
    return min((cma.c_1 + cma.c_mu) * (p.n + 2) / 3, CAP)


@final
class ScaledDirections(Transform):
    """Transform d = D M z, with M from LM-MA-ES."""

    STATE: ClassVar[Declared] = {"scales": NOT_NEGATIVE}

    def __init__(self, n: int, parameters: DLMMAParameters, dtype: npt.DTypeLike) -> None:
        self.c_scale = parameters.c_scale
        self.scales = np.ones(n, dtype=dtype)
        self.steps = np.empty_like(self.scales)  # sigma D
        self.inner = DirectionVectors(n, parameters, dtype)
        self.lengths2 = np.einsum("ii->i", self.inner.gram)  # |m_j|^2, a view
        c_d = parameters.c_d
        self.shortest = (1 - c_d) / (1 - c_d + c_d * n)  # the factors of kappa are these ...
        self.stretch = c_d / (1 - c_d + c_d * n)  # ... and these times |m_j|^2

    def without_sample(self) -> ScaledDirections:
        """Return a copy that does not hold the last sample."""
        stripped = copy.copy(self)
        stripped.inner = self.inner.without_sample()
        return stripped

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.lengths2 = np.einsum("ii->i", self.inner.gram)  # a view of the copied matrix

    @property
    def age(self) -> int:
        """Number of updates of the direction vectors."""
        return self.inner.age

    @age.setter
    def age(self, age: int) -> None:
        self.inner.age = age

    def sample(self, batch: Batch) -> None:
        """Sample as in LM-MA-ES, with a step size for each coordinate."""
        np.multiply(self.scales, batch.step, out=self.steps)
        self.inner.sample(batch._replace(step=self.steps))

    def parts(self) -> dict[str, Transform]:
        """Return the direction vectors."""
        return {"inner": self.inner}

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return D M z."""
        return np.multiply(self.inner.apply(z), self.scales, out=out)

    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of D M times d."""
        return self.inner.apply_transposed(d * self.scales)

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return the diagonal of D M M^T D at ``columns``."""
        return np.square(self.scales[columns].astype(np.float64)) * self.inner.variances_at(columns, like)

    def paired(self, count: int) -> None:
        """Update the samples stored by the direction vectors."""
        self.inner.paired(count)

    def replaced(self, rows: Indices, z: Array) -> None:
        """Project the new z on the direction vectors."""
        self.inner.replaced(rows, z)

    def mean_direction(self, order: Indices, weights: Array, z_mean: Array) -> Array:
        """Return D M z_mean."""
        direction = self.inner.mean_direction(order, weights, z_mean)
        direction *= self.scales
        return direction

    def kappa(self) -> float:
        """Return the stretch of the m_i relative to their length under random selection, at least 1."""
        factors = self.stretch * self.lengths2
        factors += self.shortest
        stretched: float = math.prod(factors.tolist()[: self.inner.active])
        return max(1.0, stretched)

    def factors(self) -> Factors:
        """Return the scales and the direction vectors."""
        inner = self.inner.factors()
        return Factors(diagonal=self.scales, rows=inner.rows, constant=inner.constant)

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Update D from the coordinate-wise variances of the selected candidates, then update M."""
        kernels.rescale(
            self.scales, self.c_scale / (2 * self.kappa()), active_weights(len(best.order)), best.order,
            best.sampled_z, p_sigma, PATH_SHARE, threads=self.threads,
        )  # fmt: skip
        self.inner.update(best, p_sigma)

    def balance(self, generation: int) -> float:
        """Scale D to geometric mean 1, every RECENTRE generations."""
        return divide_by_geometric_mean(self.scales) if generation % RECENTRE == 0 else 1.0


@final
class DLMMAMethod(ES):
    """Sampling and update of d-LM-MA-ES: LM-MA-ES with a learned diagonal."""

    name = "d-lm-ma-es"
    define = DLMMAParameters
    learns = ScaledDirections
    rows = staticmethod(lambda n, popsize: default_vectors(n) + 2 * popsize + 14)  # LM-MA-ES, and 6 vectors
    workspace = staticmethod(DirectionVectors.workspace)


class DLMMAES(Strategy):
    """LM-MA-ES with a learned diagonal, O(n log n) per sample; fast if coordinates differ in scale.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`DLMMAParameters`.

    Examples
    --------
    The scale of each coordinate is learned:

    >>> es = lmma.DLMMAES(np.ones(20), 1.0, rng=1)
    >>> while es.best_fun > 1e-9:
    ...     es.tell(np.square(es.ask()) @ np.logspace(0, 6, 20))
    >>> es.evaluations < 10_000
    True

    References
    ----------
    This library, docs/research.md. Ros and Hansen, *A simple modification in CMA-ES achieving linear time and
    space complexity*, PPSN 2008.
    """

    METHOD = DLMMAMethod
    method: DLMMAMethod
