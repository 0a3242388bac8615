"""CSA-ES: Algorithm 1 without its coloured lines, the paper's control experiment of section 4.2.

The transform is the identity; only the global step size is learned, with the c_sigma of CMA-ES.
"""

from __future__ import annotations

from typing import final

import numpy as np

from lmma.methods.ask_tell import Strategy
from lmma.methods.es import ES, Transform
from lmma.numerics.linalg import Factors
from lmma.numerics.recombination import Array, Indices, Selection


@final
class Identity(Transform):
    """The identity transform, d = z."""

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return a copy of ``z``, in ``out`` if given."""
        if out is None:
            return z.copy()
        np.copyto(out, z)
        return out

    def apply_transposed(self, d: Array) -> Array:
        """Return a copy of ``d``."""
        return d.copy()

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return ones."""
        return np.ones(len(columns))

    def factors(self) -> Factors:
        """Return the factors of the identity."""
        return Factors()

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Do nothing."""


@final
class CSAMethod(ES):
    """The lines without colour: CSA-ES."""

    name = "csa-es"
    learns = Identity
    rows = staticmethod(lambda n, popsize: 2 * popsize + 6)  # candidates and their z


class CSAES(Strategy):
    """Evolution strategy that adapts only the global step size, O(n) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`Parameters`.

    Examples
    --------
    >>> lmma.minimize(lambda x: x @ x, np.ones(9), 0.5, method="csa-es", rng=1, ftarget=1e-8).success
    True

    References
    ----------
    Ostermeier, Gawelczyk and Hansen, *Step-size adaptation based on non-local use of selection information*,
    PPSN 1994.
    """

    METHOD = CSAMethod
    method: CSAMethod
