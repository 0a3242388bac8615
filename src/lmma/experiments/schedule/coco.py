"""COCO's suite bbob-largescale: one function solved with restarts, and when each target was met.

The 24 functions of BBOB with rotations that cost O(n) (Elhara, Varelas et al. 2019), through COCO's package
`coco-experiment`. Protocol as in BBOB's workshops: start uniform in [-4, 4]^n, sigma0 = 2; a run that is
stuck starts anew elsewhere with twice the population (IPOP, Auger and Hansen 2005) until the budget is spent.
51 targets, f - f_opt = 10^2 ... 10^-8; what counts is how many evaluations it took to meet each.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma.evaluation import Evaluator
from lmma.experiments.tasks import LargeScale, find_method
from lmma.run.generation import run
from lmma.run.restarts import RESTART_AFTER
from lmma.run.rules import Flat, Stagnation
from lmma.run.stopping import Limits

Report = Callable[[int, float], None]  # evaluations so far, best value so far
Array = npt.NDArray[np.floating]

TARGETS = tuple(float(10 ** (2 - k / 5)) for k in range(51))  # 10^2 to 10^-8
START, SIGMA0 = 4.0, 2.0


class _Watched(Evaluator):
    """Evaluates f - f_opt and notes when each target was first met."""

    def __init__(self, function: Callable[[Array], float], optimum: float, report: Report | None) -> None:
        super().__init__("raise")
        self.function = function
        self.optimum = optimum
        self.report = report
        self.evaluations = 0
        self.best = float("inf")
        self.hits: list[int] = []

    def __call__(self, candidates: Array) -> npt.NDArray[np.float64]:
        """Return one value for each row."""
        values = np.array([self.function(x) for x in candidates]) - self.optimum
        for i in np.flatnonzero(values < self.best):
            if values[i] < self.best:
                self.best = float(values[i])
                while len(self.hits) < len(TARGETS) and self.best <= TARGETS[len(self.hits)]:
                    self.hits.append(self.evaluations + int(i) + 1)
        self.evaluations += len(values)
        if self.report is not None:
            self.report(self.evaluations, self.best)
        return values


def solve(task: LargeScale, report: Report | None = None) -> dict[str, Any]:
    """Return when each target was met, None for those that were not."""
    suite, function = _function(task)
    evaluate = _Watched(function, _optimum(function), report)
    cls = find_method(task.method)
    start, cpu = time.perf_counter(), time.process_time()
    legs, popsize = 0, 0
    while True:
        # All methods set out from the same points.
        seed = np.random.SeedSequence([task.seed, task.function, task.instance, task.n, legs])
        x0 = np.random.default_rng(seed).uniform(-START, START, task.n)
        es = cls(x0, SIGMA0, rng=seed, popsize=None if legs == 0 else popsize * 2**legs)
        popsize = popsize or es.popsize
        left = task.budget - evaluate.evaluations
        if es.popsize > left:
            break
        legs += 1
        limits = Limits(maxfevals=left, ftarget=TARGETS[-1])
        stop = run(es, evaluate, limits, rules=(Flat(), Stagnation(task.n, es.popsize)))
        if stop.reason not in RESTART_AFTER:
            break
    del suite  # which owns the function
    return {
        "hits": evaluate.hits + [None] * (len(TARGETS) - len(evaluate.hits)),
        "evaluations": evaluate.evaluations,
        "legs": legs,
        "popsize": popsize,
        "precision": float(f"{evaluate.best:.3g}"),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
    }


def _function(task: LargeScale) -> tuple[Any, Any]:
    import cocoex

    suite = cocoex.Suite(
        "bbob-largescale", "", f"dimensions:{task.n} instance_indices:{task.instance} "
        f"function_indices:{task.function}",
    )  # fmt: skip
    return suite, suite.get_problem_by_function_dimension_instance(task.function, task.n, task.instance)


def _optimum(function: Any) -> float:
    """Return the least value of a function of COCO, which tells it by a file in the working directory.

    The functions' least values have two decimals by definition.
    """
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        function._best_parameter("print")
        best = np.loadtxt(next(Path().iterdir()))
    return round(float(function(best)), 2)
