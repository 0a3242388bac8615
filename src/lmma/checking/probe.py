"""Calls of a function that is being looked at: counted, timed, kept, and ended by a budget."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from lmma.run.run import Run

Array = npt.NDArray[np.floating]
Values = npt.NDArray[np.float64]

HOPELESS = 12  # failed calls without a single value after which nobody goes on
HANGS = 3  # calls in a row that were given up after a time-out
INWARD = 0.1  # of its width: how far inside its bounds a coordinate is looked at


class Spent(Exception):
    """No more calls are to be made."""


class Probe:
    """Calls an objective as a run would, for vectors inside its box.

    Parameters
    ----------
    run : Run
        What would be run: its evaluator, start, step size and bounds are used.
    calls : int
        How often the objective may be called.
    maxtime : float or None
        Seconds after which nothing more is asked.

    Attributes
    ----------
    x0, centre : ndarray, (n,)
        The start, and the same moved inside where it lies on a bound: lines go through it.
    step : ndarray, (n,)
        The initial step size of each coordinate, 0 where nothing is to be varied.
    discrete : bool
        Whether some coordinates are integers or choices.
    seconds : list of float
        How long each call took.
    values : list of float
        All numbers that came back.
    """

    def __init__(self, run: Run, calls: int, maxtime: float | None) -> None:
        self.run = run
        self.evaluate = run.evaluate
        self.calls, self.limit = 0, calls
        self.failed = 0
        self.seconds: list[float] = []
        self.values: list[float] = []
        self._end = math.inf if maxtime is None else time.monotonic() + maxtime
        self._round = 0
        setup = run.setup
        n = len(setup.x0)
        self.x0 = np.array(setup.x0, dtype=np.float64)
        self.step = np.array(np.broadcast_to(np.asarray(setup.sigma0, dtype=np.float64), (n,)))
        self.lower, self.upper = np.full(n, -np.inf), np.full(n, np.inf)
        if setup.box is not None:
            self.lower, self.upper = setup.box.lower.astype(float), setup.box.upper.astype(float)
        discrete = _discrete(setup.limits, n)
        fixed = discrete | (self.lower == self.upper)
        self.discrete = bool(np.any(discrete))
        if self.discrete:  # whole numbers and choices, as a candidate has them
            self.x0[discrete] = run.strategy.ask()[0][discrete]
        self.step[fixed] = 0.0
        self.centre = self._inside()

    @property
    def bounded(self) -> bool:
        """Whether any coordinate has a bound."""
        return bool(np.any(np.isfinite(self.lower)) or np.any(np.isfinite(self.upper)))

    @property
    def left(self) -> int:
        """How many calls are left."""
        return self.limit - self.calls

    def _inside(self) -> Values:
        """Return the start, moved inside where it lies on a bound."""
        margin = np.minimum(INWARD * (self.upper - self.lower), self.step)
        return np.where(self.step > 0, np.clip(self.x0, self.lower + margin, self.upper - margin), self.x0)

    def at(self, points: npt.ArrayLike) -> Values:
        """Return one value for each row, NaN where it failed; raise Spent where nothing more may be asked."""
        rows = np.atleast_2d(np.asarray(points, dtype=np.float64)).astype(self.run.strategy.dtype)
        found = np.full(len(rows), np.nan)
        size = len(rows) if self.run.options.vectorized else 1
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            if self.left < len(some) or time.monotonic() > self._end:
                raise Spent
            found[first : first + size] = self._timed(some)
        return found

    def _timed(self, rows: Array) -> Values:
        began = time.perf_counter()
        if self.run.seeds:  # another one for each call, as generations have
            rows = self.evaluate.with_seed(rows, self._round + 1, self._round)
            self._round += 1
        values = self.evaluate(rows)
        self.seconds += [(time.perf_counter() - began) / len(rows)] * len(rows)
        self.calls += len(rows)
        self.failed += int(np.count_nonzero(np.isnan(values)))
        self.values += values[np.isfinite(values)].tolist()
        hung = self.evaluate.failures.get("timeout", 0)
        if not self.values and (self.failed >= HOPELESS or hung >= HANGS):
            raise Spent
        return values

    def direction(self, z: Values) -> Values:
        """Return ``z`` in steps of the search, short enough for three of them either way to stay inside."""
        room = np.minimum(self.centre - self.lower, self.upper - self.centre)
        return np.asarray(np.clip(self.step * z, -room / 3, room / 3))

    def line(self, direction: Values, places: Values) -> Values:
        """Return the values at ``centre + place * direction``."""
        return self.at(self.points(direction, places))

    def points(self, direction: Values, places: Values) -> Values:
        """Return points on a line through the centre, never outside the box."""
        return np.clip(self.centre + np.multiply.outer(places, direction), self.lower, self.upper)

    def close(self) -> None:
        """Let go of processes."""
        self.evaluate.close()


def _discrete(limits: dict[str, Any], n: int) -> npt.NDArray[np.bool_]:
    """Return which coordinates are integers or choices."""
    integrality = limits.get("integrality")
    mask = np.zeros(n, dtype=np.bool_)
    if integrality is not None:
        mask |= np.broadcast_to(np.asarray(integrality, dtype=bool), (n,))
    mask[list(limits.get("categories", {}))] = True
    return mask
