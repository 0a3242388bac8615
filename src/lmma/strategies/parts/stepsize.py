"""Rules that adapt the global step size sigma."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from lmma.strategies.parts.recombination import Array, Selection, cumulate


class StepSizeRule(ABC):
    """A part of a strategy that watches selections and answers with a factor for sigma."""

    STATE: ClassVar[tuple[str, ...]] = ()
    pace: float = 1.0  # below 1 under noise: the memory is as much longer as the mean moves more slowly
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

    With ``norm`` the exponent is c_sigma/damping (|p_sigma| / chi_n - 1), the form of Hansen's tutorial,
    chi_n being the mean length of a standard normal vector.

    ``crowd`` above 1, see :func:`crowding`, departs from [A1:19] (docs/departures.md): it takes that form,
    with a damping of ``crowd``.
    """

    STATE = ("path",)

    def __init__(
        self,
        n: int,
        c_sigma: float,
        *,
        dtype: npt.DTypeLike,
        damping: float = 2.0,
        norm: bool = False,
        crowd: float = 1.0,
    ) -> None:
        self.c_sigma = c_sigma
        self.damping = damping
        self.norm = norm
        if crowd > 1:  # |p|^2/n - 1 is about 2 (|p|/chi_n - 1) near its zero, hence the half
            self.damping, self.norm = damping / 2 * crowd, True
        self.path = np.zeros(n, dtype=dtype)  # [A1:2]

    def follow(self, best: Selection) -> None:
        """Update the evolution path with the mean of the selected z."""
        cumulate(self.path, self.c_sigma * self.pace, best.mu_w, best.z_mean)  # [A1:13]

    def factor(self) -> float:
        """Return more than 1 where the path is longer than that of a random walk."""
        length2 = float(self.path.dot(self.path))
        n = len(self.path)
        excess = math.sqrt(length2) / expected_norm(n) - 1.0 if self.norm else length2 / n - 1.0
        exponent = self.c_sigma * self.pace / self.damping * excess
        return math.exp(min(exponent, 50.0))  # [A1:19]; the bound matters only where f rewards distance


class PopulationSuccess(StepSizeRule):
    """Population success rule: sigma grows while a generation beats the one before it.

    =======  ==============  ======  ==========================================================
    paper    code            shape   meaning
    =======  ==============  ======  ==========================================================
    z_PSR    ``gain``        float   how far the new values rank ahead of the previous ones,
                                     from -1 (all behind) to 1 (all ahead)
    z*       ``target``      float   the gain aimed at
    s        ``smoothed``    float   fading mean of gain - target
    c_sigma  ``c_sigma``     float   its fading rate
    d_sigma  ``damping``     float   divisor in the exponent
    -        ``previous``    (lam,)  values of the generation before, increasing
    =======  ==============  ======  ==========================================================

    A candidate without a value ranks last. Equal values share their ranks, so a plateau is no success.
    """

    STATE = ("previous", "smoothed", "age")

    def __init__(self, lam: int, c_sigma: float, target: float, damping: float) -> None:
        self.c_sigma, self.target, self.damping = c_sigma, target, damping
        self.path = np.empty(0)
        self.previous = np.zeros(lam)
        self.smoothed = 0.0
        self.age = 0

    def follow(self, best: Selection) -> None:
        """Compare the ranks of this generation with those of the last one."""
        values = np.full(len(self.previous), np.inf)
        values[: len(best.values)] = best.values
        if self.age > 0:
            gain = (_wins(values, self.previous) - _wins(self.previous, values)) / len(values) ** 2
            self.smoothed += self.c_sigma * (gain - self.target - self.smoothed)
        self.previous[...] = values
        self.age += 1

    def factor(self) -> float:
        """Return exp(s / d_sigma), and 1 for the first generation, which has none before it."""
        return math.exp(self.smoothed / self.damping) if self.age > 1 else 1.0


def _wins(a: Array, b: Array) -> int:
    """Return how many pairs (a_i, b_j) have a_i < b_j; both arrays increase."""
    return int(np.searchsorted(a, b, side="left").sum())


def crowding(mu_w: float, n: int) -> float:
    """Return 1 unless ``mu_w`` exceeds n + 2, and then how much more damping the step size needs.

    The mean of many selected z is hardly shorter than each of them, so p_sigma reaches the length
    sqrt(mu_w): squared in the exponent of [A1:19] that would multiply sigma by e^20 in a generation. Hansen's
    tutorial has this factor in its damping. With the default population it is 1 for every n.
    """
    return 1.0 + 2.0 * overcrowding(mu_w, n)


def overcrowding(mu_w: float, n: int) -> float:
    """Return by how much sqrt(mu_w / n), about, exceeds 1; 0 where it does not."""
    return max(0.0, math.sqrt(max(0.0, mu_w - 1.0) / (n + 1.0)) - 1.0)


def expected_norm(n: int) -> float:
    """Return chi_n, about the mean length of a standard normal vector of ``n`` numbers."""
    return math.sqrt(n) * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n))


def path_is_short(path: Array, limit2: float, c_sigma: float, age: int) -> bool:
    """Return h_sigma: whether |path|^2 is below ``limit2``, allowing for a path that is still young.

    A long p_sigma says that sigma is far too small; p_c then waits, or C would grow in sigma's stead.
    ``age`` counts the generations the path has seen, this one included.
    """
    return float(np.dot(path, path)) < limit2 * (1.0 - (1.0 - c_sigma) ** (2 * age))


def tutorial_limit2(n: int) -> float:
    """Return the square of what Hansen's tutorial calls a long p_sigma, for :func:`path_is_short`."""
    return ((1.4 + 2 / (n + 1)) * expected_norm(n)) ** 2
