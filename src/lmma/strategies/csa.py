"""CSA-ES: Algorithm 1 without its coloured lines, the paper's control experiment of section 4.2.

The transform stays the identity; only the global step size is learned, with CMA-ES's c_sigma.
"""

from __future__ import annotations

from typing import final

import numpy as np

from lmma.strategies.es import ES, Transform
from lmma.strategies.parts.recombination import Array, Selection


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

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Learn nothing."""


@final
class CSAES(ES):
    """Evolution strategy that adapts the global step size alone, O(n) a sample."""

    name = "csa-es"

    def _make_transform(self) -> Identity:
        return Identity()

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return about how many bytes a run needs: candidates and their z."""
        return (2 * popsize + 6) * n * itemsize
