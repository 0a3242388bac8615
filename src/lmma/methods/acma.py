"""Active CMA-ES: the worst candidates reduce variances in C (Hansen's tutorial, arXiv 1604.00772).

===============  =================  ========  ==========================================================
tutorial         code               shape     meaning
===============  =================  ========  ==========================================================
C                ``covariance``     (n, n)    covariance matrix of the search distribution
C^(1/2)          ``root``           (n, n)    its symmetric root, updated every ``period`` generations
p_c              ``path``           (n,)      evolution path of d
c_c, c_1, c_mu   as printed         float     rates of the path, of rank one, of rank mu
w_i, i <= mu     ``weights``        (mu,)     positive weights, in ``recombination``
w_i, i > mu      ``negative``       (lam-mu,) zero or negative weights of the worse candidates
h_sigma          -                  bool      True if this step is added to p_c (``path_is_short``)
===============  =================  ========  ==========================================================

Steps with negative weights are scaled to the length sqrt(n), so that C stays positive definite. Rounding can
still make it indefinite at condition numbers beyond 1e14. Eigenvalues are then raised to the machine epsilon
times the largest, in C as well, so that errors do not accumulate over thousands of generations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.methods.ask_tell import Strategy
from lmma.methods.cma import SquareRoot
from lmma.methods.es import ES
from lmma.numerics.linalg import add_product, divide_by_excess
from lmma.numerics.parameters import TutorialParameters, constant, derived
from lmma.numerics.recombination import Array, Selection, cumulate
from lmma.numerics.state import COUNT, Declared
from lmma.numerics.stepsize import path_is_short, tutorial_limit2


@dataclass(frozen=True, kw_only=True)
class ACMAParameters(TutorialParameters):
    """The constants of active CMA-ES."""

    c_1: float = constant(lambda p: 2 / ((p.n + 1.3) ** 2 + p.mu_w))
    c_mu: float = constant(
        lambda p: min(1 - p.c_1, 2 * (1 / 4 + p.mu_w + 1 / p.mu_w - 2) / ((p.n + 2) ** 2 + p.mu_w))
    )
    period: int = constant(
        lambda p: max(1, math.ceil(1 / (10 * p.n * (p.c_1 + p.c_mu)))) if p.c_1 + p.c_mu > 0 else p.n
    )
    negative: Array = derived(lambda p: negative_weights(p), visible=False)


def negative_weights(p: ACMAParameters) -> Array:
    """Return the weights of ranks mu + 1 ... lam, scaled as in table 1 of the tutorial."""
    n, lam, c_1, c_mu = p.n, p.lam, p.c_1, p.c_mu
    raw = math.log((lam + 1) / 2) - np.log(np.arange(p.mu + 1, lam + 1))
    raw = np.minimum(raw, 0.0)
    total = -float(raw.sum())
    if total == 0 or c_mu == 0:
        return np.zeros_like(raw)
    mu_minus = total**2 / float(raw @ raw)
    scale = min(
        1 + c_1 / c_mu,  # alpha_mu^-: C neither decays nor grows without selection
        1 + 2 * mu_minus / (p.mu_w + 2),  # alpha_mueff^-
        (1 - c_1 - c_mu) / (n * c_mu),  # alpha_posdef^-
    )
    return raw * (max(scale, 0.0) / total)


@final
class ActiveCovariance(SquareRoot):
    """Transform C^(1/2) with C learned from better and worse candidates."""

    STATE: ClassVar[Declared] = {"age": COUNT}
    parameters: ACMAParameters

    def __init__(self, n: int, parameters: ACMAParameters, dtype: npt.DTypeLike) -> None:
        super().__init__(n, parameters, dtype)
        self.age = 0
        self.path_limit2 = tutorial_limit2(n)

    def _renew_root(self) -> None:
        eigenvalues, basis = np.linalg.eigh(self.covariance)
        smallest = eigenvalues[-1] * np.finfo(self.covariance.dtype).eps
        if eigenvalues[0] < smallest:
            np.maximum(eigenvalues, smallest, out=eigenvalues)
            np.matmul(basis * eigenvalues, basis.T, out=self.covariance)
        scaled = basis * np.sqrt(np.sqrt(eigenvalues))
        np.matmul(scaled, scaled.T, out=self.root)

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Move C towards the path and the better steps, away from the worse ones."""
        p, n, dtype = self.parameters, len(self.path), self.path.dtype
        self.age += 1
        short = path_is_short(p_sigma, self.path_limit2, p.c_sigma, self.age)
        cumulate(self.path, p.c_c, best.mu_w, best.d_mean, add=short)
        mu, valid = len(best.weights), len(best.order)
        negative = p.negative[: max(0, valid - p.mu)]  # candidates without a value get no weight
        used = mu + len(negative)
        z, d = best.ranked(used)
        lengths2 = np.maximum(np.einsum("ij,ij->i", z[mu:], z[mu:]), np.finfo(dtype).tiny)
        gains = np.concatenate(([p.c_1], p.c_mu * best.weights, p.c_mu * negative * n / lengths2))
        steps = np.vstack((self.path, d))
        steps *= np.sqrt(np.abs(gains)).astype(dtype)[:, None]
        signed = steps * np.sign(gains).astype(dtype)[:, None]  # same magnitudes, so that C stays symmetric
        waiting = 0.0 if short else p.c_1 * p.c_c * (2 - p.c_c)  # variance missing from the path
        keep = 1 - p.c_1 + waiting - p.c_mu * (1 + float(negative.sum()))
        add_product(self.covariance, keep, signed, steps)

    def balance(self, generation: int) -> float:
        """Move the root mean variance into sigma if it is far from 1."""
        size = math.sqrt(float(np.trace(self.covariance)) / len(self.path))
        return divide_by_excess(size, (self.covariance, 2), (self.root, 1), (self.path, 1))


@final
class ACMAMethod(ES):
    """Sampling and update of active CMA-ES: negative weights for the worse half."""

    name = "acma-es"
    define = ACMAParameters
    learns = ActiveCovariance
    rows = staticmethod(lambda n, popsize: 6 * n + 7 * popsize + 6)  # C, its root, workspace of eigh


class ACMAES(Strategy):
    """Active CMA-ES with a full covariance matrix, O(n^2) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`ACMAParameters`.

    Examples
    --------
    Suited to rotated, ill-conditioned functions of a few variables:

    >>> Q, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))
    >>> es = lmma.ACMAES(np.ones(6), 1.0, rng=1)
    >>> while es.best_fun > 1e-9 and not es.stop():
    ...     es.tell(np.square(es.ask() @ Q) @ 10.0 ** np.arange(6))
    >>> es.best_fun <= 1e-9
    True

    References
    ----------
    Hansen, *The CMA evolution strategy: a tutorial*, arXiv 1604.00772. Jastrebski and Arnold, *Improving
    evolution strategies through active covariance matrix adaptation*, CEC 2006.
    """

    METHOD = ACMAMethod
    method: ACMAMethod
