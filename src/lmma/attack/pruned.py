"""A compiled forest as one image sees it: pruned to the region its candidates visit.

All candidates of an attack lie near the original, where most nodes of a forest can be answered once and
for all. Each image gets a forest without them, which is made anew, with a wider box, whenever a
candidate steps outside. Answers are the same, bit for bit; the nodes that remain fit into the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmma.attack.forest import CompiledForest, OutsideBox
from lmma.attack.objective import Floats, Projection

__all__ = ["NearForest"]

_FIRST = 6.0  # step sizes: 18,000 normal numbers stay within 4.5 of them, and the mean drifts
_WIDEN = 1.6  # spare room: a new box costs as much as ten queries of a generation
_WIDEST = 40.0  # step sizes beyond which pruning costs more than it saves


class NearForest:
    """The probabilities of a forest near one input.

    Parameters
    ----------
    forest : CompiledForest
    x0 : (n,)
        The original.
    sigma0 : float
        Initial step size of the search around it.
    projection : Projection
        Clipping bounds the box, too.
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
