"""The shape of a search for its log: how long its axes are, and its steps in each coordinate, by name."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.run.variables import coordinate_name
from lmma.space import Space

if TYPE_CHECKING:
    from lmma.run.run import Run
    from lmma.strategies import Strategy

SHOWN = 8  # coordinates, evenly chosen, whose mean and step are written
EXTREME = 3  # coordinates with the shortest steps, and as many with the longest
LOOKED_AT = 10_000  # coordinates at most, evenly chosen
SHARE = 50  # a look may take this part of the time that has passed since the one before


class Shape:
    """Looks at the strategy of a run, no more often than a fiftieth of the time allows."""

    def __init__(self, run: Run) -> None:
        import lmma.strategies.parts.metric  # noqa: F401 (with SciPy, whose import is no part of a look)

        self.run = run
        self._next = -math.inf

    def __call__(self) -> dict[str, Any]:
        """Return axis ratio, steps and means for a log; empty where there are none or it is too early."""
        if time.monotonic() < self._next:
            return {}
        began = time.thread_time()
        seen = look(self.run)
        self._next = time.monotonic() + SHARE * (time.thread_time() - began)
        return seen


def look(run: Run) -> dict[str, Any]:
    """Return the shape of a search by names; empty for a strategy without a metric.

    With a space, a mean is where it lies between its limits, 0 to 1.
    """
    from lmma.strategies.mixed import Mixed

    whole = run.strategy
    strategy: Strategy | None = whole
    places = None  # of the strategy's coordinates among all
    if isinstance(whole, Mixed):  # choices have probabilities; what is searched by steps is inside
        strategy, places = whole.inner, whole.numbers
    metric = None if strategy is None else strategy._hess_inv()
    if strategy is None or metric is None or not hasattr(metric, "deviations"):
        return {}
    n = strategy.n

    def name(column: int) -> str:
        place = column if places is None else int(places[column])
        return coordinate_name(run.options, place)

    columns = np.linspace(0, n - 1, min(n, LOOKED_AT)).astype(np.intp)
    steps = strategy.sigma * metric.deviations(columns)
    ratio = metric.axis_ratio()
    if not (np.all(np.isfinite(steps)) and math.isfinite(ratio)):
        return {}
    order = np.argsort(steps, kind="stable")
    few = min(EXTREME, n // 2)
    shown = np.unique(np.linspace(0, len(columns) - 1, min(len(columns), SHOWN)).astype(np.intp))
    mean = strategy._inside(strategy.mean)
    if isinstance(run.options.space, Space):
        between = run.options.space.positions(whole._inside(whole.mean))
        mean = between if places is None else between[places]
    return {
        "axis_ratio": _short(ratio),
        "steps": [_short(q) for q in np.quantile(steps, [0, 0.25, 0.5, 0.75, 1])],
        "shortest": {name(columns[k]): _short(steps[k]) for k in order[:few]},
        "longest": {name(columns[k]): _short(steps[k]) for k in order[::-1][:few]},
        "coordinates": {name(columns[k]): [_short(mean[columns[k]]), _short(steps[k])] for k in shown},
    }


def median_value(run: Run) -> dict[str, float]:
    """Return the median value of the last generation; empty where all failed."""
    values = run.strategy.ranked_values
    if not len(values):
        return {}
    median = values.item((len(values) - 1) // 2)
    return {"median_fun": median} if math.isfinite(median) else {}


def _short(value: float) -> float:
    """Return a number to six digits: a log is to be read, not gone on from."""
    return float(f"{value:.6g}")
