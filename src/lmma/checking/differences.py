"""Difference tables: how noisy values are, and where along a line they are not smooth.

Column k of the table of values at equal distances holds their k-th differences. What is smooth vanishes from
column to column, as h^k; noise grows. Where it is all that is left, the level of the noise is

    sigma_k = sqrt(gamma_k mean(T_k^2)),    gamma_k = (k!)^2 / (2 k)!

and the same for some k in a row (Hamming 1971; More and Wild, Estimating computational noise, SIAM J. Sci.
Comput. 33(3), 2011).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

MOST = 12  # columns
ALIKE = 4.0  # levels of some columns in a row that differ by less are the same


def levels(values: Values) -> list[float]:
    """Return sigma_k for k = 1, 2, ... of values at equal distances."""
    found = []
    column = np.asarray(values, dtype=np.float64)
    for k in range(1, min(len(column), MOST + 1)):
        column = np.diff(column)
        with np.errstate(over="ignore", under="ignore"):
            scale = float(np.max(np.abs(column)))
            mean = float(np.mean(np.square(column / scale))) if 0.0 < scale < math.inf else 0.0
        gamma = math.factorial(k) ** 2 / math.factorial(2 * k)
        found.append(scale * math.sqrt(gamma * mean) if mean else 0.0)
    return found


def noise_level(values: Values) -> float:
    """Return the level of noise in values at equal, tiny distances.

    It is that of the first three columns in a row that agree and in which differences change their sign; of
    the last column but one where none do, as what is smooth has vanished by then.
    """
    found = levels(values)
    for k in range(len(found) - 2):
        some = found[k : k + 3]
        signs = np.sign(np.diff(values, k + 1))
        turns = bool(np.any(signs > 0) and np.any(signs < 0))
        if min(some) > 0 and max(some) <= ALIKE * min(some) and turns:
            return some[0]
    return min(found[-3:])


def fourth(values: Values) -> Values:
    """Return fourth differences: none for what is a cubic, much where there is a kink or a jump."""
    return np.asarray(np.diff(values, 4))


def turns(values: Values, least: float) -> int:
    """Return how often values along a line turn from falling to rising or back, by more than ``least``."""
    count, direction, extreme = 0, 0, values[0]
    for value in values[1:]:
        change = value - extreme
        if direction * change > 0 or (direction == 0 and abs(change) > least):
            direction, extreme = (1 if change > 0 else -1), value
        elif direction and abs(change) > least:
            count, direction, extreme = count + 1, -direction, value
    return count
