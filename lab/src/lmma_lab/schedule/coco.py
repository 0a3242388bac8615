"""COCO's suites bbob-largescale and bbob: evaluations to each target on one function, with restarts.

The 24 functions of BBOB with rotations that cost O(n) (Elhara, Varelas et al. 2019), through COCO's package
`coco-experiment`. The protocol is that of BBOB's workshops: start uniform in [-4, 4]^n, sigma0 = 2, until the
budget is spent. A run that is stuck restarts with twice the population (IPOP, Auger and Hansen 2005). Methods
of lmma and of other packages all use the ``restarts=`` of :func:`lmma.minimize`. So a restart begins at a
point drawn normally around the first start, with standard deviation sigma0. The result is the number of
evaluations to each of 51 targets, f - f_opt = 10^2 ... 10^-8.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import chdir
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import lmma
from lmma_lab.schedule.objective import Array, Report, WatchedObjective
from lmma_lab.tasks import LargeScale, find_method

TARGETS = tuple(float(10 ** (2 - k / 5)) for k in range(51))  # 10^2 to 10^-8
START, SIGMA0 = 4.0, 2.0
RESTARTS = "ipop:40"  # more than any budget allows


class Function(Protocol):
    """Interface of a function of COCO, as far as it is used here."""

    def __call__(self, x: Array) -> float:
        """Return the value at ``x``."""

    def _best_parameter(self, what: str) -> object: ...


def solve(task: LargeScale, report: Report | None = None) -> dict[str, Any]:
    """Return the evaluations to each target, None for targets that were not reached."""
    suite, function = function_of(task)
    optimum = round(float(function(best_point(function))), 2)  # two decimals by definition

    def distances(candidates: Array) -> npt.NDArray[np.float64]:
        return np.array([function(x) for x in candidates]) - optimum

    objective = WatchedObjective(distances, TARGETS, report)
    seed = np.random.SeedSequence([task.seed, task.function, task.instance, task.n, 0])
    x0 = np.random.default_rng(seed).uniform(-START, START, task.n)  # the same for all methods
    start, cpu = time.perf_counter(), time.process_time()
    result = lmma.minimize(
        objective, x0, SIGMA0, method=find_method(task.method, task.n), rng=seed, vectorized=True,
        restarts=RESTARTS, maxfevals=task.budget, ftarget=TARGETS[-1], on_interrupt="raise",
    )  # fmt: skip
    objective.raise_error()
    if result.reason == "memory":  # a property of the machine, not of the method
        raise MemoryError(result.message)
    del suite  # it owns the function and had to live until here
    runs = [run for run in result.runs if run.evaluations > 0]  # the last may have had no budget left
    return {
        "hits": objective.hits + [None] * (len(TARGETS) - len(objective.hits)),
        "evaluations": objective.evaluations,
        "restarts": len(runs) - 1,
        "popsize": runs[0].popsize,
        "precision": float(f"{objective.best:.3g}"),
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
    }


def function_of(task: LargeScale) -> tuple[object, Function]:
    """Return COCO's suite, which owns the function, and the function."""
    import cocoex

    place = task.functions.index(task.function) + 1
    suite = cocoex.Suite(
        task.suite, "", f"dimensions:{task.n} instance_indices:{task.instance} function_indices:{place}"
    )
    return suite, suite.get_problem_by_function_dimension_instance(task.function, task.n, task.instance)


def best_point(function: Function) -> Array:
    """Return the minimiser of a COCO function, which COCO writes to a file in the working directory."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        function._best_parameter("print")
        return np.asarray(np.loadtxt(next(Path().iterdir())))
