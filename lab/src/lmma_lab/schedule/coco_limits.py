"""COCO's suites with constraints, integers and noise.

lmma is called through :func:`lmma.minimize`, other packages through their own interfaces.

================  ==========================  =========================================================
suite             start                       call of lmma.minimize
================  ==========================  =========================================================
bbob-constrained  COCO's own, feasible        ``constraints=``, sigma0 = 2, with restarts
bbob-mixint       uniform within the bounds   ``integrality=``, ``bounds=``, default step, with restarts
bbob-noisy        uniform in [-4, 4]^n        ``noise="auto"``, sigma0 = 2, one run
================  ==========================  =========================================================

In the first two suites a target is reached by the first point that is feasible within 1e-8 and whose value is
within the target of the optimum. COCO gives no noise-free values, so bbob-noisy is scored at the point that a
package returns: the median of 1,001 values there is compared with the median at the optimum. pycma uses
``fmin_con2``, ``integer_variables`` and ``NoiseHandler``; if it ends early, it restarts with twice the
population (except under noise). COBYQA is SciPy's.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import lmma
from lmma_lab.schedule import coco
from lmma_lab.schedule.coco import RESTARTS, SIGMA0, START, TARGETS
from lmma_lab.schedule.objective import Array, Report
from lmma_lab.tasks import BbobConstrained, BbobMixint, BbobNoisy, LargeScale, find_method

FEASIBLE = 1e-8  # largest violation of a feasible point
REEVALUATIONS = 1001  # at the point that a noisy search returns


class BudgetSpent(Exception):
    """The budget is spent, or the last target reached."""


class Simulation:
    """A problem of COCO that counts evaluations and records when each target was first reached.

    Parameters
    ----------
    task : LargeScale
        The task to solve.
    report : callable, optional
        Called every 1,000 evaluations with their number and the best precision.
    """

    def __init__(self, task: LargeScale, report: Report | None = None) -> None:
        self.suite, self.problem = coco.function_of(task)  # the suite owns the problem
        self.best_point = coco.best_point(self.problem)
        self.optimum = float(self.problem(self.best_point))
        self.task, self.report = task, report
        self.limits: int = self.problem.number_of_constraints  # type: ignore[attr-defined]
        self.hits: list[int] = []
        self.evaluations = 0
        self.best = math.inf
        self._last: tuple[Array, float, Array] | None = None

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Return value and constraints; a repeated call with the same point is not counted."""
        if self._last is not None and np.array_equal(self._last[0], x) and not self.noisy:
            return self._last[1:]
        if self.evaluations >= self.task.budget or len(self.hits) == len(TARGETS):
            raise BudgetSpent
        f = float(self.problem(x))
        g = np.array(self.problem.constraint(x)) if self.limits else np.empty(0)  # type: ignore[attr-defined]
        self._last = (np.array(x), f, g)
        self.evaluations += 1
        if not self.noisy and g.max(initial=0.0) <= FEASIBLE:
            self.best = min(self.best, f - self.optimum)
            while len(self.hits) < len(TARGETS) and self.best <= TARGETS[len(self.hits)]:
                self.hits.append(self.evaluations)
        if self.report is not None and self.evaluations % 1000 == 0:
            self.report(self.evaluations, self.best)
        return f, g

    @property
    def noisy(self) -> bool:
        """True if repeated evaluations of a point differ."""
        return isinstance(self.task, BbobNoisy)

    def value(self, x: Array) -> float:
        """Return only the value."""
        return self(x)[0]

    def score(self, x: Array) -> None:
        """Score the run by the returned point ``x``, with the median of many values."""
        here, there = (
            float(np.median([self.problem(p) for _ in range(REEVALUATIONS)])) for p in (x, self.best_point)
        )
        self.best = max(0.0, here - there)
        self.hits = [self.evaluations for target in TARGETS if self.best <= target]


def solve(task: LargeScale, report: Report | None = None) -> dict[str, Any]:
    """Return the evaluations to each target, None for targets that were not reached."""
    simulation = Simulation(task, report)
    sequence = np.random.SeedSequence([task.seed, task.function, task.instance, task.n, 0])
    x0 = _start(task, simulation, np.random.default_rng(sequence))
    solver = SOLVERS.get((task.kind, task.method), _LMMA[type(task)])
    start, cpu = time.perf_counter(), time.process_time()
    runs = 0
    with warnings.catch_warnings(), contextlib.suppress(BudgetSpent):
        warnings.simplefilter("ignore")
        runs = solver(simulation, x0, task)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    hits: list[int | None] = [*simulation.hits]
    return {
        "hits": hits + [None] * (len(TARGETS) - len(hits)),
        "evaluations": simulation.evaluations,
        "restarts": max(0, runs - 1),
        "precision": float(f"{simulation.best:.3g}") if math.isfinite(simulation.best) else None,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
    }


