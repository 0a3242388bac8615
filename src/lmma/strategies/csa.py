"""CSA-ES: Algorithm 1 without its coloured lines, the paper's control experiment of section 4.2.

The transform stays the identity; only the global step size is learned, with CMA-ES's c_sigma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from lmma.strategies.es import ES, Transform
from lmma.strategies.parts.recombination import Array, Recombination, Selection, recombination
from lmma.strategies.parts.stepsize import CSA, crowding


@dataclass(frozen=True)
class CSAParameters:
    """The constants of CSA-ES."""

    recombination: Recombination
    c_sigma: float


def csa_parameters(
    n: int,
    lam: int,
    *,
    mu: int | None = None,
    weights: Array | None = None,
    c_sigma: float | None = None,
) -> CSAParameters:
    """Return the constants for ``n`` variables and ``lam`` candidates; those given replace the printed."""
    shared = recombination(lam, mu, weights)
    if c_sigma is None:
        c_sigma = (shared.mu_w + 2) / (n + shared.mu_w + 5)  # [A1:1]
    return CSAParameters(shared, c_sigma)


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
    define = staticmethod(csa_parameters)
    parameters: CSAParameters

    def _make_step(self) -> CSA:
        p = self.parameters
        return CSA(self.n, p.c_sigma, dtype=self.dtype, crowd=crowding(p.recombination.mu_w, self.n))

    def _make_transform(self) -> Identity:
        return Identity()

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return about how many bytes a run needs: candidates and their z."""
        return (2 * popsize + 6) * n * itemsize
