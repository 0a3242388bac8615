"""CSA-ES: Algorithm 1 without its coloured lines, the paper's control experiment of section 4.2.

The transform stays the identity; only the global step size is learned, with CMA-ES's c_sigma.
"""

from __future__ import annotations

from typing import final

import numpy as np

from lmma.strategies.es import ES, Transform
from lmma.strategies.parts.recombination import Array, Indices, Selection


@final
class Identity(Transform):
    """d = z: nothing is learned."""

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return ``z`` itself, copied into ``out`` if given."""
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

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Learn nothing."""


@final
class CSAES(ES):
    """Evolution strategy that adapts the global step size alone, O(n) per sample.

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

    name = "csa-es"
    learns = Identity
    rows = staticmethod(lambda n, popsize: 2 * popsize + 6)  # candidates and their z
