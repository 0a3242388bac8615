"""Objective of a task that records the evaluations to each target and the time spent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Report = Callable[[int, float], None]  # evaluations so far, best value so far

GROWTH = 1.05  # ratio of evaluations between two points of a curve: 280 points for 10^7 evaluations


class WatchedObjective:
    """A vectorized objective that records when each target was first reached.

    Parameters
    ----------
    function : callable
        Maps rows to values.
    targets : sequence of float
        Values to reach, in decreasing order.
    report : callable, optional
        Called after every generation with the number of evaluations and the best value.
    name : str
        Distinguishes the objectives of different tasks.

    Attributes
    ----------
    hits : list of int
        For each target reached, the evaluations up to and including the first value at or below it.
    evaluations, popsize : int
        Number of evaluations so far, and in the last generation.
    best : float
        Lowest value so far.
    seconds : float
        Time spent in ``function``.
    """

    def __init__(
        self,
        function: Callable[[Array], Array],
        targets: Sequence[float],
        report: Report | None = None,
        name: str = "",
    ) -> None:
        self.function, self.targets, self.name = function, targets, name
        self.hits: list[int] = []
        self.evaluations = self.popsize = 0
        self.best = math.inf
        self.seconds = 0.0
        self.error: Exception | None = None
        self._report = report
        self._points: list[tuple[int, float]] = []
        self._due = 0.0

    def __call__(self, candidates: Array) -> Array:
        """Return one value per row; record time, targets that were hit, and points of the curve."""
        start = time.perf_counter()
        try:
            values = self.function(candidates)
        except Exception as error:
            self.error = error
            raise
        self.seconds += time.perf_counter() - start
        for i in np.flatnonzero(values < self.best):
            if values[i] < self.best:
                self.best = float(values[i])
                while len(self.hits) < len(self.targets) and self.best <= self.targets[len(self.hits)]:
                    self.hits.append(self.evaluations + int(i) + 1)
        self.popsize = len(values)
        self.evaluations += len(values)
        if self.evaluations >= self._due:
            self._points.append((self.evaluations, self.best))
            self._due = self.evaluations * GROWTH
        if self._report is not None:
            self._report(self.evaluations, self.best)
        return values

    def fresh_copy(self) -> WatchedObjective:
        """Return a copy without any recorded evaluations."""
        return WatchedObjective(self.function, self.targets, self._report, self.name)

    def state(self, evaluations: int, best: float) -> dict[str, Any]:
        """Return the state after ``evaluations`` evaluations with lowest value ``best``, ready for JSON."""
        return {
            "evaluations": evaluations,
            "best": best if math.isfinite(best) else None,
            "hits": [hit for hit in self.hits if hit <= evaluations],
            "points": [point for point in self._points if point[0] <= evaluations],
            "popsize": self.popsize,
            "seconds": self.seconds,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by :meth:`state`."""
        self.evaluations, self.popsize = int(state["evaluations"]), int(state["popsize"])
        self.best = math.inf if state["best"] is None else float(state["best"])
        self.hits = [int(hit) for hit in state["hits"]]
        self.seconds = float(state["seconds"])
        self._points = [(int(evaluations), float(best)) for evaluations, best in state["points"]]
        self._due = self._points[-1][0] * GROWTH if self._points else 0.0

    def raise_error(self) -> None:
        """Raise the last exception of ``function``, which minimize() tolerates but a task does not."""
        if self.error is not None:
            raise self.error

    def curve(self) -> dict[str, list[int] | list[float]]:
        """Return best values over evaluations, thinned on a logarithmic scale, including the last."""
        last = (self.evaluations, self.best)
        points = self._points if self._points and self._points[-1] == last else [*self._points, last]
        points = [point for point in points if math.isfinite(point[1])]  # JSON has no infinity
        return {"evaluations": [p[0] for p in points], "best_fun": [float(f"{p[1]:.6g}") for p in points]}
