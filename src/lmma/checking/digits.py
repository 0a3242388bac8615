"""How many digits values have: a function may print, round or compute them with few."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt

FEW = 10  # significant digits: what has no more was rounded
LEAST = 8  # different values from which anything can be told


@dataclass(frozen=True)
class Digits:
    """What the digits of values say of them."""

    significant: int  # the most that any value has
    decimals: int  # the most behind the point
    single: bool  # whether all are numbers of single precision
    rounded: bool
    whole: bool  # whether all are whole numbers

    def quantum(self, value: float) -> float:
        """Return the distance between two values near ``value`` that rounding leaves."""
        if not self.rounded:
            precision = np.float32 if self.single else np.float64
            return float(np.spacing(precision(abs(value))))
        leading = math.floor(math.log10(abs(value))) if value else 0
        return max(10.0 ** (leading - self.significant + 1), 10.0**-self.decimals)


def digits(values: npt.ArrayLike) -> Digits:
    """Return what the digits of finite values say of them."""
    different = np.unique(np.asarray(values, dtype=np.float64))
    pairs = [_of(value) for value in different.tolist() if value]
    significant = max((found for found, _ in pairs), default=1)
    decimals = max((found for _, found in pairs), default=0)
    with np.errstate(over="ignore", under="ignore"):
        single = bool(np.all(different == different.astype(np.float32)))
    known = len(different) >= LEAST
    rounded = (known and significant <= FEW) or (len(different) > 1 and significant <= FEW // 2)
    whole = len(different) > 1 and bool(np.all(different == np.floor(different)))
    return Digits(significant, decimals, single and known and not rounded, rounded, whole)


def _of(value: float) -> tuple[int, int]:
    """Return how many significant digits and decimals a number has when it is written shortest."""
    written = Decimal(repr(value)).normalize()
    _, figures, exponent = written.as_tuple()
    return len(figures), max(0, -int(exponent))
