"""A compiled forest pruned to the region around one image.

All candidates of an attack are near the original, where most nodes of a forest have the same outcome for all
of them. Each image gets a copy of the forest without these nodes. If a candidate leaves the box, the forest
is pruned again with a wider box. The results are bitwise equal, and the remaining nodes fit into the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmma_lab.attack.forest import CompiledForest, OutsideBox
from lmma_lab.attack.objective import Floats, Projection

__all__ = ["NearForest"]

_FIRST = 6.0  # step sizes: 18,000 normal numbers are within 4.5, plus a margin for the drift of the mean
_WIDEN = 1.6  # margin, because a new box costs as much as the queries of ten generations
_WIDEST = 40.0  # step sizes; beyond, pruning costs more than it saves


class NearForest:
    """The probabilities of a forest near one input.

    Parameters
    ----------
    forest : CompiledForest
    x0 : (n,)
        The original input.
    sigma0 : float
        Initial step size of the search around it.
    projection : Projection
        Projection of candidates; clipping also limits the box.
    """

    def __init__(self, forest: CompiledForest, x0: Floats, sigma0: float, projection: Projection) -> None:
        self._full = forest
        self._x0, self._projection = x0, projection
        self._widest = _WIDEST * sigma0
        self.forest = forest
        self._shrink_to(_FIRST * sigma0)

    def _shrink_to(self, reach: float) -> None:
        if not reach <= self._widest:
            self.forest = self._full
            return
        low, high = self._x0 - reach, self._x0 + reach
        if self._projection.clip:
            low, high = (np.clip(end, self._projection.low, self._projection.high) for end in (low, high))
        self.forest = self._full.prune(low, high)

    def predict_proba(self, rows: NDArray[Any]) -> Floats:
        """Return the forest's probabilities for the candidates of one generation."""
        try:
            return self.forest.predict_proba(rows, group=len(rows))
        except OutsideBox:
            self._shrink_to(_WIDEN * float(np.abs(rows - self._x0).max()))
            return self.predict_proba(rows)
