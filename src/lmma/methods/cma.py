"""CMA-ES as in Algorithm 1 (the blue lines): a covariance matrix and its square root.

=====  ===================  ========  ================================================
paper  code                 shape     meaning
=====  ===================  ========  ================================================
C      ``covariance``       (n, n)    covariance matrix of the search distribution
M      ``root``             (n, n)    its symmetric square root, updated every
                                      ``period`` generations
p_c    ``path``             (n,)      evolution path of d
c_c    ``c_c``              float     its fading rate
c_1    ``c_1``              float     rate of the rank-one update with p_c
c_mu   ``c_mu``             float     rate of the rank-mu update with the selected d
=====  ===================  ========  ================================================

In "t mod n/lambda = 0" the quotient is rounded down, to at least 1.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.methods.ask_tell import Strategy
from lmma.methods.es import ES, Transform
from lmma.numerics.linalg import Factors, add_product, row_squares
from lmma.numerics.parameters import RankParameters, constant
from lmma.numerics.recombination import Array, Indices, Selection, cumulate
from lmma.numerics.sampling import Batch
from lmma.numerics.state import Declared


@dataclass(frozen=True, kw_only=True)
class CMAParameters(RankParameters):
    """The constants of CMA-ES."""

    c_c: float = constant(lambda p: 4 / (p.n + 4))  # [A1:1]
    period: int = constant(lambda p: max(1, p.n // p.lam))  # [A1:7]


class SquareRoot(Transform):
    """Transform d = C^(1/2) z, with the root of C recomputed every ``period`` generations."""

    STATE: ClassVar[Declared] = ("covariance", "root", "path")
    keeps_directions = True

    def __init__(self, n: int, parameters: Any, dtype: npt.DTypeLike) -> None:
        self.parameters = parameters
        self.covariance = np.eye(n, dtype=dtype)  # [A1:2]
        self.root = np.eye(n, dtype=dtype)
        self.path = np.zeros(n, dtype=dtype)  # [A1:2]

    def sample(self, batch: Batch) -> None:
        """Recompute the root if it is due, then sample."""
        if batch.generation % self.parameters.period == 0:  # [A1:7]
            self._renew_root()
        super().sample(batch)

    @abstractmethod
    def _renew_root(self) -> None:
        """Recompute the root of C."""

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return the root of C times z."""
        return np.matmul(z, self.root, out=out)  # [A1:8]; the root is symmetric

    def apply_transposed(self, d: Array) -> Array:
        """Return the root of C, which is symmetric, times d."""
        return d @ self.root

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return the squared lengths of rows of the root, which sampling uses; C itself may be newer."""
        return row_squares(self.root, columns)

    def factors(self) -> Factors:
        """Return the root of C."""
        return Factors(matrix=self.root)


@final
class Covariance(SquareRoot):
    """Transform C^(1/2) with C learned from the path and the selected steps."""

    parameters: CMAParameters

    def _renew_root(self) -> None:
        eigenvalues, basis = np.linalg.eigh(self.covariance)
        # Rounding can push the smallest eigenvalues below zero at condition numbers beyond 1e14.
        smallest = float(eigenvalues[-1]) * np.finfo(self.covariance.dtype).eps
        scaled = basis * np.sqrt(np.sqrt(np.maximum(eigenvalues, smallest)))
        np.matmul(scaled, scaled.T, out=self.root)

    def solve(self, d: Array) -> Array:
        """Return z with M z = d."""
        return np.linalg.solve(self.root, d)

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Move C towards the path p_c and the selected steps."""
        c_1, c_mu = self.parameters.c_1, self.parameters.c_mu
        cumulate(self.path, self.parameters.c_c, best.mu_w, best.d_mean)  # [A1:14]
        gains = np.sqrt(c_mu * best.weights).astype(self.path.dtype)[:, None]
        steps = np.vstack((math.sqrt(c_1) * self.path, gains * best.d))  # (mu + 1, n)
        add_product(self.covariance, 1 - c_1 - c_mu, steps, steps)  # [A1:15]


@final
class CMAMethod(ES):
    """CMA-ES, the blue lines of Algorithm 1: covariance matrix and its root."""

    name = "cma-es"
    define = CMAParameters
    learns = Covariance
    rows = staticmethod(lambda n, popsize: 6 * n + 5 * popsize + 6)  # C, its root, workspace of eigh


class CMAES(Strategy):
    """Covariance matrix adaptation evolution strategy of Algorithm 1, O(n^2) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`CMAParameters`.

    Examples
    --------
    >>> es = lmma.CMAES(np.full(8, 3.0), 1.0, rng=1)
    >>> while not es.stop():
    ...     es.tell(np.sum(es.ask() ** 2, axis=1))
    >>> es.best_fun < 1e-9
    True

    References
    ----------
    Hansen and Ostermeier, *Completely derandomized self-adaptation in evolution strategies*, Evolutionary
    Computation 9 (2001). Loshchilov, Glasmachers and Beyer, *Limited-memory matrix adaptation for large scale
    black-box optimization*, arXiv 1705.06693, Algorithm 1.
    """

    METHOD = CMAMethod
    method: CMAMethod
