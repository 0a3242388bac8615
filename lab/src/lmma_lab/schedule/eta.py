"""Estimates of task durations, refined by every finished task.

The number of evaluations is extrapolated from measured medians at n = 128. The seconds per generation come
from a short calibration on this machine. The estimates are only used for display and planning.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lmma.methods import strategy
from lmma.numerics.recombination import default_popsize
from lmma_lab.tasks import LargeScale, Race, Solve, Task, Timing

# Thousands of evaluations to 1e-10 at n = 128, and the power of n by which they grow
_FUNCTIONS = ("sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers")
_FULL_MATRIX = ((19.2, 1.0), (654, 1.8), (779, 1.8), (290, 1.6), (55, 1.2), (227, 1.6))
_MEDIANS = {
    "lm-ma-es": ((15.6, 1.0), (3150, 1.0), (442, 1.2), (8580, 1.0), (374, 1.0), (440, 1.3)),
    "ma-es": _FULL_MATRIX,
    "cma-es": _FULL_MATRIX,
    "acma-es": _FULL_MATRIX,
    "lm-cma-es": ((10.6, 1.0), (1670, 1.2), (354, 1.3), (986, 1.5), (28.1, 1.0), (169, 1.3)),
    "vd-cma-es": ((16, 1.0), (72, 1.2), (411, 1.5), (34, 1.2), (33, 1.1), (38, 1.2)),
    "lm-ma-es-archive": ((11.1, 1.0), None, (831, 1.2), None, None, (1330, 1.3)),
}
_FULL = {"ma-es": 1.0, "cma-es": 4.0, "acma-es": 4.0}  # cost per generation relative to MA-ES
_LIMITED = {"lm-ma-es": 1.0, "vd-cma-es": 2.0, "lm-cma-es": 4.0, "lm-ma-es-archive": 2.0}
STEEPEST = 4.5  # largest power of n: n^2 evaluations, n^2 per matrix, and cache misses
_UNKNOWN = 3.0  # a user's strategy


def expected_evaluations(run: Solve) -> float:
    """Return the expected number of evaluations of ``run``: medians measured at n = 128, scaled by n^power.

    Without a known median, or if the method does not solve the problem, it is the budget.
    """
    plain = run.problem
    while plain.startswith(("rotated-", "shifted-")):
        plain = plain.partition("-")[2]
    unsolved = run.method == "vd-cma-es" and "rotated-" in run.problem and plain not in ("sphere", "cigar")
    medians = _MEDIANS.get(run.method, _MEDIANS["lm-ma-es"])
    known = medians[_FUNCTIONS.index(plain)] if plain in _FUNCTIONS else None
    if unsolved or known is None:
        return float(run.budget)
    thousands, power = known
    return min(float(run.budget), 1000.0 * thousands * math.pow(run.n / 128, power))


class Clock:
    """Estimator of the seconds that a task takes on this machine."""

    def __init__(self, seconds: Mapping[tuple[str, int], float] | None = None) -> None:
        self._probe = dict(seconds) if seconds is not None else _calibrate()
        self._known: dict[tuple[str, str, int], list[float]] = defaultdict(list)
        self._ratio: dict[str, tuple[float, float]] = {}  # method -> seconds taken, seconds guessed
        self._so_far: dict[Solve, tuple[float, float]] = {}  # the same for runs in progress

    def expected(self, task: Task) -> float:
        """Return the estimated seconds that ``task`` takes."""
        if isinstance(task, LargeScale):
            known = self._known.get(("", task.method, task.n))
            each = self._generation_seconds(task.method, task.n) + 1e-5 * default_popsize(task.n)
            return sum(known) / len(known) if known else task.budget / default_popsize(task.n) * each
        if isinstance(task, Race):
            known = self._known.get(("", task.method, task.n))
            return sum(known) / len(known) if known else task.patience / 20
        if not isinstance(task, Solve):
            return 3.0 if isinstance(task, Timing) else 0.5
        known = self._known.get((task.problem, task.method, task.n))
        if known:
            return sum(known) / len(known)
        if task in self._so_far and self._so_far[task][1] > 0.1 * self.guess(task):
            taken, guessed = self._so_far[task]
            return self.guess(task) * taken / guessed
        grown = self._extrapolated(task)
        if grown is not None:
            return grown
        taken, guessed = self._ratio.get(task.method, self._ratio.get("", (0.0, 0.0)))
        for run, (seconds, part) in self._so_far.items():
            if run.method == task.method or task.method not in self._ratio:
                taken, guessed = taken + seconds, guessed + part
        # Adding two seconds to both keeps one short run from distorting the first guess.
        return self.guess(task) * (taken + 2.0) / (guessed + 2.0)

    def _extrapolated(self, task: Solve) -> float | None:
        """Extrapolate from runs of the same method and problem in other dimensions; None if there are none.

        The time at the nearest dimension is scaled by a power of n that is fitted to all dimensions. With a
        single dimension, the growth of the first guess is used.
        """
        means = {
            n: sum(times) / len(times)
            for (problem, method, n), times in self._known.items()
            if (problem, method) == (task.problem, task.method)
        }
        if not means:
            return None
        near = min(means, key=lambda n: abs(math.log(n / task.n)))
        if len(means) == 1:
            other = replace(task, n=near, budget=max(1, task.budget * near // task.n))
            return means[near] * self.guess(task) / self.guess(other)
        logs = np.log([(n, max(seconds, 1e-3)) for n, seconds in means.items()])
        power = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
        return means[near] * math.pow(task.n / near, min(max(power, 0.5), STEEPEST))

    def learn(self, task: Task, record: Mapping[str, Any]) -> None:
        """Update the estimates with the duration of a finished task."""
        if isinstance(task, LargeScale | Race):
            self._known["", task.method, task.n].append(float(record["seconds"]))
        if isinstance(task, Solve):
            self._so_far.pop(task, None)
            # On a busy machine, and for imported records, CPU time is more reliable than wall-clock time.
            seconds = float(record["cpu_seconds"])
            self._known[task.problem, task.method, task.n].append(seconds)
            for method in (task.method, ""):
                taken, guessed = self._ratio.get(method, (0.0, 0.0))
                self._ratio[method] = (taken + seconds, guessed + self.guess(task))

    def watch(self, task: Task, seconds: float, evaluations: int) -> None:
        """Update the estimates with the progress of a running task, which reflects the machine load."""
        if isinstance(task, Solve):
            share = min(0.99, evaluations / expected_evaluations(task))
            self._so_far[task] = (seconds, share * self.guess(task))

    def forget(self, task: Task) -> None:
        """Discard the progress that :meth:`watch` recorded for a failed run."""
        if isinstance(task, Solve):
            self._so_far.pop(task, None)

    def guess(self, run: Solve) -> float:
        """Return the first guess, from expected evaluations and calibration only."""
        generations = expected_evaluations(run) / default_popsize(run.n)
        each = self._generation_seconds(run.method, run.n)
        if "rotated-" in run.problem:
            each += 2e-10 * default_popsize(run.n) * run.n * min(run.n, 5000)
        return 0.01 + generations * (each + 2e-5)

    def _generation_seconds(self, method: str, n: int) -> float:
        """Return seconds per generation."""
        if method in _FULL:
            return _FULL[method] * self._interpolated("ma-es", n, 2.0)
        return _LIMITED.get(method, _UNKNOWN) * self._interpolated("lm-ma-es", n, 1.0)

    def _interpolated(self, method: str, n: int, power: float) -> float:
        """Return seconds per generation at ``n``, linear in n^power through two calibrated points."""
        (n1, t1), (n2, t2) = sorted((m[1], t) for m, t in self._probe.items() if m[0] == method)
        low = math.pow(n1, power)
        slope = max(0.0, (t2 - t1) / (math.pow(n2, power) - low))
        return max(t1 / 4, t1 + slope * (math.pow(n, power) - low))


def _calibrate() -> dict[tuple[str, int], float]:
    """Measure seconds per generation at two dimensions for each family; takes less than one second."""
    points = (("lm-ma-es", 128), ("lm-ma-es", 2048), ("ma-es", 128), ("ma-es", 512))
    return {point: _seconds_per_generation(*point) for point in points}


def _seconds_per_generation(method: str, n: int) -> float:
    es = strategy(method, np.zeros(n), 1.0, rng=1)
    values = np.arange(es.popsize, dtype=float)
    best = math.inf
    for _ in range(12 + es.popsize):
        start = time.perf_counter()
        es.ask()
        es.tell(values)
        best = min(best, time.perf_counter() - start)
    return best


def time_left(seconds: Iterable[float], workers: int) -> float:
    """Return the total time of tasks of these lengths, shared by ``workers``, the longest first."""
    ends = [0.0] * max(1, workers)
    for length in sorted(seconds, reverse=True):
        ends[ends.index(min(ends))] += length
    return max(ends)
