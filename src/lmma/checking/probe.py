"""Evaluation of a function during a check: calls are counted, timed, recorded and limited."""

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

MAX_FAILED = 12  # failed calls after which to stop if there is no value yet
MAX_TIMEOUTS = 3  # likewise for timeouts
MARGIN = 0.1  # distance of the centre from the bounds, relative to their width


class BudgetExhausted(Exception):
    """The limit on calls or time is reached, or all calls fail."""


class Probe:
    """Evaluates an objective as a run would, at points inside its bounds.

    Parameters
    ----------
    run : Run
        Source of the evaluator, start, step size and bounds.
    calls : int
        Maximum number of calls.
    maxtime : float or None
        Time limit in seconds.

    Attributes
    ----------
    x0, centre : ndarray, (n,)
        The start, and the centre of all lines: the start, moved away from the bounds.
    step : ndarray, (n,)
        The initial step size of each coordinate; 0 for coordinates that are not varied.
    discrete : bool
        Whether some coordinates are integers or choices.
    seconds : list of float
        Duration of each call.
    values : list of float
        All finite values returned.
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
        if self.discrete:  # a candidate has valid integers and choices
            self.x0[discrete] = run.state.strategy.ask()[0][discrete]
        self.step[fixed] = 0.0
        self.centre = self._inside()

    @property
    def bounded(self) -> bool:
        """True if any coordinate has a bound."""
        return bool(np.any(np.isfinite(self.lower)) or np.any(np.isfinite(self.upper)))

    @property
    def left(self) -> int:
        """The number of calls left."""
        return self.limit - self.calls

    def _inside(self) -> Values:
        """Return the start, moved away from the bounds by a margin."""
        margin = np.minimum(MARGIN * (self.upper - self.lower), self.step)
        return np.where(self.step > 0, np.clip(self.x0, self.lower + margin, self.upper - margin), self.x0)

    def at(self, points: npt.ArrayLike) -> Values:
        """Return one value per row, NaN if the call failed; raise BudgetExhausted at a limit."""
        rows = np.atleast_2d(np.asarray(points, dtype=np.float64)).astype(self.run.state.strategy.dtype)
        values = np.full(len(rows), np.nan)
        size = len(rows) if self.run.options.vectorized else 1
        for first in range(0, len(rows), size):
            batch = rows[first : first + size]
            if self.left < len(batch) or time.monotonic() > self._end:
                raise BudgetExhausted
            values[first : first + size] = self._evaluate(batch)
        return values

    def _evaluate(self, rows: Array) -> Values:
        started = time.perf_counter()
        seed = (self._round + 1, self._round) if self.run.seeds else None  # a different one for each call
        self._round += 1
        values = self.evaluate(rows, seed)
        self.seconds += [(time.perf_counter() - started) / len(rows)] * len(rows)
        self.calls += len(rows)
        self.failed += int(np.count_nonzero(np.isnan(values)))
        self.values += values[np.isfinite(values)].tolist()
        timeouts = self.evaluate.record.failures.get("timeout", 0)
        if not self.values and (self.failed >= MAX_FAILED or timeouts >= MAX_TIMEOUTS):
            raise BudgetExhausted
        return values

    def direction(self, z: Values) -> Values:
        """Return ``step * z``, clipped so that three such steps in both directions stay inside the bounds."""
        room = np.minimum(self.centre - self.lower, self.upper - self.centre)
        return np.asarray(np.clip(self.step * z, -room / 3, room / 3))

    def line(self, direction: Values, places: Values) -> Values:
        """Return the values at ``centre + place * direction``."""
        return self.at(self.points(direction, places))

    def points(self, direction: Values, places: Values) -> Values:
        """Return points on a line through the centre, clipped to the bounds."""
        return np.clip(self.centre + np.multiply.outer(places, direction), self.lower, self.upper)

    def close(self) -> None:
        """Shut down worker processes."""
        self.evaluate.close()


def _discrete(limits: dict[str, Any], n: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the coordinates that are integers or choices."""
    integrality = limits.get("integrality")
    mask = np.zeros(n, dtype=np.bool_)
    if integrality is not None:
        mask |= np.broadcast_to(np.asarray(integrality, dtype=bool), (n,))
    mask[list(limits.get("categories", {}))] = True
    return mask
