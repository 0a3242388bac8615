"""Integer coordinates: candidates are rounded, the search itself is continuous and stays able to change them.

Candidates are rounded after they are drawn. The method learns from z, which rounding does not affect, so no
archive of unrounded candidates is needed. Without countermeasures steps could become too short to reach
another integer. Therefore two corrections follow every update, for each integer coordinate j:

* *Centring*: better candidates whose integer differs from that of the mean are moved to their rounded value;
  the others are moved just far enough to compensate for the bias (Marty, Hansen, Auger, Semet, Heron, PPSN
  2024). Here it acts on the mean only, m_j += sum_i w_i delta_ij.
* *Bounds on the mutation probability*, the probability of an integer other than that of the mean. It is at
  least alpha, which keeps integers changing. If no better candidate changed the integer, it does not grow;
  otherwise many integers would hide the signal of continuous coordinates (Hamano, Saito, Nomura, Shirakawa,
  GECCO 2022; Hamano and others, GECCO 2025).

=======  ==============  ==========  =================================================================
symbol   code            shape       meaning
=======  ==============  ==========  =================================================================
alpha    ``alpha``       float       1 - 0.73^(1/discrete): 73% of the candidates have no forced mutation
p_mut    ``reach``       (count,)    mutation probability after the last generation
s_j      ``deviation``   (count,)    sigma scale_j sqrt(C_jj), the standard deviation of the coordinate before
                                     its bounds were applied; infinite at first
-        ``columns``     (count,)    indices of the integer coordinates
-        ``unrounded``   (lam, count) the candidates before they were rounded
-        ``grid``        3 (count,)  columns, smallest and largest values
=======  ==============  ==========  =================================================================

Bounds on s_j are enforced through ``scale``, the step size factor of each coordinate. The arithmetic is in
``kernels/reference_integers.py`` and in the compiled core.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.kernels.reference_integers import LEAST
from lmma.layers.layer import Layer, Told
from lmma.numerics.recombination import Array, Indices
from lmma.numerics.state import COUNT, DISTANCE, FINITE, VALUE, Declared

if TYPE_CHECKING:
    from lmma.layers.choices import Choices
    from lmma.methods.base import Method

Values = npt.NDArray[np.float64]

TINY = float(np.finfo(np.float32).tiny)  # lower limit on standard deviations, in both precisions
UNFORCED = 0.73  # share of candidates in which no discrete coordinate is forced to change
INFEASIBLE_FACTOR = 4  # longer patience while nothing is feasible: violations indicate progress poorly
TRIES = 5  # average number of trials per neighbour: fewer than 1% are then missed
SMALL_STEP = 1.0  # upper limit on standard deviations at the end of a search: the distance of neighbours


def least_mutation(discrete: int) -> float:
    """Return alpha, the lower limit on the mutation probability of each of ``discrete`` coordinates."""
    return float(1 - UNFORCED ** (1 / max(1, discrete)))


@final
class Integers(Layer):
    """The integer coordinates of a strategy.

    Parameters
    ----------
    columns : ndarray, (count,)
        Indices of the integer coordinates.
    lower, upper : ndarray, (count,)
        Their smallest and largest values, which may be infinite.
    n : int
        The number of all coordinates.
    """

    name = "integers"
    STATE: ClassVar[Declared] = {"reach": FINITE, "deviation": DISTANCE}

    def __init__(self, columns: Indices, lower: Values, upper: Values, n: int) -> None:
        self.columns = columns
        self.lower, self.upper = np.ceil(lower), np.floor(upper)
        self.grid = kernels.Grid(columns, self.lower, self.upper)
        self.continuous = as_slice(np.setdiff1d(np.arange(n), columns))
        self.alpha = least_mutation(len(columns))
        self.reach: Values = np.full(len(columns), 0.5 - LEAST)
        self.deviation: Values = np.full(len(columns), np.inf)
        self.unrounded: Array = np.zeros((0, len(columns)))
        self.drawn = kernels.Drawn(self.unrounded, self.unrounded)
        self._old: Array = self.unrounded  # integer coordinates of the mean before the update

    def on_ask(self, method: Method, X: Array, first: int, rows: int) -> None:
        """Round the integer coordinates of candidates."""
        self.allocate(rows, X.dtype)
        self.round(X, first)

    def on_tell(self, method: Method, told: Told) -> Told:
        """Store the mean before the update."""
        self._old = method.mean[self.columns]  # a copy
        return told

    def after_update(self, method: Method, told: Told) -> None:
        """Keep integers mutable by adjusting the mean and the scale."""
        assert method.scale is not None  # always set if there are integers
        weights, deviation = (
            method.selection_weights(),
            method.deviations(self.columns, self._old, self.unrounded),
        )
        self.recentre(method.mean, method.scale, self._old, told.order, weights, deviation)

    def move_inside(self, x: Array) -> None:
        """Round the integer coordinates of ``x`` in place."""
        x[self.columns] = self.grid.rounded(x[self.columns])

    def set_discrete_count(self, discrete: int) -> None:
        """Set the number of discrete variables, choices included."""
        self.alpha = least_mutation(max(discrete, len(self.columns)))

    def allocate(self, popsize: int, dtype: npt.DTypeLike) -> None:
        """Allocate buffers for generations of ``popsize`` candidates."""
        if self.unrounded.shape[0] == popsize and self.unrounded.dtype == dtype:
            return
        self.unrounded = np.empty((popsize, len(self.columns)), dtype=dtype)
        self.drawn = kernels.Drawn(np.empty_like(self.unrounded), self.unrounded)

    def round(self, candidates: Array, first: int = 0) -> None:
        """Round candidates ``first``, ``first + 1``, ... in place, and store their unrounded values."""
        drawn = self.drawn
        if len(candidates) < len(self.unrounded):
            rows = slice(first, first + len(candidates))
            drawn = kernels.Drawn(drawn.values[rows], drawn.unrounded[rows])
        kernels.round_integers(candidates, self.grid, drawn)

    def accepts(self, points: Array) -> bool:
        """Return True if all integer coordinates of ``points``, one per row, are integers within bounds."""
        part = points[:, self.columns]
        return bool(np.all(part == self.grid.rounded(part)))

    def recentre(
        self, mean: Array, scale: Array, old: Array, order: Indices, weights: Array, deviation: Array
    ) -> None:
        """Centre ``mean``, then adjust it and ``scale`` to the bounds on mutation probabilities, in place.

        ``old`` holds the integer coordinates of the mean when candidates were drawn, ``order`` has the best
        candidates first, and ``deviation`` holds the current standard deviations of the integers.
        """
        mu = min(len(weights), len(order))
        ranked = np.asarray(weights[:mu], dtype=np.float64), order[:mu]
        self.deviation = np.maximum(deviation, TINY, dtype=np.float64)
        kernels.recentre_integers(
            mean, scale, self.grid, self.drawn, ranked, old, self.deviation, (self.alpha, self.reach)
        )

    def move_mean(self, mean: Array, x: Array) -> None:
        """Move the integer coordinates of ``mean`` to those of ``x`` where they round to others, in place."""
        here, there = mean[self.columns], x[self.columns]
        mean[self.columns] = np.where(self.grid.rounded(here) == there, here, there)


def as_slice(columns: Indices) -> Any:
    """Return consecutive columns as a slice, which NumPy indexes much faster."""
    if len(columns) and columns[-1] - columns[0] + 1 == len(columns):
        return slice(int(columns[0]), int(columns[-1]) + 1)
    return columns


def checked_integrality(integrality: Any, n: int) -> Indices:
    """Return the indices of the integer coordinates among ``n`` from the argument ``integrality``."""
    given = np.asarray(integrality)
    if given.dtype.kind not in "biuf" or given.shape not in ((), (1,), (n,)):
        raise ValueError(
            f"integrality must be True, or {n} entries of 1 for an integer and 0 for a real variable; "
            f"got {integrality!r:.80}"
        )
    if not np.all((given == 0) | (given == 1)):
        raise ValueError(
            f"integrality must be 1 for an integer and 0 for a real variable, got {integrality!r:.80}; "
            "for SciPy's integrality 2 and 3 use lmma.Space"
        )
    columns: Indices = np.flatnonzero(np.broadcast_to(given, (n,)))
    return columns


def integers(columns: Indices, lower: Values, upper: Values, n: int) -> Integers | None:
    """Return the layer for the integers among ``n`` coordinates, or None if there are none.

    ``lower`` and ``upper`` have shape (n,). Raise ValueError if any of these intervals contains no integer.
    """
    low, high = np.ceil(lower[columns]), np.floor(upper[columns])
    if np.any(empty := low > high):
        i = int(columns[np.flatnonzero(empty)[0]])
        raise ValueError(
            f"bounds of coordinate {i}, [{lower[i]:g}, {upper[i]:g}], contain no integer, but integrality "
            "requires one: widen the bounds"
        )
    return Integers(columns, low, high, n) if len(columns) else None


@final
class NeighbourSearch:
    """Search for better neighbours of the best point; a discrete search only ends when there are none.

    A neighbour differs in one coordinate: an integer by one, or a choice. A search is ``exhausted`` if it
    has found no better values for some time. Then the remaining neighbours are evaluated; see
    :meth:`lmma.Strategy.ask`.

    Parameters
    ----------
    integers : Integers, optional
        The integer coordinates.
    choices : Choices, optional
        The choices.
    popsize : int
        Candidates per generation, of which a share of 1 - 0.73 tries a neighbour.
    fixed_step : bool
        True if the method does not adapt its steps, so that they need not be small.

    Attributes
    ----------
    unimproved : int
        The number of generations since the best value improved.
    evaluated : int
        The number of neighbours of the best point, in a fixed order, that have been evaluated or do not
        exist.
    """

    STATE: ClassVar[Declared] = {"best": VALUE, "unimproved": COUNT, "evaluated": COUNT}

    def __init__(
        self, integers: Integers | None, choices: Choices | None, popsize: int, *, fixed_step: bool = False
    ) -> None:
        self._integers, self._choices = integers, choices
        self._fixed_step = fixed_step
        self.count = 0 if integers is None else 2 * len(integers.columns)
        self.count += 0 if choices is None else choices.neighbours
        self.patience = math.ceil(TRIES * self.count / (-math.log(UNFORCED) * popsize))
        self.best = math.inf
        self.unimproved = 0
        self.evaluated = 0

    def record(self, best: float, least: float, *, new_best: bool, closer: bool) -> None:
        """Record the best value of the run after each generation; ignore improvements of less than ``least``.

        ``new_best`` is True if there is a new best point, and ``closer`` if it is not feasible yet but has
        the smallest constraint violation so far.
        """
        if new_best:
            self.evaluated = 0
        self.unimproved = 0 if closer else self.unimproved + 1
        if best < self.best - least:
            self.best, self.unimproved = best, 0

    def restart(self, best: float) -> None:
        """Continue from a better neighbour with the value ``best``."""
        self.best, self.unimproved, self.evaluated = min(best, self.best), 0, 0

    @property
    def exhausted(self) -> bool:
        """True if no better value was found although each neighbour was probably tried."""
        patience = self.patience if math.isfinite(self.best) else INFEASIBLE_FACTOR * self.patience
        return self.unimproved >= patience

    @property
    def has_small_steps(self) -> bool:
        """True if candidates rarely differ from the mean by more than a neighbour does."""
        if self._integers is None or self._fixed_step:
            return True
        return bool(np.all(self._integers.deviation <= SMALL_STEP))

    def remaining(self, x: Array, most: int) -> Indices:
        """Return the indices of the next neighbours of ``x`` to evaluate, at most ``most``."""
        indices = np.arange(self.evaluated, self.count)
        columns, values = self._changes(x)
        exists = np.flatnonzero((values != x[columns])[self.evaluated :])
        return indices[exists[:most]]

    def points(self, x: Array, numbers: Indices) -> Array:
        """Return the neighbours of ``x`` that have these ``numbers``, one per row."""
        columns, values = self._changes(x)
        rows: Array = np.repeat(x[np.newaxis], len(numbers), axis=0)
        rows[np.arange(len(numbers)), columns[numbers]] = values[numbers]
        return rows

    def _changes(self, x: Array) -> tuple[Indices, Array]:
        """Return the column that each neighbour changes, and its new value.

        A neighbour that does not exist, because an integer is at its bound, has the value of ``x``.
        """
        columns: list[Indices] = []
        values: list[Array] = []
        if self._integers is not None:
            part, choices = self._integers.columns, self._choices
            part = part if choices is None else choices.numbers[part]
            for step in (-1, 1):
                columns.append(part)
                values.append(np.clip(x[part] + step, self._integers.lower, self._integers.upper))
        if self._choices is not None:
            part, others = self._choices.other_values(x)
            columns.append(part)
            values.append(others)
        return np.concatenate(columns), np.concatenate(values).astype(x.dtype)
