"""Rules that adapt the global step size sigma."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from lmma.strategies.recombination import Array, Selection, cumulate


class StepSizeRule(ABC):
    """A part of a strategy that watches selections and answers with a factor for sigma."""

    STATE: ClassVar[tuple[str, ...]] = ()
    path: Array  # (n,) evolution path; of length 0 where a rule keeps none

    @abstractmethod
    def follow(self, best: Selection) -> None:
        """Take in one ranked generation."""

    @abstractmethod
    def factor(self) -> float:
        """Return the factor by which sigma changes now."""


class CSA(StepSizeRule):
    """Cumulative step-size adaptation: sigma grows while successive steps agree.

    =======  ============  ======  =================================================
    paper    code          shape   meaning
    =======  ============  ======  =================================================
    p_sigma  ``path``      (n,)    fading record of selected z, N(0, I) if selection
                                   is random
    c_sigma  ``c_sigma``   float   its fading rate
    2        ``damping``   float   the divisor of c_sigma in the exponent
    =======  ============  ======  =================================================
    """

    STATE = ("path",)

    def __init__(self, n: int, c_sigma: float, *, dtype: npt.DTypeLike, damping: float = 2.0) -> None:
        self.c_sigma = c_sigma
        self.damping = damping
        self.path = np.zeros(n, dtype=dtype)  # [A1:2]

    def follow(self, best: Selection) -> None:
        """Update the evolution path with the mean of the selected z."""
        cumulate(self.path, self.c_sigma, best.mu_w, best.z_mean)  # [A1:13]

    def factor(self) -> float:
        """Return more than 1 where the path is longer than that of a random walk."""
        length2 = float(np.dot(self.path, self.path))
        exponent = self.c_sigma / self.damping * (length2 / len(self.path) - 1.0)
        return math.exp(min(exponent, 50.0))  # [A1:19]; the bound matters only where f rewards distance
