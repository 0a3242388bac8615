"""What a user who says nothing gets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lmma.strategies import strategy_class
from lmma.strategies.parts.memory import available_memory
from lmma.strategies.parts.recombination import default_popsize

if TYPE_CHECKING:
    from lmma.strategies.parts.bounds import Box

# Up to here a full matrix needs fewer evaluations than O(log n) vectors on ill-conditioned functions.
FULL_MATRIX_UP_TO = 1000


def choose_method(n: int, *, popsize: int | None = None, maxfevals: int | None = None) -> str:
    """Return what ``method="auto"`` means for ``n`` variables and this budget, on this machine.

    Up to n = 1000 ``"dd-ma-es"``, which needs the fewest evaluations whether or not coordinates mean
    something, if its matrices fit in half of the free memory. With a budget below n^2 evaluations
    ``"d-lr-es"``, the same without the matrix, which could not be learned in that time: as few
    evaluations, and a fraction of the time. Beyond n = 1000 ``"d-lm-ma-es"``: as economical as
    ``"lm-ma-es"``, never much worse, and far better where coordinates mean something (docs/research.md).
    """
    if n > FULL_MATRIX_UP_TO:
        return "d-lm-ma-es"
    if maxfevals is not None and maxfevals < n**2:
        return "d-lr-es"
    there = available_memory()
    needed = strategy_class("dd-ma-es").memory(n, popsize or default_popsize(n))
    return "dd-ma-es" if there is None or needed < there / 2 else "d-lm-ma-es"


def default_sigma0(x0: npt.NDArray[np.floating], box: Box | None = None) -> float:
    """Return the step size for a user who knows none: 0.3 times the larger of 1 and the scale of x0.

    Where all free coordinates are bounded on both sides, 0.3 times the typical width of the box.
    """
    if box is not None:
        width = (box.upper - box.lower).astype(np.float64)[~box.fixed]
        if np.all(np.isfinite(width)):
            return 0.3 * math.exp(float(np.mean(np.log(width))))
    return 0.3 * max(1.0, math.sqrt(float(np.mean(np.square(x0)))))
