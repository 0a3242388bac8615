"""MA-ES: a full transformation matrix, no covariance matrix (the violet lines of Algorithm 1).

=======  ===================  ========  =========================================================
paper    code                 shape     meaning
=======  ===================  ========  =========================================================
M        ``matrix``           (n, n)    transformation matrix, d = M z
c_1      ``c_1``              float     rate of the rank-one update with p_sigma
c_mu     ``c_mu``             float     rate of the rank-mu update with the selected z
d_sigma  ``d_sigma``          (n,)      M p_sigma
=======  ===================  ========  =========================================================

The paper has p^(t) in Algorithm 1 and eq. 2, and p^(t+1) in eq. 3; p^(t+1) is used here. The difference is
not measurable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import numpy.typing as npt

from lmma.methods.ask_tell import Strategy
from lmma.methods.es import ES, Transform
from lmma.numerics.checks import check_choice
from lmma.numerics.linalg import Factors, add_product, row_squares
from lmma.numerics.parameters import RankParameters
from lmma.numerics.recombination import Array, Indices, Selection

Update = Literal["additive", "multiplicative"]


@dataclass(frozen=True, kw_only=True)
class MAParameters(RankParameters):
    """The constants of MA-ES; ``update`` selects the form of the update of M."""

    update: Update = "additive"

    def _check(self) -> None:
        check_choice("update", self.update, ("additive", "multiplicative"))


@final
class FullMatrix(Transform):
    """Transform d = M z with M learned directly."""

    STATE = ("matrix",)
    keeps_directions = True

    def __init__(self, n: int, parameters: MAParameters, dtype: npt.DTypeLike) -> None:
        self.parameters = parameters
        self.matrix = np.eye(n, dtype=dtype)  # [A1:2]

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return M z."""
        return np.matmul(z, self.matrix.T, out=out)  # [A1:8]

    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of M times d."""
        return d @ self.matrix

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return the squared lengths of rows of M."""
        return row_squares(self.matrix, columns)

    def solve(self, d: Array) -> Array:
        """Return z with M z = d."""
        return np.linalg.solve(self.matrix, d)

    def factors(self) -> Factors:
        """Return M."""
        return Factors(matrix=self.matrix)

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Move M towards the path and the selected steps."""
        if self.parameters.update == "additive":
            self._update_additive(best, p_sigma)
        else:
            self._update_multiplicative(best, p_sigma)

    def _update_additive(self, best: Selection, p_sigma: Array) -> None:
        """Apply eq. 2 of fast MA-ES: [A1:16] multiplied out, O(n^2) per candidate because d is known."""
        c_1, c_mu = self.parameters.c_1, self.parameters.c_mu
        d_sigma = self.matrix @ p_sigma
        gains = np.sqrt(c_mu / 2 * best.weights).astype(p_sigma.dtype)[:, None]
        d = np.vstack((math.sqrt(c_1 / 2) * d_sigma, gains * best.d))  # (mu + 1, n)
        z = np.vstack((math.sqrt(c_1 / 2) * p_sigma, gains * best.z))
        add_product(self.matrix, 1 - c_1 / 2 - c_mu / 2, d, z)  # [A1:16]

    def _update_multiplicative(self, best: Selection, p_sigma: Array) -> None:
        """Apply [A1:16] as printed in Algorithm 1, with a product of two n x n matrices."""
        c_1, c_mu = self.parameters.c_1, self.parameters.c_mu
        identity = np.eye(len(p_sigma), dtype=p_sigma.dtype)
        z = best.z
        rank_mu = (best.weights.astype(z.dtype)[:, None] * z).T @ z
        self.matrix[...] = self.matrix @ (  # [A1:16]
            identity + c_1 / 2 * (np.outer(p_sigma, p_sigma) - identity) + c_mu / 2 * (rank_mu - identity)
        )


@final
class MAMethod(ES):
    """MA-ES, the violet lines of Algorithm 1: transform matrix M, updated directly."""

    name = "ma-es"
    define = MAParameters
    learns = FullMatrix
    rows = staticmethod(lambda n, popsize: n + 5 * popsize + 6)  # the matrix, candidates, their z and d


class MAES(Strategy):
    """Matrix adaptation evolution strategy, O(n^2) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`MAParameters`.

    Examples
    --------
    The update of Algorithm 1 and its faster form learn the same matrix:

    >>> fast, printed = lmma.MAES([1, 2], 1.0, rng=1), lmma.MAES([1, 2], 1.0, rng=1, update="multiplicative")
    >>> for es in (fast, printed):
    ...     es.tell(np.sum(es.ask() ** 2, axis=1))
    >>> np.allclose(fast.method.transform.matrix, printed.method.transform.matrix)
    True

    References
    ----------
    Beyer and Sendhoff, *Simplify your covariance matrix adaptation evolution strategy*, IEEE Transactions on
    Evolutionary Computation 21 (2017).
    """

    METHOD = MAMethod
    method: MAMethod
