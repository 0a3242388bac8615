"""Integer coordinates in plain NumPy: the meaning of the compiled kernels. parts/integers.py has the idea."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmma.kernels.twin import Array, Indices

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

LEAST = 1e-16  # a probability that arithmetic can still tell from 0, and from a half


class Grid(NamedTuple):
    """Which coordinates are integers, and the least and the largest value of each, (count,) all."""

    columns: Indices
    lower: Values
    upper: Values

    def rounded(self, part: Array) -> Array:
        """Return the nearest values to ``part``, the integers of one point or of several."""
        nearest: Array = np.minimum(np.maximum(np.rint(part), self.lower), self.upper)
        return nearest


class Drawn(NamedTuple):
    """The integers of candidates, rounded and as they were drawn, (rows, count)."""

    values: Array
    unrounded: Array


def round_integers(candidates: Array, grid: Grid, drawn: Drawn) -> None:
    """Round the integers of ``candidates`` in place, and set ``drawn``."""
    drawn.unrounded[...] = candidates[:, grid.columns]
    drawn.values[...] = grid.rounded(drawn.unrounded)
    candidates[:, grid.columns] = drawn.values


def settle_integers(
    mean: Array,
    scale: Array,
    grid: Grid,
    drawn: Drawn,
    ranked: tuple[Array, Indices],
    old: Array,
    deviation: Values,
    bounds: tuple[float, Values],
) -> None:
    """Centre ``mean`` and keep the bounds on mutation probabilities by ``mean`` and ``scale``, in place.

    ``ranked`` has weights and the better candidates, ``old`` the integers of the mean when these were drawn,
    ``deviation`` the standard deviations of the integers now; ``bounds`` are alpha and the mutation
    probabilities of the last generation, which become those of this one.
    """
    alpha, reach = bounds
    succeeded = np.zeros(len(grid.columns), dtype=np.bool_)
    centre(mean, grid, drawn, ranked, old, succeeded)
    place, wanted = bounded(mean[grid.columns].astype(np.float64), deviation, grid, succeeded, alpha, reach)
    mean[grid.columns] = place
    scale[grid.columns] *= (wanted / deviation).astype(scale.dtype)


def centre(
    mean: Array, grid: Grid, drawn: Drawn, ranked: tuple[Array, Indices], old: Array, succeeded: Flags
) -> None:
    """Move ``mean`` by what centring adds, and flag where better candidates were other integers."""
    weights, best = ranked
    values = drawn.values[best]
    moved = values != grid.rounded(old)
    some = np.flatnonzero(moved.any(axis=0))
    if len(some) == 0:
        return
    succeeded[some] = True
    values -= drawn.unrounded[best]
    if len(some) < len(grid.columns):
        moved, values = moved.take(some, axis=1), values.take(some, axis=1)
    change = values.astype(np.float64, copy=False)
    delta = np.where(moved, change, 0.0)
    back = np.subtract(change, delta)
    bias = delta.sum(axis=0)
    back[bias * back >= 0.0] = 0.0  # what would add to the bias stays where it is
    room = back.sum(axis=0)
    part = np.where(room != 0.0, np.minimum(1.0, -bias / np.where(room != 0.0, room, 1.0)), 0.0)
    mean[grid.columns[some]] += weights @ (delta + part * back) / weights.sum()


def bounded(
    mean: Values, deviation: Values, grid: Grid, succeeded: Flags, alpha: float, reach: Values
) -> tuple[Values, Values]:
    """Return mean and standard deviations such that mutation probabilities, ``reach``, keep their bounds.

    Where no better candidate was another integer than the mean's, the probability must not grow.
    """
    from scipy.special import ndtr, ndtri

    half = 0.5 - LEAST
    here = grid.rounded(mean)
    below, above = here - 0.5, here + 0.5
    low, up = ndtr((below - mean) / deviation), ndtr((mean - above) / deviation)
    cap = np.where(succeeded, half, np.maximum(reach, alpha))
    first, last = here <= grid.lower, here >= grid.upper
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
    reach[...] = low + up

    # Outermost integers are left on one side alone: the mean goes where that happens as often as it may
    if len(ends):
        one_sided = _between(LEAST, _between(alpha, one_sided, cap[ends]), half)
        wide = np.maximum(deviation[ends], 0.5 / -ndtri(alpha))
        away = wide * -ndtri(one_sided)
        centre[ends] = np.where(first[ends], above[ends] - away, below[ends] + away)
        wanted[ends], reach[ends] = wide, one_sided
    return centre, wanted


def _between(low: float, values: Values, high: float | Values) -> Values:
    """Return values no less than ``low`` and then no more than ``high``."""
    return np.minimum(np.maximum(values, low), high)
