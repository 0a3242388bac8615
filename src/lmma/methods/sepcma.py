"""sep-CMA-ES: CMA-ES with a diagonal covariance matrix (Ros and Hansen 2008).

=======  ==============  ======  ====================================================================
paper    code            shape   meaning
=======  ==============  ======  ====================================================================
C        ``variances``   (n,)    diagonal of the covariance matrix
p_c      ``path``        (n,)    evolution path of d
c_c      ``c_c``         float   its fading rate
c_cov    ``c_1+c_mu``    float   (n + 2)/3 times that of CMA-ES, as only n numbers are learned
mu_cov   ``mu_w``        float   divides c_cov between the two: c_1 = c_cov/mu_w
h_sigma  -               bool    True if this step is added to p_c (``path_is_short``)
=======  ==============  ======  ====================================================================

The weights are ln((lambda + 1)/2) - ln i as in Hansen's tutorial; the article has
the earlier form ln(mu + 1) - ln i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.methods.ask_tell import Strategy
from lmma.methods.es import ES, Transform
from lmma.numerics.linalg import Factors, divide_by_excess
from lmma.numerics.parameters import TutorialParameters, constant, derived
from lmma.numerics.recombination import Array, Indices, Selection, cumulate
from lmma.numerics.state import COUNT, FINITE, NOT_NEGATIVE, Declared
from lmma.numerics.stepsize import path_is_short, tutorial_limit2


@dataclass(frozen=True, kw_only=True)
class SepParameters(TutorialParameters):
    """The constants of sep-CMA-ES."""

    c_sigma: float = constant(lambda p: (p.mu_w + 2) / (p.n + p.mu_w + 3))
    c_c: float = constant(lambda p: 4 / (p.n + 4))
    c_cov: float = derived(lambda p: min(1.0, (p.n + 2) / 3 * full_rate(p.n, p.mu_w)))
    c_1: float = constant(lambda p: p.c_cov / p.mu_w)
    c_mu: float = constant(lambda p: p.c_cov * (1 - 1 / p.mu_w))


def full_rate(n: int, mu_w: float) -> float:
    """Return the article's c_cov of CMA-ES with a full matrix."""
    rank_one = 2 / (n + math.sqrt(2)) ** 2 / mu_w
    return rank_one + (1 - 1 / mu_w) * min(1.0, (2 * mu_w - 1) / ((n + 2) ** 2 + mu_w))


@final
class Diagonal(Transform):
    """Transform d = C^(1/2) z with C diagonal."""

    STATE: ClassVar[Declared] = {"variances": NOT_NEGATIVE, "path": FINITE, "age": COUNT}

    def __init__(self, n: int, parameters: SepParameters, dtype: npt.DTypeLike) -> None:
        self.parameters = parameters
        self.variances = np.ones(n, dtype=dtype)
        self.path = np.zeros(n, dtype=dtype)
        self.age = 0
        self.path_limit2 = tutorial_limit2(n)

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return the root of C times z."""
        return np.multiply(z, np.sqrt(self.variances), out=out)

    def apply_transposed(self, d: Array) -> Array:
        """Return the root of C, which is diagonal, times d."""
        return self.apply(d)

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return the variances at ``columns``."""
        return self.variances[columns].astype(np.float64)

    def factors(self) -> Factors:
        """Return the scales."""
        return Factors(diagonal=np.sqrt(self.variances))

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Move each variance towards the squares of the path and of the selected steps."""
        p = self.parameters
        self.age += 1
        short = path_is_short(p_sigma, self.path_limit2, p.c_sigma, self.age)
        cumulate(self.path, p.c_c, best.mu_w, best.d_mean, add=short)
        rank_mu = best.mean_square_of(best.sampled_z)
        rank_mu *= self.variances  # the mean square of the selected d
        self.variances *= 1 - p.c_1 - p.c_mu
        self.variances += p.c_1 * (self.path * self.path) + p.c_mu * rank_mu
        np.maximum(self.variances, np.finfo(self.path.dtype).tiny, out=self.variances)

    def balance(self, generation: int) -> float:
        """Move the root of the largest variance into sigma if it is far from 1."""
        size = math.sqrt(float(self.variances.max()))
        return divide_by_excess(size, (self.variances, 2), (self.path, 1))


@final
class SepMethod(ES):
    """Sampling and update of sep-CMA-ES: a diagonal covariance matrix."""

    name = "sep-cma-es"
    define = SepParameters
    learns = Diagonal
    rows = staticmethod(lambda n, popsize: 2 * popsize + 10)  # candidates and their z


class SepCMAES(Strategy):
    """CMA-ES with a diagonal covariance matrix, O(n) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`SepParameters`.

    Examples
    --------
    >>> def f(x):
    ...     return x[0] ** 2 + 1e6 * x[1] ** 2
    >>> lmma.minimize(f, [1.0, 1.0], 0.5, method="sep-cma-es", rng=1).success
    True

    References
    ----------
    Ros and Hansen, *A simple modification in CMA-ES achieving linear time and space complexity*, PPSN 2008.
    """

    METHOD = SepMethod
    method: SepMethod