def _start(task: LargeScale, simulation: Simulation, rng: np.random.Generator) -> Array:
    problem: Any = simulation.problem
    if isinstance(task, BbobConstrained):
        return np.array(problem.initial_solution)
    low, high = (
        (-START, START) if isinstance(task, BbobNoisy) else (problem.lower_bounds, problem.upper_bounds)
    )
    x0: Array = rng.uniform(low, high, task.n)
    x0[: problem.number_of_integer_variables] = np.round(x0[: problem.number_of_integer_variables])
    return x0


# lmma through minimize()


def _constrained(simulation: Simulation, x0: Array, task: LargeScale) -> int:
    return _count(
        lmma.minimize(
            simulation, x0, SIGMA0, method=_named(task), rng=task.seed, restarts=RESTARTS,
            maxfevals=task.budget, constraints=lmma.constraints.Returned(), on_error="raise",
            on_interrupt="raise",
        )
    )  # fmt: skip


def _mixed(simulation: Simulation, x0: Array, task: LargeScale) -> int:
    problem: Any = simulation.problem
    integers = np.arange(task.n) < problem.number_of_integer_variables
    return _count(
        lmma.minimize(
            simulation.value, x0, method=_named(task), rng=task.seed, restarts=RESTARTS,
            maxfevals=task.budget, integrality=integers, on_error="raise", on_interrupt="raise",
            bounds=list(zip(problem.lower_bounds, problem.upper_bounds, strict=True)),
        )
    )  # fmt: skip


def _noisy(simulation: Simulation, x0: Array, task: LargeScale) -> int:
    result = lmma.minimize(
        simulation.value, x0, SIGMA0, method=_named(task), rng=task.seed, maxfevals=task.budget, noise="auto",
        on_error="raise", on_interrupt="raise",
    )  # fmt: skip
    simulation.score(result.x)
    return 1


def _named(task: LargeScale) -> Any:
    return task.method if task.method == "auto" else find_method(task.method, task.n)


def _count(result: Any) -> int:
    return sum(run.evaluations > 0 for run in result.runs)


# Other packages through their own interfaces


def _pycma_constrained(simulation: Simulation, x0: Array, task: LargeScale) -> int:
    import cma

    def once(options: dict[str, Any]) -> None:
        cma.fmin_con2(
            simulation.value, x0, SIGMA0, constraints=lambda x: list(simulation(x)[1]), options=options
        )

    return _run_with_restarts(once, task)


def _pycma_mixed(simulation: Simulation, x0: Array, task: LargeScale) -> int:
    import cma

    problem: Any = simulation.problem
    low, high = problem.lower_bounds, problem.upper_bounds
    more = {
        "bounds": [low.tolist(), high.tolist()],
        "integer_variables": list(range(problem.number_of_integer_variables)),
        "CMA_stds": (high - low).tolist(),
    }

    def once(options: dict[str, Any]) -> None:
        es = cma.CMAEvolutionStrategy(x0, 0.3, options | more)
        while not es.stop():
            points = es.ask()
            es.tell(points, [simulation.value(np.asarray(x)) for x in points])

    return _run_with_restarts(once, task)


def _run_with_restarts(once: Callable[[dict[str, Any]], None], task: LargeScale) -> int:
    """Restart pycma with twice the population until the simulation raises BudgetSpent."""
    popsize = 4 + int(3 * math.log(task.n))
    for run in range(40):
        once(
            {"seed": task.seed + 1 + run, "verbose": -9, "maxfevals": task.budget, "popsize": popsize << run}
        )
    return 40


def _pycma_noisy(simulation: Simulation, x0: Array, task: LargeScale) -> int:
    import cma

    options = {"seed": task.seed + 1, "verbose": -9, "maxfevals": task.budget}
    es: Any = cma.CMAEvolutionStrategy(x0, SIGMA0, options)
    with contextlib.suppress(BudgetSpent):
        es.optimize(simulation.value, noise_handler=cma.NoiseHandler(task.n, maxevals=[1, 1, 30]))
    simulation.score(np.asarray(es.result.xfavorite))
    return 1


def _cobyqa(simulation: Simulation, x0: Array, task: LargeScale) -> int:
    from scipy.optimize import NonlinearConstraint, minimize

    minimize(
        simulation.value, x0, method="COBYQA",
        constraints=NonlinearConstraint(lambda x: simulation(x)[1], -np.inf, 0),
        options={"maxfev": task.budget, "initial_tr_radius": SIGMA0, "final_tr_radius": 1e-9},
    )  # fmt: skip
    return 1


Solver = Callable[[Simulation, Array, LargeScale], int]
_LMMA: dict[type[LargeScale], Solver] = {
    BbobConstrained: _constrained,
    BbobMixint: _mixed,
    BbobNoisy: _noisy,
}
SOLVERS: dict[tuple[str, str], Solver] = {
    ("bbob-constrained", "pycma"): _pycma_constrained,
    ("bbob-constrained", "cobyqa"): _cobyqa,
    ("bbob-mixint", "pycma"): _pycma_mixed,
    ("bbob-noisy", "pycma"): _pycma_noisy,
}
