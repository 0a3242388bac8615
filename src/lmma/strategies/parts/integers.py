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
-        ``grid``        3 (count,)  columns, least and largest values
=======  ==============  ==========  =================================================================

A bound on s_j is kept by ``scale``, the factor that a step size for each coordinate has anyway. The
arithmetic is in ``kernels/twin_integers.py``, and compiled.
"""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.kernels.twin_integers import LEAST
from lmma.strategies.parts.recombination import Array, Indices

Values = npt.NDArray[np.float64]

TINY = float(np.finfo(np.float32).tiny)  # a standard deviation that either precision has
UNFORCED = 0.73  # share of candidates in which no discrete coordinate is forced to change


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
        self.grid = kernels.Grid(columns, self.lower, self.upper)
        self.continuous = as_slice(np.setdiff1d(np.arange(n), columns))
        self.alpha = least_mutation(len(columns))
        self.reach: Values = np.full(len(columns), 0.5 - LEAST)
        self.unrounded: Array = np.zeros((0, len(columns)))
        self.drawn = kernels.Drawn(self.unrounded, self.unrounded)

    def among(self, discrete: int) -> None:
        """Take note of how many discrete variables there are, choices beside the strategy included."""
        self.alpha = least_mutation(max(discrete, len(self.columns)))

    def expect(self, popsize: int, dtype: npt.DTypeLike) -> None:
        """Prepare for generations of so many candidates."""
        if self.unrounded.shape[0] == popsize and self.unrounded.dtype == dtype:
            return
        self.unrounded = np.empty((popsize, len(self.columns)), dtype=dtype)
        self.drawn = kernels.Drawn(np.empty_like(self.unrounded), self.unrounded)

    def round(self, candidates: Array, first: int = 0) -> None:
        """Round candidates number ``first`` and on in place, and remember what they were before."""
        drawn = self.drawn
        if len(candidates) < len(self.unrounded):
            rows = slice(first, first + len(candidates))
            drawn = kernels.Drawn(drawn.values[rows], drawn.unrounded[rows])
        kernels.round_integers(candidates, self.grid, drawn)

    def round_rows(self, candidates: Array, rows: Indices) -> None:
        """Do so for the candidates at ``rows``."""
        for row in rows.tolist():
            self.round(candidates[row : row + 1], row)

    def rounded(self, x: Array) -> Array:
        """Return ``x``, one point, with its integers rounded."""
        x = x.copy()
        x[self.columns] = self.grid.rounded(x[self.columns])
        return x

    def hold(self, points: Array) -> bool:
        """Return whether the integers of ``points``, one per row, are integers within their bounds."""
        part = points[:, self.columns]
        return bool(np.all(part == self.grid.rounded(part)))

    def settle(
        self, mean: Array, scale: Array, old: Array, order: Indices, weights: Array, deviation: Array
    ) -> None:
        """Centre ``mean``; keep the bounds on mutation probabilities by ``mean`` and ``scale``, all in place.

        ``old`` is what the integers of the mean were drawn around, ``order`` has the best candidates first,
        ``deviation`` are the standard deviations of the integers now.
        """
        mu = min(len(weights), len(order))
        ranked = np.asarray(weights[:mu], dtype=np.float64), order[:mu]
        own = np.maximum(deviation, TINY, dtype=np.float64)
        kernels.settle_integers(
            mean, scale, self.grid, self.drawn, ranked, old, own, (self.alpha, self.reach)
        )


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
