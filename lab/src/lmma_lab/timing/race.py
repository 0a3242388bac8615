"""Seconds to a target: lmma through minimize(), other packages in the shortest loop their interface allows.

All start at the same point with the same step size, evaluate a generation in one call, run on one core and
stop with the generation that reaches the target. Imports and just-in-time compilation are not timed. Stopping
rules other than the target are off, except one that detects a stuck search.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

import lmma
from lmma import problems
from lmma.numerics.recombination import Array, default_popsize
from lmma_lab.peers import ADAPTORS
from lmma_lab.tasks import Race, find_method

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Function = Callable[[Array], Array]
WARM = 10  # generations before the timing starts
STUCK = 3000  # generations without improvement: a local optimum, or the limit of precision


def solve(task: Race) -> dict[str, Any]:
    """Return the time of a run on one core, and its result."""
    problem = problems.get(task.problem)
    # The start depends only on the seed, so that all methods start from the same point.
    x0 = problem.start(task.n, np.random.default_rng([task.seed, task.n]))
    problem.function(x0[np.newaxis])  # draws the rotation, if any, before the timing starts
    run = _peer if task.method in ADAPTORS else _ours
    with _one_core(), np.errstate(all="ignore"):
        return run(task, problem.function, x0)


def _ours(task: Race, function: Function, x0: Array) -> dict[str, Any]:
    method = task.method if task.method == "auto" else find_method(task.method, task.n)

    def minimised(budget: int) -> OptimizeResult:
        return lmma.minimize(
            function, x0, task.sigma0, method=method, rng=task.seed, vectorized=True, stagnation=False,
            maxfevals=budget, maxtime=task.patience, ftarget=task.target, tolx=0.0,
            tolfun=1e-4 * abs(task.target), threads=1, on_interrupt="raise",
        )  # fmt: skip

    minimised(min(task.budget, WARM * default_popsize(task.n)))  # triggers lazy imports
    with _clock() as seconds:
        result = minimised(task.budget)
    return seconds | _found(result.reason == "ftarget", int(result.nfev), float(result.fun), result.reason)


def _peer(task: Race, function: Function, x0: Array) -> dict[str, Any]:
    adaptor = ADAPTORS[task.method]
    popsize = adaptor.admissible(default_popsize(task.n))
    other = adaptor(x0, task.sigma0, popsize, task.seed)
    other.compile()
    best, improved, generation, reason = math.inf, 0, 0, "maxfevals"
    with _clock() as seconds:
        until = time.perf_counter() + task.patience
        while (generation + 1) * popsize <= task.budget:
            generation += 1
            try:
                rows = other.propose()
                values = np.asarray(function(np.asarray(rows)), dtype=np.float64)
                least = float(values.min())
                if least < best:
                    best, improved = least, generation
                    if best <= task.target:
                        reason = "ftarget"
                        break
                other.learn(rows, np.asarray(values, dtype=np.float64))
            except Exception as error:  # packages raise various exceptions on numerical breakdown
                reason = f"{type(error).__name__}: {error}"[:200]
                break
            if time.perf_counter() > until:
                reason = "maxtime"
                break
            if generation - improved > STUCK:
                reason = "stuck"
                break
    return seconds | _found(reason == "ftarget", generation * popsize, best, reason)


def _found(success: bool, evaluations: int, best: float, reason: str) -> dict[str, Any]:
    return {
        "success": success,
        "evaluations": evaluations,
        "best_fun": best if math.isfinite(best) else None,
        "reason": reason,
    }


@contextmanager
def _clock() -> Iterator[dict[str, float]]:
    """Yield a dict that receives the wall-clock and CPU seconds of the block when it ends."""
    taken: dict[str, float] = {}
    start, cpu = time.perf_counter(), time.process_time()
    yield taken
    taken |= {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}


@contextmanager
def _one_core() -> Iterator[None]:
    """Pin this process and its new threads to one core, if the system supports it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
