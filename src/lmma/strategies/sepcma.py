"""sep-CMA-ES: CMA-ES with a diagonal covariance matrix (Ros and Hansen 2008).

=======  ==============  ======  ====================================================================
paper    code            shape   meaning
=======  ==============  ======  ====================================================================
C        ``variances``   (n,)    diagonal of the covariance matrix
p_c      ``path``        (n,)    evolution path of d
c_c      ``c_c``         float   its fading rate
c_cov    ``c_1+c_mu``    float   (n + 2)/3 times that of CMA-ES, as only n numbers are learned
mu_cov   ``mu_w``        float   divides c_cov between the two: c_1 = c_cov/mu_w
h_sigma  -               bool    whether p_c may take in this step (``path_is_short``)
=======  ==============  ======  ====================================================================

Weights ln((lambda + 1)/2) - ln i as in Hansen's tutorial; the article has
ln(mu + 1) - ln i, their forerunners.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from lmma.strategies.es import ES, Transform
from lmma.strategies.parts.linalg import excess
from lmma.strategies.parts.recombination import Array, Recombination, Selection, cumulate, recombination
from lmma.strategies.parts.stepsize import CSA, expected_norm, path_is_short


@dataclass(frozen=True)
class SepParameters:
    """The constants of sep-CMA-ES."""

    recombination: Recombination
    c_sigma: float
    d_sigma: float
    c_c: float
    c_1: float
    c_mu: float


def sep_parameters(
    n: int,
    lam: int,
    *,
    mu: int | None = None,
    weights: Array | None = None,
    c_sigma: float | None = None,
    d_sigma: float | None = None,
    c_c: float | None = None,
    c_1: float | None = None,
    c_mu: float | None = None,
) -> SepParameters:
    """Return the constants for ``n`` variables and ``lam`` candidates; those given replace the printed."""
    shared = recombination(lam, mu, weights, half=True)
    mu_w = shared.mu_w
    if c_sigma is None:
        c_sigma = (mu_w + 2) / (n + mu_w + 3)
    if d_sigma is None:
        d_sigma = 1 + 2 * max(0.0, math.sqrt(max(0.0, mu_w - 1) / (n + 1)) - 1) + c_sigma
    full = 2 / (n + math.sqrt(2)) ** 2 / mu_w
    full += (1 - 1 / mu_w) * min(1.0, (2 * mu_w - 1) / ((n + 2) ** 2 + mu_w))
    c_cov = min(1.0, (n + 2) / 3 * full)
    return SepParameters(
        shared,
        c_sigma=c_sigma,
        d_sigma=d_sigma,
        c_c=4 / (n + 4) if c_c is None else c_c,
        c_1=c_cov / mu_w if c_1 is None else c_1,
        c_mu=c_cov * (1 - 1 / mu_w) if c_mu is None else c_mu,
    )


@final
class Diagonal(Transform):
    """d = C^(1/2) z with C diagonal."""

    STATE = ("variances", "path", "age")

    def __init__(self, n: int, parameters: SepParameters, dtype: npt.DTypeLike) -> None:
        self.parameters = parameters
        self.variances = np.ones(n, dtype=dtype)
        self.path = np.zeros(n, dtype=dtype)
        self.age = 0
        self.path_limit2 = ((1.4 + 2 / (n + 1)) * expected_norm(n)) ** 2

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return the root of C times z."""
        return np.multiply(z, np.sqrt(self.variances), out=out)

    def apply_transposed(self, d: Array) -> Array:
        """Return the same, as the root is diagonal."""
        return self.apply(d)

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Move each variance towards the squares of the path and of the selected steps."""
        p = self.parameters
        self.age += 1
        if path_is_short(p_sigma, self.path_limit2, p.c_sigma, self.age):
            cumulate(self.path, p.c_c, best.mu_w, best.d_mean)
        else:
            self.path *= 1 - p.c_c
        rank_mu = best.mean_square_of(best.sampled_z)
        rank_mu *= self.variances  # the mean square of the selected d
        self.variances *= 1 - p.c_1 - p.c_mu
        self.variances += p.c_1 * (self.path * self.path) + p.c_mu * rank_mu
        np.maximum(self.variances, np.finfo(self.path.dtype).tiny, out=self.variances)

    def balance(self, generation: int) -> float:
        """Keep the largest variance near 1."""
        factor = excess(math.sqrt(float(self.variances.max())))
        if factor != 1:
            self.variances /= factor**2
            self.path /= factor
        return factor


@final
class SepCMAES(ES):
    """CMA-ES with a diagonal covariance matrix, O(n) a sample."""

    name = "sep-cma-es"
    define = staticmethod(sep_parameters)
    parameters: SepParameters

    def _make_step(self) -> CSA:
        p = self.parameters
        return CSA(self.n, p.c_sigma, dtype=self.dtype, damping=p.d_sigma, norm=True)

    def _make_transform(self) -> Diagonal:
        return Diagonal(self.n, self.parameters, self.dtype)

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return about how many bytes a run needs: candidates and their z."""
        return (2 * popsize + 10) * n * itemsize
