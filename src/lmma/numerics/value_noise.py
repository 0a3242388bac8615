"""Errors of function values: rounding, printed digits, single precision and small noise.

Differences of values are only meaningful above the error of the values. It is estimated in two ways:

- from the values themselves, at no cost: decimal digits, float32, or whole numbers;
- from a difference table of values at equal, tiny distances along a line. Differences of order k of a smooth
  function vanish quickly, those of independent errors with standard deviation e have standard deviation
  e sqrt((2k)!)/k! (Moré and Wild, *Estimating computational noise*, SIAM J. Sci. Comput. 33, 2011).
"""

from __future__ import annotations

import math
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.numerics.state import FINITE, NOT_NEGATIVE, Declared

Values = npt.NDArray[np.float64]

UNIT_ROUNDOFF = 2.2e-16
TINY = 1e-300
KEPT = 40  # recent values, in which digits are looked for
LEAST_KNOWN = 6  # values needed to recognise digits
MOST_DIGITS = 9  # more decimal digits are not told from exact values
DIGIT_ERROR = 0.3  # standard deviation of a uniform error of one unit: 1/sqrt(12)
SINGLE_ERROR = 3e-8  # of values in float32, relative
LEAST_IN_TABLE = 5  # values needed for the difference table
AGREEMENT = 4.0  # largest ratio of three consecutive levels of the table that agree


def difference_noise(values: Values) -> float:
    """Return the standard deviation of the errors of ``values``, which lie at equal distances on a line."""
    levels: list[float] = []
    changes_sign: list[bool] = []
    table = values
    for order in range(1, len(values)):
        table = np.diff(table)
        share = math.factorial(order) ** 2 / math.factorial(2 * order)
        levels.append(math.sqrt(share * float(np.mean(table * table))))
        changes_sign.append(bool((table > 0).any() and (table < 0).any()))
    for order in range(len(levels) - 2):
        three = levels[order : order + 3]
        if min(three) > 0 and max(three) <= AGREEMENT * min(three) and changes_sign[order]:
            return three[0]
    return min(levels[-3:], default=0.0)


def printed_digits(values: Values) -> int | None:
    """Return the least number of decimal digits that reproduce all ``values``; None above MOST_DIGITS."""
    numbers = values[values != 0].tolist()
    for digits in range(2, MOST_DIGITS + 1):
        if all(float(f"{number:.{digits - 1}e}") == number for number in numbers):
            return digits
    return None


def longest_run(values: Values) -> Values:
    """Return the longest run of consecutive values without NaN: those on a line lie at equal distances."""
    runs = np.split(values, np.flatnonzero(np.isnan(values)))
    longest = max(runs, key=lambda run: np.count_nonzero(~np.isnan(run)))
    known: Values = longest[~np.isnan(longest)]
    return known


@final
class ValueNoise:
    """Estimate of the errors of function values.

    Attributes
    ----------
    relative, absolute : float
        Standard deviation of the errors, relative to the value and as a number; the larger one counts.
    measured_at : float
        Magnitude of the value at which the errors were estimated; 0 before.
    recent : ndarray
        The last values, up to ``KEPT``.
    """

    STATE: ClassVar[Declared] = {
        "relative": NOT_NEGATIVE, "absolute": NOT_NEGATIVE, "measured_at": NOT_NEGATIVE, "recent": FINITE,
    }  # fmt: skip
    VARIABLE: ClassVar[tuple[str, ...]] = ("recent",)

    def __init__(self) -> None:
        self.relative = UNIT_ROUNDOFF
        self.absolute = 0.0
        self.measured_at = 0.0
        self.recent: Values = np.empty(0)

    def error(self, value: float) -> float:
        """Return the standard deviation of the error of ``value``."""
        size = abs(value)
        return max(UNIT_ROUNDOFF * size, self.relative * size, self.absolute, TINY)

    def remember(self, values: Values) -> None:
        """Add the values of a batch, NaN for failures, to the recent ones."""
        last = values[-KEPT:]
        self.recent = np.concatenate((self.recent, last[~np.isnan(last)]))[-KEPT:]

    def measure(self, line: Values, value: float, *, rounded: bool = False) -> None:
        """Estimate the errors near ``value`` from a ``line`` of values, NaN for failures, and recent ones.

        With ``rounded`` points, in float32, errors are those of points, which do not shrink with the values.
        """
        known = longest_run(line)
        level = difference_noise(known) if len(known) >= LEAST_IN_TABLE else 0.0
        size = abs(float(np.median(known)) if len(known) else value)
        self.relative = level / max(size, TINY)
        if len(self.recent) >= LEAST_KNOWN:
            self._recognise_rounding()
        if rounded and math.isfinite(level):
            self.absolute = max(self.absolute, level)
        if not math.isfinite(self.relative):  # values near the largest number
            self.relative = UNIT_ROUNDOFF
        self.measured_at = abs(value)

    def _recognise_rounding(self) -> None:
        """Raise the estimate if the recent values have few digits."""
        recent = self.recent
        self.absolute = 0.0
        digits = printed_digits(recent)
        if digits is not None:
            whole = bool(np.all(recent == np.round(recent))) and float(np.abs(recent).max()) < 10.0**digits
            if whole:  # a count, rather than a number printed with few digits
                self.absolute = DIGIT_ERROR
            else:
                self.relative = max(self.relative, DIGIT_ERROR * 10.0 ** (1 - digits))
        else:
            with np.errstate(over="ignore"):
                single = recent.astype(np.float32).astype(np.float64)
            if np.array_equal(single, recent):
                self.relative = max(self.relative, SINGLE_ERROR)

    def is_outdated(self, value: float) -> bool:
        """Return True if ``value`` is so much smaller than at the last estimate that errors may differ."""
        fall = 0.01 if self.relative > 1e-14 else 1e-6
        return abs(value) < fall * self.measured_at
