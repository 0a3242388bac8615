"""Integer coordinates: values are rounded for fun, the search goes on between them and cannot get stuck.

Candidates are rounded after they are drawn, and the search learns from z, which knows nothing of it: no
archive of unrounded candidates is kept. What could go wrong is that steps become too short to reach another
integer. So, after every update and for each integer coordinate j,

* *centring*: where better candidates left the integer of the mean, they count as that integer, and the others
  are moved just far enough to make up for the bias (Marty, Hansen, Auger, Semet, Heron, PPSN 2024). Here it
  acts on the mean alone, m_j += sum_i w_i delta_ij;
* *bounds on the mutation probability*, that of another integer than the mean's: at least alpha; and, if none
  of the better candidates was another integer, at most what it was before. The first keeps integers
  searching, the second keeps many of them from drowning what continuous coordinates say (Hamano, Saito,
  Nomura, Shirakawa, GECCO 2022; Hamano and others, GECCO 2025).

=======  ==============  ==========  =================================================================
symbol   code            shape       meaning
=======  ==============  ==========  =================================================================
alpha    ``alpha``       float       1 - 0.73^(1/discrete): 73% of the candidates have no forced mutation
p_mut    ``reach``       (count,)    mutation probability after the last generation
s_j      ``deviation``   (count,)    sigma scale_j sqrt(C_jj), the standard deviation of the coordinate
-        ``columns``     (count,)    which coordinates are integers
-        ``unrounded``   (lam, count) the candidates before they were rounded
=======  ==============  ==========  =================================================================

A bound on s_j is kept by ``scale``, the factor that a step size for each coordinate has anyway.
"""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.strategies.parts.recombination import Array, Indices

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

UNFORCED = 0.73  # share of candidates in which no discrete coordinate is forced to change
LEAST = 1e-16  # a probability that arithmetic can still tell from 0, and from a half


def least_mutation(discrete: int) -> float:
    """Return alpha, the least mutation probability of each of so many discrete coordinates."""
    return float(1 - UNFORCED ** (1 / max(1, discrete)))


