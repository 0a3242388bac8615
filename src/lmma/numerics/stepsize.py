"""Rules that adapt the global step size sigma."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from lmma.numerics.recombination import Array, Selection, cumulate
from lmma.numerics.state import COUNT, FINITE, VALUE, Declared


class StepSizeRule(ABC):
    """Base class of rules that turn ranked generations into a factor for sigma."""

    STATE: ClassVar[Declared] = ()
    pace: float = 1.0  # learning rate of the mean; below 1 (under noise) rates are reduced by this factor
    path: Array  # (n,) evolution path; empty if the rule has none

    @abstractmethod
    def update(self, best: Selection) -> None:
        """Update the rule from one ranked generation."""

    @abstractmethod
    def factor(self) -> float:
        """Return the factor by which to multiply sigma."""


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

    With ``population_damping`` above 1 (see :func:`damping_for_population`) that form is used with this
    damping, a departure from [A1:19] (docs/departures.md).
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
        population_damping: float = 1.0,
    ) -> None:
        self.c_sigma = c_sigma
        self.damping = damping
        self.norm = norm
        if population_damping > 1:  # |p|^2/n - 1 is about 2 (|p|/chi_n - 1) near its zero, hence the half
            self.damping, self.norm = damping / 2 * population_damping, True
        self.path = np.zeros(n, dtype=dtype)  # [A1:2]

    def update(self, best: Selection) -> None:
        """Update the evolution path with the mean of the selected z."""
        cumulate(self.path, self.c_sigma * self.pace, best.mu_w, best.z_mean)  # [A1:13]

    def factor(self) -> float:
        """Return the factor for sigma, above 1 if the path is longer than that of a random walk."""
        length2 = float(self.path.dot(self.path))
        n = len(self.path)
        excess = math.sqrt(length2) / expected_norm(n) - 1.0 if self.norm else length2 / n - 1.0
        exponent = self.c_sigma * self.pace / self.damping * excess
        return math.exp(min(exponent, 50.0))  # [A1:19]; the limit only matters if f decreases without bound


class PopulationSuccess(StepSizeRule):
    """Population success rule: sigma grows while each generation improves on the previous one.

    =======  ==============  ======  ==========================================================
    paper    code            shape   meaning
    =======  ==============  ======  ==========================================================
    z_PSR    ``gain``        float   lead of the new values over the previous ones in rank,
                                     from -1 (all behind) to 1 (all ahead)
    z*       ``target``      float   target of the gain
    s        ``smoothed``    float   fading mean of gain - target
    c_sigma  ``c_sigma``     float   its fading rate
    d_sigma  ``damping``     float   divisor in the exponent
    -        ``previous``    (lam,)  values of the generation before, increasing
    =======  ==============  ======  ==========================================================

    A candidate without a value ranks last. Equal values share their ranks, so a plateau does not count as
    success.
    """

    STATE: ClassVar[Declared] = {"previous": VALUE, "smoothed": FINITE, "age": COUNT}

    def __init__(self, lam: int, c_sigma: float, target: float, damping: float) -> None:
        self.c_sigma, self.target, self.damping = c_sigma, target, damping
        self.path = np.empty(0)
        self.previous = np.zeros(lam)
        self.smoothed = 0.0
        self.age = 0

    def update(self, best: Selection) -> None:
        """Compare the ranks of this generation with those of the previous one."""
        values = np.full(len(self.previous), np.inf)
        values[: len(best.values)] = best.values
        if self.age > 0:
            gain = (_wins(values, self.previous) - _wins(self.previous, values)) / len(values) ** 2
            self.smoothed += self.c_sigma * (gain - self.target - self.smoothed)
        self.previous[...] = values
        self.age += 1

    def factor(self) -> float:
        """Return exp(s / d_sigma), or 1 in the first generation."""
        return math.exp(self.smoothed / self.damping) if self.age > 1 else 1.0


def _wins(a: Array, b: Array) -> int:
    """Return the number of pairs with a_i < b_j; both arrays are sorted."""
    return int(np.searchsorted(a, b, side="left").sum())


def damping_for_population(mu_w: float, n: int) -> float:
    """Return the extra damping of the step size for a large population; 1 unless ``mu_w`` exceeds n + 2.

    The mean of many selected z is hardly shorter than each of them, so p_sigma reaches the length
    sqrt(mu_w). Squared in the exponent of [A1:19], that would multiply sigma by e^20 in one generation.
    Hansen's tutorial includes this factor in its damping. With the default population it is 1 for every n.
    """
    return 1.0 + 2.0 * population_excess(mu_w, n)


def population_excess(mu_w: float, n: int) -> float:
    """Return the excess of sqrt(mu_w / n), approximately, over 1, at least 0."""
    return max(0.0, math.sqrt(max(0.0, mu_w - 1.0) / (n + 1.0)) - 1.0)


def expected_norm(n: int) -> float:
    """Return chi_n, the approximate mean length of a standard normal vector of ``n`` numbers."""
    return math.sqrt(n) * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n))


def path_is_short(path: Array, limit2: float, c_sigma: float, age: int) -> bool:
    """Return h_sigma: True if |path|^2 is below ``limit2``, corrected for the age of the path.

    A long p_sigma means that sigma is far too small. Updates of p_c then pause, or C would grow instead of
    sigma. ``age`` is the number of updates of the path, including the current one.
    """
    return float(np.dot(path, path)) < limit2 * (1.0 - (1.0 - c_sigma) ** (2 * age))


def tutorial_limit2(n: int) -> float:
    """Return the square of the limit on |p_sigma| in Hansen's tutorial, for :func:`path_is_short`."""
    return ((1.4 + 2 / (n + 1)) * expected_norm(n)) ** 2
