"""Reference implementation of integer coordinates in NumPy; see ``layers/integers.py`` for the method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmma.kernels.reference import Array, Indices

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

LEAST = 1e-16  # smallest probability that differs from 0, and from a half, in arithmetic


class Grid(NamedTuple):
    """The integer coordinates, and their lower and upper bounds; all of shape (count,)."""

    columns: Indices
    lower: Values
    upper: Values

    def rounded(self, part: Array) -> Array:
        """Return ``part``, the integer coordinates of one or more points, rounded and clipped to bounds."""
        nearest: Array = np.minimum(np.maximum(np.rint(part), self.lower), self.upper)
        return nearest


class Drawn(NamedTuple):
    """The integer coordinates of candidates, rounded and unrounded, both of shape (rows, count)."""

    values: Array
    unrounded: Array


def round_integers(candidates: Array, grid: Grid, drawn: Drawn) -> None:
    """Round the integer coordinates of ``candidates`` in place, and set ``drawn``."""
    drawn.unrounded[...] = candidates[:, grid.columns]
    drawn.values[...] = grid.rounded(drawn.unrounded)
    candidates[:, grid.columns] = drawn.values


def recentre_integers(
    mean: Array,
    scale: Array,
    grid: Grid,
    drawn: Drawn,
    ranked: tuple[Array, Indices],
    old: Array,
    deviation: Values,
    bounds: tuple[float, Values],
) -> None:
    """Centre ``mean``, then adjust it and ``scale`` to the bounds on mutation probabilities, in place.

    ``ranked`` holds the weights and the indices of the better candidates, ``old`` the integer coordinates of
    the mean when they were drawn, and ``deviation`` the current standard deviations. ``bounds`` holds alpha
    and the mutation probabilities of the last generation, which are replaced by those of this generation.
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
    """Correct ``mean`` for the rounding of integers; flag integers that a selected candidate changed.

    The correction is the weighted mean of the rounding differences where the integer changed. Differences of
    the opposite sign elsewhere are scaled to compensate its bias.
    """
    weights, best = ranked
    values = drawn.values[best]
    moved = values != grid.rounded(old)
    changed = np.flatnonzero(moved.any(axis=0))
    if len(changed) == 0:
        return
    succeeded[changed] = True
    values -= drawn.unrounded[best]
    if len(changed) < len(grid.columns):
        moved, values = moved.take(changed, axis=1), values.take(changed, axis=1)
    change = values.astype(np.float64, copy=False)
    delta = np.where(moved, change, 0.0)
    back = np.subtract(change, delta)
    bias = delta.sum(axis=0)
    back[bias * back >= 0.0] = 0.0  # omit steps that add to the bias
    room = back.sum(axis=0)
    part = np.where(room != 0.0, np.minimum(1.0, -bias / np.where(room != 0.0, room, 1.0)), 0.0)
    mean[grid.columns[changed]] += weights @ (delta + part * back) / weights.sum()


def bounded(
    mean: Values, deviation: Values, grid: Grid, succeeded: Flags, alpha: float, reach: Values
) -> tuple[Values, Values]:
    """Return mean and standard deviations for which mutation probabilities, ``reach``, are within bounds.

    The probability must not grow for an integer that no better candidate changed.
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

    # Inner integers can change in both directions, each with a probability of at least alpha / 2
    mid = 1 - low - up
    # Lower limit on the probability of no change. Long steps that succeed stay long.
    resting = np.where(succeeded, np.minimum(mid, alpha / 2), 1 - cap)
    mid = np.maximum(mid, resting)
    low, up = np.maximum(low, alpha / 2), np.maximum(up, alpha / 2)
    total = low + mid + up
    spare = np.maximum(total - alpha - resting, LEAST)
    too_much = np.minimum((total - 1) / spare, 1.0)
    low, up = (_between(LEAST, p - too_much * (p - alpha / 2), half) for p in (low, up))
    left, right = -ndtri(low), -ndtri(up)
    both = left + right
    centre, wanted = (below * right + above * left) / both, 1 / both
    reach[...] = low + up

    # The outermost integers can change in one direction only: place the mean for that probability
    if len(ends):
        one_sided = _between(LEAST, _between(alpha, one_sided, cap[ends]), half)
        wide = np.maximum(deviation[ends], 0.5 / -ndtri(alpha))
        away = wide * -ndtri(one_sided)
        centre[ends] = np.where(first[ends], above[ends] - away, below[ends] + away)
        wanted[ends], reach[ends] = wide, one_sided
    return centre, wanted


def _between(low: float, values: Values, high: float | Values) -> Values:
    """Return values clipped to at least ``low``, then to at most ``high``."""
    return np.minimum(np.maximum(values, low), high)