@final
class Integers:
    """The integer coordinates of a strategy.

    Parameters
    ----------
    columns : ndarray, (count,)
        Which coordinates are integers.
    lower, upper : ndarray, (count,)
        Their least and largest values, which may be infinite.
    n : int
        The number of all coordinates.
    """

    STATE: ClassVar[tuple[str, ...]] = ("reach",)

    def __init__(self, columns: Indices, lower: Values, upper: Values, n: int) -> None:
        self.columns = columns
        self.lower, self.upper = np.ceil(lower), np.floor(upper)
        self.continuous: Indices = np.setdiff1d(np.arange(n), columns)
        self.alpha = least_mutation(len(columns))
        self.reach: Values = np.full(len(columns), 0.5 - LEAST)
        self.succeeded: Flags = np.zeros(len(columns), dtype=np.bool_)  # in the last generation
        self.unrounded: Array = np.zeros((0, len(columns)))
        self._values: Array = self.unrounded  # rounded
        self.select = as_slice(columns)
        self.is_bounded = bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())
        self._limits: tuple[Array, Array] | None = None  # none where all are infinite

    def among(self, discrete: int) -> None:
        """Take note of how many discrete variables there are, choices beside the strategy included."""
        self.alpha = least_mutation(max(discrete, len(self.columns)))

    def expect(self, popsize: int, dtype: npt.DTypeLike) -> None:
        """Prepare for generations of so many candidates."""
        if self.unrounded.shape[0] == popsize and self.unrounded.dtype == dtype:
            return
        self.unrounded = np.empty((popsize, len(self.columns)), dtype=dtype)
        self._values = np.empty_like(self.unrounded)
        if self.is_bounded:
            self._limits = self.lower.astype(dtype), self.upper.astype(dtype)

    def round(self, candidates: Array, first: int = 0) -> None:
        """Round candidates number ``first`` and on in place, and remember what they were before."""
        rows = slice(first, first + len(candidates))
        values = self._values[rows]
        self.unrounded[rows] = candidates[:, self.select]
        np.rint(self.unrounded[rows], out=values)
        if self._limits is not None:
            np.maximum(values, self._limits[0], out=values)
            np.minimum(values, self._limits[1], out=values)
        candidates[:, self.select] = values

    def round_rows(self, candidates: Array, rows: Indices) -> None:
        """Do so for the candidates at ``rows``."""
        for row in rows.tolist():
            self.round(candidates[row : row + 1], row)

    def rounded(self, x: Array) -> Array:
        """Return ``x``, one point, with its integers rounded."""
        x = x.copy()
        x[self.select] = self._rounded(x[self.select])
        return x

    def hold(self, points: Array) -> bool:
        """Return whether the integers of ``points``, one per row, are integers within their bounds."""
        part = points[:, self.select]
        return bool(np.all((part == np.rint(part)) & (part >= self.lower) & (part <= self.upper)))

    def _rounded(self, part: Array) -> Array:
        whole: Array = np.rint(part)
        return np.minimum(np.maximum(whole, self.lower), self.upper) if self.is_bounded else whole

    def centre(self, mean: Array, old: Array, order: Indices, weights: Array) -> None:
        """Move ``mean`` by what centring adds, and note where better candidates were other integers.

        ``old`` is what the integers of the mean were drawn around, ``order`` has the best candidates first.
        """
        mu = min(len(weights), len(order))
        best = order[:mu]
        values = self._values[best]
        moved = values != self._rounded(old)
        some = np.flatnonzero(moved.any(axis=0))
        if len(some) == 0:
            return
        self.succeeded[some] = True
        values -= self.unrounded[best]
        if len(some) < len(self.columns):
            moved, values = moved.take(some, axis=1), values.take(some, axis=1)
        change = values.astype(np.float64, copy=False)
        delta = np.where(moved, change, 0.0)
        back = np.subtract(change, delta)
        bias = delta.sum(axis=0)
        back[bias * back >= 0.0] = 0.0  # what would add to the bias stays where it is
        room = back.sum(axis=0)
        part = np.where(room != 0.0, np.minimum(1.0, -bias / np.where(room != 0.0, room, 1.0)), 0.0)
        mean[self.columns[some]] += weights[:mu] @ (delta + part * back) / weights[:mu].sum()

    def bounded(self, mean: Values, deviation: Array) -> tuple[Values, Values]:
        """Return mean and standard deviations such that mutation probabilities keep their bounds.

        Both are those of the integer coordinates. Where no better candidate was another integer than the
        mean's, the probability must not grow.
        """
        from scipy.special import ndtr, ndtri

        alpha, half, succeeded = self.alpha, 0.5 - LEAST, self.succeeded
        here = self._rounded(mean)
        below, above = here - 0.5, here + 0.5
        low, up = ndtr((below - mean) / deviation), ndtr((mean - above) / deviation)
        cap = np.where(succeeded, half, np.maximum(self.reach, alpha))
        first, last = here <= self.lower, here >= self.upper
        ends = np.flatnonzero(first | last)
        one_sided = np.where(first[ends], up[ends], low[ends])

        # Left on both sides, each at least half as often
        resting = np.where(succeeded, alpha / 2, 1 - cap)  # the least probability of staying
        mid = np.maximum(1 - low - up, resting)
        low, up = np.maximum(low, alpha / 2), np.maximum(up, alpha / 2)
        total = low + mid + up
        spare = np.maximum(total - alpha - resting, LEAST)
        too_much = np.minimum((total - 1) / spare, 1.0)
        low, up = (_between(LEAST, p - too_much * (p - alpha / 2), half) for p in (low, up))
        left, right = -ndtri(low), -ndtri(up)
        both = left + right
        centre, wanted = (below * right + above * left) / both, 1 / both
        self.reach[...] = low + up
        self.succeeded[...] = False

        # Outermost integers are left on one side alone: the mean goes where that happens as often as it may
        if len(ends):
            one_sided = _between(LEAST, _between(alpha, one_sided, cap[ends]), half)
            wide = np.maximum(deviation[ends], 0.5 / -ndtri(alpha))
            away = wide * -ndtri(one_sided)
            centre[ends] = np.where(first[ends], above[ends] - away, below[ends] + away)
            wanted[ends], self.reach[ends] = wide, one_sided
        return centre, wanted


def _between(low: float, values: Values, high: float | Values) -> Values:
    """Return values no less than ``low`` and then no more than ``high``."""
    return np.minimum(np.maximum(values, low), high)


def as_slice(columns: Indices) -> Any:
    """Return a slice for columns without gaps, which NumPy reads much faster."""
    if len(columns) and columns[-1] - columns[0] + 1 == len(columns):
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns


def checked_integrality(integrality: Any, n: int) -> Indices:
    """Return which of ``n`` coordinates are integers, from what a user gives as ``integrality``."""
    given = np.asarray(integrality)
    if given.dtype.kind not in "biuf" or given.shape not in ((), (1,), (n,)):
        raise ValueError(
            f"integrality must be True, or {n} entries of 1 for an integer and 0 for a real variable; "
            f"got {integrality!r:.80}"
        )
    if not np.all((given == 0) | (given == 1)):
        raise ValueError(
            f"integrality must be 1 for an integer and 0 for a real variable, got {integrality!r:.80}; "
            "for SciPy's kinds 2 and 3 use lmma.Space"
        )
    columns: Indices = np.flatnonzero(np.broadcast_to(given, (n,)))
    return columns


def integers(columns: Indices, lower: Values, upper: Values, n: int) -> Integers | None:
    """Return the integers among ``n`` coordinates with these bounds, (n,) each; None if there are none.

    Where bounds leave no integer, ValueError names the coordinate; where they leave one, it is that one.
    """
    low, high = np.ceil(lower[columns]), np.floor(upper[columns])
    if np.any(empty := low > high):
        i = int(columns[np.flatnonzero(empty)[0]])
        raise ValueError(
            f"bounds of coordinate {i}, [{lower[i]:g}, {upper[i]:g}], hold no integer, but integrality asks "
            "for one: widen them"
        )
    return Integers(columns, low, high, n) if len(columns) else None
